"""Tables of events joined by their ids: which row of one belongs to which row of the other."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from kernbench.trace.store.columns import NULL, Ints, Table


def pick(ids: Ints, wanted: Ints) -> Ints:
    """The first row of `ids` that holds each wanted id; -1 where none does, or nothing is wanted."""
    if len(ids) == 0:
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    places = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    rows = order[places]
    return np.where((ids[rows] == wanted) & (wanted != NULL), rows, -1)


def paired(starts: Sequence[Ints], ends: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Starts and ends with equal keys: the n-th start of a key with its n-th end, in file order.

    Two arrays of rows, -1 where one of the two is missing: first all starts in file order, then the ends without one.
    """
    one, other = _keys(starts, ends)
    end = pick(other, one)
    lonely = np.ones(len(other), bool)
    lonely[end[end >= 0]] = False
    rest = np.flatnonzero(lonely)
    return np.concatenate((np.arange(len(one)), np.full(len(rest), -1))), np.concatenate((end, rest))


def _keys(starts: Sequence[Ints], ends: Sequence[Ints]) -> tuple[Ints, Ints]:
    """One number for the keys of each row and how often they stood before it; equal in both where all are equal."""
    count = len(starts[0])
    code = np.zeros(count + len(ends[0]), np.int64)
    for column in (np.concatenate(both) for both in zip(starts, ends, strict=True)):
        _, numbers = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)
    one, other = code[:count], code[count:]
    nth = (_occurrence(one), _occurrence(other))
    most = max(int(nth[0].max(initial=0)), int(nth[1].max(initial=0))) + 1
    return one * most + nth[0], other * most + nth[1]


def _occurrence(codes: Ints) -> Ints:
    """How many rows before this one hold the same."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(np.append(firsts, len(codes)))
    made = np.empty(len(codes), np.int64)
    made[order] = np.arange(len(codes)) - np.repeat(firsts, lengths)
    return made


def rows_of(spans: Table) -> Ints:
    """The row of each span in its track, so that no two of a row overlap: each takes the first row that is free.

    The spans stand in order of track and start.
    """
    unit, start, end = spans["unit"], spans["start"], spans["end"]
    rows = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(unit, prepend=-2, append=-2))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        reached = np.maximum.accumulate(end[low:high])
        if (start[low + 1 : high] < reached[:-1]).any():
            rows[low:high] = _stacked(start[low:high].tolist(), end[low:high].tolist())
    return rows


def _stacked(starts: list[int], ends: list[int]) -> list[int]:
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    made = []
    used = 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, used = used, used + 1
        heapq.heappush(busy, (end, row))
        made.append(row)
    return made


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
