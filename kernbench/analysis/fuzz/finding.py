"""A finding: the error under a legal timing, the fewest delays that show the error, and the two ops that race."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from kernbench.analysis.fuzz.orders import Race, flipped, overlapping
from kernbench.analysis.fuzz.target import Outcome, changed, plain_message
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded, write_whole
from kernbench.common.json_shapes import counted
from kernbench.sim_engine.perturbation import CAPACITY, CREDITS, KINDS, LATENCY, ORDERS, START, STEPS, STORES, Key, Ranges
from kernbench_core.numbers import CHANNELS

SCHEMA = "kernbench/fuzz-finding/1"
MAX_BYTES = 1 << 20  # [B] largest size of a file
MAX_DRAWS = 4096  # largest number of draws in a file


@dataclass(frozen=True)
class Wrong:
    """The error of a run."""

    kind: str  #: tensor, race, deadlock, failed
    what: str  #: the error in a sentence
    race: Race | None

    @property
    def signature(self) -> tuple[str, str]:
        """Equal for runs with the same error."""
        if self.race is not None:
            return self.kind, f"{_place(self.race.first)} {_place(self.race.second)}"
        return self.kind, plain_message(self.what)


def _place(op: Any) -> str:
    return f"{op.who} {op.number}" if op.who == "entry" else f"{op.what} {op.line}"


def wrong_with(reference: Outcome, other: Outcome) -> Wrong | None:
    """The error of a run; None if there is no error. A run that was aborted because of its length is not an error."""
    if other.status in ("deadlock", "failed"):
        races = flipped(reference.orders, other.orders)
        return Wrong(other.status, other.message, races[0] if races else None)
    if other.status != "done":
        return None
    races = flipped(reference.orders, other.orders)
    if not reference.tensors:  # a program, which has no data
        races = races or overlapping(other.orders)
        return Wrong("race", "entries that share bytes are in another order, or overlap", races[0]) if races else None
    differ = changed(reference, other)
    if not differ:
        return None
    whole = {name: one.elements for name, one in reference.tensors.items()}
    sizes = {name: 0 if (one := whole[name]) is None else one.size for name in differ}
    what = ", ".join(f"{name}: {count:,} of {sizes[name]:,} elements differ" for name, count in differ.items())
    return Wrong("tensor", what, _cause(races))


def _cause(races: list[Race]) -> Race | None:
    """The first pair in which one op reads what the other writes; otherwise the first pair."""
    return next((one for one in races if not all(r.write for r in (*one.first.ranges, *one.second.ranges))), None) or next(
        iter(races), None
    )


@dataclass(frozen=True)
class Finding:
    """A finding in the form in which it is saved and replayed."""

    target: Mapping[str, Any]  #: description from which `kbsim fuzz --replay` makes the target
    ranges: Ranges
    run: int  #: number of the run that showed the finding
    draws: Mapping[Key, int]  #: the fewest delays that still show the finding
    wrong: Wrong
    digest: str  #: of the run with these draws
    cycles: int
    original: int = 0  #: number of draws of the run that showed the finding first

    @property
    def sentences(self) -> list[str]:
        """The finding in sentences: the two ops, the bytes, the missing wait, and the delays."""
        found = [self.wrong.what]
        race = self.wrong.race
        if race is not None:
            found += told_race(race, self.draws)
        if self.draws:
            few = "1 delay" if len(self.draws) == 1 else f"{len(self.draws)} delays"
            found.append(f"shown by {few} of the {self.original:,} of run {self.run}:")
            found += [f"  {told_draw(key, value)}" for key, value in self.draws.items()]
        else:
            found.append("shown by the run without delays")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The object of the file and of the JSON output."""
        race = self.wrong.race
        return {
            "schema": SCHEMA,
            "target": dict(self.target),
            "kind": self.wrong.kind,
            "what": self.wrong.what,
            "race": None if race is None else _race_dict(race),
            "told": self.sentences,
            "run": self.run,
            "cycles": self.cycles,
            "digest": self.digest,
            "ranges": {
                "latency": self.ranges.latency,
                "start": self.ranges.start,
                "slowest": str(self.ranges.slowest),
                "kinds": list(self.ranges.kinds),
            },
            "draws": [
                {"kind": kind, "name": name, "ordinal": ordinal, "value": value}
                for (kind, name, ordinal), value in self.draws.items()
            ],
            "original_draws": self.original,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2) + b"\n")


def _race_dict(race: Race) -> dict[str, Any]:
    ops = {
        name: {"who": op.who, "number": op.number, "what": op.what, "line": op.line, "writes": any(r.write for r in op.ranges)}
        for name, op in (("first", race.first), ("second", race.second))
    }
    return {**ops, "space": race.space, "low": race.low, "high": race.high, "overlap": race.overlap}


def told_race(race: Race, draws: Mapping[Key, int]) -> list[str]:
    """The sentence with the two ops, the bytes that they share, and the missing wait."""
    first, second = race.first, race.second
    nbytes = race.high - race.low
    shared = f"both access {nbytes:,} bytes of {race.space} at {race.low:#x}"
    if race.overlap:
        lines = [f"{second} starts in cycle {second.start}, before {first} ends in cycle {first.end}; {shared}"]
    else:
        lines = [f"{first} comes before {second} in the run without delays, and after it in this one; {shared}"]
    if first.who == "entry":
        lines.append(f"missing wait: entry {second.number} does not wait for entry {first.number}; add it to deps_before")
    elif (STORES, first.who, first.number) in draws:
        lines.append(
            f"missing wait: {first.who} does not wait for the end of its {first.what} at {first.line} before it lets "
            f"{second.who} go on; call tl.wait on the store"
        )
    else:
        lines.append(
            f"missing wait: nothing lets {second.who} wait at {second.line} for {first}; send a message after it has ended, "
            "or use a barrier or another launch"
        )
    return lines


def told_draw(key: Key, value: int) -> str:
    """One delay in words."""
    kind, name, ordinal = key
    if kind == LATENCY:
        if name == "entry":
            return f"entry {ordinal} has {counted(value, 'cycle')} more head latency"
        pe, _, channel = name.rpartition(" ")
        channel = CHANNELS[int(channel)] if channel.isdecimal() and int(channel) < len(CHANNELS) else channel
        return f"transfer {ordinal} of {pe}, channel {channel}, has {counted(value, 'cycle')} more head latency"
    if kind == START:
        return f"{name} starts {counted(value, 'cycle')} later" + (f" with launch {ordinal}" if ordinal else "")
    if kind == STORES:
        return f"the data of access {ordinal} of {name}, a store, become visible when its transfer ends"
    if kind == CAPACITY:
        return f"{name} has step {value} of {STEPS} between its capacity and the slowest"
    if kind == CREDITS:
        return f"queues have {counted(value, 'credit')} fewer"
    return f"ties at {name} are broken in order {value}"


class _Draw(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    name: str
    ordinal: int
    value: int


class _RangesOf(msgspec.Struct, forbid_unknown_fields=True):
    latency: int
    start: int
    slowest: str
    kinds: list[str]


class _File(msgspec.Struct):
    schema: str
    target: dict[str, Any]
    kind: str
    what: str
    digest: str
    ranges: _RangesOf
    draws: list[_Draw]
    run: int = 0
    cycles: int = 0
    original_draws: int = 0


REMEDY = "kbsim fuzz --save DIR writes such files"
MAX_DELAY = 1 << 40  # [cycle]


def read_finding(path: str | os.PathLike[str]) -> Finding:
    """A saved finding, without its race. InputError for a file that is not a finding, or whose values are not possible."""
    where = os.fspath(path)
    content = read_bounded(path, MAX_BYTES, what="the finding")
    try:
        plain = msgspec.json.decode(content, type=_File)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(Problem(where, f"the file is not a finding of kbsim fuzz: {error}", remedy=REMEDY)) from None
    if plain.schema != SCHEMA:
        raise InputError(Problem(where, f"it must be {SCHEMA}", "schema", plain.schema, REMEDY))
    if len(plain.draws) > MAX_DRAWS:
        raise InputError(Problem(where, f"it must have at most {MAX_DRAWS} items", "draws", len(plain.draws), REMEDY))
    for k, one in enumerate(plain.draws):
        rule = ""
        if one.kind not in KINDS:
            rule = f"kind must be one of {', '.join(KINDS)}"
        elif not 0 <= one.ordinal < 1 << 40 or not 0 < one.value <= max(ORDERS, MAX_DELAY):
            rule = "ordinal must be 0 or more, and value more than 0"
        elif len(one.name) > 200:
            rule = "name must have at most 200 characters"
        if rule:
            raise InputError(Problem(where, rule, f"draws[{k}]", remedy=REMEDY))
    ranges = ranges_of(where, plain.ranges.latency, plain.ranges.start, plain.ranges.slowest, tuple(plain.ranges.kinds))
    draws = {(one.kind, one.name, one.ordinal): one.value for one in plain.draws}
    wrong = Wrong(plain.kind, plain.what, None)
    return Finding(plain.target, ranges, plain.run, draws, wrong, plain.digest, plain.cycles, plain.original_draws)


def ranges_of(where: str, latency: int, start: int, slowest: str, kinds: tuple[str, ...]) -> Ranges:
    """The ranges of the draws. InputError for values that are not allowed."""
    for name, value in (("latency", latency), ("start", start)):
        if not 0 <= value <= MAX_DELAY:
            raise InputError(Problem(where, f"it must be 0 to {MAX_DELAY} cycles", name, value))
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(Problem(where, f"it must be one of {', '.join(KINDS)}", "kinds", kind))
    try:
        share = Fraction(slowest)
    except (ValueError, ZeroDivisionError):
        raise InputError(Problem(where, "it must be a fraction like 1/4", "slowest", slowest)) from None
    if not Fraction(1, 1024) <= share <= 1 or share.denominator > 1 << 20:
        raise InputError(Problem(where, "it must be 1/1024 to 1", "slowest", slowest))
    return Ranges(latency, start, share, kinds)
