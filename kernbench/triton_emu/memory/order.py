"""The loads and stores in flight, by bytes. The op log's times alone would give these accesses a wrong order.

A store is visible at issue, a load reads when it completes, and the log orders both by the start of their transfers. If two
commands access the same bytes and are in flight at the same time, the later one depends on the other
(docs/adr/0016-data-pass.md).
"""

from __future__ import annotations

from typing import Any

from kernbench.common.pe_ops import DmaReadCmd

Key = tuple[int, int, int]  # start, op id, end
Entry = tuple[int, int, int, Any]  # the same, and the message
_FIRST = -(1 << 62)  # no range begins before


class Ranges:
    """Messages by the bytes `[start, end)` that they touch; several may touch one byte.

    Ranges of similar length are in a grid of cells that are at least as long, so each range is in one or two cells. The cost
    of a range does not depend on the number of ranges.
    """

    def __init__(self) -> None:
        # By the logarithm of a cell's size, then by the cell's number: the access in the cell, or a list if there are several.
        self._grids: dict[int, dict[int, Entry | dict[Key, Entry]]] = {}
        self.held = 0

    def add(self, start: int, end: int, msg: Any) -> None:
        """Bytes that a message touches until they are removed; its op id is another than those of all others."""
        shift = _grid_of(start, end)
        grid = self._grids.get(shift)
        if grid is None:
            grid = self._grids[shift] = {}
        entry, first, last = (start, msg.op_id, end, msg), start >> shift, _last(start, end) >> shift
        self._enter(grid, first, entry)
        if last != first:
            self._enter(grid, last, entry)
        self.held += 1

    def _enter(self, grid: dict[int, Entry | dict[Key, Entry]], number: int, entry: Entry) -> None:
        there = grid.get(number)
        if there is None:
            grid[number] = entry
            return
        if isinstance(there, tuple):
            there = grid[number] = {there[:3]: there}
        there[entry[:3]] = entry

    def remove(self, start: int, end: int, msg: Any) -> None:
        shift = _grid_of(start, end)
        grid, key, first, last = self._grids[shift], (start, msg.op_id, end), start >> shift, _last(start, end) >> shift
        self._leave(grid, first, key)
        if last != first:
            self._leave(grid, last, key)
        self.held -= 1

    def _leave(self, grid: dict[int, Entry | dict[Key, Entry]], number: int, key: Key) -> None:
        there = grid[number]
        if not isinstance(there, tuple):
            del there[key]
            if there:
                return
        del grid[number]

    def over(self, start: int, end: int) -> list[Any]:
        """The messages that touch one of these bytes, in order of address, then of their ops."""
        found: list[Entry] = []
        if self.held:
            for shift, grid in self._grids.items():
                if grid:
                    self._look(found, shift, grid, start, end)
            if len(found) > 1:
                found.sort()
        return [entry[3] for entry in found]

    def _look(
        self, found: list[Entry], shift: int, grid: dict[int, Entry | dict[Key, Entry]], start: int, end: int
    ) -> None:
        """Those of one grid. A range in two cells is found in the first of these cells, or in the first cell of the search."""
        first, last = start >> shift, (end - 1) >> shift
        if last - first < len(grid):
            for number in range(first, last + 1):
                there = grid.get(number)
                if there is not None:
                    _meet(found, there, start, end, _FIRST if number == first else number << shift)
        else:
            for number, there in grid.items():
                if first <= number <= last:
                    _meet(found, there, start, end, _FIRST if number == first else number << shift)


def _meet(found: list[Entry], there: Entry | dict[Key, Entry], start: int, end: int, least: int) -> None:
    """Those of one cell that touch bytes of `[start, end)` and do not begin before `least`."""
    if isinstance(there, tuple):
        low, high = there[0], there[2]
        if least <= low < end and high > start:
            found.append(there)
        return
    for entry in there.values():
        low, high = entry[0], entry[2]
        if least <= low < end and high > start:
            found.append(entry)


def _last(start: int, end: int) -> int:
    """The last byte of a range; for an empty range, its start."""
    return end - 1 if end > start else start


def _grid_of(start: int, end: int) -> int:
    """The base-2 logarithm of the size of its cells: the smallest power of two that is not below the size of the range."""
    shift = 0
    while end - start > 1 << shift:
        shift += 1
    return shift


class MemoryOrder:
    """The order of accesses to one memory space. Messages have op ids; the `dependency_ids` of a message grow until it ends."""

    def __init__(self) -> None:
        self._loads = Ranges()
        # Loads since the last store, not sorted until they are needed. The list does not become shorter, because
        # Python would allocate its memory again and again.
        self._fresh: list[DmaReadCmd | None] = []
        self._fresh_count = 0
        self._stores = Ranges()
        self._reads = Ranges()  # of composite ops: they see memory as it is when they are issued

    def load_issued(self, msg: DmaReadCmd) -> None:
        """The bytes from `low` to `high` of the load."""
        if self._stores.held:
            for store in self._stores.over(msg.low, msg.high):
                depend(msg, store.op_id)
        msg.fresh = self._fresh_count
        if msg.fresh < len(self._fresh):
            self._fresh[msg.fresh] = msg
        else:
            self._fresh.append(msg)
        self._fresh_count += 1

    def load_ended(self, msg: DmaReadCmd) -> None:
        if msg.fresh < 0:
            self._loads.remove(msg.low, msg.high, msg)
            return
        self._fresh_count -= 1
        last = self._fresh[self._fresh_count]
        assert last is not None
        self._fresh[msg.fresh] = last
        last.fresh = msg.fresh
        self._fresh[self._fresh_count] = None

    def store_issued(self, msg: Any, start: int, end: int) -> None:
        for number in range(self._fresh_count):
            found = self._fresh[number]
            assert found is not None
            self._loads.add(found.low, found.high, found)
            found.fresh = -1
            self._fresh[number] = None
        self._fresh_count = 0
        if self._loads.held:
            for load in self._loads.over(start, end):
                depend(load, msg.op_id)
        if self._stores.held:
            for store in self._stores.over(start, end):
                depend(msg, store.op_id)
        if self._reads.held:
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
