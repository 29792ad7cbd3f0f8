"""Two runs side by side: what became slower, by how much, and on which resource. A is the run before the change, B the run
after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.common.units import parse_decimal
from kernbench.trace.compare.matching import PARTS, By, Command, Ran, align_runs

ENGINES = ("DMA", "TE", "VE")
RESOURCES = ("DRAM", "NOC")
WAITS = ("backpressure", "bank_conflict", "queue_full", "priority_deferred")


@dataclass(frozen=True, slots=True)
class Change:
    """One number of both runs; None if a run does not have it."""

    a: int | None
    b: int | None

    @property
    def by(self) -> int:
        """The difference from A to B; a missing value counts as 0."""
        return (self.b or 0) - (self.a or 0)


@dataclass(frozen=True, slots=True)
class Row:
    """Numbers of one subject: an engine, a channel, or a kind of command."""

    name: str
    values: dict[str, Change]


@dataclass(frozen=True, slots=True)
class Pair:
    """A command of both runs."""

    a: Command
    b: Command

    @property
    def by(self) -> int:
        """[cycle] The growth from A to B, from issue to end; 0 if it did not end in both."""
        if self.a.cycles is None or self.b.cycles is None:
            return 0
        return self.b.cycles - self.a.cycles

    @property
    def because(self) -> str:
        """The component that changed most in the direction of the total; the first of equals."""
        sign = 1 if self.by >= 0 else -1
        return max(PARTS, key=lambda part: sign * (self.b.parts[part] - self.a.parts[part]))


@dataclass(frozen=True)
class Diff:
    """The comparison. Sums do not include commands that did not end in both runs."""

    a: Ran
    b: Ran
    pairs: list[Pair]
    only_a: list[Command]
    only_b: list[Command]
    by: By  #: what the two commands of a pair have in common
    open: int  #: pairs that did not end in both runs
    parts: list[Row]  #: of all pairs, with one row for each component
    kinds: list[Row]  #: by opcode and phase: `commands`, `cycles`
    engines: list[Row]  #: `busy`, each of WAITS that the engine has, `idle`
    resources: list[Row]  #: `bytes`, `busy`, `member_cycles`
    settings: list[tuple[str, Any, Any]]  #: of the machine, that differ: path, A's value, B's; None if there is none

    @property
    def cycles(self) -> Change:
        """The length of the runs in cycles."""
        return Change(self.a.cycles, self.b.cycles)

    @property
    def same_clock(self) -> bool:
        """Whether cycles of the two runs can be compared; if not, times are compared."""
        return self.a.freq_ghz == self.b.freq_ghz

    @property
    def growth(self) -> Fraction | None:
        """The exact relative growth from A to B; None if A took no time."""
        return (self.b.ns - self.a.ns) / self.a.ns if self.a.ns else None

    def grew_above(self, limit: Fraction) -> bool:
        """Whether B's time exceeds A's time by more than `limit` of A's time, exactly."""
        return self.b.ns - self.a.ns > self.a.ns * limit

    @property
    def changed(self) -> list[Pair]:
        """Commands whose duration changed, those with the largest growth first; ties are in A's order."""
        return sorted((pair for pair in self.pairs if pair.by), key=lambda pair: -pair.by)

    @property
    def moved(self) -> int:
        """Commands that ran on another unit."""
        return sum(pair.a.unit != pair.b.unit for pair in self.pairs)


def compare(a: Ran, b: Ran) -> Diff:
    """Compare two runs."""
    aligned = align_runs(a, b)
    pairs = [Pair(a.commands[i], b.commands[j]) for i, j in aligned.pairs]
    ended = [pair for pair in pairs if pair.a.cycles is not None and pair.b.cycles is not None]
    return Diff(
        a=a,
        b=b,
        pairs=pairs,
        only_a=[a.commands[i] for i in aligned.only_a],
        only_b=[b.commands[j] for j in aligned.only_b],
        by=aligned.by,
        open=len(pairs) - len(ended),
        parts=[Row(part, {"cycles": _sums(ended, part)}) for part in PARTS],
        kinds=list(_kinds(ended)),
        engines=[_engine(name, a, b) for name in _names(a, b, ENGINES)],
        resources=[_resource(name, a, b) for name in _names(a, b, RESOURCES)],
        settings=_settings(a.machine, b.machine),
    )


def parse_limit(text: str) -> Fraction:
    """A limit such as `2%` or `0.5%` as an exact fraction. ValueError for anything else."""
    if not text.endswith("%"):
        raise ValueError("it must be a percentage, as 2%")
    limit = parse_decimal(text[:-1].strip()) / 100
    if limit < 0:
        raise ValueError("it must be at least 0%")
    return limit


def _settings(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The values of two machines that differ, by their paths, in A's order and then B's."""
    flat_a, flat_b = dict(_leaves("", a)), dict(_leaves("", b))
    paths = dict.fromkeys((*flat_a, *flat_b))
    return [(path, flat_a.get(path), flat_b.get(path)) for path in paths if flat_a.get(path) != flat_b.get(path)]


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, inner)
    else:
        yield path, value


def _sums(pairs: list[Pair], part: str) -> Change:
    return Change(sum(pair.a.parts[part] for pair in pairs), sum(pair.b.parts[part] for pair in pairs))


def _kinds(pairs: list[Pair]) -> Iterator[Row]:
    """The rows by opcode and phase of the command of A, with the largest growth first."""
    kinds: dict[str, list[Pair]] = {}
    for pair in pairs:
        name = pair.a.opcode if pair.a.phase is None else f"{pair.a.opcode} {pair.a.phase}"
        kinds.setdefault(name, []).append(pair)
    rows = []
    for name, those in kinds.items():
        cycles = Change(sum(pair.a.cycles or 0 for pair in those), sum(pair.b.cycles or 0 for pair in those))
        rows.append(Row(name, {"commands": Change(len(those), len(those)), "cycles": cycles}))
    yield from sorted(rows, key=lambda row: -row.values["cycles"].by)


def _names(a: Ran, b: Ran, components: tuple[str, ...]) -> list[str]:
    """Units of some components that either run counted, in the order of the traces; none where one run has no counters."""
    if not a.counters or not b.counters:
        return []
    units = {**a.units, **b.units}
    counted = [name for name in units if name in a.counters or name in b.counters]
    return [name for component in components for name in counted if units[name] == component]


def _engine(name: str, a: Ran, b: Ran) -> Row:
    values = {"busy": _change(name, "busy", a, b)}
    for wait in WAITS:
        change = _change(name, wait, a, b)
        if change.a is not None or change.b is not None:
            values[wait] = change
    return Row(name, {**values, "idle": _change(name, "idle", a, b)})


def _resource(name: str, a: Ran, b: Ran) -> Row:
    return Row(name, {field: _change(name, field, a, b) for field in ("bytes", "busy", "member_cycles")})


def _change(name: str, field: str, a: Ran, b: Ran) -> Change:
    return Change(_count(a.counters.get(name), field), _count(b.counters.get(name), field))


def _count(counter: Any, field: str) -> int | None:
    """A number of a counter, or of its `stalled`."""
    if not isinstance(counter, dict):
        return None
    stalled = counter.get("stalled")
    value = counter.get(field, stalled.get(field) if isinstance(stalled, dict) else None)
    return value if isinstance(value, int) else None
