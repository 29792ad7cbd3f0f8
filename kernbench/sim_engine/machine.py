"""A machine that runs a program; it owns the compiled core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

import kernbench_core
from kernbench.bounds import Bounds
from kernbench.bounds.energy import energy_pj
from kernbench.bounds.laws import BrokenLaw, check_counters, check_laws
from kernbench.bounds.program import plan_bounds
from kernbench.cmdq import Program, load_program
from kernbench.cmdq.plan import Plan, ids_of, lower_parameters, plan_program
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.threads import threads_of
from kernbench.common.units import cycles_to_ns
from kernbench.components.replacements import (
    arbiter_name,
    configured,
    configured_arbiter,
    granted_by_code,
    impl_of,
    replaced_engines,
)
from kernbench.config import MachineConfig, NpuConfig, SystemConfig
from kernbench.config.load import Source, config_of
from kernbench.sim_engine.perturbation import current, needs_plain_walk, perturbed_plan, submitted_jobs
from kernbench.sim_engine.recording.options import Sink, TraceOptions
from kernbench.sim_engine.result import MODEL_VERSION, EntryTimes, Result
from kernbench.sim_engine.run.commands import Commands
from kernbench.sim_engine.run.counters import empty_warnings, named_counters, overlap_warnings
from kernbench.sim_engine.run.failure import ARBITER, arbiter_failure, component_failure, overflow_refusal, overlap_failure
from kernbench.sim_engine.run.stops import FOREVER, stops_of, walk_of
from kernbench.sim_engine.run.waits import InFlight, PeQueues, who_waits
from kernbench.version import VERSION
from kernbench_core import BANKS, BUSY, FLOW, JOB, NEVER, Arbiter, Component
from kernbench_core.numbers import STATUSES, Status
from kernbench_core.standalone.dram_load import DramLoad
from kernbench_core.standalone.flit_load import FlitLoad
from kernbench_core.state.python_memory import memory_of

if TYPE_CHECKING:
    from kernbench.components.traffic import TrafficPart
    from kernbench.sim_engine.recording.metadata import TraceState
    from kernbench.sim_engine.recording.tracing import Tracing
    from kernbench.sim_engine.run.state import MachineState

__all__ = ["BANKS", "BUSY", "FLOW", "JOB", "NEVER", "Arbiter", "Component", "Machine", "memory_of", "simulate"]

SLICE_SECONDS = 0.05  # [s] time after which the loop returns, for Ctrl-C and progress; no cycle depends on it
CONTROL_SLICE = 1 << 20  # [cycle] before the first test whether a control entry is complete


class Machine:
    """A run that the caller controls: step it, stop it at a condition, inspect its engines, save it and resume it.

    - `config`: a machine, or its name, file or dict.
    - `program`: a `Program` or a file.
    - `components`: components by name. A component with the name of an engine (`te0`) replaces the engine, and any other
      component is added.
    - `whole`: on a system, whether PEs, memories and links that no entry names are created too.
    - `plan`: the plan of this program on this machine, if it is known.
    - `walk`: `plain` runs every cycle without fast paths, and `fast` uses fast paths. The result is the same. The default is
      the environment variable KERNBENCH_WALK, otherwise `fast`.
    - `threads`: the number of host threads, which run groups of scratchpads that share nothing. The default is the environment
      variable KERNBENCH_THREADS, otherwise 1.
    - `arbiter`: an `Arbiter` or a capsule that grants banks in place of `spm.arbiter`.

    The class raises InputError if the program is not valid on this machine, or if a component does not fit.

    >>> import kernbench as kb
    >>> program = kb.Program("gemm")
    >>> tile = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                        wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> machine = kb.Machine("npu_mobile", program)
    >>> machine.run(until="start:0"), machine.cycle
    (True, 1)
    >>> machine.run(), machine.status
    (False, 'done')
    """

    def __init__(
        self,
        config: MachineConfig | Source,
        program: Program | str | os.PathLike[str],
        components: Mapping[str, Any] | None = None,
        *,
        whole: bool = False,
        plan: Plan | None = None,
        walk: str | None = None,
        threads: int | None = None,
        arbiter: Any = None,
    ) -> None:
        self.walk = walk_of(walk)
        self.threads = threads_of(threads) or 1
        self.config: NpuConfig | SystemConfig = config_of(config)
        self.program = program if isinstance(program, Program) else load_program(program)
        self.plan = plan_program(self.program, self.config, whole=whole) if plan is None else plan
        self.components = configured(self.config, [*self.plan.dma, *self.plan.compute])
        self._watching: dict[str, TrafficPart] = {}
        if self.config.components:
            # imported here, because most machines have no such components
            from kernbench.components.traffic import traffic_parts

            self._watching = traffic_parts(self.config, self.plan.resources, self.plan.capacities)
            self.components |= self._watching
        self.components |= components or {}
        self.impls = {name: impl_of(component) for name, component in self.components.items()}
        self.arbiter = configured_arbiter(self.config) if arbiter is None else arbiter
        draws = current()
        if draws is not None:
            self.plan = perturbed_plan(self.plan, self.plan.rows(self.program), draws, kernels=naming.HOST in self.components)
            self.walk = "plain" if needs_plain_walk(self.plan) else self.walk
            draws.machine = self
        self._core = self._new_core()
        self.wake: Callable[[int, int], None] = self._core.wake  #: wakes a component, by its position, in a later cycle
        if self.plan.reach is not None:
            self.plan.reach.open(self._core.add_route)
        self.rows = self.plan.rows(self.program)  #: the entries that the core runs: the entries of the program, or their jobs
        self._tracing: Tracing | None = None
        self.checks = True  #: check LAWS at the end of the run; BrokenLaw if one does not hold
        self.commands: Commands | None = None  #: descriptions of component jobs, if required
        self.queues: PeQueues | None = None  #: the queues between PEs, if kernels run
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext  #: the context of every slice of the run
        self._trace_state: TraceState | None = None  # state of the trace in the loaded checkpoint

    def _new_core(self) -> Any:
        plan, plain = self.plan, self.walk == "plain"
        machine, tables = plan.machine, plan.program
        if self.components:
            machine = machine | {"replaced": replaced_engines([*plan.dma, *plan.compute], list(self.components))}
            tables = tables | lower_parameters(plan.rows(self.program), plan)
        if self.arbiter is not None:
            machine = machine | {"spm": [granted_by_code(table) for table in machine["spm"]]}
        try:
            parts = list(self.components.values())
            return kernbench_core.Core(machine, tables, parts, arbiter=self.arbiter, plain=plain, threads=self.threads)
        except ValueError as error:
            if not self.plugged:
                raise
            raise InputError(Problem("components" if self.components else "arbiter", str(error))) from error

    @property
    def plugged(self) -> bool:
        """Whether the run has components or an arbiter, whose code is not in any file."""
        return bool(self.components) or self.arbiter is not None

    @property
    def cycle(self) -> int:
        """[cycle] The number of cycles run, which is the number of the next cycle."""
        return int(self._core.cycle)

    @property
    def status(self) -> str:
        """running, done, aborted, deadlock or failed."""
        status: str = STATUSES[self._core.status]
        return status

    def open_peers(self, room: Sequence[int]) -> None:
        """Let components submit DMA jobs to the scratchpads of PEs. `room` is the limit of open jobs that is added for each
        scratchpad.
        """
        self._core.open_peers([*room, *([0] * (len(self.plan.machine["spm"]) - len(room)))])

    def keep_commands(self) -> Commands:
        """Let components describe the jobs that they submit. The attribute `commands` keeps the descriptions."""
        if self.commands is None:
            self.commands = Commands(self.program, self.plan, list(self.components), self._core.describe)
        return self.commands

    def trace(self, sink: Sink, options: TraceOptions | None = None) -> Tracing:
        """Trace this run to `sink`, from cycle 0 on. Call `close()` of the returned object at the end.

        InputError if the options do not fit together or `sink` has no method `write`, ValueError after cycle 0.
        """
        if self.cycle:
            raise ValueError(f"cycle {self.cycle}: the run has begun already; start the trace at cycle 0")
        tracing = self._new_tracing(sink, options or TraceOptions())
        tracing.begin(self._header()["program"])
        return tracing

    def go_on_tracing(self, sink: Sink) -> Tracing:
        """Continue the trace of a loaded checkpoint in `sink`. Both files together have the same bytes as the trace of one run.

        Raises InputError if the run was not traced.
        """
        tracing = self._new_tracing(sink, self.options_of_trace())
        tracing.go_on(self.trace_state())
        return tracing

    def _new_tracing(self, sink: Sink, options: TraceOptions) -> Tracing:
        from kernbench.sim_engine.recording.tracing import Tracing

        if not callable(getattr(sink, "write", None)):
            rule = "it must have a method write, like a binary file"
            raise InputError(Problem("Machine.trace", rule, "sink", sink, 'pass open("run.jsonl", "wb")'))
        self._tracing = Tracing(self, self._core, kernbench_core.Format, kernbench_core.Samples, sink, options)
        return self._tracing

    def trace_state(self) -> TraceState:
        """The state of the trace in the loaded checkpoint. InputError if the run was not traced."""
        if self._trace_state is None:
            raise InputError(Problem("--trace", "the checkpoint is of a run without a trace", remedy="trace from cycle 0 on"))
        return self._trace_state

    def options_of_trace(self) -> TraceOptions:
        """The trace options of the loaded checkpoint. InputError if the run was not traced."""
        return self.trace_state().trace_options()

    def step(self, cycles: int = 1, *, skip: bool = False) -> int:
        """Run `cycles` cycles, or fewer if the run ends; return the number of cycles run. Every cycle is simulated, unless
        `skip` is True."""
        before = self.cycle
        self._run(before + cycles, skip, None, {})
        return self.cycle - before

    @cached_property
    def _position(self) -> dict[int, int]:
        """The position of each entry, by its id."""
        return {entry.id: entry.index for entry in self.rows.entries}

    @cached_property
    def bounds(self) -> Bounds:
        """Lower bounds of the cycles, which are known before the run."""
        return plan_bounds(self.program, self.plan)

    def run(
        self,
        until: str | None = None,
        *,
        cycles: int | None = None,
        skip: bool = True,
        progress: Callable[[Machine], None] | None = None,
    ) -> bool:
        """Run to the end, or until a condition holds; return whether it holds.

        `until`: `end:ID`, `start:ID`, `stall`, `conflict` or `cycle:N`. The run stops after the cycle in which the condition
        becomes true, and at once if it is already true. `cycles`: run at most this number of cycles. `progress`: called about
        20 times a second.
        """
        limit, stops = (FOREVER, {}) if until is None else stops_of(until, self._position)
        if "start_of" in stops and self.plan.jobs is not None:
            stops["start_of"] = self.plan.jobs.first[self.plan.jobs.command[stops["start_of"]]]
        most = limit if cycles is None else min(limit, self.cycle + cycles)
        entry = max(stops.get("start_of", -1), stops.get("end_of", -1))
        if entry >= 0 and self._time_of(entry, stops) >= 0:
            return True
        if entry >= 0 and self.rows.entries[entry].engine == "control":
            return self._run_to_control(entry, most, skip, progress)
        # Skipping may pass over the cycles in which a denied request waits, so `conflict` simulates every cycle.
        came = self._run(most, skip and until != "conflict", progress, stops)
        return came or (limit != FOREVER and self.cycle >= limit)

    def _time_of(self, entry: int, stops: dict[str, Any]) -> int:
        """The cycle in which an entry started or ended, as `stops` requires, or -1."""
        return int(self._core.entries()[1 if "start_of" in stops else 2][entry])

    def _run_to_control(
        self, entry: int, limit: int, skip: bool, progress: Callable[[Machine], None] | None
    ) -> bool:
        """Run until a control entry completes. The entry completes inside P2, where the core tests no condition, so the run is
        repeated.
        """
        state = self.snapshot()
        width, done_at = CONTROL_SLICE, -1
        while done_at < 0 and self._core.status == 0 and self.cycle < limit:
            self._run(min(limit, self.cycle + width), skip, progress, {}, traced=False)
            done_at = int(self._core.entries()[2][entry])
            width *= 2
        if done_at < 0:
            return False
        self.restore(state)
        self._run(done_at + 1, skip, progress, {})
        return True

    def _run(
        self,
        limit: int,
        skip: bool,
        progress: Callable[[Machine], None] | None,
        stops: dict[str, Any],
        *,
        traced: bool = True,
    ) -> bool:
        """Run in slices, for signals and progress; the slices do not change any cycle."""
        width = 1 << 14
        tracing = self._tracing if traced else None
        with self.around(), nullcontext() if tracing is None else tracing.whole_up_to(limit):
            while self._core.status == 0 and self.cycle < limit:
                begin = time.monotonic()
                to = min(limit, self.cycle + width)
                run = self._core.run if tracing is None else tracing.run
                if run(to, skip=skip, **stops):
                    return True
                if progress is not None:
                    progress(self)
                spent = time.monotonic() - begin
                width = max(1 << 10, min(1 << 40, int(width * (2 if spent < SLICE_SECONDS else 0.5))))
        if self._core.status == Status.OVERFLOW:
            raise overflow_refusal(self.config)
        if self._core.status == Status.DONE:
            for part in self._watching.values():
                part.finish(self.cycle)
        if self.checks:
            check_laws(self.plan, self.cycle, self.status, self._core, list(self.components))
        return False

    def peek(self) -> MachineState:
        """The state of every engine. The method does not change the run."""
        from kernbench.sim_engine.run.state import machine_state  # imported here, because a run to its end inspects no engine

        known = self.commands or Commands(self.program, self.plan, (), self._core.describe)
        return machine_state(self.plan, known, self._core.engines(), self.cycle, self.status)

    def result(self, *, entries: bool = True) -> Result:
        """Return the result; during the run, return the result so far. `entries`: include the times of the entries."""
        of_jobs = self._times() if entries or self.status == "deadlock" else []
        times = of_jobs if self.plan.jobs is None or not of_jobs else self._of_commands(of_jobs)
        counters = named_counters(self.plan, self._core.counters())
        components = dict(zip(self.components, self._core.component_counters(), strict=True))
        ended = self._core.entries()[2] >= 0
        return Result(
            status=self.status,
            cycles=self.cycle,
            t_ns=float(cycles_to_ns(self.cycle, self.config.freq_ghz)),
            entries=times,
            counters=counters,
            metrics={
                "bounds": self.bounds.to_dict(),
                "energy_pj": energy_pj(self.program, self.plan, ended, counters, self.cycle, self._core.submitted_work()),
            },
            warnings=[*empty_warnings(self.program, self.status, counters, components), *self._warnings()],
            waiting=self._waiting(of_jobs),
            failure=self.failure(),
            components=components,
            program=self.program.name,
            machine=self.config.source,
        )

    def _waiting(self, times: list[EntryTimes]) -> list[dict[str, Any]]:
        if self.status != "deadlock":
            return []
        in_flight = InFlight(self.plan, self.peek(), list(self.components))
        return who_waits(
            self.rows, times, self._core.waiting()[1], in_flight, self.queues, absent=self.absent_entries()
        )

    def arrivals(self) -> list[int | None] | None:
        """The cycle in which each entry arrives in the command queue; None for an entry that the host has not begun to write.

        None if the machine has no host that writes entries (`control.mmio`).
        """
        found = self._core.arrivals()
        return None if found is None else [None if at < 0 else at for at in found.tolist()]

    def absent_entries(self) -> set[int]:
        """Positions of entries that the host has not yet put into the command queue."""
        last = self.cycle - (self.status in ("running", "aborted"))  # cycles whose P2 is over
        return {k for k, at in enumerate(self.arrivals() or ()) if at is None or at > last}

    def _times(self) -> list[EntryTimes]:
        columns: list[list[int | None]] = [column.tolist() for column in self._core.entries()]
        if self._core.status != Status.DONE:
            columns = [[None if at is None or at < 0 else at for at in column] for column in columns]
        entries = self.rows.entries
        return [
            EntryTimes(entry.id, entry.opcode, issue, start, end)
            for entry, issue, start, end in zip(entries, *columns, strict=True)
        ]

    def time_table(self) -> npt.NDArray[np.int64]:
        """A row for each entry: its id, and the cycles in which it was issued, started and ended; -1: this has not happened."""
        columns = self._core.entries()
        if self._core.status != Status.DONE:
            columns = tuple(np.maximum(column, -1) for column in columns)
        issue, start, end = columns
        jobs = self.plan.jobs
        if jobs is not None:
            issue, start, end = issue[list(jobs.first)], start[list(jobs.first)], end[list(jobs.last)]
        ids = ids_of(self.program, self.plan)
        table = np.empty((len(ids), 4), dtype=np.int64)
        for k, column in enumerate((ids, issue, start, end)):
            table[:, k] = column
        return table

    def _of_commands(self, times: list[EntryTimes]) -> list[EntryTimes]:
        """The times of commands: the first issue and start of their jobs, and the end of the last job."""
        jobs = self.plan.jobs
        assert jobs is not None
        spans = zip(self.program.entries, jobs.first, jobs.last, strict=True)
        return [
            EntryTimes(entry.id, entry.opcode, times[first].issue, times[first].start, times[last].end)
            for entry, first, last in spans
        ]

    def _warnings(self) -> list[dict[str, Any]]:
        left = [] if self.queues is None or self.status == "running" else self.queues.unreceived(self.cycle)
        if self.plan.pe.spm.check_overlap != "warn":
            return left
        return [*overlap_warnings(self.rows.entries, self._core.entries()[1].tolist(), self._core.overlaps()), *left]

    def failure(self) -> dict[str, Any] | None:
        """Return the entry that failed, the cycle and the reason. Return None for a run that has not failed."""
        rule = self._core.arbiter_failure()
        if rule is not None:
            return arbiter_failure(arbiter_name(self.arbiter), *rule)
        broken = self._core.failure()
        if broken is not None:
            return component_failure(self.impls, *broken, refused=kernbench_core.Refused)
        late = self._core.failed_entry
        return None if late < 0 else overlap_failure(self.rows, self.cycle, late, dict(self._core.overlaps())[late])

    def raised(self) -> BaseException | None:
        """Return the exception of the component that ended the run; None if no exception did."""
        broken = self._core.failure()
        error: BaseException | None = None if broken is None else broken[-1]
        return error

    def submitted_jobs(self) -> dict[str, int]:
        """Return the number of transfers that kernels submitted in a perturbed run, by PE and channel."""
        return submitted_jobs(self.plan, self._core.submitted_there())

    def _header(self) -> dict[str, Any]:
        import hashlib  # imported here, because only checkpoints need it

        own_rule = {} if self.arbiter is None else {ARBITER: arbiter_name(self.arbiter)}
        return {
            "version": VERSION,
            "model_version": MODEL_VERSION,
            "core": kernbench_core.STATE,
            "machine": self.config.digest(),
            "program": hashlib.sha256(msgspec.json.encode(self.program.to_dict())).hexdigest(),
            "components": self.impls | own_rule,
        }

    def save(self, path: str | os.PathLike[str], *, trace_bytes: int | None = None) -> None:
        """Write a checkpoint file completely, or not at all. `trace_bytes`: the current length [B] of the trace file.

        For a machine with components or its own arbiter, the file holds the cycle and a digest of the state, and `load`
        repeats the run to that cycle.
        """
        from kernbench.sim_engine.checkpoint import write_checkpoint

        trace = b""
        if self._tracing is not None:
            trace = msgspec.json.encode({**self._tracing.state(), "file_bytes": trace_bytes})
        state = self.snapshot()
        if self.plugged:
            state = msgspec.json.encode({"cycle": self.cycle, "digest": self._core.digest()})
        write_checkpoint(path, {**self._header(), "cycle": self.cycle}, state, trace)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load a checkpoint of this machine and program, and continue from it.

        Raises InputError for any other checkpoint, and for a state that no run can have. The machine is then unchanged.
        """
        from kernbench.sim_engine import checkpoint
        from kernbench.sim_engine.recording.metadata import read_state

        most = checkpoint.REPLAYED if self.plugged else self._core.most_state_bytes()
        state, trace = checkpoint.read_checkpoint(path, self._header(), most)
        self._trace_state = read_state(trace) if trace else None
        if self.plugged:
            self._run_again(str(path), state)
            return
        before = self.snapshot()
        try:
            self._core.restore(state)
            check_counters(self.plan, self.cycle, self.status, self._core)
        except (ValueError, BrokenLaw) as error:
            self._core.restore(before)
            raise InputError(Problem(str(path), f"no run can be in this state: {error}", remedy=checkpoint.REMEDY)) from error

    def _run_again(self, path: str, state: bytes) -> None:
        """Run a machine with components up to the cycle of its checkpoint, because no file contains the state of components."""
        from kernbench.sim_engine import checkpoint

        cycle, digest = checkpoint.replayed(path, state)
        if self.cycle:
            raise ValueError(f"cycle {self.cycle}: a run with components is resumed from cycle 0")
        if self._trace_state is not None:
            self._new_tracing(_Nowhere(), self.options_of_trace()).begin(self._header()["program"])
        self.run(cycles=cycle)
        self._tracing = None
        if self.cycle != cycle or self._core.digest() != digest:
            rule = f"the run is not in the saved state in cycle {self.cycle}: a component depends on more than its inputs"
            raise InputError(Problem(path, rule, remedy=checkpoint.REMEDY))

    def shuffle_lists(self, seed: int) -> None:
        """Handle equal events of a cycle in a random order, which must not change any result. For tests; the seed 0 ends it."""
        self._core.shuffle_lists(seed)

    def snapshot(self) -> bytes:
        """Return the whole state as bytes, for `restore`. Raises InputError if a component cannot be saved."""
        if self.commands is not None and self.commands.added:
            raise InputError(Problem("checkpoint", "a checkpoint cannot hold commands that components described"))
        try:
            return bytes(self._core.snapshot())
        except ValueError as error:
            raise InputError(Problem("checkpoint", str(error))) from error

    def restore(self, state: bytes) -> None:
        """Return to a snapshot of this machine and program. Raises ValueError for a snapshot of another shape."""
        self._core.restore(state)


class _Nowhere:
    """A sink for the part of a trace that was written before."""

    def write(self, text: bytes, /) -> None:
        """Accept whole lines, and discard them."""


def simulate(
    program: Program | str | os.PathLike[str],
    config: MachineConfig | Source,
    *,
    skip: bool = True,
    progress: Callable[[Machine], None] | None = None,
    components: Mapping[str, Any] | None = None,
    walk: str | None = None,
    threads: int | None = None,
    arbiter: Any = None,
) -> Result:
    """Run a program to its end on a machine.

    `program`: a `Program` or a file. `config`: a machine, or its name, file or dict. `skip`, `walk`, `threads`: how cycles are
    run; the result is the same. `progress`: called about 20 times a second. `components`, `arbiter`: as in `Machine`.
    InputError before cycle 0 if the program is not valid on this machine.

    >>> import kernbench as kb
    >>> program = kb.Program("gemm")
    >>> tile = program.te_gemm(m=16, n=16, k=16, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1,
    ...                        wgt_offset=0, ofm_bank=2, ofm_offset=0)
    >>> kb.simulate(program, "npu_mobile").status
    'done'
    """
    machine = Machine(config, program, components, walk=walk, threads=threads, arbiter=arbiter)
    machine.run(skip=skip, progress=progress)
    return machine.result()


def run_dram_load(controller: dict[str, Any], bursts: Any, warm: int, clocks: int, first: int = 0) -> dict[str, Any]:
    """Run a single DRAM controller of `row_buffer_v2` under a load, for comparisons with other simulators.

    `controller`: the result of `kernbench.cmdq.controller_timing`. `bursts`: an int64 array with the burst number, 1 for a
    write, and the DRAM clock in which the burst is offered. `first` is the number of the first DRAM clock. Returns the counts
    of the `clocks` clocks after the first `warm` clocks, and the `latencies` of reads in DRAM clocks.
    """
    found: dict[str, Any] = DramLoad(controller, bursts).run(warm, clocks, first)
    return found


def flit_load(network: dict[str, Any]) -> FlitLoad:
    """A network of routers by itself, with tables from `kernbench.noc.network`; packets are offered to it."""
    return FlitLoad(network)
