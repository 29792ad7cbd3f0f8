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
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from kernbench.ccl.dist_calls import PAIR, Calls, Request, ShardOf
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.user_code import failure_of, strayed


@dataclass
class _Rank:
    """What a worker's greenlet is."""

    rank: int
    size: int
    hub: Any
    ready: bool = False
    dropped: bool = False  #: nobody will resume it any more


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
    with more of them; `allow_code`: directories and files of Python that they may name. InputError where ranks call different
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
    """What a worker calls next; None where it is over. KernelError where it has left its greenlet by itself."""
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
    """Tell the hub what this rank calls; what it comes to. `peer`: the other rank or the root, as `src` or `dst`."""
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
    """An integer of Python or numpy; None where it is none."""
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
    """A tensor in this rank's own memory, for this rank alone; every rank makes one of the same shape and type."""
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
    """The sums of all ranks' tensors into that of rank `dst`; the others stay."""
    _ask("reduce", tensor, tensor, dst=dst)


def send(tensor: ShardOf, dst: int) -> None:
    """A tensor to rank `dst`, which calls `recv`."""
    _ask("send", tensor, dst=dst)


def recv(tensor: ShardOf, src: int) -> None:
    """The tensor that rank `src` sends."""
    _ask("recv", tensor, src=src)


def barrier() -> None:
    """Wait until all ranks have come here."""
    _ask("barrier")
