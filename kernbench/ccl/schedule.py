"""Algorithms as schedules: which rank sends which positions of its buffer to which rank in each step.

A buffer has numbered positions. In a step, a rank first sends and requests messages. It then copies the received elements to
positions, or adds them to positions. A schedule is data, and the same data has four uses: the kernel (`run_schedule`), the
reference that adds in the same order (`replayed`), the table of neighbours (`Schedule.table`), and the cost model of the tuner.

The buffer of a *vector* has the elements of a rank, divided among the positions. In a buffer of *blocks*, each position has the
elements that one rank has for another rank. Long buffers are cut into lanes, which follow each other step by step (`pipeline`).
All ranks have the same steps and lanes, so the messages of a queue are sent and received in the same order.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kernbench.ccl.contract import LONG_SLOT, WIDTH, QueueKey, Range, Table, cut, most_queues, pieces
from kernbench.ccl.pipeline import Slice, in_turn, run
from kernbench.ccl.reduction import combine_of, plus
from kernbench.ccl.ring_schedule import Memory
from kernbench.common.dtypes import Array
from kernbench.components.builtin.switch_queue import MULTICAST, REDUCE, SwitchQueueForm

DIRECTIONS = ("E", "W", "S", "N")
MAX_LANE_BYTES = 1 << 17  #: most bytes of a lane's buffer; a rank has up to three copies of it in its scratchpad
MAX_BYTES = 3 << 18  #: most bytes of the buffers of all lanes that run at a time
#: Lanes in different steps take at most 1 / SPARE of what the slots leave of a scratchpad.
SPARE = 2


class LaneBytes(NamedTuple):
    """The most bytes of the buffers of lanes."""

    each: int = MAX_LANE_BYTES
    together: int = MAX_BYTES  #: of all lanes that run at a time, in different steps
    begun: int = MAX_BYTES  #: of lanes that begin together


USUAL = LaneBytes()


class LaneSpace(msgspec.Struct, frozen=True):
    """What a rank of a schedule needs in its scratchpad."""

    vector: bool
    far: bool  #: messages cross SIPs
    queues: int  #: of the rank that has the most
    held: float  #: buffers of a lane that a rank holds at most
    longest: float  #: buffers of a lane divided by its longest message

    def lane_bytes(self, slots: int, slot_bytes: int, scratchpad: int) -> LaneBytes:
        """Return the limits for lanes on ranks whose scratchpads have this size [B].

        Long slots belong to links with many bytes in flight. The lanes on such links together take as much of the scratchpad as
        the slots do, or as much as the slots leave. A lane of blocks takes at most half of that, so that the messages of one
        lane arrive while another lane loads and stores.

        The elements of a position of a vector depend on the number of lanes, and so does the order of sums. The lanes of a
        vector therefore depend only on the size of a slot: a longest message fits into a slot.
        """
        taken = self.queues * slots * slot_bytes
        if not self.far or slot_bytes <= LONG_SLOT:
            room = int((scratchpad - taken) / self.held)
            return LaneBytes(together=min(MAX_BYTES, room // SPARE), begun=min(MAX_BYTES, room))
        together = int(min(taken, scratchpad - taken) / self.held)
        each = int(slot_bytes * min(self.longest, self.queues)) if self.vector else together // 2
        together = max(MAX_BYTES, together)
        return LaneBytes(max(MAX_LANE_BYTES, each), together, together)


class Message(msgspec.Struct, frozen=True):
    """The elements of positions, one position after another. The receiver copies them to positions, or adds them."""

    source: int
    target: int
    sent: tuple[int, ...]
    stored: tuple[int, ...]
    adds: bool = False

    @property
    def queue(self) -> Hashable:
        """What tells the queue of the message from others."""
        return self.source, self.target

    def reversed(self) -> Message:
        """Return the same positions in the opposite direction."""
        return Message(self.target, self.source, self.stored, self.sent)


class SwitchMessage(msgspec.Struct, frozen=True):
    """A message through switches.

    Either the root receives the positions of all members, combined in their order, or all other members receive the positions
    of the root.
    """

    root: int
    members: tuple[int, ...]  #: of different SIPs
    sent: tuple[int, ...]
    stored: tuple[int, ...]
    combines: bool
    adds: bool = False  #: never: received elements are copied

    @property
    def sources(self) -> tuple[int, ...]:
        return self.members if self.combines else (self.root,)

    @property
    def targets(self) -> tuple[int, ...]:
        return (self.root,) if self.combines else tuple(one for one in self.members if one != self.root)

    @property
    def direction(self) -> str:
        """The direction of the queue of the message."""
        return REDUCE if self.combines else MULTICAST

    @property
    def queue(self) -> Hashable:
        """What tells the queue of the message from others."""
        return self.root, self.members, self.direction


Step = Sequence[Message | SwitchMessage]
Blocks = Mapping[int, int]  #: by position: the block of memory that it is loaded from or stored to


class Schedule(msgspec.Struct, frozen=True, eq=False, dict=True):
    """An algorithm for a number of ranks."""

    ranks: int
    positions: int
    steps: Sequence[Step]
    loads: Sequence[Blocks]  #: by rank
    stores: Sequence[Blocks]
    vector: bool = False  #: a buffer of the elements of a rank; else one of blocks
    far: bool = False  #: messages cross SIPs

    @cached_property
    def widest(self) -> int:
        """The number of positions in the longest message."""
        return max((len(one.sent) for step in self.steps for one in step), default=1)

    @cached_property
    def adds(self) -> bool:
        """Whether received elements are added."""
        return any(one.adds or (isinstance(one, SwitchMessage) and one.combines) for step in self.steps for one in step)

    @property
    def direct_steps(self) -> Iterator[list[Message]]:
        """The messages from rank to rank in each step."""
        return ([one for one in step if isinstance(one, Message)] for step in self.steps)

    @cached_property
    def through_switches(self) -> Sequence[SwitchQueueForm]:
        """The queues through switches: one for each combination of root, group of members and direction."""
        found: dict[tuple[Any, ...], SwitchQueueForm] = {}
        taken: set[tuple[int, str, int]] = set()  # rank, direction, plane
        for one in (one for step in self.steps for one in step if isinstance(one, SwitchMessage)):
            key = one.root, one.members, one.direction
            if key not in found:
                plane = next(k for k in itertools.count() if not {(rank, one.direction, k) for rank in one.members} & taken)
                taken |= {(rank, one.direction, plane) for rank in one.members}
                found[key] = SwitchQueueForm(plane, one.direction, one.root, one.members)
        return tuple(found.values())

    @cached_property
    def table(self) -> Table:
        """The neighbours: a plane and a direction for each pair of ranks that exchanges messages."""
        pairs = {(min(one.source, one.target), max(one.source, one.target)) for step in self.direct_steps for one in step}
        table: dict[int, dict[QueueKey, tuple[int, str]]] = {}
        planes = [0] * self.ranks  # all planes before this one are full
        for here, there in sorted(pairs):
            mine, other = table.setdefault(here, {}), table.setdefault(there, {})
            plane = max(planes[here], planes[there])
            while (a := _free(mine, plane)) is None or (b := _free(other, plane)) is None:
                plane += 1
            mine[plane, a], other[plane, b] = (there, b), (here, a)
            for rank, keys in ((here, mine), (there, other)):
                while _free(keys, planes[rank]) is None:
                    planes[rank] += 1
        return table

    @cached_property
    def space(self) -> LaneSpace:
        """What a rank needs in its scratchpad."""
        held = max((one.held for one in self.programs), default=0)
        queues = most_queues(self.table, self.through_switches)
        return LaneSpace(self.vector, self.far, queues, max(1, held) / self.positions, self.positions / self.widest)

    @cached_property
    def reused(self) -> int:
        """The messages that a lane sends over the busiest queue."""
        found = Counter(one.queue for step in self.steps for one in step)
        return max(found.values(), default=1)

    def pace(self, slots: int) -> tuple[int, int]:
        """Return how many lanes begin in each step, and how many run at a time, if queues have this many slots.

        In each step, the lanes that run send at most as many messages over a queue as it has slots. If a queue has too few
        slots for lanes in different steps, as many lanes as it has slots run in lockstep, and begin together.
        """
        together, each = max(1, min(WIDTH, slots)), min(WIDTH, slots // self.reused)
        return (each, running) if (running := each * len(self.steps)) > together else (together, together)

    @cached_property
    def programs(self) -> Sequence[Program]:
        """The steps of each rank, by rank."""
        keys = {(rank, to): key for rank, row in self.table.items() for key, (to, _) in row.items()}
        sends: list[list[list[Send]]] = [[[] for _ in self.steps] for _ in range(self.ranks)]
        receives: list[list[list[Receive]]] = [[[] for _ in self.steps] for _ in range(self.ranks)]
        switched = {(one.root, one.members, one.direction): (one.plane, one.direction) for one in self.through_switches}
        for number, step in enumerate(self.steps):
            for one in step:
                if isinstance(one, SwitchMessage):
                    key = switched[one.root, one.members, one.direction]
                    for rank in one.sources:
                        sends[rank][number].append((key, one.sent))
                    for rank in one.targets:
                        receives[rank][number].append((key, one.stored, False))
                    continue
                sends[one.source][number].append((keys[one.source, one.target], one.sent))
                receives[one.target][number].append((keys[one.target, one.source], one.stored, one.adds))
        return [
            Program(list(zip(sends[rank], receives[rank], strict=True)), self.loads[rank], self.stores[rank])
            for rank in range(self.ranks)
        ]

    def messages(self, count: int, itemsize: int, slot_bytes: int, most: LaneBytes) -> int:
        """Return the number of messages of all ranks."""
        longest, found = max(1, slot_bytes // itemsize), 0
        shapes = [one.sent for step in self.steps for one in step]
        parts = [part for part in cut((0, count), self.lanes(count, itemsize, slot_bytes, most)) if part[1]]
        for size, many in Counter(size for _, size in parts).items():
            lane = Lane(self, (0, size), count)
            found += many * sum(1 for positions in shapes for _ in lane.split(positions, longest))
        return found

    def lane_bytes(self, slots: int, slot_bytes: int, scratchpad: int) -> LaneBytes:
        """Return the limits for lanes on ranks whose scratchpads have this size [B]."""
        return self.space.lane_bytes(slots, slot_bytes, scratchpad)

    def lanes(self, count: int, itemsize: int, slot_bytes: int, most: LaneBytes = USUAL) -> int:
        """Return the number of lanes into which `n_elem` elements are cut."""
        message = -(-count * self.widest // self.positions) if self.vector else count * self.widest
        found = pieces(message, itemsize, slot_bytes, self.far, self.adds)
        whole = count if self.vector else count * self.positions
        return max(1, min(max(found, -(-whole * itemsize // most.each)), count))


def _free(keys: Mapping[QueueKey, Any], plane: int) -> str | None:
    """Return a direction of a plane that a rank does not use."""
    return next((one for one in DIRECTIONS if (plane, one) not in keys), None)


Send = tuple[QueueKey, tuple[int, ...]]
Receive = tuple[QueueKey, tuple[int, ...], bool]


class Program:
    """The steps of one rank, and what the rank does with each message."""

    def __init__(self, steps: Sequence[tuple[Sequence[Send], Sequence[Receive]]], loads: Blocks, stores: Blocks) -> None:
        self.loads, self.stores = loads, stores
        last_sent: dict[int, int] = {}
        last_made: dict[int, int] = {}
        for number, (sends, receives) in enumerate(steps):
            last_sent |= {at: number for _, positions in sends for at in positions}
            last_made |= {at: number for _, positions, _ in receives for at in positions}
        #: Positions that are written once more than they are loaded, and sent after that: they share one buffer, so that
        #: messages of several positions need no copy.
        home = any(
            not adds and last_sent.get(at, -1) > number
            for number, (_, receives) in enumerate(steps)
            for _, positions, adds in receives
            for at in positions
        )
        self.home = sorted({*last_made, *loads} & {*last_sent, *stores}) if home else []
        wide = {at for sends, _ in steps for _, positions in sends if len(positions) > 1 for at in positions}
        #: Loaded positions that are never written and sent together with others.
        self.moved = [at for at in loads if home and at not in last_made and at in wide]
        self.steps = [
            (
                sends,
                [
                    (
                        key,
                        positions,
                        adds,
                        all(last_made[at] == number for at in positions),
                        not adds and all(last_made[at] == number and last_sent.get(at, -1) <= number for at in positions),
                    )
                    for key, positions, adds in receives
                ],
            )
            for number, (sends, receives) in enumerate(steps)
        ]

    @property
    def held(self) -> int:
        """The positions that the rank holds in its scratchpad at most: loaded positions, received positions that are not stored
        from their slots, and copies for messages of several positions.
        """
        received = sum(len(positions) for _, receives in self.steps for _, positions, *_, final in receives if not final)
        copied = sum(len(positions) for sends, _ in self.steps for _, positions in sends if len(positions) > 1)
        return len(self.loads) + len(self.home) + received + copied


class Lane(msgspec.Struct, frozen=True, dict=True):
    """The part of the buffer in one lane: the size of each position, and where the part of a block begins in memory."""

    schedule: Schedule
    whole: Range
    count: int  #: `n_elem`

    @cached_property
    def ranges(self) -> Sequence[Range]:
        """The elements of each position of a vector."""
        return cut(self.whole, self.schedule.positions)

    def size(self, position: int) -> int:
        """Return the number of elements of a position."""
        return self.ranges[position][1] if self.schedule.vector else self.whole[1]

    def first(self, block: int) -> int:
        """Return the element in memory at which the lane's part of a block begins."""
        return self.ranges[block][0] if self.schedule.vector else block * self.count + self.whole[0]

    def split(self, positions: tuple[int, ...], most: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Return the positions of each message that fits into a slot, with their elements. Empty positions are left out."""
        found: list[int] = []
        total = 0
        for at in positions:
            size = self.size(at)
            if found and total + size > most:
                yield tuple(found), total
                found, total = [], 0
            if size:
                found.append(at)
                total += size
        if found:
            yield tuple(found), total


def run_schedule(memory: Memory, schedule: Schedule, count: int) -> None:
    """Run the kernel of a rank."""
    tl, itemsize = memory.tl, memory.itemsize
    most = schedule.lane_bytes(tl.slots, tl.slot_bytes, tl.limits().scratchpad_bytes)
    number = schedule.lanes(count, itemsize, tl.slot_bytes, most)
    lane_bytes = -(-(count if schedule.vector else count * schedule.positions) * itemsize // number)
    each, running = schedule.pace(tl.slots)
    begun, together = (room // max(1, lane_bytes) for room in (most.begun, most.together))
    running = max(1, min(each, begun), min(running, together))
    program = schedule.programs[tl.rank]
    lanes = (_Buffer(memory, program, Lane(schedule, part, count)).slices() for part in cut((0, count), number) if part[1])
    run(tl, in_turn(lanes, running, each=each))


def run_signals(tl: Any, schedule: Schedule) -> None:
    """Run the kernel of a rank of a barrier. Each message is one element, whose value has no meaning."""
    for sends, receives in schedule.programs[tl.rank].steps:
        for (plane, direction), _ in sends:
            tl.send(direction, tl.zeros((1,), "i32"), plane=plane)
        for (plane, direction), *_ in receives:
            tl.wait(tl.recv_async(direction, (1,), "i32", plane=plane))


class _Buffer:
    """The buffer of one lane: for each position, the tile and the first element in the tile.

    A tile is never written after it was sent, so the next step need not wait for the end of a send.
    """

    def __init__(self, memory: Memory, program: Program, lane: Lane) -> None:
        self.memory, self.tl, self.program, self.lane = memory, memory.tl, program, lane
        self.most = max(1, memory.tl.slot_bytes // memory.itemsize)
        self.at: dict[int, tuple[Any, int]] = {}
        self.stored: set[int] = set()
        self.home: dict[int, int] = {}  # by position: its first element in the tile of the home positions
        self.home_size = 0
        for one in program.home:
            self.home[one] = self.home_size
            self.home_size += lane.size(one)
        self._tile: Any = None
        self.in_parts: dict[int, Any] = {}  # tiles that are written part by part

    def _new(self, count: int) -> Any:
        """Return a tile that is written part by part."""
        made = self.tl.alloc((count,), self.memory.dtype)
        self.in_parts[id(made)] = made
        return made

    def slices(self) -> Slice:
        """Yield the steps of the rank. Each step has a half that sends and requests, and a half that uses the received
        messages.
        """
        yield from self._load()
        tl, lane, most = self.tl, self.lane, self.most
        for sends, receives in self.program.steps:
            for (plane, direction), positions in sends:
                for some, _ in lane.split(positions, most):
                    tile = yield from self._message(some)
                    yield tile
                    tl.send(direction, tile, plane=plane)
            coming = []
            for (plane, direction), positions, adds, last, final in receives:
                for some, total in lane.split(positions, most):
                    message = tl.recv_async(direction, (total,), self.memory.dtype, plane=plane)
                    coming.append((message, some, total, adds, last, final))
            yield True
            coming.reverse()
            message = None
            while coming:
                message, some, total, adds, last, final = coming.pop()
                yield message
                yield from self._arrived(message, some, total, adds, last, final)
                message = None  # its slot is free as soon as it has been used
            yield True
        yield from self._store()

    def _load(self) -> Slice:
        """Load neighbouring positions together if they are also neighbours in memory."""
        memory, lane = self.memory, self.lane
        groups: list[tuple[int, list[tuple[int, int]]]] = []  # first element in memory; positions and their sizes
        end = -1
        for position, block in sorted(self.program.loads.items()):
            first, size = lane.first(block), lane.size(position)
            if size:
                if first != end:
                    groups.append((first, []))
                groups[-1][1].append((position, size))
                end = first + size
        for first, members in groups:
            tile = memory.load(first, sum(size for _, size in members))
            at = 0
            for position, size in members:
                self.at[position] = tile, at
                at += size
        for position in self.program.moved:
            if lane.size(position):
                yield self.at[position][0]
                self._into_home(self._part(*self.at[position], lane.size(position)), (position,))

    def _part(self, tile: Any, first: int, count: int) -> Any:
        """Return elements of a tile. A tile that was written part by part is read in the same parts."""
        return tile if tile.shape == (count,) and id(tile) not in self.in_parts else self.tl.part(tile, first, count)

    def _runs(self, positions: Sequence[int]) -> list[tuple[Any, int, int]]:
        """Return the tile, the first element and the number of elements of positions that are side by side."""
        found: list[tuple[Any, int, int]] = []
        for one in positions:
            tile, first = self.at[one]
            size = self.lane.size(one)
            if found and found[-1][0] is tile and found[-1][1] + found[-1][2] == first:
                found[-1] = tile, found[-1][1], found[-1][2] + size
            else:
                found.append((tile, first, size))
        return found

    def _message(self, positions: tuple[int, ...]) -> Generator[Any, None, Any]:
        """Return the tile of a message: a part of one tile, or a copy of several parts."""
        tl, runs = self.tl, self._runs(positions)
        for tile in {id(tile): tile for tile, _, _ in runs}.values():
            yield tile
        if len(runs) == 1:
            return self._part(*runs[0])
        total = sum(count for _, _, count in runs)
        made = tl.alloc((total,), self.memory.dtype)
        to, last = 0, None
        for tile, first, count in runs:
            last = tl.cast(self._part(tile, first, count), self.memory.dtype, out=tl.part(made, to, count))
            to += count
        yield last
        return tl.part(made, 0, total)

    def _into_home(self, tile: Any, positions: tuple[int, ...]) -> Any:
        """Copy a tile to the positions in the home buffer, which may be apart."""
        tl, at, last = self.tl, 0, None
        for first, count in self._home_runs(positions):
            last = tl.cast(self._part(tile, at, count), self.memory.dtype, out=tl.part(self._tile, first, count))
            at += count
        return last

    def _home_runs(self, positions: tuple[int, ...]) -> list[Range]:
        if self._tile is None:
            self._tile = self._new(self.home_size)
        found: list[Range] = []
        for one in positions:
            first, size = self.home[one], self.lane.size(one)
            self.at[one] = self._tile, first
            if found and found[-1][0] + found[-1][1] == first:
                found[-1] = found[-1][0], found[-1][1] + size
            else:
                found.append((first, size))
        return found

    def _arrived(self, message: Any, positions: tuple[int, ...], total: int, adds: bool, last: bool, final: bool) -> Slice:
        """Use a message: store it, copy it or add it."""
        tl = self.tl
        if final:  # from its slot to memory
            at = 0
            for first, count in self._memory_runs(positions):
                self.memory.put(first, self._part(message, at, count))
                at += count
            return
        home = last and all(one in self.home for one in positions)
        made: Any = None
        if not adds:
            if home:
                made = self._into_home(message, positions)
            else:
                made = tl.cast(message, self.memory.dtype, out=tl.alloc((total,), self.memory.dtype))
                self._placed(positions, made)
            yield made
            return
        runs = self._runs(positions)
        for tile in {id(tile): tile for tile, _, _ in runs}.values():
            yield tile
        whole = None if home else self._new(total) if len(runs) > 1 else tl.alloc((total,), self.memory.dtype)
        at = 0
        targets: list[Any] = []
        if home:
            for first, count in self._home_runs(positions):
                targets.append((at, count, tl.part(self._tile, first, count)))
                at += count
        else:
            targets.append((0, total, whole))
            self._placed(positions, whole)
        for at, count, first, tile, target in _aligned(targets, runs):
            out = target[1] if target[0] == 0 and target[1].shape == (count,) else tl.part(target[1], target[0], count)
            made = combine_of(tl)(self._part(tile, first, count), self._part(message, at, count), out=out)
        yield made

    def _placed(self, positions: tuple[int, ...], tile: Any) -> None:
        at = 0
        for one in positions:
            self.at[one] = tile, at
            at += self.lane.size(one)

    def _memory_runs(self, positions: tuple[int, ...]) -> list[Range]:
        """Return where positions are stored: the first element and the number of elements of each run."""
        found: list[Range] = []
        for one in positions:
            self.stored.add(one)
            first, size = self.lane.first(self.program.stores[one]), self.lane.size(one)
            if found and found[-1][0] + found[-1][1] == first:
                found[-1] = found[-1][0], found[-1][1] + size
            else:
                found.append((first, size))
        return found

    def _store(self) -> Slice:
        """Store the positions that were not stored on arrival."""
        groups: list[tuple[Any, int, int, int]] = []  # tile, first element in it, first in memory, elements
        for one, block in sorted(self.program.stores.items()):
            size = self.lane.size(one)
            if one in self.stored or not size:
                continue
            tile, first = self.at[one]
            to = self.lane.first(block)
            if (
                groups
                and groups[-1][0] is tile
                and groups[-1][1] + groups[-1][3] == first
                and groups[-1][2] + groups[-1][3] == to
            ):
                groups[-1] = (*groups[-1][:3], groups[-1][3] + size)
            else:
                groups.append((tile, first, to, size))
        for tile, first, to, size in groups:
            yield tile
            self.memory.put(to, self._part(tile, first, size))


def _aligned(targets: Sequence[tuple[int, int, Any]], runs: Sequence[tuple[Any, int, int]]) -> Iterator[Any]:
    """Return pieces that are contiguous in the message, in the tiles of the rank and in the target.

    A piece has its first element and its number of elements in the message, its first element in the tile, the tile, the
    target, and the first element in the target.
    """
    at = 0
    left = [(tile, first, count) for tile, first, count in runs]
    for start, size, target in targets:
        done = 0
        while done < size:
            tile, first, count = left[0]
            step = min(count, size - done)
            yield start + done, step, first, tile, (done, target)
            left[0] = tile, first + step, count - step
            if not left[0][2]:
                left.pop(0)
            done += step
            at += step


def _values(one: Message | SwitchMessage, state: Sequence[Mapping[int, Array]]) -> list[Array]:
    """Return the values of a message."""
    if isinstance(one, Message):
        return [state[one.source][at] for at in one.sent]
    return [reduce(plus, [state[rank][at] for rank in one.sources]) for at in one.sent]


def replayed(schedule: Schedule, inputs: Sequence[Array], slot_bytes: int) -> list[Array]:
    """Return the reference: the same steps on arrays, lane by lane. Positions that a rank does not store are not in its result.
    """
    ranks = schedule.ranks
    loaded = len(schedule.loads[0]) if not schedule.vector else 1
    count = inputs[0].size // max(1, loaded)
    # Neither the slots nor the scratchpad of a rank change the sums.
    number = schedule.lanes(count, inputs[0].dtype.itemsize, slot_bytes, schedule.lane_bytes(1, slot_bytes, 0))
    gets = [count if schedule.vector else count * len(schedule.stores[rank]) for rank in range(ranks)]
    found = [np.empty(size if schedule.stores[rank] else 0, inputs[0].dtype) for rank, size in enumerate(gets)]
    for part in cut((0, count), number):
        lane = Lane(schedule, part, count)
        state: list[dict[int, Array]] = [
            {at: inputs[rank][lane.first(block) :][: lane.size(at)] for at, block in schedule.loads[rank].items()}
            for rank in range(ranks)
        ]
        for step in schedule.steps:
            sent = [_values(one, state) for one in step]
            for one, values in zip(step, sent, strict=True):
                if isinstance(one, SwitchMessage):
                    for rank in one.targets:
                        state[rank] |= zip(one.stored, values, strict=True)
                    continue
                mine = state[one.target]
                for at, value in zip(one.stored, values, strict=True):
                    mine[at] = plus(mine[at], value) if one.adds else value
        for rank in range(ranks):
            for at, block in schedule.stores[rank].items():
                found[rank][lane.first(block) :][: lane.size(at)] = state[rank][at]
    return found
