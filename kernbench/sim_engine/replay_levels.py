"""Which ops of a replay may run side by side: levels, each of ops that do not touch what another of them writes."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice

from kernbench.sim_engine.op_ranges import Bytes, ReplayOp

Cell = list[int]  #: of some bytes: the level of their last writer, and the highest of their readers; -1: none


class _Bytes:
    """Cells of the bytes of one space, split as finely as ops touch them."""

    __slots__ = ("cells", "ends", "splits", "starts")

    def __init__(self) -> None:
        self.splits = 0  #: how often a cell was split
        self.starts: list[int] = []
        self.ends: dict[int, int] = {}
        self.cells: dict[int, Cell] = {}

    def over(self, start: int, end: int) -> list[Cell]:
        """The cells that make up exactly `[start, end)`."""
        if self.ends.get(start) == end:
            return [self.cells[start]]
        self._cut(start)
        self._cut(end)
        found: list[Cell] = []
        i, at = bisect_right(self.starts, start - 1), start
        while at < end:
            if i == len(self.starts) or self.starts[i] > at:
                stop = min(end, self.starts[i]) if i < len(self.starts) else end
                self._add(at, stop, [-1, -1])
            found.append(self.cells[at])
            at = self.ends[at]
            i += 1
        return found

    def _add(self, start: int, end: int, cell: Cell) -> None:
        insort(self.starts, start)
        self.ends[start] = end
        self.cells[start] = cell

    def _cut(self, at: int) -> None:
        i = bisect_right(self.starts, at) - 1
        if i >= 0 and self.starts[i] < at < self.ends[self.starts[i]]:
            first = self.starts[i]
            end, self.ends[first] = self.ends[first], at
            self._add(at, end, self.cells[first][:])
            self.splits += 1


def levels(ops: Iterable[ReplayOp]) -> list[list[ReplayOp]]:
    """Ops in their order of replay, sorted into levels: an op is one level above what it reads after (RAW), writes over
    (WAW), writes under a reader of (WAR) or names in `dependency_ids`. Levels are run one after the other."""
    spaces: dict[str, _Bytes] = {}
    level_of: dict[int, int] = {}
    found: list[list[ReplayOp]] = []
    for op in ops:
        reads, writes = _touched(spaces, op)
        level = 0
        for cell in reads:
            if cell[0] >= level:
                level = cell[0] + 1
        for cell in writes:
            if cell[0] >= level or cell[1] >= level:
                level = max(cell) + 1
        for dep in op.deps:
            level = max(level, level_of.get(dep, -1) + 1)
        for cell in reads:
            if cell[1] < level:
                cell[1] = level
        for cell in writes:
            cell[0] = level
        level_of[op.op_id] = level
        if level == len(found):
            found.append([])
        found[level].append(op)
    return found


def _touched(spaces: dict[str, _Bytes], op: ReplayOp) -> tuple[list[Cell], list[Cell]]:
    """The cells that an op reads and writes: again where a later operand of the op split those of an earlier one."""
    splits = sum(memory.splits for memory in spaces.values())
    reads = [cell for one in op.reads for cell in _cells(spaces, one)]
    writes = [cell for one in op.writes for cell in _cells(spaces, one)]
    if splits != sum(memory.splits for memory in spaces.values()):
        return _touched(spaces, op)
    return reads, writes


def _cells(spaces: dict[str, _Bytes], one: Bytes) -> list[Cell]:
    space, start, end = one
    memory = spaces.get(space)
    if memory is None:
        memory = spaces[space] = _Bytes()
    return memory.over(start, end)


def windows(ops: Iterable[ReplayOp], size: int) -> Iterator[list[ReplayOp]]:
    """The ops in order, so many at a time: what is held at once of a long log."""
    source = iter(ops)
    while window := list(islice(source, size)):
        yield window
