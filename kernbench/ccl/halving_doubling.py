"""Recursive halving and doubling: partners whose numbers differ in one bit, and the direction and plane for each bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kernbench.ccl.contract import QueueKey, Range, Table, cut
from kernbench.ccl.pipeline import Slice, in_turn, run
from kernbench.ccl.reduction import combine_of, plus
from kernbench.ccl.ring_schedule import Memory
from kernbench.common.dtypes import Array

DIRECTIONS = ("E", "W", "S", "N")
ACTIVE = 8  #: slices at a time


def queue_of_step(step: int) -> QueueKey:
    """Return the plane and the direction of the partner of a step."""
    return step // len(DIRECTIONS), DIRECTIONS[step % len(DIRECTIONS)]


def steps_of(ranks: int) -> int:
    """Return the number of pairing steps: log2 of the largest power of two that is at most `ranks`."""
    return ranks.bit_length() - 1


def number_of(rank: int, ranks: int) -> int | None:
    """Return the number of a rank among the paired ranks, or None for a rank that hands its elements to the rank before it.

    In each of the first `ranks - 2 ** steps` pairs of neighbours, only the even rank participates.
    """
    spare = ranks - (1 << steps_of(ranks))
    if rank >= 2 * spare:
        return rank - spare
    return None if rank % 2 else rank // 2


@cache
def partners(ranks: int) -> Table:
    """Return the queues: the queue to the partner of each step (`queue_of_step`), then the one of the rank that hands over."""
    steps = steps_of(ranks)
    rank_of = {number_of(rank, ranks): rank for rank in range(ranks)}
    table: dict[int, dict[QueueKey, tuple[int, str]]] = {}
    for rank in range(ranks):
        number = number_of(rank, ranks)
        for step in range(steps) if number is not None else ():
            plane, there = queue_of_step(step)
            table.setdefault(rank, {})[plane, there] = rank_of[number ^ 1 << step], there  # type: ignore[operator]
    plane, there = queue_of_step(steps)
    for even in range(0, 2 * (ranks - (1 << steps)), 2):
        table.setdefault(even, {})[plane, there] = even + 1, there
        table.setdefault(even + 1, {})[plane, there] = even, there
    return table


def halving_doubling(memory: Memory, whole: Range) -> None:
    """Compute the sums of all ranks' elements in slices. Half of a slice fits into a slot."""
    tl = memory.tl
    ranks: int = tl.world_size
    exact = ranks & ranks - 1 == 0
    most = max(1, tl.slot_bytes // memory.itemsize) * (2 if exact and ranks > 1 else 1)
    number = number_of(tl.rank, ranks)
    parts = [part for part in cut(whole, -(-whole[1] // most)) if part[1]]
    if number is None:
        run(tl, _handed_over(memory, parts))
    else:
        run(tl, in_turn(map(_paired(memory, number), parts), ACTIVE))


def _handed_over(memory: Memory, parts: Sequence[Range]) -> Slice:
    """Send the elements of a rank that does not participate to the rank before it, and receive the sums from there.

    The rank first sends more slices than the other ranks process at a time. It then sends one slice for each slice of sums.
    """
    tl = memory.tl
    plane, there = queue_of_step(steps_of(tl.world_size))
    coming: deque[tuple[int, Any]] = deque()
    tiles = deque(memory.load(*part) for part in parts[:1])
    for at, (first, count) in enumerate(parts):
        tiles += (memory.load(*part) for part in parts[at + 1 : at + 2])
        tile = tiles.popleft()
        yield tile
        tl.send(there, tile, plane=plane)
        coming.append((first, tl.recv_async(there, (count,), memory.dtype, plane=plane)))
        if len(coming) > 2 * ACTIVE:
            yield from _stored(memory, *coming.popleft())
    while coming:
        yield from _stored(memory, *coming.popleft())


def _stored(memory: Memory, first: int, message: Any) -> Slice:
    yield message
    memory.put(first, message)


def _paired(memory: Memory, number: int) -> Callable[[Range], Slice]:
    tl = memory.tl
    ranks: int = tl.world_size
    steps = steps_of(ranks)
    plane, there = queue_of_step(steps)
    folded = tl.rank < 2 * (ranks - (1 << steps))

    def paired(whole: Range) -> Slice:
        first, count = whole
        tile = memory.load(first, count)
        if folded:
            message = tl.recv_async(there, (count,), memory.dtype, plane=plane)
            yield True
            yield message
            yield tile
            combine_of(tl)(tile, message, out=tile)
            message = None
        else:
            yield True  # every rank takes the same number of turns
            yield tile
        yield True
        yield from _halved(memory, tile, number, count)
        memory.put(first, tile)
        if folded:
            tl.send(there, tile, plane=plane)

    return paired


def _halved(memory: Memory, tile: Any, number: int, count: int) -> Slice:
    """Exchange halves with partners until each rank has one piece of the sums, and exchange the pieces in the opposite order.
    """
    tl = memory.tl
    mine, last = (0, count), tile
    given: list[Range] = []
    for step in range(steps_of(tl.world_size)):
        halves = cut(mine, 2)
        mine, theirs = halves[number >> step & 1], halves[1 - (number >> step & 1)]
        given.append(theirs)
        yield last
        message = _swap(memory, step, tl.part(tile, *theirs) if theirs[1] else None, mine[1])
        yield True
        if message is not None:
            yield message
            last = tl.part(tile, *mine)
            combine_of(tl)(last, message, out=last)
        message = None
        yield True
    for step, theirs in reversed(list(enumerate(given))):
        yield last
        message = _swap(memory, step, tl.part(tile, *mine) if mine[1] else None, theirs[1])
        yield True
        if message is not None:
            yield message
            last = tl.cast(message, message.dtype, out=tl.part(tile, *theirs))
        message = None
        mine = min(mine[0], theirs[0]) if mine[1] and theirs[1] else mine[0] if mine[1] else theirs[0], mine[1] + theirs[1]
        yield True
    yield last


def _swap(memory: Memory, step: int, tile: Any, count: int) -> Any:
    """Send a part to the partner of a step, and receive the same number of elements from the partner."""
    plane, there = queue_of_step(step)
    if tile is not None:
        memory.tl.send(there, tile, plane=plane)
    return memory.tl.recv_async(there, (count,), memory.dtype, plane=plane) if count else None


def paired_sums(inputs: Sequence[Array]) -> Array:
    """Return the sums in the order of halving: first the pairs with a rank that does not participate, then partner by partner.
    """
    ranks = len(inputs)
    values: dict[int, Array] = {}
    for rank, one in enumerate(inputs):
        number = number_of(rank, ranks)
        if number is not None:
            values[number] = plus(one, inputs[rank + 1]) if rank < 2 * (ranks - (1 << steps_of(ranks))) else one
    for step in range(steps_of(ranks)):
        values = {number: plus(one, values[number ^ 1 << step]) for number, one in values.items()}
    return values[0]
