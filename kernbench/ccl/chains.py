"""Broadcast and reduce along the two chains that a ring makes from rank 0, and the barrier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from kernbench.ccl.contract import Range, Table, Way
from kernbench.ccl.lanes import End
from kernbench.ccl.order import plus
from kernbench.ccl.over_rings import Memory
from kernbench.ccl.ring_pass import pass_pieces
from kernbench.ccl.rings import Ring
from kernbench.ccl.turns import Slice
from kernbench.common.dtypes import Array


def _chains(ring: Ring) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks behind rank 0 along the ring and against it, nearest first; the first chain has one more, or as many."""
    start = ring.members.index(0)
    others = [*ring.members[start + 1 :], *ring.members[:start]]
    half = -(-len(others) // 2)
    return tuple(others[:half]), tuple(reversed(others[half:]))


class _Link:
    """A rank's place in its chain: `near` is towards rank 0, `far` away from it; None: no one is there."""

    def __init__(self, memory: Memory, ring: Ring) -> None:
        self.chains = _chains(ring)
        along, against = End(memory.tl, ring, memory.dtype), End(memory.tl, ring.turned(), memory.dtype)
        self.root = memory.tl.rank == 0
        self.far: list[End] = []
        self.near: End | None = None
        for chain, out, back in ((self.chains[0], along, against), (self.chains[1], against, along)):
            if (self.root and chain) or memory.tl.rank in chain[:-1]:
                self.far.append(out)
            if memory.tl.rank in chain:
                self.near = back


def broadcast(memory: Memory, ring: Ring, count: int) -> None:
    """Rank 0's elements to all: each piece is stored and sent on as it comes."""
    link = _Link(memory, ring)

    def lane(piece: Range) -> Slice:
        first, size = piece
        tile = memory.load(first, size) if link.near is None else link.near.ask_out(size)
        yield True
        yield tile
        for end in link.far:
            end.send(tile)
        memory.put(first, tile)

    # Pieces as large as those of `reduce`: a chain hands each on as often.
    pass_pieces(memory, ring, count, lane, adds=True)


def reduce(memory: Memory, ring: Ring, count: int) -> None:
    """The sums of all ranks to rank 0: each adds its own to what comes from further away."""
    tl, link = memory.tl, _Link(memory, ring)

    def lane(piece: Range) -> Slice:
        first, size = piece
        tile = memory.load(first, size)
        messages = [end.ask_out(size) for end in link.far]
        yield True
        yield tile
        while messages:
            message: Any = messages.pop(0)
            yield message
            tl.add(tile, message, out=tile)
            message = None
            yield tile
        yield True
        if link.near is None:
            memory.put(first, tile)
        else:
            link.near.send(tile)

    pass_pieces(memory, ring, count, lane, adds=True)


def chained_sums(inputs: Sequence[Array], ring: Ring) -> Array:
    """The sums as they come to rank 0: to its own the first chain's are added, then the second's."""
    total = inputs[0]
    for chain in _chains(ring):
        if chain:
            coming = inputs[chain[-1]]
            for rank in reversed(chain[:-1]):
                coming = plus(inputs[rank], coming)
            total = plus(total, coming)
    return total


@cache
def offsets(ranks: int) -> Table:
    """In the east of plane `k` the rank `2 ** k` further on, round and round, and in the west the one as far before."""
    table: dict[int, dict[Way, tuple[int, str]]] = {rank: {} for rank in range(ranks)}
    for plane in range((ranks - 1).bit_length()):
        for rank in range(ranks):
            other = (rank + (1 << plane)) % ranks
            table[rank][plane, "E"] = other, "W"
            table[other][plane, "W"] = rank, "E"
    return table


def tell(tl: Any) -> None:
    """Messages of one element, further and further: who has heard in the last step has heard, through others, of all."""
    for plane in range((tl.world_size - 1).bit_length()):
        tl.send("E", tl.zeros((1,), "i32"), plane=plane)
        tl.wait(tl.recv_async("W", (1,), "i32", plane=plane))
