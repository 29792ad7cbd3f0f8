"""Collects the calls of the workers of `dist` until they are launched: matches calls between ranks, and makes launches of them.

A rank has its calls in order. Collectives without `async_op` and kernels run in this order. A call with `async_op` runs at the
same time as the kernels that its rank launches before it waits; the PE gets one launch that runs both (`side_by_side`). Workers
take no simulated time, so a launch may be postponed until no worker can continue without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.ccl.call import Call, on_rank
from kernbench.ccl.communicators import Communicator, Communicators, view
from kernbench.ccl.contract import Range, cut
from kernbench.ccl.pipeline import Slice, run
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.schedule import Message, Schedule
from kernbench.runtime_api import Context
from kernbench.triton_emu.strands import side_by_side

Copy = tuple[int, int, int, str]  #: from, to, elements, type
LOCAL_BYTES = 1 << 15  #: bytes of a piece of a copy in one memory


@dataclass(eq=False)
class Operation:
    """One operation of all its ranks: a collective, or a pair of send and receive."""

    name: str
    ranks: tuple[int, ...]
    launches: bool = True  #: false for a call that only waits for others
    called: dict[int, Any] = field(default_factory=dict)  #: by rank: the arguments of its call
    asynchronous: bool = False
    call: Call | None = None
    communicator: Communicator | None = None
    pointers: Mapping[int, tuple[int, int, int | None]] = field(default_factory=dict)  #: by rank: in, out, scratch
    before: Mapping[int, Sequence[Copy]] = field(default_factory=dict)
    after: Mapping[int, Sequence[Copy]] = field(default_factory=dict)
    transfers: Sequence[Transfer] = ()
    launched: bool = False
    launch: Any = None

    @property
    def matched(self) -> bool:
        """Whether all ranks have made the call."""
        return len(self.called) == len(self.ranks)


@dataclass(frozen=True)
class Transfer:
    """Elements that one rank sends to another rank. A transfer from a rank to itself is a copy."""

    source: int
    target: int
    start: int  #: address at the source
    to: int  #: address at the target
    count: int
    dtype: str


Kernel = tuple[Callable[..., object], tuple[Any, ...]]


class Streams:
    """The calls of all ranks that are not launched yet, in order."""

    def __init__(self, ctx: Context, communicators: Communicators, pes: Sequence[str]) -> None:
        self._ctx, self._communicators, self._pes = ctx, communicators, pes
        self._queues: list[list[Operation | Kernel]] = [[] for _ in pes]
        self._matched: list[Operation] = []

    def add(self, operation: Operation, rank: int) -> None:
        """Record the call of a rank."""
        self._queues[rank].append(operation)

    def match(self, operation: Operation) -> None:
        """Record that all ranks have made the call."""
        self._matched.append(operation)

    def kernel(self, rank: int, kernel: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Record that a rank launches a kernel on its PE."""
        self._queues[rank].append((kernel, args))

    @property
    def pending(self) -> bool:
        """Whether there is anything to launch."""
        return bool(self._matched) or any(isinstance(one, tuple) for row in self._queues for one in row)

    def flush(self) -> None:
        """Launch all matched operations and all kernels."""
        while self._matched:
            first = self._matched[0]
            self._launch([], self._kernels_before(first))
            if first.asynchronous:
                self._launch_beside()
            else:
                self._matched.pop(0)
                self._launch([first], {})
        every = {rank: [one for one in row if isinstance(one, tuple)] for rank, row in enumerate(self._queues)}
        self._queues = [[one for one in row if not isinstance(one, tuple)] for row in self._queues]
        self._launch([], every)

    def _kernels_before(self, operation: Operation) -> Mapping[int, Sequence[Kernel]]:
        """Remove and return the kernels that the ranks of an operation launched before it."""
        found = {}
        for rank in operation.ranks:
            row = self._queues[rank]
            at = row.index(operation)
            found[rank] = [one for one in row[:at] if isinstance(one, tuple)]
            self._queues[rank] = [one for k, one in enumerate(row) if k >= at or not isinstance(one, tuple)]
        return found

    def _launch_beside(self) -> None:
        """Launch asynchronous operations together with the kernels that their ranks launched after them.

        The operations start at the first matched one. The kernels end at the next operation that is not asynchronous.
        """
        windows: dict[int, list[Operation | Kernel]] = {}
        for rank, row in enumerate(self._queues):
            end = next((k for k, one in enumerate(row) if isinstance(one, Operation) and not one.asynchronous), len(row))
            windows[rank] = row[:end]
        chosen = [one for one in self._matched if all(one in windows[rank] for rank in one.ranks) and one.asynchronous]
        chosen = self._with_room(chosen)
        ranks = sorted({rank for one in chosen for rank in one.ranks})
        kernels: dict[int, list[Kernel]] = {}
        for rank in ranks:
            mine = [k for k, one in enumerate(windows[rank]) if one in chosen]
            after = [one for one in windows[rank][mine[0] :] if isinstance(one, tuple)]
            kernels[rank] = after
            row = self._queues[rank]
            self._queues[rank] = [one for one in row if one not in chosen and not any(one is other for other in after)]
        self._matched = [one for one in self._matched if one not in chosen]
        self._launch(chosen, kernels)

    def _with_room(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return the first operations whose queues fit into a scratchpad together, at least one."""
        transfers = [one for operation in operations for one in operation.transfers if one.source != one.target]
        wanted = {self._exchange(transfers)} if transfers else set()
        found: list[Operation] = []
        for one in operations:
            wanted |= {one.communicator} if one.communicator is not None else set()
            if found and not self._communicators.fit(wanted):
                break
            found.append(one)
        return found

    def _launch(self, operations: Sequence[Operation], kernels: Mapping[int, Sequence[Kernel]]) -> None:
        """Make one launch: transfers together, then collectives one after another, and kernels at the same time."""
        transfers = [one for operation in operations for one in operation.transfers]
        collectives = [one for one in operations if one.call is not None]
        kernels = {rank: some for rank, some in kernels.items() if some}
        if not operations and not kernels:
            return
        wanted = [one.communicator for one in collectives if one.communicator is not None]
        exchange = self._exchange(transfers) if any(one.source != one.target for one in transfers) else None
        if exchange is not None:
            wanted.append(exchange)
        bases = self._communicators.install(wanted)
        ranks = sorted({rank for one in operations if one.launches for rank in one.ranks} | set(kernels))
        launch = None
        if ranks:
            work = _Work(bases, collectives, transfers, exchange, kernels, ranks)
            name = _launch_name(collectives, transfers, kernels)
            launch = self._ctx.launch(name, on_pe, work, pes=[self._pes[rank] for rank in ranks])
        for one in operations:
            one.launched, one.launch = True, launch
            for rank in one.ranks:
                self._queues[rank] = [other for other in self._queues[rank] if other is not one]

    def _exchange(self, transfers: Sequence[Transfer]) -> Communicator:
        """Return queues between all ranks that exchange elements."""
        pairs = {(one.source, one.target) for one in transfers if one.source != one.target}
        ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
        number = {rank: at for at, rank in enumerate(ranks)}
        messages = [Message(number[a], number[b], (0,), (0,)) for a, b in sorted(pairs)]
        table = Schedule(len(ranks), 1, [messages], [{}] * len(ranks), [{}] * len(ranks)).table
        most = max(len(queues) for queues in table.values())
        sizes = (4, 1 << 14) if most <= 16 else (2, 1 << 12)
        return self._communicators.find(ranks, f"exchange {sorted(pairs)}", table, *sizes)


def _launch_name(
    collectives: Sequence[Operation], transfers: Sequence[Transfer], kernels: Mapping[int, Sequence[Kernel]]
) -> str:
    """Return the name of the largest part of a launch."""
    if collectives and collectives[0].call is not None:
        return collectives[0].call.name
    if transfers:
        return "send_recv"
    first = next(iter(kernels.values()), [])
    return str(getattr(first[0][0], "__name__", "kernel")) if first else "exchange"


@dataclass(eq=False)
class _Work:
    """The work of a launch on each PE."""

    bases: Mapping[Communicator, int]  #: the first plane of each
    collectives: Sequence[Operation]
    transfers: Sequence[Transfer]
    exchange: Communicator | None
    kernels: Mapping[int, Sequence[Kernel]]
    ranks: Sequence[int]


def on_pe(work: _Work, tl: Any) -> None:
    """Run the kernel of a launch."""
    rank = tl.rank if tl.rank is not None else work.ranks[tl.program_id(0)]
    kernels = work.kernels.get(rank, ())
    beside: list[Callable[[], object]] = []
    if work.collectives or work.transfers:
        beside.append(lambda: _communicate(work, rank, tl))
    if kernels:
        beside.append(lambda: [kernel(*args, tl) for kernel, args in kernels] and None)
    side_by_side(tl, beside)


def _communicate(work: _Work, rank: int, tl: Any) -> None:
    for one in work.collectives:
        _copy(tl, one.before.get(rank, ()))
    if work.transfers:
        _copy(tl, [(one.start, one.to, one.count, one.dtype) for one in work.transfers if one.source == one.target == rank])
    if work.exchange is not None and rank in work.exchange.ranks:
        _exchanged(work.exchange, work.transfers, rank, view(tl, work.exchange, work.bases[work.exchange]))
    for one in work.collectives:
        if rank in one.ranks and one.call is not None and one.communicator is not None:
            inputs, out, scratch = one.pointers[rank]
            inside = view(tl, one.communicator, work.bases[one.communicator], one.call.reduction)
            on_rank(one.call, inputs, out, inside, scratch)
            _copy(tl, one.after.get(rank, ()))


def _pieces(memory: Memory, count: int) -> list[Range]:
    return [one for one in cut((0, count), memory.pieces(count, adds=False)) if one[1]]


def _exchanged(group: Communicator, transfers: Sequence[Transfer], rank: int, tl: Any) -> None:
    """Send and receive all transfers of a rank. Each queue has its transfers in order, and continues independently."""
    number = {one: at for at, one in enumerate(group.ranks)}
    queues = {to: key for key, (to, _) in group.table[number[rank]].items()}
    sends: dict[int, list[Transfer]] = {}
    receives: dict[int, list[Transfer]] = {}
    for one in transfers:
        if one.source != one.target:
            if one.source == rank:
                sends.setdefault(one.target, []).append(one)
            elif one.target == rank:
                receives.setdefault(one.source, []).append(one)

    def sent(peer: int, some: Sequence[Transfer]) -> Slice:
        plane, direction = queues[number[peer]]
        last: list[Any] = []
        for one in some:
            memory = Memory(tl, one.start, 0, one.dtype)
            for first, count in _pieces(memory, one.count):
                tile = memory.load(first, count)
                yield tile
                if len(last) > 1:
                    yield last.pop(0)
                last.append(tl.send(direction, tile, plane=plane))
        yield from last

    def received(peer: int, some: Sequence[Transfer]) -> Slice:
        plane, direction = queues[number[peer]]
        for one in some:
            memory = Memory(tl, 0, one.to, one.dtype)
            for first, count in _pieces(memory, one.count):
                message = tl.recv_async(direction, (count,), one.dtype, plane=plane)
                yield message
                memory.put(first, message)
                message = None

    run(tl, *(sent(peer, some) for peer, some in sends.items()), *(received(peer, some) for peer, some in receives.items()))


def _copy(tl: Any, copies: Sequence[Copy]) -> None:
    """Copy elements within the memory of a rank."""
    stores = []
    for start, to, count, dtype in copies:
        memory = Memory(tl, start, to, dtype)
        for first, size in cut((0, count), -(-count * memory.itemsize // LOCAL_BYTES)):
            tile = memory.load(first, size)
            tl.wait(tile)
            stores.append(tl.store(to + first * memory.itemsize, tile))
    if stores:
        tl.wait(*stores)
