"""A map from disjoint ranges `[start, end)` of one address space to values, in order of address."""

from __future__ import annotations

from typing import Any

from kernbench.sim_engine.memory.keys import Keys


class RangeMap:
    """A value for each byte of some ranges. A new value replaces the values in its range; the rest of their ranges stays."""

    def __init__(self) -> None:
        self._starts = Keys()
        self.held: dict[int, tuple[int, Any]] = {}  #: start of each range: its end and value; read-only

    def __len__(self) -> int:
        return len(self.held)

    def _meeting(self, start: int, end: int) -> list[int]:
        """The starts of the ranges that share a byte with `[start, end)`, which has one at least."""
        found = self._starts.within(start + 1, end)
        first = self._starts.before(start)
        return [first, *found] if first is not None and self.held[first][0] > start else found

    def over(self, start: int, end: int) -> list[tuple[int, int, Any]]:
        """The (start, end, value) of each range in `[start, end)`, cut to `[start, end)`, in order of address."""
        if end <= start:
            return []
        found = []
        for first in self._meeting(start, end):
            last, value = self.held[first]
            found.append((max(first, start), min(last, end), value))
        return found

    def remove(self, start: int, end: int) -> None:
        """Nothing holds for `[start, end)` any more."""
        if end > start:
            self._cut_out(start, end)

    def put(self, start: int, end: int, value: Any) -> None:
        """`value` holds for `[start, end)`; an empty range changes nothing."""
        if end <= start:
            return
        same = self.held.get(start)
        if same is None or same[0] != end:
            self._cut_out(start, end)
            self._starts.add(start)
        self.held[start] = (end, value)

    def _cut_out(self, start: int, end: int) -> None:
        """Remove the values in `[start, end)`; the rest of a range on either side stays."""
        met = self._meeting(start, end)
        if not met:
            return
        last, value = self.held[met[-1]]
        if met[0] < start:
            self.held[met[0]] = (start, self.held[met[0]][1])
            del met[0]
        for first in met:
            del self.held[first]
        self._starts.discard(met)
        if last > end:
            self._starts.add(end)
            self.held[end] = (last, value)

    def copy(self) -> RangeMap:
        """A copy with the same ranges and values."""
        new = RangeMap()
        new._starts, new.held = self._starts.copy(), dict(self.held)
        return new
