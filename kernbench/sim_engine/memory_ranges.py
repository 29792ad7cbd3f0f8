"""What holds for stretches of one address space: values on disjoint ranges `[start, end)`, in order of address."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

V = TypeVar("V")


class RangeMap(Generic[V]):
    """A value for each byte of some ranges. What is put over a range replaces the values there and leaves their rest."""

    __slots__ = ("_ends", "_values", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []  #: of the ranges, in order; to be looked at only
        self._ends: list[int] = []
        self._values: list[V] = []

    def __len__(self) -> int:
        return len(self.starts)

    def _reach(self, start: int, end: int) -> tuple[int, int]:
        """Which ranges share a byte with `[start, end)`: indices from ... to."""
        if end <= start:
            return 0, 0
        first = bisect_right(self.starts, start)
        if first and self._ends[first - 1] > start:
            first -= 1
        last = first
        while last < len(self.starts) and self.starts[last] < end:
            last += 1
        return first, last

    def over(self, start: int, end: int) -> list[tuple[int, int, V]]:
        """(start, end, value) of what lies in `[start, end)`, cut to it, in order of address."""
        first, last = self._reach(start, end)
        return [(max(self.starts[i], start), min(self._ends[i], end), self._values[i]) for i in range(first, last)]

    def remove(self, start: int, end: int) -> None:
        """Nothing holds for `[start, end)` any more."""
        if end > start:
            self._replace(start, end, [])

    def put(self, start: int, end: int, value: V) -> None:
        """`value` holds for `[start, end)`; an empty range changes nothing."""
        if end > start:
            self._replace(start, end, [(start, end, value)])

    def _replace(self, start: int, end: int, middle: list[tuple[int, int, V]]) -> None:
        first, last = self._reach(start, end)
        if first < last:
            if self.starts[first] < start:
                middle = [(self.starts[first], start, self._values[first]), *middle]
            if self._ends[last - 1] > end:
                middle = [*middle, (end, self._ends[last - 1], self._values[last - 1])]
        self.starts[first:last] = [one[0] for one in middle]
        self._ends[first:last] = [one[1] for one in middle]
        self._values[first:last] = [one[2] for one in middle]

    def copy(self) -> RangeMap[V]:
        """The same ranges and values, in a map of its own."""
        new: RangeMap[V] = RangeMap()
        new.starts, new._ends, new._values = self.starts[:], self._ends[:], self._values[:]
        return new
