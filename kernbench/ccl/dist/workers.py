"""Workers: the host code of each rank, in a separate greenlet, and what each greenlet waits for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent, greenlet

from kernbench.ccl.dist.backward import diverted, inside
from kernbench.ccl.dist.errors import ArgumentError, ProcessRaisedException
from kernbench.ccl.dist.modes import modes, restore
from kernbench.ccl.dist.torch_groups import explained
from kernbench.ccl.dist.world import Do, Poll, Post, Read, Until, Wait, World, read
from kernbench.ccl.group import smallest_machine
from kernbench.ccl.streams import Operation
from kernbench.common.errors import Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api import Context, bench
from kernbench.sim_engine.engine import GraphEngine, KernelFailed
from kernbench.triton_emu.errors import check_ran
from kernbench.triton_emu.user_code import failure_of, strayed

if TYPE_CHECKING:
    from kernbench.ccl.dist.work import Works


MAX_POLLS = 2_000  #: number of consecutive polls without any other call after which the ranks poll forever


@dataclass
class Worker:
    """The greenlet of a worker."""

    rank: int
    world: World
    hub: Any
    ready: bool = False
    dropped: bool = False  #: it will never be resumed
    made: dict[tuple[int, ...], int] = field(default_factory=dict)  #: groups that it has made
    backend: str = "kernbench"  #: the name that it gave to `init_process_group`
    coalesced: Works | None = None  #: the calls since it entered a coalescing manager
    environment: dict[str, str] = field(default_factory=dict)  #: environment variables of its own


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
    channels: int = 0,
    **ignored: Any,
) -> Any:
    """Run `worker(rank, *args)` for each rank, and launch the calls of all workers on the machine.

    In a bench, call `spawn(ctx, worker, *args, ranks=8)`. In a script, call `spawn(worker, args=(), nprocs=8, machine=None)`,
    as `torch.multiprocessing.spawn`. A script runs a bench of its own and gets the engine as the result.

    Parameters
    ----------
    ctx
        The context of the bench; in a script, the worker.
    worker
        A function of the rank and of `args`.
    args
        Further arguments of the worker.
    ranks
        The number of ranks, in a bench.
    nprocs
        The number of ranks, in a script.
    machine
        The machine, in a script. None chooses the smallest preset with at least `nprocs` PEs.
    algorithms
        For each collective, the name of an algorithm. Other collectives use the default algorithm.
    files
        Files in the format of ccl.yaml that add algorithms.
    allow_code
        The directories and Python files that such a file may name.
    channels
        The number of cores of each PE (`pe.cores`) that a collective occupies while it runs.

    Raises
    ------
    InputError
        If the calls of the ranks do not match, if a call names a rank, collective or algorithm that does not exist, or if a
        file or a group is not valid.
    """
    if not isinstance(ctx, Context):
        given = tuple(ignored.pop("args", () if worker is None else worker))
        _check_spawn(ignored, ("join", "daemon", "start_method"))
        how: dict[str, Any] = {"algorithms": algorithms, "files": files, "allow_code": allow_code}
        how["channels"] = channels
        return _spawned_alone(ctx, given, nprocs if nprocs is not None else ranks or 1, machine, how)
    _check_spawn(ignored, ())
    world = World(ctx, ranks if ranks is not None else nprocs or 1, algorithms or {}, files, allow_code, channels)
    with diverted():
        _Workers(world, worker, args).serve()
    return None


def _check_spawn(ignored: dict[str, Any], known: tuple[str, ...]) -> None:
    for name, value in ignored.items():
        if name not in known:
            raise ArgumentError(Problem("dist.spawn", "there is no such argument", name, str(value)))


def _spawned_alone(worker: Callable[..., object], args: tuple[Any, ...], ranks: int, machine: Any, how: dict[str, Any]) -> Any:
    words = re.findall(r"[A-Za-z0-9]+", name_of(worker))  # `<lambda>`, `train.py`, and objects without a name too

    @bench(name="_".join(words)[:60] or "workers", description="workers")
    def run(ctx: Context) -> None:
        spawn(ctx, worker, *args, ranks=ranks, **how)

    engine = GraphEngine(smallest_machine(ranks) if machine is None else machine)
    try:
        engine.run(run)
    except KernelFailed as failed:
        rank = getattr(failed.__cause__, "of_rank", None)
        if rank is None:
            raise
        raise ProcessRaisedException(failed, rank) from failed.__cause__
    return engine


class _Workers:
    """The workers of all ranks: their greenlets, what they wait for, and the answers that they get next."""

    def __init__(self, world: World, worker: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.world = world
        self.greenlets: list[Any] = []
        hub, begin = getcurrent(), modes()
        for rank in range(world.ranks.size()):
            one: Any = greenlet(_worked, hub)
            one.of_group = Worker(rank, world, hub)
            one.begin = begin
            one.runs_for = f"the worker {name_of(worker)} of rank {rank}"
            self.greenlets.append(one)
        self.waits: dict[int, tuple[Any, Operation | None]] = {}  #: the requests that ranks wait for, with their operations
        self.answers: dict[int, Any] = {rank: (worker, rank, *args) for rank in range(len(self.greenlets))}
        self.idle = 0  #: rounds in which polls were the only calls

    def serve(self) -> None:
        """Run each worker until it waits, answer the workers whose wait is over, and launch calls when no worker can
        continue."""
        while True:
            for rank in list(self.answers):
                self._run(rank, self.answers.pop(rank))
            self._answer_matched()
            if self.answers:
                continue
            if self.world.streams.pending:
                self.world.streams.flush()
            self._answer_ended()
            if self.answers:
                self.idle = 0
            elif not self._answer_polls():
                break
        if self.waits:
            calls = {rank: _called(request) for rank, (request, _) in self.waits.items()}
            self.world.refuse(calls, self.world.ranks.ranks)

    def _run(self, rank: int, given: tuple[Any, ...]) -> None:
        """Run a worker until it waits or ends."""
        while (request := _asked(self.greenlets[rank], given)) is not None:
            if isinstance(request, Do):
                given = (request.act(self.world),)
                continue
            operation = self.world.post(rank, request) if isinstance(request, Post) else None
            if isinstance(request, Post) and request.asynchronous:
                given = (operation,)
                continue
            self.waits[rank] = request, operation
            if not isinstance(request, Poll):
                self.idle = 0
            return

    def _answer(self, rank: int, value: Any) -> None:
        self.answers[rank] = (value,)
        del self.waits[rank]

    def _answer_matched(self) -> None:
        """Answer the calls that all ranks of their group have made."""
        for rank, (request, operation) in list(self.waits.items()):
            if isinstance(request, Post) and operation is not None and operation.matched:
                self._answer(rank, operation)

    def _answer_ended(self) -> None:
        """Answer the reads, and the waits for operations and conditions that have come true."""
        for rank, (request, _) in list(self.waits.items()):
            if isinstance(request, Read):
                self._answer(rank, read(self.world, request.tensor))
            elif isinstance(request, Wait | Poll) and request.operation.launched:
                self._answer(rank, True)
            elif isinstance(request, Until) and request.met():
                self._answer(rank, None)

    def _answer_polls(self) -> bool:
        """Answer the polls of operations that have not ended; False if there are none, or too many in a row."""
        polls = [rank for rank, (request, _) in self.waits.items() if isinstance(request, Poll)]
        self.idle += 1
        if not polls or self.idle > MAX_POLLS:
            return False
        for rank in polls:
            self._answer(rank, False)
        return True


def _called(request: Any) -> str:
    """Return the name of the call that a rank has made."""
    if isinstance(request, Poll):
        return f"polls its {request.operation.name}"
    return f"waits for its {request.operation.name}" if isinstance(request, Wait) else str(request.name)


def _asked(worker: Any, given: tuple[Any, ...]) -> Any:
    """Return the next call of a worker, or None after its end. Raises KernelError if the worker left its greenlet by itself."""
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
    if not isinstance(request, Post | Wait | Read | Do | Poll | Until):
        error = strayed(worker.runs_for, worker.gr_frame)
        worker.throw(error)
        error.add_note(f"in {worker.runs_for}")
        raise error
    return request


def _worked(worker: Callable[..., object], rank: int, *args: Any) -> None:
    """Run a worker in its greenlet."""
    me: Any = getcurrent()
    restore(me.begin)
    try:
        check_ran(worker(rank, *args), f"the worker {name_of(worker)}")
    except BaseException as error:
        if me.of_group.dropped:
            raise
        told = explained(error)
        found: Any = failure_of(told, me.runs_for, f"in {me.runs_for}")
        found.of_rank = rank
        if found is error:
            raise
        raise found from (error if found is told else None)


def name_of(worker: Callable[..., object]) -> str:
    return str(getattr(worker, "__name__", worker))


def this_worker() -> Worker:
    there = inside()
    found = getattr(getcurrent(), "of_group", None) if there is None else there.worker
    if found is None:
        remedy = (
            "dist.spawn(worker, nprocs=8) runs workers, and kbsim ccl torchrun --nproc-per-node 8 SCRIPT runs a script that "
            "torchrun starts"
        )
        raise ArgumentError(Problem("dist", "this function works only in a worker", remedy=remedy))
    assert isinstance(found, Worker)
    return found


def joined(name: str) -> Worker:
    me = this_worker()
    if not me.ready:
        remedy = 'call dist.init_process_group(backend="kernbench") first'
        raise ArgumentError(Problem(f"dist.{name}", f"rank {me.rank} has not joined the group of all workers", remedy=remedy))
    return me


def ask(request: Any) -> Any:
    """Pass the call of this rank to the hub, and return the result of the call."""
    there = inside()
    if there is not None:
        return there.ask(request)
    me, own = this_worker(), modes()
    try:
        return me.hub.switch(request)
    except GreenletExit:  # the run is over
        me.dropped = True
        raise
    finally:
        restore(own)
        os.environ.update(me.environment)


def integer(given: Any) -> int | None:
    """Return a Python or numpy integer as int, and None for any other value."""
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None
