"""Ops of a replay that may run at the same time. In each level, no op accesses bytes that another op of the level writes."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable

from kernbench.sim_engine.ops.ranges import Bytes, ReplayOp


class Cell:
    """Some bytes: the level of their last writer, and the highest of their readers; -1: none."""

    def __init__(self, writer: int, reader: int) -> None:
        self.writer = writer
        self.reader = reader


class _Bytes:
    """Cells of the bytes of one space, split as finely as ops touch them."""

    def __init__(self) -> None:
        self.splits = 0  #: how often a cell was split
        self.starts: list[int] = []
        self.ends: dict[int, int] = {}
        self.cells: dict[int, Cell] = {}

    def over(self, start: int, end: int) -> list[Cell]:
        """The cells that make up exactly `[start, end)`."""
        if self.ends.get(start) == end:
            return [self.cells[start]]
        i = bisect_right(self.starts, start)
        free = i == 0 or self.ends[self.starts[i - 1]] <= start
        if free and start < end and (i == len(self.starts) or self.starts[i] >= end):  # no op has touched these bytes
            new = Cell(-1, -1)
            self.starts.insert(i, start)
            self.ends[start] = end
            self.cells[start] = new
            return [new]
        self._cut(start)
        self._cut(end)
        found: list[Cell] = []
        i, at = bisect_right(self.starts, start - 1), start
        while at < end:
            if i == len(self.starts) or self.starts[i] > at:
                stop = min(end, self.starts[i]) if i < len(self.starts) else end
                self._add(at, stop, Cell(-1, -1))
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
            cell = self.cells[first]
            self._add(at, end, Cell(cell.writer, cell.reader))
            self.splits += 1


def levels(ops: Iterable[ReplayOp]) -> list[list[ReplayOp]]:
    """Sorts ops in their order of replay into levels. The level of an op is above the levels of all ops on which it depends:
    the ops whose results it reads (RAW), whose results it overwrites (WAW), whose inputs it overwrites (WAR), or that
    `dependency_ids` names. Levels run in sequence."""
    spaces: dict[str, _Bytes] = {}
    level_of: dict[int, int] = {}
    found: list[list[ReplayOp]] = []
    for op in ops:
        reads, writes = _touched(spaces, op)
        level = 0
        for cell in reads:
            if cell.writer >= level:
                level = cell.writer + 1
        for cell in writes:
            if cell.writer >= level:
                level = cell.writer + 1
            if cell.reader >= level:
                level = cell.reader + 1
        for dep in op.row.deps:
            after = level_of.get(dep)
            if after is not None and after >= level:
                level = after + 1
        for cell in reads:
            if cell.reader < level:
                cell.reader = level
        for cell in writes:
            cell.writer = level
        level_of[op.op_id] = level
        if level == len(found):
            found.append([])
        found[level].append(op)
    return found


def _touched(spaces: dict[str, _Bytes], op: ReplayOp) -> tuple[list[Cell], list[Cell]]:
    """The cells that an op reads and writes: again where a later operand of the op split those of an earlier one."""
    while True:
        splits = _splits(spaces)
        reads = _cells(spaces, op.reads)
        writes = _cells(spaces, op.writes)
        if splits == _splits(spaces):
            return reads, writes


def _splits(spaces: dict[str, _Bytes]) -> int:
    splits = 0
    for memory in spaces.values():
        splits += memory.splits
    return splits


def _cells(spaces: dict[str, _Bytes], ranges: list[Bytes]) -> list[Cell]:
    found: list[Cell] = []
    for space, start, end in ranges:
        memory = spaces.get(space)
        if memory is None:
            memory = spaces[space] = _Bytes()
        found += memory.over(start, end)
    return found
