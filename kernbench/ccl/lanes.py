"""Lanes: what one message a step does along a ring, as slices that run in turn (`turns`).

A lane has a range of elements of each chunk of the ring, and chunk `p` is that of the rank at position `p`. Ranges may be
empty: such a message is not sent, by any rank. Each step takes two turns: send, and ask for the next message; then use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernbench.ccl.rings import Ring
from kernbench.ccl.turns import Slice


class End:
    """A rank's place in a ring, as its kernel uses it."""

    def __init__(self, tl: Any, ring: Ring, dtype: str) -> None:
        self.tl, self.dtype = tl, dtype
        self.size, self._members = ring.size, ring.members
        self.at = ring.members.index(tl.rank)
        self._out, self._back, self._plane = ring.out, ring.back, ring.plane

    def send(self, tile: Any) -> Any:
        """A message to the next one."""
        return self.tl.send(self._out, tile, plane=self._plane)

    def ask(self, count: int) -> Any:
        """The next message of the one before, on its way."""
        return self.tl.recv_async(self._back, (count,), self.dtype, plane=self._plane)

    def ask_out(self, count: int) -> Any:
        """The next message of the one that this end sends to, on its way."""
        return self.tl.recv_async(self._out, (count,), self.dtype, plane=self._plane)

    def rank(self, steps: int) -> int:
        """The rank so many places further on."""
        return self._members[(self.at + steps) % self.size]

    def chunk(self, steps: int) -> int:
        """The chunk of the rank so many places before this one."""
        return (self.at - steps) % self.size


def reduced(end: End, counts: Sequence[int], own: Callable[[int], Any], kept: list[Any]) -> Slice:
    """Reduce-scatter: `kept` gets the sum of all ranks' elements of this rank's chunk, unless that is empty.

    `own(chunk)` gives the tile of this rank's elements, chunk by chunk from the one before its own backwards; it is added to.
    The sum of a chunk begins at the rank behind its owner, and goes round the ring.
    """
    tl = end.tl
    tile = None
    if counts[end.chunk(1)]:
        tile = own(end.chunk(1))
    for step in range(1, end.size):
        if tile is not None:
            yield tile
            end.send(tile)
        chunk = end.chunk(step + 1)
        message = tile = None
        if counts[chunk]:
            message, tile = end.ask(counts[chunk]), own(chunk)
        yield False
        if message is not None:
            yield message
            yield tile
            tl.add(tile, message, out=tile)
        message = None  # its slot is free as soon as the sum is made
        yield False
    if tile is not None:
        kept.append(tile)


def gathered(
    end: End, counts: Sequence[int], own: Any, put: Callable[[int, Any], None], copy: Callable[[int, Any], Any] | None = None
) -> Slice:
    """All-gather: this rank's tile `own` goes round; `put(chunk, tile)` is told of each that comes.

    Messages go on from the slots in which they came, or from copies that `copy(chunk, message)` makes. Without copies no more
    such lanes may run at a time than the queue has slots, less one: were all slots of all ranks full of messages that
    have to go on, none could.
    """
    tile = own if counts[end.at] else None
    for step in range(1, end.size):
        if tile is not None:
            yield tile
            end.send(tile)
        chunk = end.chunk(step)
        tile = end.ask(counts[chunk]) if counts[chunk] else None
        yield True
        if tile is not None:
            yield tile
            if copy is not None:
                tile = copy(chunk, tile)
            else:
                put(chunk, tile)
        yield True
        if tile is not None and copy is not None:
            yield tile
            put(chunk, tile)
