"""Ops of a replay that may run at the same time."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from kernbench.sim_engine.ops.ranges import Bytes, ReplayOp


class Cell:
    """Some bytes: the stage of their last writer, and the last stage of their readers; 0 if there is none."""

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
            new = Cell(0, 0)
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
                self._add(at, stop, Cell(0, 0))
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


class Stages:
    """Sorts ops, which come in their order of replay, into stages: moves in stages with even numbers, and computations in
    stages with odd numbers. Ops may still come while stages run.

    Stages begin in sequence, and each runs in the order of the replay. The computations of a stage read their operands when it
    begins. Then the moves of the next stage run while threads compute. The results of computations are there for all stages but
    the next two.

    An op runs after the ops whose results it reads (RAW), whose results it overwrites (WAW), whose operands it overwrites
    (WAR), or that `dependency_ids` names.
    """

    def __init__(self) -> None:
        self.count = 0  #: ops of stages that have not begun
        self.total = 0  #: ops that were sorted
        self._found: dict[int, list[ReplayOp]] = {}  # stages that have not begun and have ops
        self._computing, self._moving = -1, 0  # the next stage of each kind
        self._waiting: set[int] = set()  # stages of computations that need results of the stage of computations before
        self._spaces: dict[str, _Bytes] = {}
        self._stage_of: dict[int, int] = {}

    def add(self, ops: Sequence[ReplayOp]) -> None:
        """Sort the next ops."""
        for op in ops:
            computing = op.row.op_kind in ("gemm", "math")
            reads, writes = _touched(self._spaces, op)
            stage = self._computing if computing else self._moving
            for cell in reads:
                stage = max(stage, _after_writer(cell.writer, computing))
            for cell in writes:
                stage = max(stage, _after_writer(cell.writer, computing), _after_reader(cell.reader, computing))
            for dep in op.row.deps:
                stage = max(stage, _after_writer(self._stage_of.get(dep, 0), computing))
            waits = False  # for the stage of computations before
            for cell in reads:
                if cell.writer == stage - 2:
                    waits = True
                if cell.reader < stage:
                    cell.reader = stage
            for dep in op.row.deps:
                if self._stage_of.get(dep, 0) == stage - 2:
                    waits = True
            for cell in writes:
                cell.writer = stage
            if waits and computing:
                self._waiting.add(stage)
            self._stage_of[op.op_id] = stage
            self._found.setdefault(stage, []).append(op)
        self.count += len(ops)
        self.total += len(ops)

    def computations(self) -> tuple[list[ReplayOp], bool]:
        """The next stage of computations, which begins, and whether it needs results of the stage of computations before."""
        number = self._computing
        self._computing += 2
        return self._begun(number), number in self._waiting

    def moves(self) -> list[ReplayOp]:
        """The next stage of moves, which begins."""
        number = self._moving
        self._moving += 2
        return self._begun(number)

    def _begun(self, number: int) -> list[ReplayOp]:
        found = self._found.pop(number, [])
        self.count -= len(found)
        return found


def _after_writer(writer: int, computing: bool) -> int:
    """The first stage in which an op, computing or not, may read or overwrite what was written in a stage.

    A result is moved two stages later, and not in the next one, so that the stage of computations in between need not wait.
    """
    if writer % 2 == 0:
        return writer + 1 if computing else writer
    return writer + 2 if computing else writer + 3


def _after_reader(reader: int, computing: bool) -> int:
    """The first stage in which an op, computing or not, may overwrite what was read in a stage."""
    if computing:  # its result is written after the moves of the next stage
        return reader - 1 if reader % 2 == 0 else reader
    return reader + 1 if reader % 2 else reader


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
