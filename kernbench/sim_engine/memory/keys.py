"""A sorted list of integers, in runs of bounded length, so that an insertion moves few integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

TOP = (1 << 63) - 1  #: no key is above
LIMIT = 1024  # keys of a run; a longer one is cut in two


def _below(run: list[int], key: int) -> int:
    """How many of a run are below `key`: `bisect_left` for keys that are machine integers where this is compiled."""
    low, high = 0, len(run)
    while low < high:
        middle = (low + high) // 2
        one = run[middle]
        if one < key:
            low = middle + 1
        else:
            high = middle
    return low


class Keys:
    """Distinct integers of at most 63 bits, in order.

    Finding, adding and removing one takes about the logarithm of how many there are.
    """

    def __init__(self) -> None:
        self._runs: list[list[int]] = [[]]  # sorted chunks; only a single one can be empty
        self._firsts: list[int] = []  # a bound below each run but the first: its keys are not below, those before are

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._runs)

    def before(self, key: int) -> int | None:
        """The greatest key that is not above `key`, or None."""
        at = _below(self._firsts, key + 1)
        run = self._runs[at]
        i = _below(run, key + 1)
        if i:
            return run[i - 1]
        return self._runs[at - 1][-1] if at else None

    def within(self, start: int, end: int) -> list[int]:
        """Those in `[start, end)`, in order."""
        at = _below(self._firsts, start + 1)
        run = self._runs[at]
        i, j = _below(run, start), _below(run, end)
        found = run[i:j]
        while j == len(run) and at + 1 < len(self._runs):
            at += 1
            run = self._runs[at]
            j = _below(run, end)
            found += run[:j]
        return found

    def add(self, key: int) -> None:
        """One more, which is not there yet."""
        at = _below(self._firsts, key + 1)
        run = self._runs[at]
        run.insert(_below(run, key), key)
        if len(run) > LIMIT:
            self._cut(at)

    def discard(self, keys: Sequence[int]) -> None:
        """Remove these integers, all of which are in the list."""
        for key in keys:
            at = _below(self._firsts, key + 1)
            run = self._runs[at]
            del run[_below(run, key)]
            if not run and len(self._runs) > 1:
                del self._runs[at]
                del self._firsts[max(at - 1, 0)]

    def copy(self) -> Keys:
        """A copy with the same keys."""
        new = Keys()
        new._runs, new._firsts = [run[:] for run in self._runs], self._firsts[:]
        return new

    def _cut(self, at: int) -> None:
        run = self._runs[at]
        half = len(run) // 2
        self._runs[at : at + 1] = [run[:half], run[half:]]
        self._firsts.insert(at, run[half])
