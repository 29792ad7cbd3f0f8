"""Scratchpad memory while a block is lowered: buffers are taken and given back; hazards order whoever reuses their bytes."""

from __future__ import annotations

from itertools import pairwise

from kernbench.common.units import ceil_div
from kernbench.workloads.scratchpad import DoesNotFit


class Arena:
    """Next fit over `[start, end)`: the bytes that were given back last are taken again last. Buffers begin at lines."""

    def __init__(self, start: int, end: int, line: int) -> None:
        self.start, self.end, self.line = start, end, line
        self._used: dict[int, int] = {}  # end by start
        self._next = start

    def take(self, nbytes: int) -> int:
        """The address of a buffer of this many bytes. DoesNotFit if there is no such room."""
        need = ceil_div(max(nbytes, 1), self.line) * self.line
        at = self._found(self._next, need)
        if at is None:
            at = self._found(self.start, need)
        if at is None:
            raise DoesNotFit(need)
        self._used[at] = self._next = at + need
        return at

    def give(self, *places: int) -> None:
        """Give back the buffers that begin at these addresses."""
        for place in places:
            del self._used[place]

    @property
    def largest(self) -> int:
        """[byte] The largest buffer that could be taken."""
        edges = [(self.start, self.start), *sorted(self._used.items()), (self.end, self.end)]
        return max(behind // self.line * self.line - end for (_, end), (behind, _) in pairwise(edges))

    def restart(self) -> None:
        """Take the next buffers from the beginning on: most buffers were given back, and large ones need bytes side by side."""
        self._next = self.start

    def _found(self, at: int, need: int) -> int | None:
        """The first room at this address or behind it."""
        for start, end in sorted(self._used.items()):
            if end <= at:
                continue
            if at + need <= start:
                return at
            at = end
        return at if at + need <= self.end else None
