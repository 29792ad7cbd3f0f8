"""A small number for each of many ids, in four bytes where the ids are small as ids of commands usually are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

_MOST = 1 << 24  # ids below it may stand in the array: 64 MiB


class IdMap:
    """From ids to numbers from 0 on; None where there is none."""

    def __init__(self, expected: int) -> None:
        self._dense = array("i")  # by id: 1 + number, 0 for none
        self._sparse: dict[int, int] = {}
        self._limit = min(4 * max(expected, 0) + 4096, _MOST)

    def __setitem__(self, key: int, number: int) -> None:
        if not 0 <= key < self._limit:
            self._sparse[key] = number
            return
        if key >= len(self._dense):
            self._dense.extend([0] * (key + 1 - len(self._dense)))
        self._dense[key] = number + 1

    def get(self, key: int) -> int | None:
        """The number of an id."""
        if 0 <= key < len(self._dense):
            found = self._dense[key]
            return found - 1 if found else None
        return self._sparse.get(key)

    def items(self) -> Iterator[tuple[int, int]]:
        """Ids and their numbers, small ids first."""
        yield from ((key, number - 1) for key, number in enumerate(self._dense) if number)
        yield from sorted(self._sparse.items())
