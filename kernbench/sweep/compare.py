"""Two sweeps side by side: the same points before and after a change. A is before, B after."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kernbench.common.units import parse_rational
from kernbench.sweep.table import FACTS, Entry, SweepTable, plain_text


@dataclass(frozen=True, slots=True)
class Pair:
    """A point that both have."""

    label: str
    a: Entry
    b: Entry

    @property
    def growth(self) -> Fraction | None:
        """By which part of A's time B's is longer, exactly; None where one is not done, or A took no time."""
        if self.a.row is None or self.b.row is None or self.a.status != "done" or self.b.status != "done":
            return None
        before, after = parse_rational(self.a.row.ns), parse_rational(self.b.row.ns)
        return (after - before) / before if before else None

    @property
    def broke(self) -> bool:
        """It was done, and is not any more."""
        return self.a.status == "done" and self.b.status != "done"

    @property
    def changed(self) -> bool:
        """Whether anything about its jobs did: their times, or how the run ended."""
        if self.a.row is None or self.b.row is None:
            return self.a.status != self.b.status
        return (self.a.status, self.a.row.jobs_hash) != (self.b.status, self.b.row.jobs_hash)

    def fails(self, limit: Fraction) -> bool:
        """Whether it broke or grew above the limit."""
        return self.broke or (self.growth is not None and self.growth > limit)


@dataclass(frozen=True)
class Comparison:
    """All of it."""

    a: SweepTable
    b: SweepTable
    pairs: list[Pair]
    only_a: list[str]
    only_b: list[str]

    @property
    def compared(self) -> list[Pair]:
        """Pairs with a time in both, those that grew most first."""
        known = [pair for pair in self.pairs if pair.growth is not None]
        return sorted(known, key=lambda pair: -(pair.growth or 0))

    @property
    def slower(self) -> list[Pair]:
        """Those that grew, most first."""
        return [pair for pair in self.compared if pair.growth is not None and pair.growth > 0]

    @property
    def faster(self) -> list[Pair]:
        """Those that shrank, most first."""
        return [pair for pair in reversed(self.compared) if pair.growth is not None and pair.growth < 0]

    @property
    def broken(self) -> list[Pair]:
        """Those that were done before and are not any more."""
        return [pair for pair in self.pairs if pair.broke]

    @property
    def mean(self) -> Fraction:
        """Mean growth of all that are compared."""
        known = [pair.growth or Fraction(0) for pair in self.compared]
        return sum(known, Fraction(0)) / len(known) if known else Fraction(0)

    def failing(self, limit: Fraction) -> list[Pair]:
        """Those that broke or grew above a limit, most first."""
        return [*self.broken, *(pair for pair in self.slower if pair.fails(limit))]


def compare_sweeps(a: SweepTable, b: SweepTable) -> Comparison:
    """Points are the same where target, machine and the values of all axes of both sweeps are."""
    names = tuple(dict.fromkeys((*a.names, *b.names)))
    before, after = _by_label(a, names), _by_label(b, names)
    pairs = [Pair(label, entry, after[label]) for label, entry in before.items() if label in after]
    only_a = [label for label in before if label not in after]
    return Comparison(a, b, pairs, only_a, [label for label in after if label not in before])


def _by_label(table: SweepTable, names: tuple[str, ...]) -> dict[str, Entry]:
    """Points by what they are; where only one sweep has several targets or machines, both say theirs."""
    found: dict[str, Entry] = {}
    for entry in table.entries:
        place = table.place(entry)
        known: dict[str, object] = {name: getattr(entry, name) for name in FACTS if name in names}
        known.update(place)
        label = ", ".join(f"{name}={plain_text(value)}" for name, value in known.items()) or entry.target
        found.setdefault(label, entry)
    return found
