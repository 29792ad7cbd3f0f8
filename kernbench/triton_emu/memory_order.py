"""Which loads and stores are on their way over which bytes: what the op log's times alone would put in the wrong order.

A store is visible at issue, a load reads when it completes, and the log orders both by the start of their transfers. Of two
that are on their way over the same bytes at one time, the later one depends on the other (docs/adr/0017-data-pass.md).
"""

from __future__ import annotations

from typing import Any

from kernbench.common.pe_ops import DmaReadCmd

Key = tuple[int, int, int]  # start, op id, end
Cell = dict[Key, Any]


class Ranges:
    """Messages by the bytes `[start, end)` that they touch; several may touch one byte.

    Ranges of about one length lie in a grid of cells that are no shorter than they, so in one cell or two: however many there
    are, one costs the same.
    """

    def __init__(self) -> None:
        self._grids: dict[int, dict[int, Cell]] = {}  # by the logarithm of a cell's bytes, then by the cell's number
        self.held = 0

    def add(self, start: int, end: int, msg: Any) -> None:
        """Bytes that a message touches until they are removed; its op id is another than those of all others."""
        shift = _grid_of(start, end)
        grid = self._grids.get(shift)
        if grid is None:
            grid = self._grids[shift] = {}
        key, first, last = (start, msg.op_id, end), start >> shift, (end - 1) >> shift
        self._enter(grid, first, key, msg)
        if last != first:
            self._enter(grid, last, key, msg)
        self.held += 1

    def _enter(self, grid: dict[int, Cell], number: int, key: Key, msg: Any) -> None:
        cell = grid.get(number)
        if cell is None:
            grid[number] = {key: msg}
        else:
            cell[key] = msg

    def remove(self, start: int, end: int, msg: Any) -> None:
        shift = _grid_of(start, end)
        grid, key = self._grids[shift], (start, msg.op_id, end)
        for number in {start >> shift, (end - 1) >> shift}:
            cell = grid[number]
            del cell[key]
            if not cell:
                del grid[number]
        self.held -= 1

    def over(self, start: int, end: int) -> list[Any]:
        """The messages that touch one of these bytes, in order of address."""
        found: list[tuple[Key, Any]] = []
        if self.held:
            for shift, grid in self._grids.items():
                if grid:
                    self._look(found, shift, grid, start, end)
            if len(found) > 1:
                found.sort(key=_place)
        return [msg for _, msg in found]

    def _look(self, found: list[tuple[Key, Any]], shift: int, grid: dict[int, Cell], start: int, end: int) -> None:
        """Those of one grid. A range that lies in two cells is met in the first of them, or in the first that is looked at."""
        first, last = start >> shift, (end - 1) >> shift
        numbers = range(first, last + 1) if last - first < len(grid) else [one for one in grid if first <= one <= last]
        for number in numbers:
            cell = grid.get(number)
            if cell is None:
                continue
            for key, msg in cell.items():
                if key[0] < end and key[2] > start and (key[0] >> shift == number or number == first):
                    found.append((key, msg))


def _grid_of(start: int, end: int) -> int:
    """The logarithm of the bytes of its cells: the least that are as many as the range has."""
    return (end - start - 1).bit_length() if end > start else 0


def _place(one: tuple[Key, Any]) -> Key:
    """Ranges come in the order of their addresses, then of their ops."""
    return one[0]


class MemoryOrder:
    """Of one memory space. Messages have op ids; `dependency_ids` grow until they end."""

    def __init__(self) -> None:
        self._loads = Ranges()
        self._fresh: list[DmaReadCmd] = []  # loads since the last store, in no order: nobody has asked for them yet
        self._stores = Ranges()
        self._reads = Ranges()  # of composite ops: they see memory as it is when they are issued

    def load_issued(self, msg: DmaReadCmd) -> None:
        """The bytes from `low` to `high` of the load."""
        for store in self._stores.over(msg.low, msg.high):
            depend(msg, store.op_id)
        msg.fresh = len(self._fresh)
        self._fresh.append(msg)

    def load_ended(self, msg: DmaReadCmd) -> None:
        if msg.fresh < 0:
            self._loads.remove(msg.low, msg.high, msg)
            return
        last = self._fresh.pop()
        if last is not msg:
            self._fresh[msg.fresh] = last
            last.fresh = msg.fresh

    def store_issued(self, msg: Any, start: int, end: int) -> None:
        for found in self._fresh:
            self._loads.add(found.low, found.high, found)
            found.fresh = -1
        self._fresh.clear()
        for load in self._loads.over(start, end):
            depend(load, msg.op_id)
        for store in self._stores.over(start, end):
            depend(msg, store.op_id)
        for reader in self._reads.over(start, end):
            if reader is not msg:
                depend(msg, reader.op_id)
        self._stores.add(start, end, msg)

    def read_issued(self, msg: Any, start: int, end: int) -> None:
        for store in self._stores.over(start, end):
            if store is not msg:
                depend(msg, store.op_id)
        self._reads.add(start, end, msg)

    def read_ended(self, msg: Any, start: int, end: int) -> None:
        self._reads.remove(start, end, msg)

    def store_ended(self, msg: Any, start: int, end: int) -> None:
        self._stores.remove(start, end, msg)


def depend(msg: Any, op_id: int) -> None:
    """The message comes after that op."""
    if op_id not in msg.dependency_ids:
        msg.dependency_ids = (*msg.dependency_ids, op_id)
