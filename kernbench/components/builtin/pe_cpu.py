"""The processor of a PE: takes launches and runs their programs. It only calls its runner (seed ADR-0020 D3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kernbench.common.naming import PE_CPU
from kernbench.components.base import BUSY, NEVER, Clock, ComponentBase, Job, OpLog, Typed
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.pe_scheduler import PeScheduler

_NEVER = NEVER
_HOOKS = (ComponentBase._on_process_start, ComponentBase._on_process_end)


class CommandSource:
    """The source of the commands of a PE: it runs the programs of a launch, and is notified of ends.

    `next_due` is the cycle in which to resume, whatever ends before; NEVER: none.
    """

    def __init__(self) -> None:
        self.next_due = NEVER

    def begin(self, launch: int) -> None:
        """The programs of a launch are next."""
        raise NotImplementedError

    def resume(self, now: int) -> bool:
        """P1: continue the programs until they wait; true when the launch is over."""
        raise NotImplementedError

    def ended(self, flight: Flight) -> bool:
        """P7: a command has ended; true if the programs can continue in the next cycle."""
        raise NotImplementedError


class Processor(Typed):
    """Executes launches, one at a time, and passes the results of commands to the kernels."""

    def __init__(self, node_id: str, source: CommandSource, scheduler: PeScheduler, clock: Clock, *, cycles: int) -> None:
        super().__init__()
        self._op_logger: OpLog | None = None
        self.node_id = node_id
        self.source = source
        self.scheduler = scheduler
        self._time = scheduler.queues.time
        self._done = scheduler.queues.done
        self._cycles = max(cycles, 1)
        self._launch: int | None = None  # the job that is worked on
        self._begin_at = NEVER
        self._free_at = 0
        self._resume = False  # something has ended that the programs wait for
        self._clock = clock
        self._own_step = type(self).step is not vars(Processor)["step"]
        self._own_accept = type(self).accept is not vars(Processor)["accept"]
        self._own_notify = type(self).notify is not vars(Processor)["notify"]
        kind: Any = type(self)  # as in part.py
        self._own_hooks = (kind._on_process_start, kind._on_process_end) != _HOOKS
        self._record: Callable[[float, float, str, Any], None] | None = None
        self._record_of: OpLog | None = None
        scheduler.processor = self

    def accept(self, job: Job, now: int) -> int:
        if self._launch is not None or now < self._free_at:
            return BUSY
        self._launch = job.id
        self._begin_at = now + self._cycles
        self.source.begin(job.params[0])
        return self._begin_at

    def refuses(self, now: int) -> bool:
        """Whether `accept` refuses every launch now; a class in the place of PE_CPU may have its own `accept`."""
        return not self._own_accept and (self._launch is not None or now < self._free_at)

    def woken(self, now: int) -> int:
        """The core's way to `step`; a class in the place of PE_CPU may have its own."""
        if self._own_step:
            return Typed.woken(self, now)  # type: ignore[attr-defined, no-any-return]  # of the compiled class alone
        return self.step(now)

    def told(self, notice: int, number: int, now: int) -> int:
        """The same for `notify`."""
        if self._own_notify:
            return Typed.told(self, notice, number, now)  # type: ignore[attr-defined, no-any-return]
        return self.notify(notice, number, now)

    def step(self, now: int) -> int:
        scheduler, source = self.scheduler, self.source
        self._time.now, self._time.ended = now, ()
        due = scheduler.next_due
        if due <= now:
            queues = scheduler.queues
            came = queues.next_due <= now
            scheduler.deliver(now)
            if came:
                self._received()
            due = scheduler.next_due
        if self._resume or now >= self._begin_at or now >= source.next_due:
            self._resume = False
            self._begin_at = _NEVER
            if source.resume(now):
                assert self._launch is not None
                self.complete(self._launch)
                self._launch, self._free_at = None, now + 1
            due = scheduler.next_due
        if self._begin_at < due:
            due = self._begin_at
        later = source.next_due
        return later if later < due else due

    def _received(self) -> None:
        """Messages for which the programs waited have arrived."""
        for one in self._done:
            flight: Flight = one
            self._resume |= self.source.ended(flight)
        self._done.clear()

    def placed(self, msg: Any, now: int) -> None:
        """Log that known elements went into the scratchpad."""
        log = self._op_logger
        if log is None:
            return
        if log is not self._record_of:
            self._record_of, self._record = log, None if self._own_hooks else getattr(log, "record_served", None)
        if self._record is not None:
            start = self._clock.at(now).now
            self._record(start, start, self.node_id, msg)
            return
        component = cast(ComponentBase, self)
        component._on_process_start(self._clock.at(now), msg)
        component._on_process_end(self._clock, msg)

    def waited(self, line: int) -> None:
        """Report an implicit wait at a source line to the trace."""
        machine = self.scheduler.machine
        if machine is not None and machine.commands is not None and self._launch is not None:
            self.emit(self._launch, "implicit_wait", line)

    def notify(self, notice: int, number: int, now: int) -> int:
        end = self._time.now = now + 1
        flight = self.scheduler.job_ended(number, self.started(number), end)
        if flight is None:
            return _NEVER
        part = flight.part
        self._time.ended = (flight.command,) if flight.command >= 0 else ()
        part.ended(flight)
        if flight.parent is not None:
            flight = self.scheduler.tile_ended(flight, end)
            if flight is None:
                return self.scheduler.next_due
            flight.part.ended(flight)
        if not self.source.ended(flight):
            return self.scheduler.next_due
        self._resume = True
        return end


class PeCpu(Processor, ComponentBase, kind=PE_CPU):
    """One launch at a time. A job is a launch, by its number; it ends in the cycle after its last command.

    A launch takes the processor's `cycles`, at least 1, before its first program.
    """

    __slots__ = ("jobs",)

    flows = asks = 0  # all its bytes are moved by jobs: the core needs no tables for more
    no_snapshot = "a kernel cannot be saved as bytes: keep its inputs and the cycle, and run there again"

    def __init__(self, node_id: str, source: CommandSource, scheduler: PeScheduler, clock: Clock, *, cycles: int) -> None:
        super().__init__(node_id, source, scheduler, clock, cycles=cycles)
        self.jobs = scheduler.places
