"""Collectives as users of frameworks write them: the interface of `torch.distributed`, run on the machine of a bench.

Workers are the host's code: they take no time. What ranks call together is launched when all of them have called it.

    def worker(rank):
        dist.init_process_group(backend="kernbench")
        x = dist.from_numpy(np.full(1024, rank, np.float16))
        dist.all_reduce(x)

    @bench(name="mine", description="...", machine="single_cube")
    def run(ctx):
        dist.spawn(ctx, worker, ranks=8)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import index
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from kernbench.ccl.call import Call
from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.communicators import Communicators
from kernbench.ccl.contract import Algorithm
from kernbench.ccl.group import Group, group_of, shape_for, smallest_machine
from kernbench.ccl.measure import queues_of
from kernbench.ccl.process_groups import DeviceMesh, ProcessGroup, lines, on_machine, rooted
from kernbench.ccl.reduction import SUM, Reduction
from kernbench.ccl.registry import Entry, read_registry
from kernbench.ccl.streams import Copy, Operation, Streams, Transfer
from kernbench.ccl.tuner import tuner_of
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.tensors import DeviceTensor
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.user_code import failure_of, strayed

BACKENDS = ("kernbench", "gloo", "nccl", "mpi")  #: names that init_process_group takes; all mean the machine


class ReduceOp:
    """The reductions, by the names of `torch.distributed.ReduceOp`."""

    SUM: ClassVar[Reduction] = SUM
    AVG: ClassVar[Reduction] = Reduction("avg")
    MAX: ClassVar[Reduction] = Reduction("max")
    MIN: ClassVar[Reduction] = Reduction("min")
    PRODUCT: ClassVar[Reduction] = Reduction("prod")

    @staticmethod
    def PREMUL_SUM(factor: float) -> Reduction:
        """Multiply the elements of each rank by a factor, and add them."""
        return Reduction("premul_sum", float(factor))


@dataclass(frozen=True, eq=False)
class LocalTensor:
    """A tensor in the memory of one rank."""

    whole: DeviceTensor
    world: World
    rank: int
    shape: tuple[int, ...]
    offset: int = 0  #: [element] of a block of the tensor

    @property
    def dtype(self) -> str:
        return self.whole.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self.size

    @property
    def address(self) -> int:
        """The address of its first element, for kernels."""
        return int(self.whole.virtual) + self.offset * (dtype_of(self.dtype).bits // 8)

    @property
    def pointer(self) -> Any:
        """What a kernel gets."""
        return self.whole.pointer(0, "")


@dataclass(eq=False)
class Work:
    """A call with `async_op=True`: `wait` returns when it has been done."""

    operation: Operation
    back: list[Callable[[], None]] = field(default_factory=list, repr=False)  #: copies results to the host's tensors

    def wait(self, timeout: Any = None) -> bool:
        """Wait for it. Kernels that were launched since the call run beside it."""
        _ask(_Wait(self.operation))
        while self.back:
            self.back.pop(0)()
        return True

    def is_completed(self) -> bool:
        """Whether it was launched; what is called after that comes later on the PE."""
        return self.operation.launched


@dataclass(frozen=True, eq=False)
class _Wait:
    """A rank waits for an operation."""

    operation: Operation


@dataclass(frozen=True, eq=False)
class _Read:
    """A rank reads a tensor."""

    tensor: LocalTensor


@dataclass(frozen=True, eq=False)
class _Do:
    """Something that only concerns this rank."""

    act: Callable[[World], Any]


@dataclass(frozen=True, eq=False)
class _Call:
    """The call of one rank."""

    name: str
    group: ProcessGroup
    form: tuple[Any, ...]  #: what all ranks must pass alike: root, reduction, type, sizes
    given: Any
    asynchronous: bool = False
    peer: int | None = None  #: of a send or receive
    tag: int = 0


class World:
    """All ranks of a spawn: the machine, and the calls that wait for those of other ranks."""

    def __init__(
        self, ctx: Context, ranks: int, algorithms: dict[str, str], files: Sequence[str | Path] = (), allow_code: AllowCode = ()
    ) -> None:
        if type(ranks) is not int or ranks < 1:
            raise InputError(Problem("dist.spawn", "it must be an integer of at least 1", "ranks", ranks))
        self.ctx, self._algorithms = ctx, algorithms
        self.registry = read_registry(*map(Path, files), allow_code=allow_code)
        for collective, name in algorithms.items():
            self.registry.find(collective, name)
        self._loaded: dict[str, Algorithm] = {}  # by full name: a file runs once, however often it is called
        self.group = group_of(ctx.config, shape_for(ctx.config, ranks))
        self.ranks = ProcessGroup(tuple(range(ranks)))
        self._groups: dict[ProcessGroup, Group] = {self.ranks: self.group}
        self._communicators = Communicators(ctx, ctx.config, self.group.pes, self.registry.tier)  # type: ignore[arg-type]
        self.streams = Streams(ctx, self._communicators, self.group.pes)
        self._open: dict[tuple[ProcessGroup, int], Operation] = {}  # collectives that not all ranks have called
        self._count: dict[tuple[ProcessGroup, int], int] = {}  # by group and rank: its collectives so far
        self._pairs: dict[tuple[Any, ...], deque[tuple[Operation, _Call]]] = {}  # sends, and receives, without the other

    def tensor(self, rank: int, values: Any) -> LocalTensor:
        """A tensor in the memory of a rank."""
        given = np.asarray(values)
        if not given.size:
            raise InputError(Problem("dist.from_numpy", f"an array of shape {given.shape} has no elements"))
        whole = self.ctx.from_numpy(given.reshape(-1), name=self._name(), pe=self.group.pes[rank])
        self.ctx.deploy_tensor(whole)
        return LocalTensor(whole, self, rank, given.shape)

    def empty(self, rank: int, count: int, dtype: str) -> LocalTensor:
        """Room for elements in the memory of a rank."""
        return LocalTensor(self.ctx.empty((count,), dtype, name=self._name(), pe=self.group.pes[rank]), self, rank, (count,))

    def _name(self) -> str:
        return f"dist{len(self.ctx.tensors)}"

    def post(self, rank: int, call: _Call) -> Operation:
        """A rank calls a collective, or sends or receives. InputError if the calls of ranks do not fit."""
        if call.peer is not None:
            return self._post_pair(rank, call, call.peer)
        number = self._count.get((call.group, rank), 0)
        self._count[call.group, rank] = number + 1
        operation = self._open.get((call.group, number))
        if operation is None:
            operation = Operation(call.name, call.group.ranks)
            self._open[call.group, number] = operation
        operation.called[rank] = call
        operation.asynchronous = operation.asynchronous or call.asynchronous
        self.streams.add(operation, rank)
        if operation.matched:
            del self._open[call.group, number]
            self._check_alike(operation)
            self._prepare(operation, call)
            self.streams.match(operation)
        return operation

    def _post_pair(self, rank: int, call: _Call, peer: int) -> Operation:
        sends = call.name == "send"
        key = (call.group, *((rank, peer) if sends else (peer, rank)), call.tag)
        mine, other = (*key, call.name), (*key, "recv" if sends else "send")
        if self._pairs.get(other):
            operation, before = self._pairs[other].popleft()
            source, target = (call, before) if sends else (before, call)
            x, out = source.given, target.given
            if (x.size, x.dtype) != (out.size, out.dtype):
                rule = f"rank {key[1]} sends {x.size} {x.dtype}, and rank {key[2]} receives {out.size} {out.dtype}"
                raise InputError(Problem("dist.send", rule))
            operation.called[rank] = call
            operation.asynchronous = operation.asynchronous and call.asynchronous
            operation.transfers = [Transfer(key[1], key[2], x.address, out.address, x.size, x.dtype)]
            self.streams.add(operation, rank)
            self.streams.match(operation)
            return operation
        operation = Operation(call.name, (rank, peer), called={rank: call}, asynchronous=call.asynchronous)
        self._pairs.setdefault(mine, deque()).append((operation, call))
        self.streams.add(operation, rank)
        return operation

    def _check_alike(self, operation: Operation) -> None:
        """InputError if ranks call different things, or pass tensors that do not fit."""
        calls = [operation.called[rank] for rank in operation.ranks]
        if len({one.name for one in calls}) > 1:
            self.refuse({rank: one.name for rank, one in operation.called.items()}, operation.ranks)
        if len({one.form for one in calls}) > 1:
            first = next(k for k, one in enumerate(calls) if one.form != calls[0].form)
            a, b = (f"rank {operation.ranks[k]} passes {_shown(calls[k].form)}" for k in (0, first))
            rule = f"every rank must pass the same root and reduction, and tensors of the same type and size; {a}, and {b}"
            raise InputError(Problem(f"dist.{operation.name}", rule))

    def refuse(self, called: dict[int, str], ranks: Sequence[int]) -> NoReturn:
        """The calls of the ranks do not match, so that no rank can continue."""
        said = ", ".join(f"rank {rank} {called.get(rank, 'has ended')}" for rank in ranks)
        remedy = "a send waits for its recv: let one side receive first" if "send" in called.values() else ""
        raise InputError(Problem("dist", f"the calls of ranks do not match: {said}", remedy=remedy))

    def _prepare(self, operation: Operation, call: _Call) -> None:
        """Choose the algorithm of a collective, and its queues."""
        if call.name == "exchange":
            operation.transfers = [one for rank in operation.ranks for one in self._transfers(operation, rank)]
            return
        root, reduction, dtype, count = call.form[:4]
        collective, ranks = COLLECTIVES[call.name], operation.ranks
        group = self._groups.setdefault(call.group, on_machine(self.group, call.group.ranks))
        at = 0 if root is None else call.group.rank_of(root)
        group = rooted(group, at)
        order = (*ranks[at:], *ranks[:at])
        entry = self._entry(call.name, group, count, dtype)
        queues = queues_of(self.registry, entry)
        assert queues.slots is not None and queues.slot_bytes is not None
        if entry.full_name not in self._loaded:
            self._loaded[entry.full_name] = entry.load()
        algorithm = self._loaded[entry.full_name]
        operation.call = Call(
            entry.full_name, algorithm, group, count, dtype, queues.slot_bytes, reduction=reduction, collective=collective
        )
        table = algorithm.neighbours(group.kind, group.shape)
        sizes = (queues.slots, queues.slot_bytes)
        operation.communicator = self._communicators.find(order, f"{entry.full_name} {group.kind}", table, *sizes)
        pointers: dict[int, tuple[int, int, int | None]] = {}
        for rank in ranks:
            x, out, _, _ = operation.called[rank].given
            scratch = None
            if reduction.factor is not None:
                scratch = self.empty(rank, x.size, dtype).address
            pointers[rank] = (x.address, out.address, scratch) if x is not None else (0, 0, None)
        operation.pointers = pointers
        operation.before = {rank: operation.called[rank].given[2] for rank in ranks}
        operation.after = {rank: operation.called[rank].given[3] for rank in ranks}

    def _entry(self, name: str, group: Group, count: int, dtype: str) -> Entry:
        entry = self.registry.find(name, self._algorithms.get(name))
        if entry.registry is not None:
            tuner = tuner_of(self.ctx.config, group, self.registry)  # type: ignore[arg-type]  # a system, as it has queues
            entry = self.registry.find(name, tuner.choose(name, count, dtype).name)
        if group.kind_name not in entry.topologies:
            rule = f"{entry.full_name} is for {', '.join(entry.topologies)}, and the group is a {group.kind_name}"
            raise InputError(Problem(f"dist.{name}", rule))
        return entry

    @staticmethod
    def _transfers(operation: Operation, rank: int) -> Iterable[Transfer]:
        """What a rank sends in an all-to-all of tensors of any size. InputError if a rank expects another size."""
        for at, peer in enumerate(operation.ranks):
            x = operation.called[rank].given[0][at]
            out = operation.called[peer].given[1][operation.ranks.index(rank)]
            if (x.size, x.dtype) != (out.size, out.dtype):
                rule = f"rank {rank} sends {x.size} {x.dtype} to rank {peer}, which expects {out.size} {out.dtype}"
                raise InputError(Problem("dist.all_to_all", rule))
            if x.size:
                yield Transfer(rank, peer, x.address, out.address, x.size, x.dtype)


def _shown(form: tuple[Any, ...]) -> str:
    root, reduction, dtype, count = form[:4]
    parts = [f"{count:,} elements of {dtype}", reduction.name, "" if root is None else f"root {root}"]
    return ", ".join(part for part in parts if part)


@dataclass
class _Rank:
    """The greenlet of a worker."""

    rank: int
    world: World
    hub: Any
    ready: bool = False
    dropped: bool = False  #: it will never be resumed
    made: dict[tuple[int, ...], int] = field(default_factory=dict)  #: groups that it has made


def spawn(
    ctx: Context | Callable[..., object],
    worker: Any = None,
    *args: Any,
    ranks: int | None = None,
    nprocs: int | None = None,
    machine: Any = None,
    algorithms: dict[str, str] | None = None,
    files: Sequence[str | Path] = (),
    allow_code: AllowCode = (),
    **ignored: Any,
) -> Any:
    """Run `worker(rank, *args)` for each rank, and what they call together on the machine.

    In a bench: `spawn(ctx, worker, *args, ranks=8)`. In a script, as `torch.multiprocessing.spawn`: `spawn(worker, args=(),
    nprocs=8, machine=None)` runs a bench of its own on the smallest preset that has so many PEs, and returns the engine.

    `algorithms`: by collective, the algorithm's name where it is not the default. `files`: like ccl.yaml, with more of them;
    `allow_code`: directories and files of Python that they may name. InputError if ranks call different things or name a rank,
    collective or algorithm that is not there, and as files and groups say.
    """
    if not isinstance(ctx, Context):
        given = tuple(ignored.pop("args", () if worker is None else worker))
        _check_spawn(ignored, ("join", "daemon", "start_method"))
        how: dict[str, Any] = {"algorithms": algorithms, "files": files, "allow_code": allow_code}
        return _spawned_alone(ctx, given, nprocs if nprocs is not None else ranks or 1, machine, how)
    _check_spawn(ignored, ())
    world = World(ctx, ranks if ranks is not None else nprocs or 1, algorithms or {}, files, allow_code)
    _serve(world, worker, args)
    return None


def _check_spawn(ignored: dict[str, Any], known: tuple[str, ...]) -> None:
    for name, value in ignored.items():
        if name not in known:
            raise InputError(Problem("dist.spawn", "there is no such argument", name, str(value)))


def _spawned_alone(worker: Callable[..., object], args: tuple[Any, ...], ranks: int, machine: Any, how: dict[str, Any]) -> Any:
    from kernbench.sim_engine.engine import GraphEngine  # above this package for benches, which import it

    @bench(name=_name(worker), description="workers")
    def run(ctx: Context) -> None:
        spawn(ctx, worker, *args, ranks=ranks, **how)

    engine = GraphEngine(smallest_machine(ranks) if machine is None else machine)
    engine.run(run)
    return engine


def _serve(world: World, worker: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Run the workers, each until it waits; answer those whose wait is over, and launch when none can go on."""
    hub = getcurrent()
    workers = []
    for rank in range(world.ranks.size()):
        one: Any = greenlet(_worked, hub)
        one.of_group = _Rank(rank, world, hub)
        one.runs_for = f"the worker {_name(worker)} of rank {rank}"
        workers.append(one)
    waits: dict[int, tuple[Any, Operation | None]] = {}
    answers: dict[int, Any] = {rank: (worker, rank, *args) for rank in range(len(workers))}
    while True:
        for rank in list(answers):
            given: tuple[Any, ...] = answers.pop(rank)
            while (request := _asked(workers[rank], given)) is not None:
                if isinstance(request, _Do):
                    given = (request.act(world),)
                    continue
                operation = world.post(rank, request) if isinstance(request, _Call) else None
                if isinstance(request, _Call) and request.asynchronous:
                    given = (operation,)
                    continue
                waits[rank] = request, operation
                break
        for rank, (request, operation) in list(waits.items()):
            if isinstance(request, _Call) and operation is not None and operation.matched:
                answers[rank] = (operation,)
                del waits[rank]
        if answers:
            continue
        if world.streams.pending:
            world.streams.flush()
        for rank, (request, _) in list(waits.items()):
            if isinstance(request, _Read) or (isinstance(request, _Wait) and request.operation.launched):
                answers[rank] = (_read(world, request.tensor) if isinstance(request, _Read) else None,)
                del waits[rank]
        if not answers:
            if waits:
                world.refuse({rank: _called(request) for rank, (request, _) in waits.items()}, world.ranks.ranks)
            return


def _called(request: Any) -> str:
    """What a rank has called."""
    return f"waits for its {request.operation.name}" if isinstance(request, _Wait) else str(request.name)


def _read(world: World, tensor: LocalTensor) -> Array:
    return world.ctx.to_numpy(tensor.whole).reshape(-1)[tensor.offset :][: tensor.size].reshape(tensor.shape)


def _asked(worker: Any, given: tuple[Any, ...]) -> Any:
    """The next call of a worker; None after its end. KernelError if it has left its greenlet by itself."""
    try:
        request = worker.switch(*given)
    except KeyboardInterrupt:
        raise
    except BaseException:
        if worker.dead:
            raise
        error = strayed(worker.runs_for, worker.gr_frame)
        error.add_note(f"in {worker.runs_for}")
        raise error from None
    if worker.dead:
        return None
    if not isinstance(request, _Call | _Wait | _Read | _Do):
        error = strayed(worker.runs_for, worker.gr_frame)
        worker.throw(error)
        error.add_note(f"in {worker.runs_for}")
        raise error
    return request


def _worked(worker: Callable[..., object], rank: int, *args: Any) -> None:
    """Run a worker in its greenlet."""
    me: Any = getcurrent()
    try:
        check_ran(worker(rank, *args), f"the worker {_name(worker)}")
    except BaseException as error:
        if me.of_group.dropped:
            raise
        found = failure_of(error, me.runs_for, f"in {me.runs_for}")
        if found is error:
            raise
        raise found from None


def _name(worker: Callable[..., object]) -> str:
    return str(getattr(worker, "__name__", worker))


def _me() -> _Rank:
    found = getattr(getcurrent(), "of_group", None)
    if found is None:
        remedy = "dist.spawn(ctx, worker, ranks=8) runs workers"
        raise InputError(Problem("dist", "it is called outside a worker", remedy=remedy))
    assert isinstance(found, _Rank)
    return found


def _ready(name: str) -> _Rank:
    me = _me()
    if not me.ready:
        remedy = 'call dist.init_process_group(backend="kernbench") first'
        raise InputError(Problem(f"dist.{name}", f"rank {me.rank} has joined no group", remedy=remedy))
    return me


def _ask(request: Any) -> Any:
    """Pass the call of this rank to the hub, and return its result."""
    me = _me()
    try:
        return me.hub.switch(request)
    except GreenletExit:  # the run is over
        me.dropped = True
        raise


def _integer(given: Any) -> int | None:
    """An integer of Python or numpy, or None for any other value."""
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None


# Groups -------------------------------------------------------------------------------------------------------------------


def init_process_group(backend: str | None = "kernbench", **ignored: Any) -> None:
    """Join the group of all workers. `rank` and `world_size` must be those of the worker, if they are given; addresses, stores
    and time limits have no meaning here. InputError for another backend.
    """
    if backend is not None and str(backend).partition(":")[2] not in BACKENDS and backend not in BACKENDS:
        raise InputError(Problem("dist.init_process_group", "it must be kernbench", "backend", backend))
    me = _me()
    for name, mine in (("rank", me.rank), ("world_size", me.world.ranks.size())):
        if ignored.get(name, -1) not in (-1, mine):
            rule = f"it is {mine}: dist.spawn numbers the workers"
            raise InputError(Problem(f"dist.init_process_group of rank {me.rank}", rule, name, ignored[name]))
    me.ready = True


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave the group of all workers, or forget another group."""
    if group is None:
        _me().ready = False


def is_available() -> bool:
    """Collectives are there."""
    return True


def is_initialized() -> bool:
    """Whether this worker has joined the group of all workers."""
    found = getattr(getcurrent(), "of_group", None)
    return isinstance(found, _Rank) and found.ready


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of the backend."""
    return "kernbench"


def get_rank(group: ProcessGroup | None = None) -> int:
    """This worker's rank; in a group it is not a member of, -1."""
    me = _me()
    return me.rank if group is None else group.rank_of(me.rank)


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many ranks there are."""
    return (group or _me().world.ranks).size()


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The ranks of a group."""
    return list((group or _me().world.ranks).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank of the world of a rank of a group."""
    return group.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a rank of the world; -1: it is not a member."""
    return group.rank_of(global_rank)


def new_group(ranks: Sequence[int] | None = None, **ignored: Any) -> ProcessGroup:
    """A group of these ranks; None: of all. Ranks that are not members get it too, and must not call collectives of it."""
    me = _ready("new_group")
    every = me.world.ranks.ranks
    given = every if ranks is None else tuple(ranks)
    chosen = tuple(rank for rank in map(_integer, given) if rank is not None)
    if len(chosen) != len(given) or not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(every):
        rule = f"it must be different ranks from 0 to {len(every) - 1}"
        raise InputError(Problem(f"dist.new_group of rank {me.rank}", rule, "ranks", str(list(given))))
    chosen = tuple(sorted(chosen))
    me.made[chosen] = me.made.get(chosen, 0) + 1
    return ProcessGroup(chosen, me.made[chosen])


def new_subgroups(group_size: int | None = None, **ignored: Any) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Groups of so many consecutive ranks: that of this rank, and all."""
    me = _ready("new_subgroups")
    size = me.world.ranks.size()
    many = size if group_size is None else group_size
    if type(many) is not int or many < 1 or size % many:
        raise InputError(Problem("dist.new_subgroups", f"it must divide the {size} ranks", "group_size", str(many)))
    groups = [new_group(range(first, first + many)) for first in range(0, size, many)]
    return groups[me.rank // many], groups


def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None) -> DeviceMesh:
    """All ranks in an array of this shape, row-major; each line along an axis is a group."""
    me = _ready("init_device_mesh")
    shape, every = tuple(mesh_shape), me.world.ranks.ranks
    if prod(shape) != len(every) or not all(type(one) is int and one > 0 for one in shape):
        raise InputError(Problem("dist.init_device_mesh", f"it must have {len(every)} ranks", "mesh_shape", str(shape)))
    groups = []
    for axis in range(len(shape)):
        made = [new_group(line) for line in lines(every, shape, axis)]
        groups.append(next(one for one in made if me.rank in one.ranks))
    return DeviceMesh(every, shape, tuple(mesh_dim_names or ()), me.rank, tuple(groups))


# Tensors ------------------------------------------------------------------------------------------------------------------


def from_numpy(values: Any) -> LocalTensor:
    """A tensor in the memory of this rank."""
    me = _ready("from_numpy")
    found: LocalTensor = _ask(_Do(lambda world: world.tensor(me.rank, values)))
    return found


def to_numpy(tensor: LocalTensor) -> Array:
    """The elements of a tensor of this rank, after all that this rank called before."""
    me = _ready("to_numpy")
    found: Array = _ask(_Read(_checked("to_numpy", me, tensor, False)))
    return found


def launch(kernel: Callable[..., object], *args: Any) -> None:
    """Run `kernel(*args, tl)` on the PE of this rank, after what it called before, and beside what it called with `async_op`
    and does not wait for. A tensor becomes a pointer.
    """
    me = _ready("launch")
    given = tuple(_checked("launch", me, one, False).pointer if isinstance(one, LocalTensor) else one for one in args)
    _ask(_Do(lambda world: world.streams.kernel(me.rank, kernel, given)))


def _is_torch(value: Any) -> bool:
    """A tensor of torch on the host."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "copy_")


def _from_torch(value: Any) -> Array:
    """The elements of a tensor of torch, without a copy where that can be."""
    plain = value.detach()
    if str(plain.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch  # type: ignore[import-not-found,unused-ignore]

        return np.asarray(plain.contiguous().view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(plain.numpy())


def _into_torch(value: Any, found: Array) -> None:
    """Results into a tensor of torch, in place."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    plain = np.ascontiguousarray(found)
    if plain.dtype.name == "bfloat16":
        value.copy_(torch.from_numpy(plain.view(np.int16)).view(torch.bfloat16))
    else:
        value.copy_(torch.from_numpy(plain))


class _Given:
    """The tensors of one call: those of the host are copied to the memory of the rank, and results back."""

    def __init__(self, name: str, reduces: bool = False) -> None:
        self.name, self.me, self.reduces = name, _ready(name), reduces
        self.back: list[Callable[[], None]] = []

    def one(self, tensor: Any, written: bool = False) -> LocalTensor:
        """A tensor as one in the memory of the rank. InputError for anything else."""
        if _is_torch(tensor):
            local = from_numpy(_from_torch(tensor))
            if written:
                self.back.append(lambda: _into_torch(tensor, to_numpy(local)))
            return _checked(self.name, self.me, local, self.reduces)
        return _checked(self.name, self.me, tensor, self.reduces)

    def room(self, count: int, dtype: str) -> LocalTensor:
        """Room in the memory of the rank."""
        found: LocalTensor = _ask(_Do(lambda world: world.empty(self.me.rank, count, dtype)))
        return found

    def call(self, call: _Call) -> Work | None:
        """Post it; a call that is not asynchronous returns when all ranks have called it, and has its results on the host."""
        work = Work(_ask(call), self.back)
        if call.asynchronous:
            return work
        if self.back:
            work.wait()
        return None


def _checked(name: str, me: _Rank, tensor: Any, reduces: bool) -> LocalTensor:
    """InputError if a rank passes an object that is not its own tensor, or one whose elements cannot be moved or added.

    Workers share Python objects: if one of them assigns to a shared variable, the next one overwrites it.
    """
    rule, remedy = "", ""
    if not isinstance(tensor, LocalTensor):
        rule = f"it takes tensors that dist.from_numpy made, and rank {me.rank} gives a {type(tensor).__name__}"
    elif tensor.world.ctx is not me.world.ctx or tensor.world.group != me.world.group:
        rule = f"rank {me.rank} passes a tensor of another group, of {tensor.world.ranks.size()} ranks"
    elif tensor.rank != me.rank:
        rule = f"rank {me.rank} passes a tensor of rank {tensor.rank}; each rank must pass its own"
    elif name not in ("to_numpy", "launch") and _immovable(tensor.dtype, reduces):
        rule = f"elements of {tensor.dtype} cannot be {'added' if reduces else 'moved one by one'}"
        remedy = f"take one of {', '.join(CCL_DTYPES)}"
    if rule:
        raise InputError(Problem(f"dist.{name}", rule, remedy=remedy))
    assert isinstance(tensor, LocalTensor)
    return tensor


def _immovable(dtype: str, reduces: bool) -> bool:
    return dtype not in CCL_DTYPES and (reduces or dtype_of(dtype).bits < 8)


def _group(name: str, group: ProcessGroup | None) -> ProcessGroup:
    """The group of a call. InputError if this rank is not a member."""
    me = _ready(name)
    if group is None:
        return me.world.ranks
    if not isinstance(group, ProcessGroup):
        raise InputError(Problem(f"dist.{name}", "it must be a group that dist.new_group made", "group", str(group)))
    if me.rank not in group.ranks:
        there = ", ".join(map(str, group.ranks))
        raise InputError(Problem(f"dist.{name}", f"rank {me.rank} is not a member of the group of ranks {there}"))
    return group


def _peer(name: str, group: ProcessGroup, field: str, given: Any, pair: bool = False) -> int:
    """A rank that is named in a call. InputError if it is not one of the group."""
    me, other = _me(), _integer(given)
    if other is None or other not in group.ranks or (pair and other == me.rank):
        every = group.ranks == me.world.ranks.ranks
        there = f"0 to {len(group.ranks) - 1}" if every else ", ".join(map(str, group.ranks))
        rule = f"it must be a{'nother' if pair else ''} rank from {there}"
        raise InputError(Problem(f"dist.{name} of rank {me.rank}", rule, field, given))
    return other


# Collectives --------------------------------------------------------------------------------------------------------------

Tensors = Any  #: a tensor, or a list of them


def _collective(
    given: _Given,
    name: str,
    group: ProcessGroup,
    x: LocalTensor | None,
    out: LocalTensor | None,
    async_op: bool,
    *,
    op: Any = SUM,
    root: int | None = None,
    before: Sequence[Copy] = (),
    after: Sequence[Copy] = (),
) -> Work | None:
    """Post a collective. `before`, `after`: copies in the memory of this rank. InputError if sizes do not fit."""
    collective, ranks, where = COLLECTIVES[name], group.size(), f"dist.{given.name}"
    if not isinstance(op, Reduction):
        known = "SUM, AVG, MAX, MIN, PRODUCT and PREMUL_SUM"
        raise InputError(Problem(where, f"the reductions are {known} of dist.ReduceOp", "op", str(op)))
    count, dtype = 1, "i32"
    if x is not None and out is not None:
        if x.dtype != out.dtype:
            raise InputError(Problem(where, f"tensors of {x.dtype} and {out.dtype} are given, and both must have one type"))
        count, dtype = x.size // ranks if collective.blocks_in else x.size, x.dtype
        sizes = (collective.has(count, ranks), collective.gets(count, ranks))
        if (x.size, out.size) != sizes:
            rule = f"tensors of {x.size} and {out.size} elements do not fit for {ranks} ranks"
            raise InputError(Problem(where, rule))
    op.check(where, dtype)
    form = (root, op, dtype, count)
    return given.call(_Call(name, group, form, (x, out, before, after), async_op))


def all_reduce(tensor: Any, op: Any = SUM, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Combine all ranks' tensors, in place."""
    given, members = _Given("all_reduce", reduces=True), _group("all_reduce", group)
    local = given.one(tensor, written=True)
    return _collective(given, "all_reduce", members, local, local, async_op, op=op)


def broadcast(tensor: Any, src: int = 0, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Rank `src`'s elements into every rank's tensor."""
    given, members = _Given("broadcast"), _group("broadcast", group)
    root = _peer("broadcast", members, "src", src)
    local = given.one(tensor, written=True)
    return _collective(given, "broadcast", members, local, local, async_op, root=root)


def reduce(tensor: Any, dst: int = 0, op: Any = SUM, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Combine the tensors of all ranks in that of rank `dst`; the others are unchanged."""
    given, members = _Given("reduce", reduces=True), _group("reduce", group)
    root = _peer("reduce", members, "dst", dst)
    local = given.one(tensor, written=root == given.me.rank)
    return _collective(given, "reduce", members, local, local, async_op, op=op, root=root)


def all_gather_into_tensor(out: Any, tensor: Any, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """`out`: the tensors of all ranks, rank by rank."""
    given, members = _Given("all_gather"), _group("all_gather", group)
    x, y = given.one(tensor), given.one(out, written=True)
    return _collective(given, "all_gather", members, x, y, async_op)


def all_gather(out: Tensors, tensor: Any, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """`out`: a list with a tensor for each rank; or one tensor for all, as `all_gather_into_tensor` takes."""
    if not isinstance(out, list | tuple):
        return all_gather_into_tensor(out, tensor, group, async_op)
    given, members = _Given("all_gather"), _group("all_gather", group)
    x = given.one(tensor)
    room, copies = _from_blocks(given, members, [given.one(one, written=True) for one in out], x)
    return _collective(given, "all_gather", members, x, room, async_op, after=copies)


def reduce_scatter_tensor(
    out: Any, tensor: Any, op: Any = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """`out`: this rank's block of the combined tensors of all ranks."""
    given, members = _Given("reduce_scatter", reduces=True), _group("reduce_scatter", group)
    y, x = given.one(out, written=True), given.one(tensor)
    return _collective(given, "reduce_scatter", members, x, y, async_op, op=op)


def reduce_scatter(
    out: Any, tensor: Tensors, op: Any = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """`tensor`: a list with a tensor for each rank; or one tensor for all, as `reduce_scatter_tensor` takes."""
    if not isinstance(tensor, list | tuple):
        return reduce_scatter_tensor(out, tensor, op, group, async_op)
    given, members = _Given("reduce_scatter", reduces=True), _group("reduce_scatter", group)
    y = given.one(out, written=True)
    room, copies = _to_blocks(given, members, [given.one(one) for one in tensor], y)
    return _collective(given, "reduce_scatter", members, room, y, async_op, op=op, before=copies)


def gather(
    tensor: Any, gather_list: Tensors = None, dst: int = 0, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """`gather_list` of rank `dst`: a list with a tensor for each rank, or one tensor for all; other ranks give None."""
    given, members = _Given("gather"), _group("gather", group)
    root = _peer("gather", members, "dst", dst)
    x = given.one(tensor)
    out, copies = given.room(members.size() * x.size, x.dtype) if root != given.me.rank else None, list[Copy]()
    if out is None:
        out, copies = _all_blocks(given, members, gather_list, x, "gather_list", True)
        if copies:
            at = members.rank_of(root)
            order = [*copies[at:], *copies[:at]]  # the root is the first rank of the algorithm
            copies = [(one[0], other[1], *one[2:]) for one, other in zip(copies, order, strict=True)]
    return _collective(given, "gather", members, x, out, async_op, root=root, after=copies)


def scatter(
    tensor: Any, scatter_list: Tensors = None, src: int = 0, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """`scatter_list` of rank `src`: a list with a tensor for each rank, or one tensor for all; other ranks give None."""
    given, members = _Given("scatter"), _group("scatter", group)
    root = _peer("scatter", members, "src", src)
    y = given.one(tensor, written=True)
    x, copies = given.room(members.size() * y.size, y.dtype) if root != given.me.rank else None, list[Copy]()
    if x is None:
        x, copies = _all_blocks(given, members, scatter_list, y, "scatter_list", False)
        if copies:
            at = members.rank_of(root)
            order = [*copies[at:], *copies[:at]]
            copies = [(other[0], one[1], *one[2:]) for one, other in zip(copies, order, strict=True)]
    return _collective(given, "scatter", members, x, y, async_op, root=root, before=copies)


def _all_blocks(
    given: _Given, group: ProcessGroup, blocks: Tensors, own: LocalTensor, field: str, written: bool
) -> tuple[LocalTensor, list[Copy]]:
    """Room for the blocks of all ranks at the root, and the copies from or to them."""
    if blocks is None:
        raise InputError(Problem(f"dist.{given.name}", f"the root, rank {given.me.rank}, must give it", field, None))
    if isinstance(blocks, list | tuple):
        tensors = [given.one(one, written) for one in blocks]
    else:
        whole = given.one(blocks, written)
        if whole.size != group.size() * own.size:
            rule = f"tensors of {own.size} and {whole.size} elements do not fit for {group.size()} ranks"
            raise InputError(Problem(f"dist.{given.name}", rule))
        tensors = [
            LocalTensor(whole.whole, whole.world, whole.rank, (own.size,), whole.offset + k * own.size)
            for k in range(group.size())
        ]
    return (_from_blocks if written else _to_blocks)(given, group, tensors, own)


def _blocks(given: _Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor) -> LocalTensor:
    """Room for a tensor of each rank. InputError if they do not have the size and type of a rank's own."""
    if len(tensors) != group.size() or any((one.size, one.dtype) != (own.size, own.dtype) for one in tensors):
        sizes = ", ".join(f"{one.size} {one.dtype}" for one in tensors)
        rule = f"it takes {group.size()} tensors of {own.size} {own.dtype}, one for each rank, and gets {sizes}"
        raise InputError(Problem(f"dist.{given.name}", rule))
    return given.room(group.size() * own.size, own.dtype)


def _from_blocks(
    given: _Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor
) -> tuple[LocalTensor, list[Copy]]:
    room = _blocks(given, group, tensors, own)
    step = own.size * dtype_of(own.dtype).bits // 8
    return room, [(room.address + k * step, one.address, one.size, one.dtype) for k, one in enumerate(tensors)]


def _to_blocks(
    given: _Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor
) -> tuple[LocalTensor, list[Copy]]:
    room, copies = _from_blocks(given, group, tensors, own)
    return room, [(to, start, count, dtype) for start, to, count, dtype in copies]


def all_to_all_single(
    out: Any,
    tensor: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`out`: this rank's block of every rank's tensor, rank by rank. With split sizes [rows of the first axis], blocks of any
    size, which may be 0.
    """
    given, members = _Given("all_to_all"), _group("all_to_all", group)
    x, y = given.one(tensor), given.one(out, written=True)
    if output_split_sizes is None and input_split_sizes is None:
        return _collective(given, "all_to_all", members, x, y, async_op)
    inputs, outputs = (_split(members, *one) for one in ((x, input_split_sizes), (y, output_split_sizes)))
    return given.call(_Call("exchange", members, (None, SUM, x.dtype, 0), (inputs, outputs), async_op))


def _split(group: ProcessGroup, tensor: LocalTensor, sizes: Sequence[int] | None) -> list[LocalTensor]:
    """Consecutive blocks of rows. InputError if they are not those of the tensor."""
    rows = tensor.shape[0] if tensor.shape else 1
    each = list(sizes) if sizes is not None else [rows // group.size()] * group.size()
    if len(each) != group.size() or sum(each) != rows or min(each) < 0:
        rule = f"the {group.size()} split sizes must add up to the {rows} rows of the tensor, and are {each}"
        raise InputError(Problem("dist.all_to_all", rule))
    width, found, at = tensor.size // rows, [], tensor.offset
    for one in each:
        found.append(LocalTensor(tensor.whole, tensor.world, tensor.rank, (one * width,), at))
        at += one * width
    return found


def all_to_all(out: Tensors, tensor: Tensors, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Lists with a tensor for each rank, of any sizes; or one tensor for all, as `all_to_all_single` takes."""
    if not isinstance(out, list | tuple):
        return all_to_all_single(out, tensor, group=group, async_op=async_op)
    given, members = _Given("all_to_all"), _group("all_to_all", group)
    inputs, outputs = [given.one(one) for one in tensor], [given.one(one, written=True) for one in out]
    if not len(inputs) == len(outputs) == members.size():
        rule = f"it takes {members.size()} tensors, one for each rank, and gets {len(inputs)} and {len(outputs)}"
        raise InputError(Problem("dist.all_to_all", rule))
    return given.call(_Call("exchange", members, (None, SUM, inputs[0].dtype, 0), (inputs, outputs), async_op))


def all_reduce_coalesced(
    tensors: Sequence[Any], op: Any = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """Combine all ranks' tensors one after the other, in place."""
    return _coalesced([all_reduce(one, op, group, async_op=True) for one in tensors], async_op)


def all_gather_coalesced(
    outs: Sequence[Tensors], tensors: Sequence[Any], group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """`all_gather` of each tensor."""
    works = [all_gather(out, one, group, async_op=True) for out, one in zip(outs, tensors, strict=True)]
    return _coalesced(works, async_op)


class _Works:
    """Several calls that are waited for together."""

    def __init__(self, works: Sequence[Work | None]) -> None:
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        """Wait for all of them."""
        return all(one.wait() for one in self._works if one is not None)

    def is_completed(self) -> bool:
        """Whether all were launched."""
        return all(one.is_completed() for one in self._works if one is not None)


def _coalesced(works: Sequence[Work | None], async_op: bool) -> Any:
    found = _Works(works)
    return found if async_op else (found.wait(), None)[1]


def barrier(group: ProcessGroup | None = None, async_op: bool = False, **ignored: Any) -> Work | None:
    """Wait until all ranks have called it."""
    return _collective(_Given("barrier"), "barrier", _group("barrier", group), None, None, async_op)


monitored_barrier = barrier


# Pairs --------------------------------------------------------------------------------------------------------------------


def _pair(name: str, field: str, tensor: Any, peer: Any, group: ProcessGroup | None, tag: int, async_op: bool) -> Work | None:
    given, members = _Given(name), _group(name, group)
    other = _peer(name, members, field, peer, pair=True)
    local = given.one(tensor, written=name == "recv")
    return given.call(_Call(name, members, (), local, async_op, other, tag))


def send(tensor: Any, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> None:
    """A tensor to rank `dst`, which calls `recv`."""
    _pair("send", "dst", tensor, dst, group, tag, False)


def recv(tensor: Any, src: int, group: ProcessGroup | None = None, tag: int = 0) -> int:
    """The tensor that rank `src` sends. Returns `src`."""
    _pair("recv", "src", tensor, src, group, tag, False)
    return src


def isend(tensor: Any, dst: int, group: ProcessGroup | None = None, tag: int = 0) -> Work:
    """As `send`, without waiting for the other rank."""
    found = _pair("send", "dst", tensor, dst, group, tag, True)
    assert found is not None
    return found


def irecv(tensor: Any, src: int, group: ProcessGroup | None = None, tag: int = 0) -> Work:
    """As `recv`, without waiting for the other rank."""
    found = _pair("recv", "src", tensor, src, group, tag, True)
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class P2POp:
    """A send or receive of a batch: `isend` or `irecv`, its tensor, and the other rank."""

    op: Callable[..., Work]
    tensor: Any
    peer: int
    group: ProcessGroup | None = None
    tag: int = 0


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin sends and receives together; they run at the same time, in any order."""
    for one in p2p_op_list:
        if not isinstance(one, P2POp) or one.op not in (isend, irecv):
            raise InputError(Problem("dist.batch_isend_irecv", "it takes a list of dist.P2POp of dist.isend and dist.irecv"))
    return [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]


# What is not there --------------------------------------------------------------------------------------------------------


def _refused(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        rule = "it sends Python objects, whose bytes are not part of the model"
        raise InputError(Problem(f"dist.{name}", rule, remedy="send their elements as tensors"))

    refused.__name__ = name
    refused.__doc__ = "Refused: Python objects have no size in the model."
    return refused


all_gather_object = _refused("all_gather_object")
broadcast_object_list = _refused("broadcast_object_list")
gather_object = _refused("gather_object")
scatter_object_list = _refused("scatter_object_list")
send_object_list = _refused("send_object_list")
recv_object_list = _refused("recv_object_list")
