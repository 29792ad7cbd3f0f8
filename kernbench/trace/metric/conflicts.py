"""The share of the accesses to a scratchpad's banks that were conflicts; accesses and conflicts are counted by bank, direction
and cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kernbench.trace.events import Record

MAX_BANKS = 1 << 16  # most banks of a scratchpad; limits the work that a line of a damaged file can cause
_Access = tuple[str, int, str]  # scratchpad, bank, direction


class ConflictSums:
    """The accesses of a file of level `access` in the cycle in which their request is first made, and those accesses that are
    conflicts.

    The data of a cycle are kept only while a request of that cycle is held, because the accesses of the request are known when
    the request is served.
    """

    def __init__(self, units: list[dict[str, Any]], first: int) -> None:
        self._first = first  # [cycle] of the file
        self._banks = {str(unit.get("unit")): _Banks.of(unit) for unit in units if unit.get("component") == "SRAM"}
        self._asked: dict[int, set[_Access]] = {}  # by cycle of the first attempt
        self._held: Counter[int] = Counter()  # number of held requests by the cycle in which they were first made
        self._now = first
        self.accesses = 0
        self.conflicts = 0

    @property
    def known(self) -> bool:
        """Whether the file has the locations of the banks of all scratchpads."""
        return all(self._banks.values())

    def access(self, record: Record) -> None:
        """SRAM_ACCESS: the bytes of one request in one region or contiguous run."""
        banks = self._banks.get(record.unit)
        if banks is None:
            return
        asked = self._in(record.t_cycle + 1 - record.cycles, record.t_cycle)
        for bank in banks.touched(record.addr, record.size_bytes):
            self._add(asked, (record.unit, bank, record.access_type))

    def conflict(self, record: Record) -> None:
        """SRAM_CONFLICT: a request is denied in the cycle in which it is first made."""
        self._add(self._in(record.t_cycle, record.t_cycle), (record.unit, record.bank_id, record.access_type))
        self.conflicts += 1

    def hold(self, t_cycle: int) -> None:
        """A request is held from the cycle in which it is first made."""
        self._in(t_cycle, t_cycle)
        self._held[t_cycle] += 1

    def serve(self, asked: int, t_cycle: int) -> None:
        """All accesses of a request of that cycle were read."""
        self._held[asked] -= 1
        if not self._held[asked]:
            del self._held[asked]
            if asked != t_cycle:
                self._asked.pop(asked, None)

    def _in(self, cycle: int, now: int) -> set[_Access] | None:
        """The accesses of the requests that were first made in a cycle; None for a cycle before the beginning of the file."""
        if now != self._now:
            if not self._held[self._now]:
                self._asked.pop(self._now, None)
            self._now = now
        return self._asked.setdefault(cycle, set()) if cycle >= self._first else None

    def _add(self, asked: set[_Access] | None, access: _Access) -> None:
        if asked is not None and access not in asked:
            asked.add(access)
            self.accesses += 1


class _Banks:
    """The location of the banks of a scratchpad."""

    def __init__(self, banks: int, width: int, size: int, *, blocked: bool) -> None:
        self._banks, self._width, self._size, self._blocked = banks, width, size, blocked

    @classmethod
    def of(cls, unit: Mapping[str, Any]) -> _Banks | None:
        """The banks of a track of TRACE_META; None if the track does not describe them."""
        shape = [unit.get(name) for name in ("num_banks", "bank_width_bytes", "bank_size_bytes")]
        if unit.get("map") not in ("interleaved", "blocked") or not all(type(n) is int and n > 0 for n in shape):
            return None
        banks, width, size = (int(n or 0) for n in shape)
        if banks > MAX_BANKS:
            return None
        return cls(banks, width, size, blocked=unit["map"] == "blocked")

    def touched(self, addr: int, size: int) -> range | set[int]:
        """The banks of a range of bytes."""
        if self._blocked:
            last = min((addr + max(size, 1) - 1) // self._size, self._banks - 1)
            return range(addr // self._size, last + 1)
        first, last = addr // self._width, (addr + max(size, 1) - 1) // self._width
        if last - first + 1 >= self._banks:
            return range(self._banks)
        return {line % self._banks for line in range(first, last + 1)}
