"""`GraphEngine` (seed ADR-0020 D10) runs benches on a machine. The run is Phase 1; Phase 2 uses its `op_log`."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from kernbench.cmdq import Program
from kernbench.common.errors import InputError, KernbenchError, traceback_text
from kernbench.common.files import NoRoomError
from kernbench.config import load_config
from kernbench.config.allowed_code import AllowCode
from kernbench.config.kinds import pes_of
from kernbench.config.machine import MachineConfig
from kernbench.sim_engine.machine import Machine, memory_of
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.result import Result
from kernbench.topology.graph import Topology

Around: TypeAlias = Callable[[Machine], AbstractContextManager[Any]]  #: context in which a machine runs


@dataclass(frozen=True, slots=True)
class PeTimes:
    """[cycle] The times of one PE in a launch; None for an event that has not happened."""

    start: int | None  #: start of its first program
    end: int | None  #: end of its last command


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """[cycle] The issue, start and end of a launch; None for an event that has not happened."""

    name: str
    issued: int  #: call of the host
    start: int | None  #: start of the first program
    end: int | None  #: end of the last command
    pes: Mapping[str, PeTimes]

    @property
    def cycles(self) -> int | None:
        """[cycle] From the call of the host to the end of the last command."""
        return None if self.end is None else self.end - self.issued


@dataclass(frozen=True, slots=True)
class TimingResult:
    """The result of Phase 1: `result` has the counters, `launches` the times of each launch.

    >>> import kernbench as kb
    >>> @kb.bench(name="zeros", description="zeros")
    ... def zeros(ctx):
    ...     ctx.launch("zeros", lambda tl: tl.wait(tl.zeros((4,), "f32")), grid=1)
    >>> timing = kb.GraphEngine("single_cube").run(zeros)
    >>> timing.status, len(timing.launches), timing.cycles == timing.result.cycles
    ('done', 1, True)
    """

    result: Result
    launches: tuple[LaunchTimes, ...]

    @property
    def cycles(self) -> int:
        """[cycle] Of the whole run."""
        return self.result.cycles

    @property
    def t_ns(self) -> float:
        """[ns] The time of the whole run."""
        return self.result.t_ns

    @property
    def status(self) -> str:
        """done, aborted, deadlock, failed, or running."""
        return self.result.status


@dataclass(frozen=True, slots=True)
class Session:
    """The common state of one run: the machine, its memories, and the op log, if there is one."""

    config: MachineConfig
    store: MemoryStore
    log: OpLogger | None
    strict_wait: bool = False  #: whether using a tensor that is in flight is an error


class Activity(Protocol):
    """A run that has begun."""

    @property
    def components(self) -> Mapping[str, Any]:
        """The components that drive the machine, by name."""
        ...

    @property
    def error(self) -> BaseException | None:
        """The first exception of its code."""
        ...

    def bind(self, machine: Machine) -> None: ...

    def launches(self) -> list[LaunchTimes]: ...


class Runnable(Protocol):
    """The interface of a bench for `GraphEngine`."""

    @property
    def name(self) -> str: ...

    def begin(self, session: Session, params: Mapping[str, Any]) -> Activity: ...


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a bench by a `GraphEngine` that ended without an error."""

    bench: Runnable
    params: Mapping[str, Any]
    config: MachineConfig
    strict_wait: bool


_RECORDED: ContextVar[list[Ran] | None] = ContextVar("kernbench_recorded", default=None)


@contextmanager
def recorded_benches() -> Iterator[list[Ran]]:
    """The runs of benches inside the `with` block, in order: those of scripts, which have no bench to name."""
    found: list[Ran] = []
    token = _RECORDED.set(found)
    try:
        yield found
    finally:
        _RECORDED.reset(token)


#: Thresholds of Python's garbage collector during a run: new objects between collections of the youngest generation, and
#: collections of the middle generation between full collections. Most objects of a run live as long as the run.
YOUNG, MIDDLE = 100_000, 100
YOUNG_OF_A_PE = 1_000  #: the same for each PE: its kernel has hundreds of objects in flight, which a collection only visits


@contextmanager
def _rare_collections(pes: int) -> Iterator[None]:
    """A large machine has many objects that live as long as the run, and a thousand kernels have many objects in flight.
    Repeated full collections took a quarter of the time of a run with 1,024 PEs. The objects are not frozen:
    `gc.get_freeze_count`, which tells whether other code has frozen objects, walks over all frozen objects."""
    before = gc.get_threshold()
    if before[0]:  # 0: the collector is off
        gc.set_threshold(max(YOUNG, pes * YOUNG_OF_A_PE, before[0]), before[1], max(MIDDLE, before[2]))
    try:
        yield
    finally:
        gc.set_threshold(*before)


class KernelFailed(KernbenchError):
    """The code of a bench or kernel raised an exception: `__cause__` is the exception, and `failure` is the failure in the
    result."""

    exit_code = 5

    def __init__(self, failure: Mapping[str, Any], error: BaseException | None) -> None:
        super().__init__(failure["message"])
        self.failure = failure
        self.__cause__ = error

    @property
    def traceback(self) -> str:
        """The traceback in Python's format, from the first frame of the user's code on, if it is known."""
        error = self.__cause__
        if error is None:
            return str(self.failure.get("traceback", ""))
        frames = getattr(error, "user_traceback", None) or error.__traceback__
        return traceback_text(error, frames)


class GraphEngine:
    """Runs benches on one machine.

    - `graph`: a topology, a machine, or the name or file of a machine.
    - `op_log`: whether the engine keeps the log that Phase 2 needs. The cycles do not depend on this argument.
    - `limit_bytes`: the size [B] from which the log is kept in a temporary file.
    - `strict_wait`: whether using a tensor without waiting for it is an error.
    - `allow_code`: the same as in `load_config`, for a name or a file.
    - `components`: for each name, a class or function that makes a component for each run. A component with the name of an
      engine replaces the engine; any other component gets `tl.issue` messages.

    >>> import kernbench as kb
    >>> @kb.bench(name="zeros", description="zeros")
    ... def zeros(ctx):
    ...     ctx.launch("zeros", lambda tl: tl.wait(tl.zeros((4,), "f32")), grid=1)
    >>> engine = kb.GraphEngine("single_cube")
    >>> engine.run(zeros).status, len(engine.op_log) > 0
    ('done', True)
    """

    def __init__(
        self,
        graph: Topology | MachineConfig | str | os.PathLike[str],
        *,
        op_log: bool = True,
        limit_bytes: int | None = None,
        strict_wait: bool = False,
        allow_code: AllowCode = (),
        components: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        """`op_log`: keep the data that Phase 2 needs; the cycles are the same without it. If the log exceeds `limit_bytes`, it
        is kept in a temporary file.

        `strict_wait`: whether using a tensor without waiting for it is an error. `allow_code`: the same as in `load_config`,
        for a name or a file.
        """
        if isinstance(graph, Topology):
            self.config: MachineConfig = graph.config
        else:
            self.config = graph if isinstance(graph, MachineConfig) else load_config(graph, allow_code=allow_code)
        self._keeps_log = op_log
        self._limit = limit_bytes
        self._strict_wait = strict_wait
        self._parts = dict(components or {})
        self._machine: Machine | None = None
        self._activity: Any = None
        self.op_log: OpLogger | None = None  #: log of the last run; None if none is kept

    def prepare(self, bench: Runnable, **params: Any) -> Machine:
        """Return a machine at cycle 0 that is ready to run the bench. InputError for parameters that are not valid."""
        with memory_of(pes_of(self.config)):
            return self._prepared(bench, params)

    def _prepared(self, bench: Runnable, params: Mapping[str, Any]) -> Machine:
        store = MemoryStore()
        self.op_log = OpLogger(store, limit_bytes=self._limit) if self._keeps_log else None
        session = Session(self.config, store, self.op_log, self._strict_wait)
        self._activity = bench.begin(session, params)
        parts = {name: make() for name, make in self._parts.items()}
        self._machine = self._new_machine(Program(bench.name), {**self._activity.components, **parts})
        self._activity.bind(self._machine)
        return self._machine

    def _new_machine(self, program: Program, components: Mapping[str, Any]) -> Machine:
        return Machine(self.config, program, components, whole=True)

    def run(
        self, bench: Runnable, *, progress: Callable[[Machine], None] | None = None, around: Around = nullcontext, **params: Any
    ) -> TimingResult:
        """Run Phase 1 of a bench with these parameters. `around`: a context manager for the machine, for example one that
        traces it.

        InputError if the bench or the machine is not valid; KernelFailed if the code of a kernel raised an exception.
        """
        machine = self.prepare(bench, **params)
        with around(machine), _rare_collections(len(machine.plan.machine["spm"])), memory_of(pes_of(self.config)):
            machine.run(progress=progress)
        self.check()
        recorded = _RECORDED.get()
        if recorded is not None:
            recorded.append(Ran(bench, params, self.config, self._strict_wait))
        return self.get_timing_result()

    def check(self) -> None:
        """Raise the error that ended the run, if any: InputError and MemoryError of a kernel and NoRoomError of the op log
        unchanged, and KernelFailed for other errors.
        """
        failure = self.machine.failure()
        if failure is None:
            return
        if isinstance(self.activity.error, (InputError, MemoryError)):
            raise self.activity.error
        if isinstance(raised := self.machine.raised(), NoRoomError):
            raise raised
        raise KernelFailed(failure, self.activity.error)

    @property
    def machine(self) -> Machine:
        """The machine of the last run; ValueError before the first."""
        if self._machine is None:
            raise ValueError("nothing has been run yet")
        return self._machine

    @property
    def activity(self) -> Any:
        """The last run with the data of its bench, for the verification. ValueError before the first."""
        if self._activity is None:
            raise ValueError("nothing has been run yet")
        return self._activity

    def get_timing_result(self) -> TimingResult:
        """The cycles and the launches of the last run so far."""
        return TimingResult(self.machine.result(), tuple(self.activity.launches()))
