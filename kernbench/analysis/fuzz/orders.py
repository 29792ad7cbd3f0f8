"""The order of conflicting accesses: which access to the same bytes acted directly before which."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernbench.workloads.hazards import Hazards

Name = tuple[str, int]  #: identifies an access in every run: its issuer, and its number there


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `[low, high)` of a memory that an access reads or writes."""

    space: str
    low: int
    high: int
    write: bool
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """An access, or all accesses of an entry of a command queue."""

    who: str  #: issuer: a PE, or `entry`
    number: int  #: number of the access there; for an entry its id
    what: str  #: `load`, `KV_LOAD_TILE`, ...
    line: str  #: `kernel.py:12`; empty for a program
    ranges: tuple[Range, ...]
    start: int = 0  #: [cycle] of entries
    end: int = 0  #: [cycle] of entries

    @property
    def name(self) -> Name:
        """The name of the op, which is the same in every run."""
        return self.who, self.number

    def __str__(self) -> str:
        if self.who == "entry":
            return f"entry {self.number} ({self.what})"
        return f"the {self.what} at {self.line} on {self.who}"


@dataclass(frozen=True)
class Orders:
    """The accesses of a run in the order in which they acted, and the pairs of conflicting accesses."""

    ops: Sequence[Op]
    pairs: Sequence[tuple[int, int]]  #: pairs of positions: earlier access, later access

    @property
    def digest(self) -> bytes:
        """Equal for runs whose conflicting accesses had the same order."""
        names = [one.name for one in self.ops]
        found = sorted((names[a], names[b]) for a, b in self.pairs)
        return hashlib.blake2b(repr(found).encode(), digest_size=16).digest()


def orders_of(ops: Sequence[Op]) -> Orders:
    """The orders of `ops`, which are sorted by the time at which they act."""
    spaces: dict[str, Hazards] = {}
    pairs = []
    for position, op in enumerate(ops):
        before: set[int] = set()
        for one in op.ranges:
            space = spaces.setdefault(one.space, Hazards())
            before |= space.before_write(one.low, one.high) if one.write else space.before_read(one.low, one.high)
        for one in sorted(op.ranges, key=lambda each: each.write):
            space = spaces[one.space]
            (space.write if one.write else space.read)(one.low, one.high, position)
        pairs += [(a, position) for a in sorted(before) if a != position and not _commute(ops[a], op)]
    return Orders(ops, pairs)


def _commute(a: Op, b: Op) -> bool:
    """Whether two ops are atomic, so that no order between them is required."""
    return all(one.atomic for one in (*a.ranges, *b.ranges))


@dataclass(frozen=True, slots=True)
class Race:
    """Two conflicting accesses that nothing orders: `first` acted first in the reference run, but not in the other run."""

    first: Op
    second: Op
    low: int  #: the first byte that they share
    high: int
    space: str
    overlap: bool = False  #: for entries: whether the second started before the first had ended


def flipped(reference: Orders, found: Orders) -> list[Race]:
    """The pairs whose order differs from the reference, in the order in which they acted."""
    place = {op.name: k for k, op in enumerate(reference.ops)}
    races = []
    for a, b in found.pairs:
        early, late = found.ops[a], found.ops[b]
        if early.name in place and late.name in place and place[early.name] > place[late.name]:
            races.append(_race(late, early))
    return races


def overlapping(found: Orders) -> list[Race]:
    """For entries of a program: the pairs in which the second entry started before the first had ended."""
    pairs = ((found.ops[a], found.ops[b]) for a, b in found.pairs)
    return [_race(a, b, overlap=True) for a, b in pairs if b.start < a.end]


def _race(first: Op, second: Op, overlap: bool = False) -> Race:
    shared = _shared(first.ranges, second.ranges)
    return Race(first, second, *shared, overlap=overlap)


def _shared(first: Iterable[Range], second: Iterable[Range]) -> tuple[int, int, str]:
    theirs = list(second)
    for a in first:
        for b in theirs:
            if a.space == b.space and (a.write or b.write) and a.low < b.high and b.low < a.high:
                return max(a.low, b.low), min(a.high, b.high), a.space
    return 0, 0, ""
