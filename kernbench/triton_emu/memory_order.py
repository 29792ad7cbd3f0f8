"""Which loads and stores are on their way over which bytes: what the op log's times alone would put in the wrong order.

A store is visible at issue, a load reads when it completes, and the log orders both by the start of their transfers. Of two
that are on their way over the same bytes at one time, the later one depends on the other (docs/adr/0017-data-pass.md).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from kernbench.common.pe_ops import DmaReadCmd


class Ranges:
    """Messages by the bytes `[start, end)` that they touch; several may touch one byte."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int, int, Any]] = []  # start, op id, end, message
        self._longest = 0

    def add(self, start: int, end: int, msg: Any) -> None:
        insort(self.items, (start, msg.op_id, end, msg))
        if end - start > self._longest:
            self._longest = end - start

    def remove(self, start: int, msg: Any) -> None:
        del self.items[bisect_left(self.items, (start, msg.op_id))]
        if not self.items:
            self._longest = 0

    def over(self, start: int, end: int) -> Iterator[Any]:
        """The messages that touch one of these bytes, in order of address."""
        items = self.items
        if not items:
            return
        i = bisect_left(items, (start - self._longest,))
        while i < len(items) and items[i][0] < end:
            if items[i][2] > start:
                yield items[i][3]
            i += 1


class MemoryOrder:
    """Of one memory space. Messages have op ids; `dependency_ids` grow until they end."""

    def __init__(self) -> None:
        self._loads = Ranges()
        self._fresh: list[DmaReadCmd] = []  # loads since the last store, in no order: nobody has asked for them yet
        self._stores = Ranges()
        self._reads = Ranges()  # of composite ops: they see memory as it is when they are issued

    def load_issued(self, msg: DmaReadCmd) -> None:
        """The bytes from `low` to `high` of the load."""
        if self._stores.items:
            for store in self._stores.over(msg.low, msg.high):
                depend(msg, store.op_id)
        msg.fresh = len(self._fresh)
        self._fresh.append(msg)

    def load_ended(self, msg: DmaReadCmd) -> None:
        if msg.fresh < 0:
            self._loads.remove(msg.low, msg)
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

    def read_ended(self, msg: Any, start: int) -> None:
        self._reads.remove(start, msg)

    def store_ended(self, msg: Any, start: int) -> None:
        self._stores.remove(start, msg)


def depend(msg: Any, op_id: int) -> None:
    """The message comes after that op."""
    if op_id not in msg.dependency_ids:
        msg.dependency_ids = (*msg.dependency_ids, op_id)
