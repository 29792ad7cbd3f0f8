"""The schedule of messages along rings: which chunk a rank sends, receives and adds in each step.

A lane has a range of elements of each chunk of the ring. Chunk `p` is the chunk of the rank at position `p`. Ranges may be
empty; no rank sends a message for an empty range. Each step has two stages of a pipeline (`pipeline`): first send, and request
the next message; then use the message. A pass says how many lanes there are, and how many run at a time. An all-reduce uses
one ring, or several rings in sequence; the sums of a chunk then continue along the next ring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from kernbench.ccl.contract import WIDTH, Range, cut, pieces, segments
from kernbench.ccl.pipeline import Slice, early, in_turn, run
from kernbench.ccl.reduction import combine_of
from kernbench.ccl.rings import Ring
from kernbench.common.dtypes import dtype_of


class Ahead:
    """Tiles of memory in the order of their use, with the next tiles already in flight.

    Adjacent ranges that are used in sequence are loaded together, up to `most_bytes`.
    """

    def __init__(
        self, tl: Any, base: int, dtype: str, itemsize: int, ranges: Sequence[Range], most_bytes: int, ahead: int
    ) -> None:
        self._tl, self._base, self._dtype, self._itemsize = tl, base, dtype, itemsize
        self._groups = deque(_groups([one for one in ranges if one[1]], most_bytes // itemsize))
        self._coming: deque[Any] = deque()  # tiles of one range, and `_Group` objects
        self._ahead = ahead
        self._fetch()

    def take(self) -> Any:
        """Return the tile of the next range that is not empty. The tile may still be in flight."""
        tile = self._coming[0]
        if type(tile) is not _Group:
            self._coming.popleft()
            self._fetch()
            return tile
        first, count = tile.ranges.popleft()
        if not tile.ranges:
            self._coming.popleft()
            self._fetch()
        self._tl.wait(tile.tile)
        return self._tl.part(tile.tile, first - tile.first, count)

    def _fetch(self) -> None:
        while self._groups and len(self._coming) < self._ahead:
            ranges = self._groups.popleft()
            first, count = ranges[0]
            if len(ranges) > 1:
                first, count = min(at for at, _ in ranges), sum(size for _, size in ranges)
            tile = self._tl.load(self._base + first * self._itemsize, (count,), self._dtype, wait=False)
            self._coming.append(tile if len(ranges) == 1 else _Group(tile, first, deque(ranges)))


class _Group:
    """A tile with several ranges."""

    def __init__(self, tile: Any, first: int, ranges: deque[Range]) -> None:
        self.tile, self.first, self.ranges = tile, first, ranges


def _groups(ranges: Sequence[Range], most: int) -> list[list[Range]]:
    """Group ranges that follow each other in order and in memory, up to `most` elements."""
    groups: list[list[Range]] = []
    low = high = -1  # first element of the last group, and the end of this group
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


class End:
    """The position of a rank in a ring, with the functions that its kernel uses."""

    def __init__(self, tl: Any, ring: Ring, dtype: str) -> None:
        self.tl, self.dtype = tl, dtype
        self.size, self._members = ring.size, ring.members
        self.at = ring.members.index(tl.rank)
        self.out, self.back, self.plane = ring.out, ring.back, ring.plane

    def send(self, tile: Any) -> Any:
        """Send a message to the next rank."""
        return self.tl.send(self.out, tile, plane=self.plane)

    def ask(self, count: int) -> Any:
        """Request the next message of the preceding rank."""
        return self.tl.recv_async(self.back, (count,), self.dtype, plane=self.plane)

    def ask_out(self, count: int) -> Any:
        """Request the next message of the rank to which this end sends."""
        return self.tl.recv_async(self.out, (count,), self.dtype, plane=self.plane)

    def rank(self, steps: int) -> int:
        """Return the rank at this distance along the ring."""
        return self._members[(self.at + steps) % self.size]

    def chunk(self, steps: int) -> int:
        """Return the chunk of the rank at this distance before this rank."""
        return (self.at - steps) % self.size


def reduced(end: End, counts: Sequence[int], own: Callable[[int], Any], kept: list[Any]) -> Slice:
    """Run a reduce-scatter. `kept` gets the sum of this rank's chunk over all ranks, unless the chunk is empty.

    `own(chunk)` returns the tile of this rank's elements, to which sums are added. The calls go backwards through the chunks,
    from the chunk before its own. The sum of a chunk begins at the rank after its owner and follows the ring.
    """
    # The functions of `tl` are called here, and not through `End`: each Python function on the way costs a frame object.
    send, receive, combine, tile = end.tl.send, end.tl.recv_async, combine_of(end.tl), None
    out, back, plane, dtype, size, chunk = end.out, end.back, end.plane, end.dtype, end.size, end.chunk(1)
    if counts[chunk]:
        tile = own(chunk)
    for _ in range(1, size):
        if tile is not None:
            yield tile
            send(out, tile, plane=plane)
        chunk = (chunk or size) - 1
        message = tile = None
        if counts[chunk]:
            message, tile = receive(back, (counts[chunk],), dtype, plane=plane), own(chunk)
        yield False
        if message is not None:
            yield message
            yield tile
            combine(tile, message, out=tile)
        message = None  # its slot is free as soon as the sum is made
        yield False
    if tile is not None:
        kept.append(tile)


def gathered(
    end: End, counts: Sequence[int], own: Any, put: Callable[[int, Any], None], copy: Callable[[int, Any], Any] | None = None
) -> Slice:
    """Run an all-gather. The tile `own` of this rank travels around the ring; `put(chunk, tile)` is called for each arriving
    tile.

    Messages are forwarded from their slots, or from copies that `copy(chunk, message)` makes. Without copies, fewer lanes
    than slots may run at a time: if all slots of all ranks held messages to be forwarded, no rank could continue.
    """
    send, receive = end.tl.send, end.tl.recv_async  # as in `reduced`
    out, back, plane, dtype, size, chunk = end.out, end.back, end.plane, end.dtype, end.size, end.at
    tile = own if counts[chunk] else None
    for _ in range(1, size):
        if tile is not None:
            yield tile
            send(out, tile, plane=plane)
        chunk = (chunk or size) - 1
        tile = receive(back, (counts[chunk],), dtype, plane=plane) if counts[chunk] else None
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


@lru_cache(maxsize=1024)
def chunks_of(whole: Range, parts: int) -> tuple[Range, ...]:
    """Return `cut(whole, parts)`. Ranks that divide the same range share the result."""
    return tuple(cut(whole, parts))


@lru_cache(maxsize=1024)
def shares_of(chunks: tuple[Range, ...], parts: int) -> tuple[tuple[Range, ...], ...]:
    """Divide each chunk into `parts` parts. Return the first parts of all chunks, then the second parts, and so on. Ranks that
    divide the same chunks share the result.
    """
    return tuple(zip(*(cut(one, parts) for one in chunks), strict=True))


LIMIT = 16  #: lanes at a time; each may have a message that waits for a slot


class Memory:
    """The addresses of the elements and of the results of a rank."""

    def __init__(self, tl: Any, in_ptr: int, out_ptr: int, dtype: str) -> None:
        self.tl, self.in_ptr, self.out_ptr, self.dtype = tl, in_ptr, out_ptr, dtype
        self.itemsize = dtype_of(dtype).bits // 8

    def ahead(self, ranges: Sequence[Range], lanes: int) -> Ahead:
        """Return loads of these ranges, in order. A single lane loads further ahead, because one of several lanes has more
        time.
        """
        return Ahead(self.tl, self.in_ptr, self.dtype, self.itemsize, ranges, self.tl.slot_bytes, 1 if lanes > 1 else 4)

    def load(self, first: int, count: int) -> Any:
        """Load a tile of this many elements without waiting."""
        return self.tl.load(self.in_ptr + first * self.itemsize, (count,), self.dtype, wait=False)

    def put(self, first: int, tile: Any) -> None:
        """Store a result, starting at this element."""
        self.tl.store(self.out_ptr + first * self.itemsize, tile)

    def pieces(self, most: int, far: bool = False, adds: bool = True) -> int:
        """Return the number of messages for a chunk of this many elements.

        `far` marks a ring over several SIPs. `adds` says whether the elements are added to others, and not only moved.
        """
        return pieces(most, self.itemsize, self.tl.slot_bytes, far, adds)


def all_reduce(memory: Memory, parts: Sequence[tuple[Sequence[Ring], Range]]) -> None:
    """Compute the sums of all ranks' elements. Each range has its own rings, and ranges are processed at the same time."""
    used = [([one for one in rings if one.size > 1], whole) for rings, whole in parts]
    slices = [list(_slices(memory, rings, whole)) for rings, whole in used]
    ways = [{(one.plane, one.out) for one in rings} for rings, _ in used]
    most = lanes_at_once(memory.tl)
    if len(ways) == 1 or not set.intersection(*ways):
        groups = [(some, len(rings)) for (rings, _), some in zip(used, slices, strict=True)]
    else:  # they share queues: one order for all
        together = [one for group in zip_longest(*slices) for one in group if one is not None]
        groups = [(together, max(len(rings) for rings, _ in used))]
    for_each = min(2 * len(parts) // len(groups), min(_nested_at_once(memory, rings, whole) for rings, whole in used))
    limits = [(for_each, for_each // 2) if rings > 1 else (most, batch_of(len(some), most)) for some, rings in groups]
    run(memory.tl, *(in_turn(some, *limit, plain=rings > 1) for (some, rings), limit in zip(groups, limits, strict=True)))


def _nested_at_once(memory: Memory, rings: Sequence[Ring], whole: Range) -> int:
    """Return the number of slices over several rings for which the scratchpad has room.

    Each slice has a tile of its own chunk, and the loads of its lanes. Lanes of a ring of two ranks have no next chunk to load.
    """
    chunk = chunks_of(whole, rings[0].size)[0][1] if len(rings) > 1 else 0
    if not chunk:
        return LIMIT
    nbytes = -(-chunk // segments(chunk, memory.itemsize, memory.tl.slot_bytes)) * memory.itemsize
    halves = 4 if any(one.size == 2 for one in rings) else 5  # of the tile: it and the loads
    # Only a first ring of two ranks never loads a chunk while another slice holds its tile.
    spare = memory.tl.slot_bytes if halves == 4 and rings[0].size > 2 else 0
    return max(1, int(2 * (memory.tl.limits().free_bytes - spare) // (halves * nbytes)))


def batch_of(lanes: int, most: int) -> int:
    """Return the number of lanes that begin together.

    All lanes begin together if the limit is at least a quarter higher. Otherwise half of the limit begins, so that some lanes
    add while others forward sums, and slots are free for arriving messages.
    """
    if lanes <= 3 * most // 4:
        return max(1, lanes)
    return -(-lanes // -(-lanes // max(1, most // 2)))


def lanes_at_once(tl: Any) -> int:
    """Return the limit of lanes of a ring that run at a time."""
    return min(LIMIT, tl.slots - 1) if sends_on(tl) else WIDTH


def sends_on(tl: Any) -> bool:
    """Return whether messages are forwarded from their slots.

    Forwarding needs one slot more than lanes (`gathered`). With fewer lanes than `WIDTH`, it is slower than copies.
    """
    return bool(tl.slots > WIDTH)


def _slices(memory: Memory, rings: Sequence[Ring], whole: Range) -> Iterator[Slice]:
    """Return the slices of a range, with one piece of every chunk each."""
    if not rings:
        yield from (_moved(memory, one) for one in cut(whole, memory.pieces(whole[1])))
        return
    chunks = chunks_of(whole, rings[0].size)
    most = chunks[0][1]
    count = memory.pieces(most, rings[0].far) if len(rings) == 1 else segments(most, memory.itemsize, memory.tl.slot_bytes)
    for ranges in shares_of(chunks, count):
        yield _lane(memory, rings[0], ranges, count) if len(rings) == 1 else _nested(memory, rings, ranges)


def _moved(memory: Memory, whole: Range) -> Slice:
    """Copy the elements of a single rank, whose sums are its own elements."""
    if whole[1]:
        tile = memory.load(*whole)
        yield True
        yield tile
        memory.put(whole[0], tile)


def _lane(memory: Memory, ring: Ring, ranges: Sequence[Range], lanes: int) -> Slice:
    """Send one piece of every chunk around one ring twice: first to add, then to distribute the sums."""
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
    """Copy a message to a separate tile with a vector engine. The slot of the message is free after the copy."""
    return tl.cast(message, message.dtype, out=tl.alloc(message.shape, message.dtype))


def _nested(memory: Memory, rings: Sequence[Ring], ranges: tuple[Range, ...]) -> Slice:
    """Send chunks around the first ring, the sums of this rank over the other rings, and all sums around the first ring again.
    """
    tl = memory.tl
    end = End(tl, rings[0], memory.dtype)
    first, count = ranges[end.at]
    whole = memory.load(first, count) if count else None
    most = max(size for _, size in ranges)
    parts = memory.pieces(most, rings[0].far)
    shared = shares_of(ranges, parts)
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
    """Run a reduce-scatter of one piece of every chunk. The sums end in the corresponding part of the tile `whole`."""
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
    """Run an all-reduce of a part of a tile in place, over several rings in sequence.

    `most` is the number of elements of the largest part.
    """
    if not rings:
        return
    tl = memory.tl
    end = End(tl, rings[0], memory.dtype)
    chunks = chunks_of(whole, end.size)
    most = -(-most // end.size)
    parts = memory.pieces(most, rings[0].far)
    shares = shares_of(chunks, parts)
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


def pieces_of(memory: Memory, count: int, far: bool = False, adds: bool = False) -> list[Range]:
    """Return the ranges of a block of this many elements, one range for each message."""
    return [one for one in cut((0, count), memory.pieces(count, far, adds)) if one[1]]


def pass_pieces(
    memory: Memory, ring: Ring, count: int, lane: Callable[[Range], Slice], adds: bool = False, at_once: int | None = None
) -> None:
    """Run a lane for each piece of a block.

    `adds` says whether pieces are added to others in flight. `at_once` is the number of lanes that run at a time.
    """
    lanes = (lane(piece) for piece in pieces_of(memory, count, ring.far, adds))
    run(memory.tl, in_turn(lanes, lanes_at_once(memory.tl) if at_once is None else at_once))
