"""One pass over a trace that collects the sums for the metrics, by engine, channel, link and scratchpad.

The pass stores open jobs and sums, but no closed jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational
from kernbench.trace.columns import IdMap
from kernbench.trace.events import Record
from kernbench.trace.metric.conflicts import ConflictSums
from kernbench.trace.metric.tokens import TokenSums
from kernbench.trace.reader import Trace, positive

KINDS = ("TE", "VE", "DMA")  #: kinds of engines, as TRACE_META.units names their components


@dataclass(slots=True)
class Activity:
    """The length of the union of intervals in the order of their events; no interval is stored."""

    cycles: int = 0  #: covered by closed intervals
    running: int = 0
    since: int = 0  #: if an interval is open: the cycle since which there was no gap

    def begin(self, t_cycle: int) -> None:
        """An interval begins."""
        if not self.running:
            self.since = t_cycle
        self.running += 1

    def end(self, t_cycle: int) -> None:
        """An interval that began in the file ends."""
        self.running -= 1
        if not self.running:
            self.cycles += t_cycle - self.since

    def end_early(self, t_cycle: int, first: int) -> None:
        """An interval ends that began before `first`, the first cycle of the file, and that therefore covers all cycles from
        `first` to `t_cycle`."""
        self.cycles = 0 if self.running else t_cycle - first
        self.since = first

    def until(self, t_cycle: int) -> int:
        """Cycles covered before `t_cycle`, including those of open intervals."""
        return self.cycles + (t_cycle - self.since if self.running else 0)


@dataclass(slots=True)
class Group:
    """The commands of one phase or layer."""

    name: str | int | None  #: None for commands without a phase or layer
    commands: int = 0
    ended: int = 0
    first: int | None = None  #: [cycle] the earliest start
    last: int = 0  #: [cycle] the latest end
    longest: int = 0  #: [cycle] the duration of the longest command
    command_cycles: int = 0  #: sum of the durations of all commands
    any: Activity = field(default_factory=Activity)
    by_kind: dict[str, Activity] = field(default_factory=lambda: {kind: Activity() for kind in KINDS})  #: by kind of engine
    macs: int = 0
    ops: int = 0
    bytes: int = 0
    stalls: dict[str, int] = field(default_factory=dict)  #: [job-cycle] by reason

    def start(self, t_cycle: int) -> None:
        """A command starts."""
        if self.first is None:
            self.first = t_cycle
        self.any.begin(t_cycle)

    def end(self, t_cycle: int, started: int | None, first: int) -> None:
        """A command ends; `started` is None if the command began before `first`, the first cycle of the file."""
        if started is None:
            self.any.end_early(t_cycle, first)
            self.first = started = first
        else:
            self.any.end(t_cycle)
        self.last = t_cycle
        self.ended += 1
        self.command_cycles += t_cycle - started
        self.longest = max(self.longest, t_cycle - started)

    def stalled(self, reason: str, cycles: int) -> None:
        """A wait of one of the commands' jobs ends."""
        self.stalls[reason] = self.stalls.get(reason, 0) + cycles


class Groups:
    """The phase and layer of each command, in four bytes a command."""

    def __init__(self, commands: int) -> None:
        self.phases: dict[str | int | None, Group] = {}
        self.layers: dict[str | int | None, Group] = {}
        self._pairs: list[tuple[Group, Group]] = []
        self._numbers: dict[tuple[str | None, int | None], int] = {}
        self._number_of = IdMap(commands)

    def enqueue(self, cmd_id: int, phase: str | None, layer: int | None) -> None:
        """Enter a command that was queued."""
        number = self._number(phase, layer)
        for group in self._pairs[number]:
            group.commands += 1
        self._number_of[cmd_id] = number

    def of(self, cmd_id: int) -> tuple[Group, Group]:
        """The phase and the layer of a command."""
        number = self._number_of.get(cmd_id)
        return self._pairs[self._number(None, None) if number is None else number]

    def _number(self, phase: str | None, layer: int | None) -> int:
        number = self._numbers.get((phase, layer))
        if number is None:
            number = self._numbers[phase, layer] = len(self._pairs)
            of_phase = self.phases.setdefault(phase, Group(phase))
            self._pairs.append((of_phase, self.layers.setdefault(layer, Group(layer))))
        return number


@dataclass(slots=True)
class EngineSums:
    """The sums of an engine."""

    unit: str
    kind: str  #: TE, VE or DMA
    index: int
    active: Activity = field(default_factory=Activity)  #: cycles in which the engine had a job
    busy: int = 0  #: from samples, as are the next two
    backpressure: int = 0
    bank_conflict: int = 0
    jobs: int = 0  #: jobs that ended
    work: int = 0  #: MACs, operations or bytes of the jobs that ended
    running: int = 0  #: [job-cycle] of the jobs that ended, from start to end
    queued: int = 0  #: [job-cycle] of the jobs that ended, from issue to start
    held: int = 0  #: [cycle] TE and VE: of the jobs that ended, the cycles held by bank conflicts
    body: int = 0  #: [cycle] bodies of TE jobs that started and ended in the file
    body_macs: int = 0  #: MACs of the TE jobs that `body` counts
    stalls: dict[str, list[int]] = field(default_factory=dict)  #: by reason: the number of waits that ended, and their cycles

    def stalled(self, reason: str, cycles: int) -> None:
        """A wait ends."""
        sums = self.stalls.setdefault(reason, [0, 0])
        sums[0] += 1
        sums[1] += cycles


@dataclass(slots=True)
class ChannelSums:
    """The sums of a DRAM channel or a link."""

    unit: str
    kind: str  #: DRAM or NOC
    capacity: Fraction  #: [byte/cycle]
    read: int = 0
    write: int = 0
    busy: int = 0
    members: int = 0


@dataclass(slots=True)
class BankSums:
    """The sums of a scratchpad, by bank."""

    unit: str
    requests: list[int] = field(default_factory=list)
    grants: list[int] = field(default_factory=list)
    denials: list[int] = field(default_factory=list)


BANK_CONFLICT = "bank_conflict"

#: The fields that are read, by event type; events of all other types are only counted.
FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("cmd_id", "phase", "layer_id", "token_idx", "seq_len"),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id", "status"),
    "JOB_DONE": ("unit", "latency_cycles"),
    "DMA_START": ("t_cycle", "job_id", "cmd_id", "unit", "size_bytes", "direction"),
    "DMA_END": ("t_cycle", "job_id", "cmd_id", "unit", "latency_cycles"),
    "TE_START": ("t_cycle", "job_id", "cmd_id", "unit", "body_cycles"),
    "TE_END": ("t_cycle", "job_id", "cmd_id", "unit", "mac_count", "latency_cycles", "stall_cycles"),
    "VE_START": ("t_cycle", "job_id", "cmd_id", "unit"),
    "VE_END": ("t_cycle", "job_id", "cmd_id", "unit", "op_count", "latency_cycles", "stall_cycles"),
    "STALL_EVENT": ("t_cycle", "unit", "job_id", "cmd_id", "reason", "channel"),
    "RESUME_EVENT": ("t_cycle", "unit", "job_id", "cmd_id", "reason", "duration_cycles", "channel"),
    "TOKEN": ("t_cycle", "token_idx", "latency_cycles"),
    "TOKEN_COMPLETE": ("status",),
    "WARN": ("code",),
    "ERROR": ("code",),
    "BANDWIDTH_SAMPLE": ("t_cycle", "unit", "read_bytes", "write_bytes", "busy_cycles", "member_cycles"),
    "ENGINE_SAMPLE": ("t_cycle", "unit", "busy_cycles", "backpressure_cycles", "bank_conflict_cycles"),
    "BANK_SAMPLE": ("unit", "requests", "grants", "denials"),
    "ENERGY_SAMPLE": ("t_cycle", "dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj"),
}
#: The additional fields of a file of level `access`.
FIELDS_OF_ACCESS: dict[str, tuple[str, ...]] = {
    "SRAM_ACCESS": ("t_cycle", "addr", "size_bytes", "access_type", "unit", "cycles"),
    "SRAM_CONFLICT": ("t_cycle", "unit", "bank_id", "access_type"),
}
#: The additional fields of a file of a window. If a transfer began before the window, only its end says how many bytes it
#: moved.
FIELDS_OF_WINDOW: dict[str, tuple[str, ...]] = {
    "JOB_DONE": ("unit", "job_id", "job_type", "latency_cycles"),
    "ENGINE_EVENT": ("unit", "job_id", "cmd_id", "bytes"),
}
#: Directions by job type; a host copy may have either direction.
DIRECTIONS = {"DMA_READ": "DRAM_TO_SRAM", "DMA_WRITE": "SRAM_TO_DRAM", "DMA_SEND": "SRAM_TO_SRAM", "DMA_RECV": "SRAM_TO_SRAM"}
PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


class Collector:
    """Collects the sums of one trace."""

    def __init__(self, meta: Record, path: str) -> None:
        window = window_of(meta)
        self.first: int = meta.t_cycle if window is None else window[0]
        self.fields = FIELDS | (FIELDS_OF_WINDOW if window is not None else {})
        self.last = self.first  #: the largest cycle seen
        self.sampled = self.first  #: the last cycle that the samples cover
        self.engines: dict[str, EngineSums] = {}
        self.channels: dict[str, ChannelSums] = {}
        self.banks: dict[str, BankSums] = {}
        only = patterns(meta)
        self._tracks(path, meta.units, only)
        self.groups = Groups(meta.commands)
        self.commands: Counter[str] = Counter()  #: commands that ended, by status
        self.open_commands: dict[int, int] = {}  #: by cmd_id: cycle of the start
        #: cmd_id of the waiting job, and the cycle in which the wait began
        self.open_stalls: dict[tuple[str, int, str, int | None], tuple[int, int]] = {}
        self.open_jobs: set[int] = set()  #: job_ids of engine jobs
        self.open_sizes: dict[int, tuple[int, str]] = {}  #: by job_id of a transfer: its size and direction
        self.open_bodies: dict[int, int] = {}  #: by job_id of a TE job: its body
        self.moved: Counter[str] = Counter()  #: [B] of transfers that ended, by direction
        self.tokens = TokenSums()
        self.early: dict[int, str] = {}  #: by job_id of a transfer that ended and began before the file: its job type
        self.conflicts = ConflictSums(meta.units, self.first) if meta.level == "access" and only is None else None
        self.fields |= FIELDS_OF_ACCESS if self.conflicts is not None else {}
        self.completions: Counter[str] = Counter()  #: number of TOKEN_COMPLETE events by status
        self.codes: dict[str, Counter[str]] = {"WARN": Counter(), "ERROR": Counter()}
        self.energy = dict.fromkeys(PARTS, Fraction(0))
        self.counts: Counter[str] = Counter()  #: number of events by type

    def read(self, trace: Trace) -> None:
        """Read a whole trace."""
        handlers = _Handlers(self, self.fields)
        counts: Counter[type[Record]] = Counter()
        for batch in trace.batches(self.fields):
            counts.update(map(type, batch))
            for record in batch:
                handle = handlers[record.__class__]
                if handle is not None:
                    handle(record)
        for kind, count in counts.items():
            self.counts[kind.event.name] += count

    def _tracks(self, path: str, units: Sequence[dict[str, Any]], only: Sequence[str] | None) -> None:
        """The tracks in the file."""
        if any(len(str(pattern)) > MAX_PATTERN for pattern in only or ()):
            raise InputError(Problem(f"{path}:1", f"a pattern must have at most {MAX_PATTERN} characters", "filter.only"))
        for i, unit in enumerate(units):
            name, kind = str(unit.get("unit")), str(unit.get("component"))
            if only is not None and not any(fnmatchcase(name, str(pattern)) for pattern in only):
                continue
            if kind in KINDS:
                self.engines[name] = EngineSums(name, kind, len(self.engines))
            elif kind in ("DRAM", "NOC"):
                self.channels[name] = ChannelSums(name, kind, positive(unit.get("capacity"), path, f"units[{i}].capacity"))
            elif kind == "SRAM":
                self.banks[name] = BankSums(name)

    def _engine(self, unit: str, kind: str) -> EngineSums:
        """The sums of an engine; an engine that TRACE_META does not list is added."""
        sums = self.engines.get(unit)
        if sums is None:
            sums = self.engines[unit] = EngineSums(unit, kind, len(self.engines))
        return sums

    def cmd_enqueue(self, record: Record) -> None:
        self.groups.enqueue(record.cmd_id, record.phase, record.layer_id)
        self.tokens.enqueue(record.token_idx, record.seq_len)

    def cmd_start(self, record: Record) -> None:
        self.open_commands[record.cmd_id] = t_cycle = record.t_cycle
        for group in self.groups.of(record.cmd_id):
            group.start(t_cycle)

    def cmd_end(self, record: Record) -> None:
        t_cycle = self.last = record.t_cycle
        self.commands[record.status] += 1
        started = self.open_commands.pop(record.cmd_id, None)
        if started is None and record.status != "OK":
            return  # the run was cut off before the command started
        for group in self.groups.of(record.cmd_id):
            group.end(t_cycle, started, self.first)

    def job_done(self, record: Record) -> None:
        sums = self.engines.get(record.unit)
        if sums is not None:
            # the latency includes the running time; the job's end event subtracts that time
            sums.queued += record.latency_cycles
            if sums.kind == "DMA" and "ENGINE_EVENT" in self.fields and record.job_id not in self.open_sizes:
                self.early[record.job_id] = record.job_type

    def engine_event(self, record: Record) -> None:
        job_type = self.early.pop(record.job_id, None)
        if job_type is not None and record.bytes is not None:
            self._moved(self._engine(record.unit, "DMA"), record.cmd_id, record.bytes, DIRECTIONS.get(job_type))

    def dma_start(self, record: Record) -> None:
        self._begin(record, "DMA")
        self.open_sizes[record.job_id] = record.size_bytes, record.direction

    def dma_end(self, record: Record) -> None:
        sums = self._over(record, "DMA")
        self._moved(sums, record.cmd_id, *self.open_sizes.pop(record.job_id, (0, None)))

    def _moved(self, sums: EngineSums, cmd_id: int, size: int, direction: str | None) -> None:
        """Add the bytes of a transfer that ended."""
        sums.work += size
        if direction is not None:
            self.moved[direction] += size
        for group in self.groups.of(cmd_id):
            group.bytes += size

    def te_start(self, record: Record) -> None:
        self._begin(record, "TE")
        self.open_bodies[record.job_id] = record.body_cycles

    def te_end(self, record: Record) -> None:
        held = self._held(record)
        sums = self._over(record, "TE")
        sums.work += record.mac_count
        sums.held += held
        body = self.open_bodies.pop(record.job_id, None)
        if body is not None:
            sums.body += body
            sums.body_macs += record.mac_count
        for group in self.groups.of(record.cmd_id):
            group.macs += record.mac_count

    def ve_start(self, record: Record) -> None:
        self._begin(record, "VE")

    def ve_end(self, record: Record) -> None:
        held = self._held(record)
        sums = self._over(record, "VE")
        sums.work += record.op_count
        sums.held += held
        for group in self.groups.of(record.cmd_id):
            group.ops += record.op_count

    def _held(self, record: Record) -> int:
        """The stalled cycles of a job that ends. If the job began before the first cycle of the file, at most its cycles in the
        file count, because the trace does not say when it was stalled."""
        began = record.job_id in self.open_jobs
        return int(record.stall_cycles if began else min(record.stall_cycles, record.t_cycle - self.first))

    def _begin(self, record: Record, kind: str) -> None:
        self.open_jobs.add(record.job_id)
        for activity in self._activities(record, kind):
            activity.begin(record.t_cycle)

    def _over(self, record: Record, kind: str) -> EngineSums:
        sums = self._engine(record.unit, kind)
        began = record.job_id in self.open_jobs
        self.open_jobs.discard(record.job_id)
        for activity in self._activities(record, kind):
            if began:
                activity.end(record.t_cycle)
            else:
                activity.end_early(record.t_cycle, self.first)
        sums.jobs += 1
        sums.running += record.latency_cycles
        return sums

    def _activities(self, record: Record, kind: str) -> list[Activity]:
        """The activities to which a job belongs: the activity of its engine, and those of its phase and layer for its kind of
        engine."""
        groups = self.groups.of(record.cmd_id)
        return [self._engine(record.unit, kind).active, *(group.by_kind[kind] for group in groups)]

    def stall_event(self, record: Record) -> None:
        key = record.unit, record.job_id, record.reason, record.channel
        self.open_stalls[key] = record.cmd_id, record.t_cycle
        if self.conflicts is not None and record.reason == BANK_CONFLICT:
            self.conflicts.hold(record.t_cycle)

    def resume_event(self, record: Record) -> None:
        opened = self.open_stalls.pop((record.unit, record.job_id, record.reason, record.channel), None)
        if self.conflicts is not None and record.reason == BANK_CONFLICT and opened is not None:
            self.conflicts.serve(opened[1], record.t_cycle)
        self._stalled(record.unit, record.cmd_id, record.reason, record.duration_cycles)

    def _stalled(self, unit: str, cmd_id: int, reason: str, cycles: int) -> None:
        sums = self.engines.get(unit)
        if sums is not None:
            sums.stalled(reason, cycles)
        for group in self.groups.of(cmd_id):
            group.stalled(reason, cycles)

    def sram_access(self, record: Record) -> None:
        if self.conflicts is not None:
            self.conflicts.access(record)

    def sram_conflict(self, record: Record) -> None:
        if self.conflicts is not None:
            self.conflicts.conflict(record)

    def token(self, record: Record) -> None:
        self.tokens.end(record.token_idx, record.t_cycle, record.latency_cycles)

    def token_complete(self, record: Record) -> None:
        self.completions[record.status] += 1

    def warn(self, record: Record) -> None:
        self.codes["WARN"][record.code] += 1

    def error(self, record: Record) -> None:
        self.codes["ERROR"][record.code] += 1

    def bandwidth_sample(self, record: Record) -> None:
        self.sampled = record.t_cycle
        sums = self.channels.get(record.unit)
        if sums is not None:
            sums.read += record.read_bytes
            sums.write += record.write_bytes
            sums.busy += record.busy_cycles
            sums.members += record.member_cycles

    def engine_sample(self, record: Record) -> None:
        self.sampled = record.t_cycle
        sums = self.engines.get(record.unit)
        if sums is not None:
            sums.busy += record.busy_cycles
            sums.backpressure += record.backpressure_cycles
            sums.bank_conflict += record.bank_conflict_cycles

    def bank_sample(self, record: Record) -> None:
        sums = self.banks.get(record.unit)
        if sums is not None:
            sums.requests = _added(sums.requests, record.requests)
            sums.grants = _added(sums.grants, record.grants)
            sums.denials = _added(sums.denials, record.denials)

    def energy_sample(self, record: Record) -> None:
        self.sampled = record.t_cycle
        for part in PARTS:
            self.energy[part] += parse_rational(getattr(record, f"{part}_pj"))


class _Handlers(dict[type[Record], Callable[[Record], None] | None]):
    """Finds the method of a collector for a class of records by the name of the event; each method is looked up once."""

    def __init__(self, collector: Collector, names: Collection[str]) -> None:
        super().__init__()
        self._collector, self._names = collector, names

    def __missing__(self, kind: type[Record]) -> Callable[[Record], None] | None:
        name = kind.event.name
        self[kind] = getattr(self._collector, name.lower()) if name in self._names else None
        return self[kind]


MAX_PATTERN = 1000  #: characters, because the time to build a matcher grows with the square of this number


def window_of(meta: Record) -> tuple[int, int] | None:
    """The cycles `[from, to)` of a file of a window; None for other files."""
    cycles = (meta.filter or {}).get("cycles")
    if isinstance(cycles, list) and len(cycles) == 2 and all(type(c) is int for c in cycles):
        return cycles[0], cycles[1]
    return None


def patterns(meta: Record) -> list[Any] | None:
    """The patterns of the units that a file is limited to; None if the file has all units."""
    only = (meta.filter or {}).get("only")
    return only if isinstance(only, list) else None


def _added(sums: list[int], more: list[int]) -> list[int]:
    if len(sums) < len(more):
        sums = sums + [0] * (len(more) - len(sums))
    return [a + b for a, b in zip(sums, more + [0] * (len(sums) - len(more)), strict=True)]
