"""Components written as generators: `run(env, msg)` for every job, with `env.timeout(cycles)`."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kernbench_core.plugin.component_base import Component
from kernbench_core.plugin.pycomponent import BUSY, NEVER, Job


@dataclass(frozen=True, slots=True)
class Timeout:
    """A wait of a number of cycles, made by `Environment.timeout`."""

    cycles: int


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the core; the generator continues when it is complete."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


Waits = Generator[Timeout | Call, Any, None]


class Environment:
    """The `env` of a generator: its methods return objects that the generator may yield, and `now` is the cycle.

    A job that is accepted in cycle 10 begins at 10, and `timeout(5)` ends at 15, when cycles 10 to 14 have run.

    >>> from kernbench_core import Environment
    >>> Environment().timeout(5)
    Timeout(cycles=5)
    """

    def __init__(self) -> None:
        self.now = 0

    def timeout(self, cycles: int) -> Timeout:
        """Wait for a number of cycles, 0 or more; ValueError for a negative number."""
        if cycles < 0:
            raise ValueError(f"timeout({cycles}): it must be 0 or more cycles")
        return Timeout(cycles)

    def flow(self, nbytes: int, path: Sequence[int], *, weight: int = 1) -> Call:
        """Move bytes over resources; the wait ends when the last byte has moved."""
        return Call("open_flow", (nbytes, path), {"weight": weight})

    def banks(self, scratchpad: int = 0, *, reads: Sequence[int] = (), writes: Sequence[int] = ()) -> Call:
        """Request banks of a scratchpad; the wait ends when all are granted."""
        return Call("ask_banks", (scratchpad,), {"reads": reads, "writes": writes})

    def job(self, kind: int, engine: int, **what: Any) -> Call:
        """Submit a job to an engine; the wait ends when the job has ended."""
        return Call("submit", (kind, engine), what)


class Process(Component):
    """A component written as a generator: `run(env, msg)` is started for each job, and the job ends when the generator returns.

    `capacity`: the largest number of jobs that run at a time. A snapshot of such a component is refused, because a generator
    cannot be saved.

    >>> from kernbench import Machine, Program
    >>> from kernbench_core import Process
    >>> class FixedLatency(Process, kind="ten_cycles"):
    ...     def run(self, env, msg):
    ...         yield env.timeout(10)
    >>> program = Program()
    >>> job = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                       wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> machine = Machine("npu_mobile", program, {"te0": FixedLatency()})
    >>> machine.run()
    False
    >>> machine.result().cycles
    10
    """

    capacity: ClassVar[int] = 1
    no_snapshot: ClassVar[str] = "a snapshot of a generator component is refused: its position in `run` cannot be saved as bytes"

    def __init__(self, spec: Any = None, **fields: Any) -> None:
        super().__init__(spec, **fields)
        # wake cycle, order, logical time, generator, and the request to make then
        self._due: list[tuple[int, int, int, Waits, Call | None]] = []
        self._waiting: dict[int, Waits] = {}  # number of a flow, request or job: the generator that waits for it
        self._jobs: dict[int, int] = {}  # job by the number of its generator
        self._number: dict[Waits, int] = {}
        self._ended_at = -1  # the cycle in which a job last ended
        self._ended = 0  # number of jobs that ended in this cycle
        self._count = 0
        self.env = Environment()

    def run(self, env: Environment, msg: Job) -> Waits:
        """The generator of a job: yield the results of methods of `env`."""
        raise NotImplementedError(f"{type(self).__name__} has no run")

    def accept(self, job: Job, now: int) -> int:
        if now != self._ended_at:
            self._ended = 0
        if len(self._jobs) + self._ended >= self.capacity:
            return BUSY
        process = self.run(self.env, job)
        self._count += 1
        self._number[process] = self._count
        self._jobs[self._count] = job.id
        self._resume(process, None, now, now, now)
        return self._next()

    def step(self, now: int) -> int:
        while self._due and self._due[0][0] <= now:
            _, _, time, process, call = heapq.heappop(self._due)
            if call is None:
                self._resume(process, None, time, now, now)
            else:
                self._ask(process, call)
        return self._next()

    def notify(self, notice: int, number: int, now: int) -> int:
        self._resume(self._waiting.pop(number), number, now + 1, now, now + 1)
        return self._next()

    def _resume(self, process: Waits, value: int | None, time: int, now: int, counts: int) -> None:
        """Resume at logical `time`, in cycle `now`; requests to the core take effect from cycle `counts` on."""
        while True:
            self.env.now = time
            try:
                wait = process.send(value)
            except StopIteration:
                self._end(process, now)
                return
            value = None
            if isinstance(wait, Timeout):
                time += wait.cycles
                if time - 1 > now:
                    self._later(time - 1, time, process, None)
                    return
            elif isinstance(wait, Call):
                if time > counts:
                    self._later(time, time, process, wait)
                else:
                    self._ask(process, wait)
                return
            else:
                raise TypeError(f"{type(self).__name__}.run yielded {wait!r}: it must be what a method of env returns")

    def _end(self, process: Waits, now: int) -> None:
        self.complete(self._jobs.pop(self._number.pop(process)))
        if now != self._ended_at:
            self._ended_at, self._ended = now, 0
        self._ended += 1

    def _later(self, wake: int, time: int, process: Waits, call: Call | None) -> None:
        self._count += 1
        heapq.heappush(self._due, (wake, self._count, time, process, call))

    def _ask(self, process: Waits, call: Call) -> None:
        number = getattr(self, call.method)(*call.arguments, **call.named)
        self._waiting[number] = process

    def _next(self) -> int:
        return self._due[0][0] if self._due else NEVER
