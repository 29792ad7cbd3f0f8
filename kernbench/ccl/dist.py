"""Collectives as users of frameworks write them: a worker function a rank, `init_process_group`, `all_reduce`, `barrier`.

Workers are the host's code: they take no time, and what they call is launched when all ranks have called it.

    def worker(rank):
        dist.init_process_group(backend="kernbench")
        x = dist.from_numpy(np.full(1024, rank, np.float16))
        dist.all_reduce(x)

    @bench(name="mine", description="...", machine="single_cube")
    def run(ctx):
        dist.spawn(ctx, worker, ranks=8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from kernbench.ccl.call import Call, Launcher, Queues
from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.contract import Algorithm, Shape
from kernbench.ccl.group import Group, group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.rings import RING
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context, DPPolicy
from kernbench.runtime_api.tensors import DeviceTensor
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.user_code import failure_of, strayed

PAIR = ("send", "recv")


@dataclass(frozen=True, eq=False)
class ShardOf:
    """A rank's part of a tensor that all ranks made together."""

    whole: DeviceTensor
    group: Group  #: that made it
    rank: int
    shape: tuple[int, ...]

    @property
    def row(self) -> int:
        """The shard of this rank."""
        return self.group.rows[self.rank]

    @property
    def dtype(self) -> str:
        return self.whole.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class Request:
    """The call of one rank."""

    name: str
    tensors: tuple[ShardOf, ...]
    peer: int | None  #: the root, or the other rank of a pair
    value: Any


class Calls:
    """Answers the calls of ranks as soon as all participating ranks have called."""

    def __init__(
        self,
        ctx: Context,
        ranks: int,
        algorithms: dict[str, str],
        files: Sequence[str | Path] = (),
        allow_code: AllowCode = (),
    ) -> None:
        config = ctx.config
        if type(ranks) is not int or ranks < 1:
            raise InputError(Problem("dist.spawn", "it must be an integer of at least 1", "ranks", ranks))
        self._ctx, self._algorithms = ctx, algorithms
        self._registry = read_registry(*map(Path, files), allow_code=allow_code)
        for collective, name in algorithms.items():
            self._registry.find(collective, name)
        self._loaded: dict[str, Algorithm] = {}  # by full name: a file runs once, however often it is called
        self._group = group_of(config, shape_for(config, ranks))
        self._launchers: dict[Queues, Launcher] = {}

    def answer(self, wanted: dict[int, Request]) -> dict[int, Any]:
        """The results of calls by rank: of pairs that send and receive, or of all ranks. InputError if no calls match."""
        for rank, one in wanted.items():
            if one.name == "send" and one.peer in wanted:
                other = wanted[one.peer]
                if other.name == "recv" and other.peer == rank:
                    self._pair(rank, one, one.peer, other)
                    return {rank: None, one.peer: None}
        names = {rank: one.name for rank, one in wanted.items()}
        if len(wanted) < self._group.size or len(set(names.values())) > 1 or set(PAIR) & set(names.values()):
            called = ", ".join(f"rank {rank} {names.get(rank, 'has ended')}" for rank in range(self._group.size))
            remedy = "a send waits for its recv: let one side receive first" if "send" in names.values() else ""
            raise InputError(Problem("dist", f"the calls of ranks do not match: {called}", remedy=remedy))
        return self._together(next(iter(names.values())), wanted)

    def _together(self, name: str, wanted: dict[int, Request]) -> dict[int, Any]:
        self._check_tensors(name, wanted)
        if name == "from_numpy":
            return self._made([np.asarray(wanted[rank].value) for rank in sorted(wanted)])
        if name == "to_numpy":
            wholes = {id(one.tensors[0].whole): one.tensors[0].whole for one in wanted.values()}
            arrays = {key: self._ctx.to_numpy(whole) for key, whole in wholes.items()}
            return {
                rank: arrays[id(one.tensors[0].whole)][one.tensors[0].row].reshape(one.tensors[0].shape)
                for rank, one in wanted.items()
            }
        self._collective(name, wanted)
        return dict.fromkeys(wanted)

    def _made(self, values: list[Any]) -> dict[int, ShardOf]:
        first = values[0]
        if any(one.shape != first.shape or one.dtype != first.dtype for one in values):
            raise InputError(Problem("dist.from_numpy", "every rank's array must have the same shape and type"))
        if not first.size:
            raise InputError(Problem("dist.from_numpy", f"an array of shape {first.shape} has no elements"))
        group, shape = self._group, self._group.shape
        rows = np.empty((group.size, first.size), first.dtype)
        for row, one in zip(group.rows, values, strict=True):
            rows[row] = one.reshape(-1)
        name = f"dist{len(self._ctx.tensors)}"
        whole = self._ctx.from_numpy(rows, name=name, placement=DPPolicy("row_wise", "row_wise", "row_wise", *shape))
        return {rank: ShardOf(whole, group, rank, first.shape) for rank in range(group.size)}

    def _collective(self, name: str, wanted: dict[int, Request]) -> None:
        """One launch. InputError if ranks' tensors or roots differ, or sizes do not fit."""
        forms = {(one.peer, tuple((id(t.whole), t.dtype, t.size) for t in one.tensors)) for one in wanted.values()}
        if len(forms) > 1:
            rule = "every rank must give the tensors that were made together, and the same root"
            raise InputError(Problem(f"dist.{name}", rule))
        one, collective, ranks = wanted[0], COLLECTIVES[name], self._group.size
        count = 1
        if collective.moves:
            x, out = one.tensors
            count = x.size // ranks if collective.blocks_in else x.size
            if x.dtype != out.dtype:
                rule = f"tensors of {x.dtype} and {out.dtype} are given, and both must have one type"
                raise InputError(Problem(f"dist.{name}", rule))
            if (x.size, out.size) != (collective.has(count, ranks), collective.gets(count, ranks)):
                rule = f"tensors of {x.size} and {out.size} elements do not fit for {ranks} ranks"
                raise InputError(Problem(f"dist.{name}", rule))
        entry = self._registry.find(name, self._algorithms.get(name))
        group = self._group if not one.peer else _rooted(self._group, one.peer)
        if group.kind_name not in entry.topologies:
            rule = f"{entry.full_name} is for {', '.join(entry.topologies)}, and the group is a {group.kind_name}"
            raise InputError(Problem(f"dist.{name}", rule))
        queues = queues_of(self._registry, entry)
        assert queues.slot_bytes is not None
        dtype = one.tensors[0].dtype if one.tensors else "i32"
        if entry.full_name not in self._loaded:
            self._loaded[entry.full_name] = entry.load()
        algorithm = self._loaded[entry.full_name]
        call = Call(entry.full_name, algorithm, group, count, dtype, queues.slot_bytes)
        tensors: list[Any] = [tensor.whole for tensor in one.tensors] or [0, 0]
        self._launch(queues)(call, *tensors)

    def _launch(self, queues: Queues) -> Launcher:
        """The launcher for these queues. Launches with other queues replace them, so it installs its own again."""
        self._launchers = {queues: self._launchers.get(queues) or Launcher(self._ctx, queues)}
        return self._launchers[queues]

    def _pair(self, source: int, one: Request, target: int, other: Request) -> None:
        """From one rank to another."""
        self._check_tensors("send", {source: one})
        self._check_tensors("recv", {target: other})
        x, out = one.tensors[0], other.tensors[0]
        if (x.size, x.dtype) != (out.size, out.dtype):
            rule = f"rank {source} sends {x.size} {x.dtype}, and rank {target} receives {out.size} {out.dtype}"
            raise InputError(Problem("dist.send", rule))
        self._launchers = {}
        pes = [self._group.pes[rank] for rank in (source, target)]
        self._ctx.install_queues({0: {(0, "E"): (1, "W")}, 1: {(0, "W"): (0, "E")}}, ranks=pes)
        self._ctx.launch("send_recv", moved, x.whole, out.whole, x.size, x.dtype, pes=pes)

    def _check_tensors(self, name: str, wanted: dict[int, Request]) -> None:
        """InputError if a rank passes an object that is not its own tensor, or a tensor whose elements cannot be moved or
        added.
        """
        for rank, one in wanted.items():
            for tensor in one.tensors:
                if rule := self._not_its_own(rank, tensor):
                    raise InputError(Problem(f"dist.{name}", rule))
                reduces = name in COLLECTIVES and COLLECTIVES[name].reduces
                if name != "to_numpy" and tensor.dtype not in CCL_DTYPES and (reduces or dtype_of(tensor.dtype).bits < 8):
                    rule = f"elements of {tensor.dtype} cannot be {'added' if reduces else 'moved one by one'}"
                    remedy = f"take one of {', '.join(CCL_DTYPES)}"
                    raise InputError(Problem(f"dist.{name}", rule, remedy=remedy))

    def _not_its_own(self, rank: int, tensor: Any) -> str:
        """Why a rank cannot give a tensor; empty if it can. Workers share Python objects: if one of them assigns to a
        shared variable, the next one overwrites it.
        """
        if not isinstance(tensor, ShardOf):
            return f"it takes tensors that dist.from_numpy made, and rank {rank} gives a {type(tensor).__name__}"
        if tensor.group != self._group:
            return f"rank {rank} passes a tensor of another group, of {tensor.group.size} ranks"
        if tensor.rank != rank:
            return f"rank {rank} passes a tensor of rank {tensor.rank}; each rank must pass its own"
        return ""


def _rooted(group: Group, root: int) -> Group:
    """The same ranks with another first rank."""
    order = [*range(root, group.size), *range(root)]
    pes, rows = tuple(group.pes[rank] for rank in order), tuple(group.rows[rank] for rank in order)
    return replace(group, shape=Shape(1, 1, group.size), kind=RING, pes=pes, rows=rows)


def moved(x: int, out: int, count: int, dtype: str, tl: Any) -> None:
    """Send elements of one PE to another, message by message."""
    from kernbench.ccl.contract import cut
    from kernbench.ccl.ring_schedule import Memory

    memory = Memory(tl, x, out, dtype)
    for first, size in cut((0, count), memory.pieces(count, adds=False)):
        if tl.rank == 0:
            tile = memory.load(first, size)
            tl.wait(tile)
            tl.wait(tl.send("E", tile))
        else:
            memory.put(first, tl.recv("W", (size,), dtype))


@dataclass
class _Rank:
    """The greenlet of a worker."""

    rank: int
    size: int
    hub: Any
    ready: bool = False
    dropped: bool = False  #: it will never be resumed


def spawn(
    ctx: Context,
    worker: Callable[..., object],
    *args: Any,
    ranks: int,
    algorithms: dict[str, str] | None = None,
    files: Sequence[str | Path] = (),
    allow_code: AllowCode = (),
) -> None:
    """Run `worker(rank, *args)` for each rank, and what they call together on the machine.

    `algorithms`: by collective, the algorithm's name where it is not the first of `configs/ccl.yaml`. `files`: like ccl.yaml,
    with more of them; `allow_code`: directories and files of Python that they may name. InputError if ranks call different
    things or name a rank, collective or algorithm that is not there, and as files and groups say.
    """
    calls = Calls(ctx, ranks, algorithms or {}, files, allow_code)
    hub = getcurrent()
    workers = []
    for rank in range(ranks):
        one: Any = greenlet(_worked, hub)
        one.of_group = _Rank(rank, ranks, hub)
        one.runs_for = f"the worker {_name(worker)} of rank {rank}"
        workers.append(one)
    wanted: dict[int, Request] = {}
    answers: dict[int, Any] = {}
    while True:
        for rank, one in enumerate(workers):
            if rank not in wanted and not one.dead:
                given = (answers.pop(rank),) if rank in answers else (worker, rank, *args)
                request = _asked(one, given)
                if request is not None:
                    wanted[rank] = request
        if not wanted:
            return
        answers = calls.answer(wanted)
        for rank in answers:
            del wanted[rank]


def _asked(worker: Any, given: tuple[Any, ...]) -> Request | None:
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
    if not isinstance(request, Request):
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


def _ask(name: str, *tensors: ShardOf, value: Any = None, **peer: Any) -> Any:
    """Pass the call of this rank to the hub, and return its result. `peer`: the other rank or the root, as `src` or `dst`."""
    me = _me()
    if not me.ready:
        remedy = 'call dist.init_process_group(backend="kernbench") first'
        raise InputError(Problem(f"dist.{name}", f"rank {me.rank} has joined no group", remedy=remedy))
    other = None
    for field, given in peer.items():
        other = _integer(given)
        if other is None or not 0 <= other < me.size or (name in PAIR and other == me.rank):
            rule = f"it must be a{'nother' if name in PAIR else ''} rank from 0 to {me.size - 1}"
            raise InputError(Problem(f"dist.{name} of rank {me.rank}", rule, field, given))
    try:
        return me.hub.switch(Request(name, tensors, other, value))
    except GreenletExit:  # the run is over
        me.dropped = True
        raise


def _integer(given: Any) -> int | None:
    """An integer of Python or numpy, or None for any other value."""
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None


def init_process_group(backend: str = "kernbench") -> None:
    """Join the group of all workers. InputError for another backend."""
    if backend != "kernbench":
        raise InputError(Problem("dist.init_process_group", "it must be kernbench", "backend", backend))
    _me().ready = True


def get_rank() -> int:
    """This worker's rank."""
    return _me().rank


def get_world_size() -> int:
    """How many ranks there are."""
    return _me().size


def from_numpy(values: Any) -> ShardOf:
    """A tensor in the memory of this rank; every rank creates one with the same shape and type."""
    found: ShardOf = _ask("from_numpy", value=values)
    return found


def to_numpy(tensor: ShardOf) -> Array:
    """The elements of a tensor of this rank, after all that was called before."""
    found: Array = _ask("to_numpy", tensor)
    return found


def all_reduce(tensor: ShardOf) -> None:
    """The sums of all ranks' tensors, in place."""
    _ask("all_reduce", tensor, tensor)


def all_gather(out: ShardOf, tensor: ShardOf) -> None:
    """`out`: the tensors of all ranks, rank by rank."""
    _ask("all_gather", tensor, out)


def reduce_scatter(out: ShardOf, tensor: ShardOf) -> None:
    """`out`: this rank's block of the sums of all ranks' tensors."""
    _ask("reduce_scatter", tensor, out)


def all_to_all(out: ShardOf, tensor: ShardOf) -> None:
    """`out`: this rank's block of every rank's tensor, rank by rank."""
    _ask("all_to_all", tensor, out)


def broadcast(tensor: ShardOf, src: int = 0) -> None:
    """Rank `src`'s elements into every rank's tensor."""
    _ask("broadcast", tensor, tensor, src=src)


def reduce(tensor: ShardOf, dst: int = 0) -> None:
    """Store the sums of the tensors of all ranks in that of rank `dst`; the others are unchanged."""
    _ask("reduce", tensor, tensor, dst=dst)


def send(tensor: ShardOf, dst: int) -> None:
    """A tensor to rank `dst`, which calls `recv`."""
    _ask("send", tensor, dst=dst)


def recv(tensor: ShardOf, src: int) -> None:
    """The tensor that rank `src` sends."""
    _ask("recv", tensor, src=src)


def barrier() -> None:
    """Wait until all ranks have called it."""
    _ask("barrier")
