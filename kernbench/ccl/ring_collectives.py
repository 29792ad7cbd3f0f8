"""Collectives along one ring: all-gather, reduce-scatter, all-to-all, shift, broadcast, reduce and barrier.

Broadcast and reduce use the two chains into which the ring divides at rank 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from kernbench.ccl.contract import QueueKey, Range, Table
from kernbench.ccl.pipeline import Slice, in_turn, run
from kernbench.ccl.reduction import combine_of, plus
from kernbench.ccl.ring_schedule import End, Memory, copied, gathered, lanes_at_once, pass_pieces, pieces_of, reduced, sends_on
from kernbench.ccl.rings import Ring
from kernbench.common.dtypes import Array


def _chains(ring: Ring) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ranks after rank 0 and before rank 0 along the ring, nearest first. The first chain is at most one rank
    longer.
    """
    start = ring.members.index(0)
    others = [*ring.members[start + 1 :], *ring.members[:start]]
    half = -(-len(others) // 2)
    return tuple(others[:half]), tuple(reversed(others[half:]))


class _Link:
    """The neighbours of a rank in its chain: `near` is towards rank 0, and `far` away from it. None marks an end."""

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
    """Send the elements of rank 0 to all ranks. Each rank stores a piece and forwards it on arrival."""
    link = _Link(memory, ring)

    def lane(piece: Range) -> Slice:
        first, size = piece
        tile = memory.load(first, size) if link.near is None else link.near.ask_out(size)
        yield True
        yield tile
        sent = [end.send(tile) for end in link.far]
        yield from sent
        memory.put(first, tile)

    # Pieces as large as those of `reduce`: a chain hands each on as often.
    pass_pieces(memory, ring, count, lane, adds=True)


def reduce(memory: Memory, ring: Ring, count: int) -> None:
    """Send the sums of all ranks to rank 0. Each rank adds its own elements to the elements from further away."""
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
            combine_of(tl)(tile, message, out=tile)
            message = None
            yield tile
        yield True
        if link.near is None:
            memory.put(first, tile)
        else:
            link.near.send(tile)

    pass_pieces(memory, ring, count, lane, adds=True)


def chained_sums(inputs: Sequence[Array], ring: Ring) -> Array:
    """Return the sums in the order of arrival at rank 0: its own elements, plus the first chain, plus the second chain."""
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
    """Return the queues on plane `k`: east is the rank at distance `2 ** k` after this rank, and west the rank at that distance
    before.
    """
    table: dict[int, dict[QueueKey, tuple[int, str]]] = {rank: {} for rank in range(ranks)}
    for plane in range((ranks - 1).bit_length()):
        for rank in range(ranks):
            other = (rank + (1 << plane)) % ranks
            table[rank][plane, "E"] = other, "W"
            table[other][plane, "W"] = rank, "E"
    return table


def tell(tl: Any) -> None:
    """Send messages of one element over growing distances. After the last step, every rank depends on all other ranks."""
    for plane in range((tl.world_size - 1).bit_length()):
        tl.send("E", tl.zeros((1,), "i32"), plane=plane)
        tl.wait(tl.recv_async("W", (1,), "i32", plane=plane))


def all_gather(memory: Memory, ring: Ring, count: int) -> None:
    """Send the elements of each rank to all ranks. Piece `p` travels around the ring together with the pieces `p` of all other
    ranks.
    """
    tl = memory.tl
    end = End(tl, ring, memory.dtype)
    copies = None if sends_on(tl) else lambda chunk, message: copied(tl, message)

    def lane(piece: Range) -> Slice:
        first, size = piece
        own = memory.load(first, size)
        yield own
        memory.put(tl.rank * count + first, own)

        def put(at: int, tile: Any) -> None:
            memory.put(ring.members[at] * count + first, tile)

        yield from gathered(end, [size] * end.size, own, put, copies)

    # Half of the slots receive while messages in the others are forwarded; otherwise each send would wait for a credit.
    most = max(1, min(lanes_at_once(tl), tl.slots // 2)) if sends_on(tl) else lanes_at_once(tl)
    pass_pieces(memory, ring, count, lane, at_once=most)


def reduce_scatter(memory: Memory, ring: Ring, count: int) -> None:
    """Send the sums of the block of each rank to that rank."""
    tl = memory.tl
    end = End(tl, ring, memory.dtype)

    def lane(piece: Range) -> Slice:
        first, size = piece
        order = [ring.members[end.chunk(step)] for step in range(1, end.size + 1)]
        ahead = memory.ahead([(rank * count + first, size) for rank in order], memory.pieces(count, ring.far))
        kept: list[Any] = []
        yield from reduced(end, [size] * end.size, lambda chunk: ahead.take(), kept)
        yield kept[0]
        memory.put(first, kept[0])

    pass_pieces(memory, ring, count, lane, adds=True)


def all_to_all(memory: Memory, ring: Ring, count: int) -> None:
    """Send the elements for the rank at distance `d`. All ranks forward such pieces together, hop by hop.

    Both directions run at the same time. If results overwrite the input elements, one sequence of steps serves both directions
    (`_swaps`).
    """
    tl = memory.tl
    ends = End(tl, ring, memory.dtype), End(tl, ring.turned(), memory.dtype)
    size = ring.size
    furthest = size // 2, (size - 1) // 2  # east and west
    pieces = pieces_of(memory, count)  # also over SIPs: there are as many lanes as distances anyway
    own = (_own(memory, tl.rank * count, piece) for piece in pieces)
    if memory.in_ptr == memory.out_ptr:
        ways: list[Iterable[Slice]] = [_swaps(memory, ends, furthest, count, pieces)]
    else:
        ways = [
            [_hops(memory, end, far, count, piece) for far in range(1, most + 1) for piece in pieces]
            for end, most in zip(ends, furthest, strict=True)
        ]
    run(tl, *(in_turn(some, lanes_at_once(tl)) for some in (own, *ways)))


def _swaps(
    memory: Memory, ends: Sequence[End], furthest: Sequence[int], count: int, pieces: Sequence[Range]
) -> Iterator[Slice]:
    """Exchange pieces east and west in turn, in one buffer.

    A message from one direction is stored over the elements for the other direction, so both pieces are loaded before one is
    sent.
    """
    for far in range(1, furthest[0] + 1):
        for piece in pieces:
            used = [end for end, most in zip(ends, furthest, strict=True) if far <= most]
            tiles = [memory.load(end.rank(far) * count + piece[0], piece[1]) for end in used]
            for end, tile in zip(used, tiles, strict=True):
                yield _hops(memory, end, far, count, piece, tile, tiles)


def _own(memory: Memory, start: int, piece: Range) -> Slice:
    """Copy the elements that a rank has for itself."""
    tile = memory.load(start + piece[0], piece[1])
    yield True
    yield tile
    memory.put(start + piece[0], tile)


def _hops(
    memory: Memory, end: End, far: int, count: int, piece: Range, tile: Any = None, beside: Sequence[Any] = ()
) -> Slice:
    """Send a piece to the rank `far` positions further. The last message comes from the rank as many positions before.

    `tile` is a tile that is already in flight. `beside` are tiles that must be complete before this piece is sent.
    """
    tl, (first, size) = memory.tl, piece
    if tile is None:
        tile = memory.load(end.rank(far) * count + first, size)
    yield from beside
    beside = ()
    for _ in range(far):
        yield tile
        end.send(tile)
        tile = end.ask(size)
        yield True
        yield tile
        if not sends_on(tl):
            tile = copied(tl, tile)
        yield True
    yield tile
    memory.put(end.rank(-far) * count + first, tile)


def shift(memory: Memory, ring: Ring, count: int) -> None:
    """Send the elements of each rank to the next rank."""
    tl = memory.tl
    end = End(tl, ring, memory.dtype)

    def lane(piece: Range) -> Slice:
        first, size = piece
        tile = memory.load(first, size)
        if end.size > 1:
            yield tile
            end.send(tile)
            tile = end.ask(size)
        yield True
        yield tile
        memory.put(first, tile)

    pass_pieces(memory, ring, count, lane)
