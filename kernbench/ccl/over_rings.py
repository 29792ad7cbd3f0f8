"""All-reduce over one ring, or over several one after the other: the sums of a chunk go on along the next ring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from kernbench.ccl.ahead import Ahead
from kernbench.ccl.contract import WIDTH, Range, cut, pieces, segments
from kernbench.ccl.lanes import End, gathered, reduced
from kernbench.ccl.rings import Ring
from kernbench.ccl.turns import Slice, early, in_turn, run
from kernbench.common.dtypes import dtype_of

MOST = 16  #: lanes at a time; each may have a message that waits for a slot


class Memory:
    """Where a rank's elements are and its results go."""

    def __init__(self, tl: Any, in_ptr: int, out_ptr: int, dtype: str) -> None:
        self.tl, self.in_ptr, self.out_ptr, self.dtype = tl, in_ptr, out_ptr, dtype
        self.itemsize = dtype_of(dtype).bits // 8

    def ahead(self, ranges: Sequence[Range], lanes: int) -> Ahead:
        """Loads of these ranges, in order: further ahead for a lane that is alone, as one of several has more time."""
        return Ahead(self.tl, self.in_ptr, self.dtype, self.itemsize, ranges, self.tl.slot_bytes, 1 if lanes > 1 else 4)

    def load(self, first: int, count: int) -> Any:
        """A tile of so many elements, on its way."""
        return self.tl.load(self.in_ptr + first * self.itemsize, (count,), self.dtype, wait=False)

    def put(self, first: int, tile: Any) -> None:
        """Store a result from this element on."""
        self.tl.store(self.out_ptr + first * self.itemsize, tile)

    def pieces(self, most: int, far: bool = False, adds: bool = True) -> int:
        """Into how many messages a chunk of so many elements is cut. `far`: for a ring over several SIPs. `adds`: they are
        added to others, and not only moved."""
        return pieces(most, self.itemsize, self.tl.slot_bytes, far, adds)


def all_reduce(memory: Memory, parts: Sequence[tuple[Sequence[Ring], Range]]) -> None:
    """The sums of all ranks' elements, for each range over its own rings. Ranges are worked on side by side."""
    used = [([one for one in rings if one.size > 1], whole) for rings, whole in parts]
    slices = [list(_slices(memory, rings, whole)) for rings, whole in used]
    ways = [{(one.plane, one.out) for one in rings} for rings, _ in used]
    most = lanes_at_once(memory.tl)
    if len(ways) == 1 or not set.intersection(*ways):
        groups = [(some, len(rings)) for (rings, _), some in zip(used, slices, strict=True)]
    else:  # they share queues: one order for all
        together = [one for group in zip_longest(*slices) for one in group if one is not None]
        groups = [(together, max(len(rings) for rings, _ in used))]
    for_each = 2 * len(parts) // len(groups)
    limits = [(for_each, for_each // 2) if rings > 1 else (most, batch_of(len(some), most)) for some, rings in groups]
    run(memory.tl, *(in_turn(some, *limit, plain=rings > 1) for (some, rings), limit in zip(groups, limits, strict=True)))


def batch_of(lanes: int, most: int) -> int:
    """How many lanes begin together: all, if a quarter more may run; else half as many as may, so that some add while others
    hand on sums, and slots are free for what comes."""
    if lanes <= 3 * most // 4:
        return max(1, lanes)
    return -(-lanes // -(-lanes // max(1, most // 2)))


def lanes_at_once(tl: Any) -> int:
    """How many lanes a ring may have at a time."""
    return min(MOST, tl.slots - 1) if sends_on(tl) else WIDTH


def sends_on(tl: Any) -> bool:
    """Whether messages go on from the slots in which they came: there must be a slot more than lanes (`lanes.gathered`), and
    fewer lanes than `WIDTH` take longer than copies do."""
    return bool(tl.slots > WIDTH)


def _slices(memory: Memory, rings: Sequence[Ring], whole: Range) -> Iterator[Slice]:
    """The slices of a range: one piece of every chunk each."""
    if not rings:
        yield from (_moved(memory, one) for one in cut(whole, memory.pieces(whole[1])))
        return
    chunks = cut(whole, rings[0].size)
    most = chunks[0][1]
    count = memory.pieces(most, rings[0].far) if len(rings) == 1 else segments(most, memory.itemsize, memory.tl.slot_bytes)
    for number in range(count):
        ranges = [cut(chunk, count)[number] for chunk in chunks]
        yield _lane(memory, rings[0], ranges, count) if len(rings) == 1 else _nested(memory, rings, ranges)


def _moved(memory: Memory, whole: Range) -> Slice:
    """A lone rank's sum is what it has."""
    if whole[1]:
        tile = memory.load(*whole)
        yield True
        yield tile
        memory.put(whole[0], tile)


def _lane(memory: Memory, ring: Ring, ranges: Sequence[Range], lanes: int) -> Slice:
    """One piece of every chunk round one ring, twice: adding, then handing on the sums."""
    tl = memory.tl
    end = End(tl, ring, memory.dtype)
    counts = [count for _, count in ranges]
    ahead = memory.ahead([ranges[end.chunk(step)] for step in range(1, end.size + 1)], lanes)
    kept: list[Any] = []
    yield from reduced(end, counts, lambda chunk: ahead.take(), kept)
    own = kept.pop() if kept else None
    if own is not None:
        yield own
        memory.put(ranges[end.at][0], own)
    copies = None if sends_on(tl) else lambda chunk, message: copied(tl, message)
    yield from gathered(end, counts, own, lambda chunk, tile: memory.put(ranges[chunk][0], tile), copies)


def copied(tl: Any, message: Any) -> Any:
    """A message in a tile of its own, made by a vector engine: its slot is free when that is done."""
    return tl.cast(message, message.dtype, out=tl.alloc(message.shape, message.dtype))


def _nested(memory: Memory, rings: Sequence[Ring], ranges: Sequence[Range]) -> Slice:
    """Chunks round the first ring, this rank's sums over the other rings, and the sums of all chunks round again."""
    tl = memory.tl
    end = End(tl, rings[0], memory.dtype)
    first, count = ranges[end.at]
    whole = memory.load(first, count) if count else None
    most = max(size for _, size in ranges)
    parts = memory.pieces(most, rings[0].far)
    shared = [[cut(one, parts)[number] for one in ranges] for number in range(parts)]
    lanes = [_from_memory(memory, end, shares, whole, first, parts) for shares in shared]
    yield from early(in_turn(lanes, len(lanes), whole=True))
    yield from early(_on_tile(memory, rings[1:], whole, (0, count), most))
    if whole is not None:
        memory.put(first, whole)
    lanes = []
    for shares in shared:
        own = tl.part(whole, shares[end.at][0] - first, shares[end.at][1]) if shares[end.at][1] else None

        def put(chunk: int, tile: Any, shares: Sequence[Range] = shares) -> None:
            memory.put(shares[chunk][0], tile)

        lanes.append(gathered(end, [size for _, size in shares], own, put, lambda chunk, message: copied(tl, message)))
    yield from in_turn(lanes, len(lanes), whole=True)


def _from_memory(memory: Memory, end: End, ranges: Sequence[Range], whole: Any, first: int, lanes: int) -> Slice:
    """Reduce-scatter of one piece of every chunk; the sums end in the part of the tile `whole` that they belong to."""
    ahead = memory.ahead([ranges[end.chunk(step)] for step in range(1, end.size)], lanes)
    at, count = ranges[end.at]

    def own(chunk: int) -> Any:
        if chunk != end.at:
            return ahead.take()
        memory.tl.wait(whole)
        return memory.tl.part(whole, at - first, count)

    kept: list[Any] = []
    yield from reduced(end, [size for _, size in ranges], own, kept)
    yield from kept


def _on_tile(memory: Memory, rings: Sequence[Ring], tile: Any, whole: Range, most: int) -> Slice:
    """All-reduce, over rings one after the other, of a part of a tile, in place. `most`: elements of the largest such part."""
    if not rings:
        return
    tl = memory.tl
    end = End(tl, rings[0], memory.dtype)
    chunks = cut(whole, end.size)
    most = -(-most // end.size)
    parts = memory.pieces(most, rings[0].far)
    shares = [[cut(chunk, parts)[number] for chunk in chunks] for number in range(parts)]
    yield from in_turn([_summed(tl, end, tile, ranges) for ranges in shares], parts, whole=True)
    yield from _on_tile(memory, rings[1:], tile, chunks[end.at], most)
    yield from in_turn([_spread(tl, end, tile, ranges) for ranges in shares], parts, whole=True)


def _summed(tl: Any, end: End, tile: Any, ranges: Sequence[Range]) -> Slice:
    kept: list[Any] = []
    yield from reduced(end, [size for _, size in ranges], lambda chunk: tl.part(tile, *ranges[chunk]), kept)
    yield from kept


def _spread(tl: Any, end: End, tile: Any, ranges: Sequence[Range]) -> Slice:
    def copy(chunk: int, message: Any) -> Any:
        return tl.cast(message, message.dtype, out=tl.part(tile, *ranges[chunk]))

    own = tl.part(tile, *ranges[end.at]) if ranges[end.at][1] else None
    copies: list[Any] = []
    yield from gathered(end, [size for _, size in ranges], own, lambda chunk, done: copies.append(done), copy)
    yield from copies
