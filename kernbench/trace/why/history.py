"""A run in the form that `why` needs: commands, jobs, flows, requests that were held, and the limits of the machine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, chain, pairwise
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.naming import cache_of, joins_routers
from kernbench.common.units import parse_rational
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.config.routers import moves_flits
from kernbench.config.schema import Dma, Mmio
from kernbench.trace.events import Record
from kernbench.trace.reader import Trace
from kernbench.trace.schema import LEVELS
from kernbench.trace.why.causes import Span, whole
from kernbench_core.numbers import COMM_CHANNEL, Channel

CONTROL = ("NOP", "BARRIER", "END")
QUEUED = ("IPCQ_SEND", "IPCQ_RECV")  #: commands that a PE_IPCQ passes to the DMA engine
KERNEL = "KERNEL"  #: a launch on a PE; its time is the time of the commands inside, which components submit


@dataclass(slots=True)
class Hold:
    """A request that a bank denied."""

    since: int  #: cycle of the first denial
    until: int  #: cycle in which it was served
    bank: int | None
    by: int | None  #: the job that took the port
    scratchpad: str | None = None  #: the scratchpad of that bank if it is not the engine's own


@dataclass(slots=True)
class Out:
    """Cycles in which a flow is not a member of its resources."""

    since: int
    until: int
    reason: str


@dataclass(slots=True, eq=False)
class Flow:
    """The bytes of a transfer on one channel."""

    job: Job
    channel: int
    size: int
    weight: int
    since: int
    until: int
    route: tuple[str, ...]  #: its DRAM channel, if it has one, then its links
    bare: bool = False  #: whether the flow has no DRAM channel
    congested: Fraction | None = None  #: on a network of routers: the share of its packets' time that they waited
    outs: list[Out] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class WriteBack:
    """Some cycles in which the write-backs of a last-level cache to a channel are a member of its resources; they belong to no
    job."""

    route: tuple[str, ...]  #: the channel, and the cache
    since: int
    until: int
    weight: int = 1
    outs: tuple[Out, ...] = ()


@dataclass(slots=True, eq=False)
class Job:
    """An issued job; a start or end that did not happen is set to the end of the run, and `started` and `ended` say so."""

    number: int
    command: Command
    issue: int
    start: int
    end: int
    started: bool = False
    ended: bool = False
    turn: int = 0  #: number of jobs that started before it, of those in the same cycle too
    channel: int | None = None  #: DMA channel; None if the trace does not name it because the job did not start
    head: int = 0
    weight: int = 1  #: weight of the transfer's flows
    address: int = 0  #: address of the first byte written
    stall: tuple[int, str, int | None] | None = None  #: of the queue: cycle of the begin, reason, job that causes the stall
    holds: list[Hold] = field(default_factory=list)  #: requests of a TE or VE that were held
    flows: dict[int, Flow] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Command:
    """An entry of the queue."""

    id: int
    place: int  #: position in the queue
    opcode: str
    unit: str
    deps: tuple[int, ...]
    head_id: int | None
    gate: Command | None  #: the last BARRIER before it
    position: int | None = None  #: position in the program; used if a host writes some entries later
    arrival: int = 0  #: the cycle from which the command is in the queue
    visible: int = 0  #: the cycle from which the message that the command waited for could be used; 0 if it waited for no flag
    raises: bool = False  #: whether its end raises an interrupt
    jobs: list[Job] = field(default_factory=list)  #: in order of issue; a machine with a micro-scheduler may have several
    end: int | None = None

    @property
    def job(self) -> Job | None:
        """The last job that was issued."""
        return self.jobs[-1] if self.jobs else None


class Line:
    """The jobs of an engine."""

    def __init__(self, jobs: list[Job]) -> None:
        """`jobs`: in the order of their issue."""
        self._never = [job for job in jobs if not job.started]
        self._by_start = sorted((job for job in jobs if job.started), key=lambda job: (job.start, job.number))
        self._starts = [job.start for job in self._by_start]
        self._reach = list(accumulate((job.end for job in self._by_start), max))

    def around(self, start: int, end: int) -> list[Job]:
        """Jobs that run in some cycle of [start, end), latest start first."""
        found = []
        for i in range(bisect_left(self._starts, end) - 1, -1, -1):
            if self._reach[i] <= start:
                break
            if self._by_start[i].end > start:
                found.append(self._by_start[i])
        return found

    def pending(self, cycle: int) -> Iterator[Job]:
        """Jobs that are issued and have not started after the starts of a cycle, in the order of their starts."""
        later = range(bisect_right(self._starts, cycle), len(self._starts))
        some = chain((self._by_start[i] for i in later), self._never)
        return (job for job in some if job.issue <= cycle < job.start)

    def starting(self, first: int, last: int) -> list[Job]:
        """Jobs that start in [first, last]."""
        return self._by_start[bisect_left(self._starts, first) : bisect_right(self._starts, last)]


@dataclass(slots=True)
class History:
    """A whole run."""

    program: str
    status: str  #: of TRACE_END; `cut off` if the file ends before that event
    broken: str
    cycles: int
    freq_ghz: Fraction
    dma: Dma  #: limits of a DMA engine
    comm: int  #: how many transfers of queues between PEs a DMA engine runs at a time
    allocation: str
    capacity: dict[str, Fraction]  #: [B/cycle] of channels and links
    component: dict[str, str]  #: of every unit
    scratchpad: dict[str, str]  #: by engine; only engines that have a scratchpad
    processor: dict[str, str]  #: by engine; only engines whose commands come from a kernel
    commands: list[Command]  #: in the order of the queue
    by_id: dict[int, Command]
    jobs: dict[int, Job]
    write_backs: list[WriteBack]
    mmio: Mmio | None  #: the host that writes entries into the queue
    on: dict[str, Line]  #: jobs by engine
    arrays: frozenset[str]  #: engines whose jobs overlap

    def until_issue(self, command: Command, ready: int, issue: int) -> Span:
        """The reason why a ready command waits: the executor of the queue, the processor of a PE, or queues between PEs."""
        if command.opcode in QUEUED:
            return whole(ready, issue, "ipcq", command.unit)
        if command.job is None and command.position is not None and command.position > command.place:
            # an earlier entry, which may be a BARRIER, is not in the queue yet
            return whole(ready, issue, "enqueue", "control")
        return whole(ready, issue, "issue", self.processor.get(command.unit, "control"))

    def until_arrival(self, command: Command, since: int) -> list[Span]:
        """The cycles from `since` until the host has put a command into the queue: first interrupts that are in flight, then
        the host."""
        known = min(max(since, self.interrupted(command)[0]), command.arrival)
        spans = []
        if since < known:
            spans.append(whole(since, known, "interrupt", "control"))
        if known < command.arrival:
            spans.append(whole(known, command.arrival, "enqueue", "control"))
        return spans

    def interrupted(self, command: Command) -> tuple[int, Command | None]:
        """The cycle in which the host has received the last interrupt that a command waits for, and the command that raised
        it."""
        raised = [one for one in map(self.by_id.get, command.deps) if one is not None and one.raises and one.end is not None]
        if self.mmio is None or not raised:
            return 0, None
        last = max(raised, key=lambda one: (one.end or 0, one.place))
        return (last.end or 0) + self.mmio.interrupt_cycles, last

    def overlaps(self, job: Job) -> bool:
        """Whether the engine of a job can have several jobs at a time, because each drains while the next one streams."""
        return job.command.unit in self.arrays

    def command_of(self, job: int | None) -> tuple[int, ...]:
        """The id of the command of a job."""
        return () if job is None or job not in self.jobs else (self.jobs[job].command.id,)


_FULL = LEVELS.index("full")
PROCESSORS = ("M_CPU", "COMPONENT")  # engines without a start event: their jobs start with their commands

_FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("cmd_id", "cmd_type", "unit", "deps", "head_id", "position", "visible"),
    "IRQ_EMIT": ("cmd_id",),
    "CMD_START": ("cmd_id",),
    "CMD_END": ("cmd_id", "status"),
    "JOB_ISSUE": ("job_id", "cmd_id"),
    "JOB_DONE": ("job_id",),
    "DMA_START": ("job_id", "channel", "head_cycles", "dst_addr", "weight"),
    "TE_START": ("job_id",),
    "VE_START": ("job_id",),
    "DRAM_TX_START": ("job_id", "channel", "unit", "size_bytes", "weight"),
    "DRAM_TX_END": ("job_id", "channel"),
    "DRAM_TX_SUSPEND": ("job_id", "channel", "reason"),
    "DRAM_TX_RESUME": ("job_id", "channel"),
    "NOC_TX_START": ("job_id", "channel", "unit", "size_bytes"),
    "NOC_TX_END": ("job_id", "channel", "unit"),
    "NOC_FLITS": ("job_id", "channel", "travel_cycles", "alone_cycles"),
    "WRITE_BACK_START": ("channel", "unit"),
    "WRITE_BACK_END": ("channel",),
    "STALL_EVENT": ("job_id", "reason", "channel", "bank_id", "by_job", "scratchpad"),
    "RESUME_EVENT": ("job_id", "reason", "channel"),
}


def read_history(trace: Trace) -> History:
    """The run of a trace. InputError if the trace lacks events."""
    _check(trace)
    processors = {str(unit.get("unit")) for unit in trace.meta.units if unit.get("component") in PROCESSORS}
    machine = _machine(trace)
    reading = _Reading(processors, _capacities(trace), moves_flits(machine))
    for records in trace.batches(only={name: ("t_cycle", *fields) for name, fields in _FIELDS.items()}):
        for record in records:
            handle = reading.handlers.get(record.event.name)
            if handle is not None:
                handle(record)
    last = max([0, *(c.end for c in reading.commands.values() if c.end is not None), reading.last])
    cycles = last if trace.end is None else trace.end.cycles
    reading.close(cycles)
    commands = list(reading.commands.values())
    on: dict[str, list[Job]] = {}
    for job in reading.jobs.values():
        on.setdefault(job.command.unit, []).append(job)
    return History(
        program=trace.meta.program,
        status="cut off" if trace.end is None else trace.end.status,
        broken="" if trace.broken is None else str(trace.broken),
        cycles=cycles,
        freq_ghz=machine.freq_ghz,
        dma=machine.pe.dma,
        comm=machine.comm_transfers,
        allocation=machine.allocation,
        capacity=_capacities(trace),
        component={str(unit.get("unit")): str(unit.get("component")) for unit in trace.meta.units},
        scratchpad=_scratchpads(trace),
        processor=_processors(trace, commands),
        commands=commands,
        by_id={command.id: command for command in commands},
        jobs=reading.jobs,
        write_backs=reading.write_backs,
        mmio=machine.control.mmio,
        on={unit: Line(jobs) for unit, jobs in on.items()},
        arrays=frozenset(str(unit.get("unit")) for unit in trace.meta.units if unit.get("drain") == "overlapped"),
    )


def _check(trace: Trace) -> None:
    meta = trace.meta
    if meta.level not in LEVELS or LEVELS.index(meta.level) < _FULL:
        remedy = "record it with --trace-level full"
        raise InputError(
            Problem(trace.path, f"it is of level {meta.level}, and why needs every flow and every conflict", remedy=remedy)
        )
    if meta.filter is not None:
        remedy = "record it without --trace-cycles and --trace-only"
        raise InputError(Problem(trace.path, "it omits events, but `why` needs all of them", remedy=remedy))


def _machine(trace: Trace) -> NpuConfig | SystemConfig:
    try:
        machine: NpuConfig | SystemConfig = load_config(trace.meta.sim_config)
    except InputError as error:
        rule = f"the machine in its first line cannot be read: {error.problems[0]}"
        raise InputError(Problem(trace.path, rule)) from None
    return machine


def _scratchpads(trace: Trace) -> dict[str, str]:
    """The scratchpad of an engine has the location of the engine."""
    place = {str(u.get("parent")): str(u.get("unit")) for u in trace.meta.units if u.get("component") == "SRAM"}
    units = {str(u.get("unit")): str(u.get("parent")) for u in trace.meta.units}
    return {unit: place[parent] for unit, parent in units.items() if parent in place}


def _processors(trace: Trace, commands: list[Command]) -> dict[str, str]:
    """A kernel issues the commands of its own PE only."""
    parent = {str(unit.get("unit")): str(unit.get("parent")) for unit in trace.meta.units}
    running = {parent[one.unit]: one.unit for one in commands if one.opcode == KERNEL and one.unit in parent}
    return {unit: running[place] for unit, place in parent.items() if place in running}


def _capacities(trace: Trace) -> dict[str, Fraction]:
    try:
        return {str(u["unit"]): parse_rational(u["capacity"]) for u in trace.meta.units if "unit" in u and "capacity" in u}
    except ValueError as error:
        raise InputError(Problem(trace.path, f"a capacity in its first line: {error}")) from None


class _Reading:
    """Collects the records of a file; records of jobs that are not in the file are ignored."""

    def __init__(self, processors: set[str], resources: Container[str], flits: bool) -> None:
        """`flits`: no flow is a member of a link between routers."""
        self._flits = flits
        self._processors = processors
        self._resources = resources
        self.write_backs: list[WriteBack] = []
        self._written: dict[int, WriteBack] = {}
        self.commands: dict[int, Command] = {}
        self.jobs: dict[int, Job] = {}
        self.last = 0
        self._turns = 0
        self._gate: Command | None = None
        self._open_flows: set[tuple[int, int]] = set()
        self._held: dict[tuple[int, int | None], Hold] = {}
        self._out: dict[tuple[int, int], Out] = {}
        self.handlers: dict[str, Callable[[Any], None]] = {
            "CMD_ENQUEUE": self._enqueue,
            "IRQ_EMIT": self._interrupt,
            "CMD_START": self._command_start,
            "CMD_END": self._command_end,
            "JOB_ISSUE": self._issue,
            "JOB_DONE": self._done,
            "DMA_START": self._dma_start,
            "TE_START": self._start,
            "VE_START": self._start,
            "DRAM_TX_START": self._flow_start,
            "DRAM_TX_END": self._flow_end,
            "DRAM_TX_SUSPEND": self._suspend,
            "DRAM_TX_RESUME": self._resume,
            "NOC_TX_START": self._link,
            "NOC_TX_END": self._link_end,
            "NOC_FLITS": self._packets,
            "WRITE_BACK_START": self._write_back,
            "WRITE_BACK_END": self._written_back,
            "STALL_EVENT": self._stall,
            "RESUME_EVENT": self._served,
        }

    def close(self, cycles: int) -> None:
        """Set times of events that have not happened to the end of the run."""
        for job in self.jobs.values():
            job.start = job.start if job.started else cycles
            job.end = job.end if job.ended else cycles
        for number, channel in self._open_flows:
            self.jobs[number].flows[channel].until = cycles
        for hold in self._held.values():
            hold.until = cycles
        for queue in self._written.values():
            queue.until = cycles
        for out in self._out.values():
            out.until = cycles
        if any(command.position is not None for command in self.commands.values()):
            self._put_in_order()

    def _put_in_order(self) -> None:
        """Order commands by their positions in the program, then those of components, as if all had been queued at the
        beginning."""
        gate: Command | None = None
        order = sorted(self.commands.values(), key=lambda one: (one.position is None, one.position or 0, one.place))
        for place, command in enumerate(order):
            command.place = place
            if command.position is not None:
                command.gate = gate
            if command.opcode == "BARRIER":
                gate = command
        self.commands = {command.id: command for command in order}

    def _interrupt(self, record: Record) -> None:
        if record.cmd_id in self.commands:
            self.commands[record.cmd_id].raises = True

    def _enqueue(self, record: Record) -> None:
        made = Command(
            id=record.cmd_id,
            place=len(self.commands),
            opcode=record.cmd_type,
            unit=record.unit,
            deps=tuple(record.deps or ()),
            head_id=record.head_id,
            gate=self._gate,
            position=record.position,
            visible=record.visible or 0,
            arrival=0 if record.position is None else record.t_cycle,
        )
        if made.id in self.commands:
            return
        self.commands[made.id] = made
        if made.opcode == "BARRIER":
            self._gate = made

    def _command_start(self, record: Record) -> None:
        """The start of a launch, which no other event reports."""
        command = self.commands.get(record.cmd_id)
        if command is not None and command.job is not None and command.unit in self._processors:
            command.job.start, command.job.started = record.t_cycle, True

    def _command_end(self, record: Record) -> None:
        if record.status == "OK" and record.cmd_id in self.commands:
            self.commands[record.cmd_id].end = record.t_cycle

    def _issue(self, record: Record) -> None:
        self.last = record.t_cycle
        if record.cmd_id in self.commands and record.job_id not in self.jobs:
            job = Job(record.job_id, self.commands[record.cmd_id], record.t_cycle, 0, 0)
            job.channel = {"KV_LOAD_TILE": 1, "KV_STORE_TILE": 2}.get(job.command.opcode)
            self.jobs[job.number] = job
            job.command.jobs.append(job)

    def _start(self, record: Record) -> None:
        self.last = record.t_cycle
        if record.job_id in self.jobs:
            job = self.jobs[record.job_id]
            job.start, job.started, job.turn = record.t_cycle, True, self._turns
            self._turns += 1

    def _dma_start(self, record: Record) -> None:
        self._start(record)
        if record.job_id in self.jobs:
            job = self.jobs[record.job_id]
            job.channel, job.head, job.address = record.channel, record.head_cycles, record.dst_addr
            job.weight = record.weight

    def _done(self, record: Record) -> None:
        if record.job_id in self.jobs:
            job = self.jobs[record.job_id]
            job.end, job.ended = record.t_cycle, True

    def _flow(self, record: Record) -> Flow | None:
        self.last = record.t_cycle
        job = self.jobs.get(record.job_id)
        return None if job is None else job.flows.get(record.channel)

    def _flow_start(self, record: Record) -> None:
        job = self.jobs.get(record.job_id)
        if job is not None:
            at = (record.size_bytes, record.weight, record.t_cycle, record.t_cycle)
            job.flows[record.channel] = Flow(job, record.channel, *at, (record.unit,))
            self._open_flows.add((record.job_id, record.channel))

    def _link(self, record: Record) -> None:
        flow = self._flow(record)
        if self._flits and joins_routers(record.unit):
            return
        if flow is not None:
            flow.route = (*flow.route, record.unit)
        elif record.job_id in self.jobs:  # without a DRAM channel, only the link events describe the flow
            job = self.jobs[record.job_id]
            at = (record.size_bytes, job.weight, record.t_cycle, record.t_cycle)
            job.flows[record.channel] = Flow(job, record.channel, *at, (record.unit,), bare=True)
            self._open_flows.add((record.job_id, record.channel))

    def _link_end(self, record: Record) -> None:
        if self._flits and joins_routers(record.unit):
            return
        flow = self._flow(record)
        if flow is not None and flow.bare:
            self._flow_end(record)

    def _packets(self, record: Record) -> None:
        flow = self._flow(record)
        if flow is not None and record.travel_cycles:
            flow.congested = Fraction(max(0, record.travel_cycles - record.alone_cycles), record.travel_cycles)

    def _flow_end(self, record: Record) -> None:
        flow = self._flow(record)
        if flow is not None:
            key = (record.job_id, record.channel)
            flow.until = record.t_cycle
            self._open_flows.discard(key)
            if key in self._out:
                self._out.pop(key).until = record.t_cycle

    def _suspend(self, record: Record) -> None:
        flow = self._flow(record)
        if flow is not None:
            self._goes_out(flow, record.t_cycle, record.reason)

    def _goes_out(self, flow: Flow, cycle: int, reason: str) -> None:
        out = Out(cycle, cycle, reason)
        self._out[flow.job.number, flow.channel] = out
        flow.outs.append(out)

    def _resume(self, record: Record) -> None:
        out = self._out.pop((record.job_id, record.channel), None)
        if out is not None:
            out.until = record.t_cycle

    def _write_back(self, record: Record) -> None:
        self.last = record.t_cycle
        cache = cache_of(record.unit, self._resources)
        queue = WriteBack((record.unit,) if cache is None else (record.unit, cache), record.t_cycle, record.t_cycle)
        self._written[record.channel] = queue
        self.write_backs.append(queue)

    def _written_back(self, record: Record) -> None:
        self.last = record.t_cycle
        if record.channel in self._written:
            self._written.pop(record.channel).until = record.t_cycle

    def _stall(self, record: Record) -> None:
        self.last = record.t_cycle
        job = self.jobs.get(record.job_id)
        if job is None:
            return
        if record.reason in ("queue_full", "priority_deferred"):
            job.stall = (record.t_cycle, record.reason, record.by_job)
            if record.channel is not None:
                job.channel = record.channel
        bare = job.flows.get(0) if 0 in job.flows and job.flows[0].bare else None
        if record.reason == "backpressure" and bare is not None:
            self._goes_out(bare, record.t_cycle + 1, record.reason)
        if record.reason != "bank_conflict":
            return
        hold = Hold(record.t_cycle, record.t_cycle, record.bank_id, record.by_job, record.scratchpad)
        self._held[record.job_id, record.channel] = hold
        holder = bare or (job if record.channel is None else job.flows.get(record.channel))
        if holder is not None:
            holder.holds.append(hold)

    def _served(self, record: Record) -> None:
        if record.reason == "bank_conflict":
            hold = self._held.pop((record.job_id, record.channel), None)
            if hold is not None:
                hold.until = record.t_cycle
        elif record.reason == "backpressure":
            job = self.jobs.get(record.job_id)
            out = self._out.pop((record.job_id, 0), None) if job is not None and 0 in job.flows and job.flows[0].bare else None
            if out is not None:
                out.until = record.t_cycle + 1


REMEDY = "kbsim trace validate says what is wrong with it"


def check_lawful(history: History, path: str) -> None:
    """InputError for the first contradiction in the trace."""
    for rule in _broken(history):
        raise unlawful(path, rule)


def unlawful(path: str, rule: str) -> InputError:
    """The error for a file that is not a trace of any run."""
    return InputError(Problem(path, rule, remedy=REMEDY))


def _broken(history: History) -> Iterator[str]:
    for name, capacity in history.capacity.items():
        if capacity <= 0:
            yield f"{name} has no capacity"
    for command in history.commands:
        if command.end is not None and command.end > history.cycles:
            yield f"command {command.id} ends after the run"
        if command.end is not None and command.job is not None and not command.job.ended:
            yield f"command {command.id} ends, and its job does not"
    for job in history.jobs.values():
        yield from _job(history, job)
        for flow in job.flows.values():
            yield from _flow(history, flow)


def _job(history: History, job: Job) -> Iterator[str]:
    if not job.issue <= job.start <= job.end <= history.cycles:
        yield f"job {job.number} is not issued, started and ended in this order inside the run"
    if job.ended and (not job.started or (job.command.end != job.end and job is job.command.job)):
        yield f"job {job.number} ends without a start, or its command does not end with it"
    if job.channel not in (None, *Channel, COMM_CHANNEL):
        yield f"job {job.number} is on a DMA channel that there is not"
    if job.stall is not None and not job.issue <= job.stall[0] <= job.start:
        yield f"job {job.number} stalls although it is not pending"
    if _overlap(job.holds, job.start, job.end):
        yield f"job {job.number} is held although it does not run, or is held twice"


def _flow(history: History, flow: Flow) -> Iterator[str]:
    job = flow.job
    name = f"the flow of job {job.number} on channel {flow.channel}"
    if flow.since != job.start + job.head or not flow.since <= flow.until <= job.end:
        yield f"{name} is not inside its transfer"
    if any(unit not in history.capacity for unit in flow.route) or len(set(flow.route)) < len(flow.route):
        yield f"{name} uses a resource without capacity, or one resource twice"
    if flow.weight < 1 or flow.size < 1:
        yield f"{name} has no weight or no bytes"
    if _overlap(flow.holds, flow.since, flow.until):
        yield f"{name} is held although it does not run, or is held twice"
    marks = [mark for out in flow.outs for mark in (out.since, out.until)]
    if any(a > b for a, b in pairwise([flow.since, *marks, flow.until])):
        yield f"{name} is suspended although it does not run, or is suspended twice"


def _overlap(holds: list[Hold], start: int, end: int) -> bool:
    marks = [mark for hold in holds for mark in (hold.since, hold.until)]
    return any(a > b for a, b in pairwise([start, *marks, end]))
