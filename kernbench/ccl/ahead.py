"""Loads of a rank's own elements ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Range


class Ahead:
    """Tiles of memory in the order in which they are taken, the next ones on their way meanwhile.

    Ranges that adjoin in memory and are taken one after the other come with one load, up to `most_bytes`.
    """

    def __init__(
        self, tl: Any, base: int, dtype: str, itemsize: int, ranges: Sequence[Range], most_bytes: int, ahead: int
    ) -> None:
        self._tl, self._base, self._dtype, self._itemsize = tl, base, dtype, itemsize
        self._groups = deque(_groups([one for one in ranges if one[1]], most_bytes // itemsize))
        self._coming: deque[tuple[Any, deque[Range]]] = deque()
        self._ahead = ahead
        self._fetch()

    def take(self) -> Any:
        """The tile of the next range that is not empty; it may still be on its way."""
        tile, ranges = self._coming[0]
        first, count = ranges.popleft()
        if len(ranges) == 0:
            self._coming.popleft()
            self._fetch()
        if tile.shape == (count,):
            return tile
        start = tile.first
        self._tl.wait(tile.tile)
        return self._tl.part(tile.tile, first - start, count)

    def _fetch(self) -> None:
        while self._groups and len(self._coming) < self._ahead:
            ranges = self._groups.popleft()
            first = min(at for at, _ in ranges)
            count = sum(size for _, size in ranges)
            tile = self._tl.load(self._base + first * self._itemsize, (count,), self._dtype, wait=False)
            self._coming.append((tile if len(ranges) == 1 else _Group(tile, first), deque(ranges)))


class _Group:
    """A tile with the ranges of several takes."""

    shape = ()

    def __init__(self, tile: Any, first: int) -> None:
        self.tile, self.first = tile, first


def _groups(ranges: Sequence[Range], most: int) -> list[list[Range]]:
    """Neighbours in the order that are neighbours in memory too, and fit into `most` elements together."""
    groups: list[list[Range]] = []
    low = high = -1  # of the last group: its first element, and past its last
    for first, count in ranges:
        if groups and first + count == low and high - first <= most:
            low = first
        elif groups and first == high and first + count - low <= most:
            high = first + count
        else:
            groups.append([])
            low, high = first, first + count
        groups[-1].append((first, count))
    return groups
