"""A small machine for kernels of collectives: ranks are greenlets, memories numpy bytes, queues have so many slots.

Ranks run in a random order. What has not been waited for cannot be used; a slot is free when nobody has its tile any more and
those before it are free; a send waits for a slot without holding its rank up, until the rank has `DEPTH` such sends.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import greenlet

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.components.builtin.switch_queue import MULTICAST, SWITCH_DIRECTIONS, SwitchQueueForm

OUT = 1 << 40  #: address of a rank's results
DEPTH = 64


class Hang(Exception):
    """No rank can go on."""


class Tile:
    """Elements in a scratchpad: bytes of a buffer that parts share. `slot` keeps the slot that they lie in."""

    def __init__(self, data: Array, shape: tuple[int, ...], dtype: str, ready: bool, slot: Any = None) -> None:
        self.data, self.shape, self.dtype, self.ready, self.slot = data, shape, dtype, ready, slot


class Slot:
    """A slot of a ring of receives, given back with its last tile."""

    def __init__(self, queue: Queue, number: int) -> None:
        self.queue, self.number = queue, number

    def __del__(self) -> None:
        self.queue.given_back(self.number)


class Queue:
    """Messages from one rank to another."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: deque[Any] = deque()  #: sends without a slot
        self.there: deque[Tile] = deque()  #: messages that nobody has asked for
        self.sent = 0
        self.order: list[int] = []  #: numbers of messages whose slots are in use, oldest first
        self.free: set[int] = set()

    def send(self, tile: Any) -> int:
        """The number of the message."""
        self.waiting.append(tile)
        number = self.sent + len(self.waiting)
        self.move()
        return number

    def move(self) -> None:
        while self.waiting and len(self.order) < self.slots:
            tile = self.waiting.popleft()
            self.sent += 1
            slot = Slot(self, self.sent)
            self.order.append(self.sent)
            self.there.append(Tile(tile.data.copy(), tile.shape, tile.dtype, False, slot))

    def given_back(self, number: int) -> None:
        self.free.add(number)
        while self.order and self.order[0] in self.free:
            self.free.discard(self.order.pop(0))
        self.move()


class Tl:
    """What a kernel sees."""

    def __init__(self, machine: Machine, rank: int) -> None:
        self._machine, self.rank = machine, rank
        self.world_size, self.slots, self.slot_bytes = machine.ranks, machine.slots, machine.slot_bytes
        self.limits = lambda: SimpleNamespace(free_bytes=1 << 22, scratchpad_bytes=1 << 22)

    def neighbour(self, direction: str, plane: int = 0) -> int | None:
        return self._machine.table.get(self.rank, {}).get((plane, direction), (None, ""))[0]

    def load(self, addr: int, shape: tuple[int, ...], dtype: str, *, wait: bool = True) -> Tile:
        size = int(np.prod(shape)) * dtype_of(dtype).numpy.itemsize
        return Tile(self._machine.bytes_of(self.rank, addr, size).copy(), shape, dtype, wait)

    def store(self, addr: int, tile: Tile, *, wait: bool = False) -> None:
        assert tile.ready, "stored before it was waited for"
        self._machine.bytes_of(self.rank, addr, tile.data.size)[:] = tile.data

    def alloc(self, shape: tuple[int, ...], dtype: str) -> Tile:
        return Tile(np.empty(int(np.prod(shape)) * dtype_of(dtype).numpy.itemsize, np.uint8), shape, dtype, False)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Tile:
        return Tile(np.zeros(int(np.prod(shape)) * dtype_of(dtype).numpy.itemsize, np.uint8), shape, dtype, True)

    def part(self, tile: Tile, first: int, count: int) -> Tile:
        self.wait(tile)
        size = dtype_of(tile.dtype).numpy.itemsize
        assert 0 <= first <= first + count <= tile.data.size // size and count
        return Tile(tile.data[first * size : (first + count) * size], (count,), tile.dtype, True, tile.slot)

    def add(self, x: Tile, y: Tile, *, out: Tile) -> Tile:
        assert x.ready and y.ready and x.dtype == y.dtype and x.shape == y.shape == out.shape
        kind = dtype_of(x.dtype).numpy
        total = widen(x.data.view(kind)) + widen(y.data.view(kind))
        out.data[:] = narrow(total, x.dtype).view(np.uint8)
        out.ready = False
        return out

    def cast(self, x: Tile, dtype: str, *, out: Tile) -> Tile:
        assert x.ready and x.dtype == dtype and x.shape == out.shape
        out.data[:] = x.data
        out.ready = False
        return out

    def send(self, direction: str, tile: Tile, *, plane: int = 0) -> Sent:
        assert tile.ready, "sent before it was waited for"
        assert 0 < tile.data.size <= self.slot_bytes, "larger than a slot"
        machine = self._machine
        if direction in SWITCH_DIRECTIONS:
            return self._through_switch(direction, tile, plane)
        target, back = machine.table[self.rank][plane, direction]
        queue = machine.queue(target, plane, back)
        sent = Sent(queue, queue.send(tile))
        machine.sent += 1
        self._pause(lambda: sum(len(one.waiting) for one in machine.from_rank(self.rank)) < DEPTH)
        return sent

    def _through_switch(self, way: str, tile: Tile, plane: int) -> Sent:
        """The root's message to all other members, or a part of a sum, which is sent when all members have given theirs."""
        machine = self._machine
        form = machine.switched[self.rank, plane, way]
        machine.sent += 1
        if way == MULTICAST:
            assert self.rank == form.root
            return [Sent(one, one.send(tile)) for one in map(machine.queue, *zip(*machine.receivers(form), strict=True))][-1]
        queue, given = machine.queue(form.root, plane, way), machine.given.setdefault((form.root, plane), {})
        given.setdefault(self.rank, []).append(Tile(tile.data.copy(), tile.shape, tile.dtype, True))
        machine.count[self.rank, form.root, plane] += 1
        while len(given) == len(form.members) and all(given.values()):
            parts = [given[one].pop(0) for one in form.members]
            total = parts[0]
            for one in parts[1:]:
                total = self.add(total, one, out=Tile(np.empty_like(total.data), total.shape, total.dtype, True))
                total.ready = True
            queue.send(total)
        return Sent(queue, machine.count[self.rank, form.root, plane])

    def recv_async(self, direction: str, shape: tuple[int, ...], dtype: str, *, plane: int = 0) -> Tile:
        queue = self._machine.queue(self.rank, plane, direction)
        machine = self._machine
        asked = machine.asked[id(queue)] = machine.asked.get(id(queue), 0) + 1
        return Coming(queue, asked, shape, dtype)

    def wait(self, *tiles: Any) -> None:
        for tile in tiles:
            if isinstance(tile, Sent):
                self._pause(lambda sent=tile: sent.gone)
            if isinstance(tile, Coming) and tile.data is None:
                queue = tile.queue
                self._pause(lambda queue=queue: bool(queue.there))
                tile.take(self._machine)
            tile.ready = True
        self._pause(lambda: True)

    def wait_any(self, *tiles: Any) -> int:
        """A rank asks for messages of one queue in order: those that have come are the first."""

        def here(tile: Any) -> bool:
            if isinstance(tile, Sent):
                return tile.gone
            return not isinstance(tile, Coming) or tile.data is not None or bool(tile.queue.there)

        self._pause(lambda: any(map(here, tiles)))
        return next(number for number, tile in enumerate(tiles) if here(tile))

    def _pause(self, ready: Callable[[], bool]) -> None:
        machine = self._machine
        while not ready() or machine.random.random() < 0.1:
            machine.blocked[self.rank] = ready
            machine.hub.switch()


class Sent:
    """A message that was sent; it is gone when it has a slot."""

    ready = False

    def __init__(self, queue: Queue, number: int) -> None:
        self.queue, self.number = queue, number

    @property
    def gone(self) -> bool:
        return self.queue.sent >= self.number


class Coming(Tile):
    """A message that was asked for."""

    def __init__(self, queue: Queue, number: int, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(None, shape, dtype, False)  # type: ignore[arg-type]
        self.queue, self.number = queue, number

    def take(self, machine: Machine) -> None:
        machine.taken[id(self.queue)] = machine.taken.get(id(self.queue), 0) + 1
        assert machine.taken[id(self.queue)] == self.number, "messages are used in the order in which they were asked for"
        found = self.queue.there.popleft()
        assert (found.shape, found.dtype) == (self.shape, self.dtype), (found.shape, self.shape)
        self.data, self.slot = found.data, found.slot


class Machine:
    """Ranks with a kernel each."""

    def __init__(
        self, table: Any, ranks: int, inputs: Sequence[Array], outputs: Sequence[int], slots: int, slot_bytes: int,
        through_switches: Sequence[SwitchQueueForm] = (),
    ) -> None:  # fmt: skip
        self.table, self.ranks, self.slots, self.slot_bytes = table, ranks, slots, slot_bytes
        self.memories = [(one.reshape(-1).view(np.uint8).copy(), np.full(size, 0xA5, np.uint8)) for one, size in
                         zip(inputs, outputs, strict=True)]
        self.queues: dict[tuple[int, int, str], Queue] = {}
        self.leaving: dict[int, list[Queue]] = {}  #: by rank: the queues that it sends to
        self.asked: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.sent = 0
        self.blocked: dict[int, Callable[[], bool]] = {}
        self.switched = {(rank, one.plane, one.direction): one for one in through_switches for rank in one.members}
        self.given: dict[tuple[int, int], dict[int, list[Tile]]] = {}  #: parts of sums, by root and plane
        self.count: Counter[tuple[int, int, int]] = Counter()  #: of them, by member, root and plane

    def receivers(self, form: SwitchQueueForm) -> list[tuple[int, int, str]]:
        return [(one, form.plane, form.direction) for one in form.members if one != form.root]

    def queue(self, rank: int, plane: int, direction: str) -> Queue:
        """The one that a rank receives from."""
        key = rank, plane, direction
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = Queue(self.slots)
        return found

    def from_rank(self, rank: int) -> list[Queue]:
        found = self.leaving.get(rank)
        if found is None:
            ways = self.table.get(rank, {}).items()
            found = self.leaving[rank] = [self.queue(to, plane, back) for (plane, _), (to, back) in ways]
        return found

    def bytes_of(self, rank: int, addr: int, size: int) -> Array:
        which, at = (1, addr - OUT) if addr >= OUT else (0, addr)
        found = self.memories[rank][which]
        assert 0 <= at <= at + size <= found.size, (rank, addr, size, found.size)
        return found[at : at + size]

    def run(self, kernel: Callable[[Tl], None], seed: int = 0) -> None:
        """All to their ends; Hang where that cannot be, AssertionError where messages are left."""
        self.random = random.Random(seed)
        self.hub = greenlet.getcurrent()
        ranks = {rank: greenlet(kernel) for rank in range(self.ranks)}
        while ranks:
            able = [rank for rank in ranks if rank not in self.blocked or self.blocked[rank]()]
            if not able:
                raise Hang(f"ranks {sorted(ranks)}")
            for rank in self.random.sample(able, max(1, len(able) // 2)):
                self.blocked.pop(rank, None)
                ranks[rank].switch(Tl(self, rank))
                if ranks[rank].dead:
                    del ranks[rank]
        left = [key for key, one in self.queues.items() if one.waiting or one.there]
        assert not left, f"messages are left: {left}"
