"""One pass over a trace that adds up what the metrics are made from; it keeps what is open, and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_rational
from kernbench.trace.activity import KINDS, Activity, Groups
from kernbench.trace.events import Record
from kernbench.trace.reader import Trace
from kernbench.trace.tokens import TokenSums

#: What is read: fields by event type; of all other types only how many there are.
FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("cmd_id", "phase", "layer_id", "token_idx", "seq_len"),
    "CMD_START": ("t_cycle", "cmd_id"),
    "CMD_END": ("t_cycle", "cmd_id", "status"),
    "JOB_DONE": ("unit", "latency_cycles"),
    "DMA_START": ("t_cycle", "job_id", "cmd_id", "unit", "size_bytes", "direction"),
    "DMA_END": ("t_cycle", "job_id", "cmd_id", "unit", "latency_cycles"),
    "TE_START": ("t_cycle", "job_id", "cmd_id", "unit", "body_cycles"),
    "TE_END": ("t_cycle", "job_id", "cmd_id", "unit", "mac_count", "latency_cycles", "stall_cycles"),
    "VE_START": ("t_cycle", "cmd_id", "unit"),
    "VE_END": ("t_cycle", "cmd_id", "unit", "op_count", "latency_cycles", "stall_cycles"),
    "STALL_EVENT": ("t_cycle", "unit", "job_id", "cmd_id", "reason", "channel"),
    "RESUME_EVENT": ("unit", "job_id", "cmd_id", "reason", "duration_cycles", "channel"),
    "TOKEN": ("t_cycle", "token_idx", "latency_cycles"),
    "TOKEN_COMPLETE": ("status",),
    "WARN": ("code",),
    "ERROR": ("code",),
    "BANDWIDTH_SAMPLE": ("t_cycle", "unit", "read_bytes", "write_bytes", "busy_cycles", "member_cycles"),
    "ENGINE_SAMPLE": ("t_cycle", "unit", "busy_cycles", "backpressure_cycles", "bank_conflict_cycles"),
    "BANK_SAMPLE": ("unit", "requests", "grants", "denials"),
    "ENERGY_SAMPLE": ("t_cycle", "dram_pj", "noc_pj", "spm_pj", "mac_pj", "ve_pj", "static_pj"),
}
PARTS = ("dram", "noc", "spm", "mac", "ve", "static")


@dataclass(slots=True)
class EngineSums:
    """What is added up of an engine."""

    unit: str
    kind: str  #: TE, VE or DMA
    index: int
    active: Activity = field(default_factory=Activity)  #: cycles in which it had a job
    busy: int = 0  #: from samples, as the next two
    backpressure: int = 0
    bank_conflict: int = 0
    jobs: int = 0  #: that ended
    work: int = 0  #: MACs, operations or bytes of those
    running: int = 0  #: [job-cycle] of those, from start to end
    queued: int = 0  #: [job-cycle] of those, from issue to start
    held: int = 0  #: [cycle] of those, by bank conflicts: TE and VE
    body: int = 0  #: [cycle] of work of TE jobs that ended
    stalls: dict[str, list[int]] = field(default_factory=dict)  #: reason: episodes that are over, their cycles

    def stalled(self, reason: str, cycles: int) -> None:
        """An episode of a wait is over."""
        sums = self.stalls.setdefault(reason, [0, 0])
        sums[0] += 1
        sums[1] += cycles


@dataclass(slots=True)
class ChannelSums:
    """What is added up of a DRAM channel or a link."""

    unit: str
    kind: str  #: DRAM or NOC
    capacity: Fraction  #: [byte/cycle]
    read: int = 0
    write: int = 0
    busy: int = 0
    members: int = 0


@dataclass(slots=True)
class BankSums:
    """What is added up of a scratchpad, by bank."""

    unit: str
    requests: list[int] = field(default_factory=list)
    grants: list[int] = field(default_factory=list)
    denials: list[int] = field(default_factory=list)


class Collector:
    """Sums of one trace."""

    def __init__(self, meta: Record, path: str) -> None:
        self.first: int = meta.t_cycle
        self.last = self.first  #: the largest cycle seen
        self.sampled = self.first  #: the last cycle that a sample is of
        self.engines: dict[str, EngineSums] = {}
        self.channels: dict[str, ChannelSums] = {}
        self.banks: dict[str, BankSums] = {}
        self._tracks(path, meta.units, patterns(meta))
        self.groups = Groups(meta.commands)
        self.commands: Counter[str] = Counter()  #: that ended, by status
        self.open_commands: dict[int, int] = {}  #: cmd_id: start
        self.open_stalls: dict[tuple[str, int, str, int | None], tuple[int, int]] = {}  #: its cmd_id, its begin
        self.open_sizes: dict[int, tuple[int, str]] = {}  #: job_id of a transfer: its size and direction
        self.open_bodies: dict[int, int] = {}  #: job_id of a TE job: its body
        self.moved: Counter[str] = Counter()  #: bytes of transfers that ended, by direction
        self.tokens = TokenSums()
        self.completions: Counter[str] = Counter()  #: TOKEN_COMPLETE, by status
        self.codes: dict[str, Counter[str]] = {"WARN": Counter(), "ERROR": Counter()}
        self.energy = dict.fromkeys(PARTS, Fraction(0))
        self.counts: Counter[str] = Counter()  #: events, by type

    def read(self, trace: Trace) -> None:
        """Add up a whole trace."""
        handlers = _Handlers(self)
        counts: Counter[type[Record]] = Counter()
        for batch in trace.batches(FIELDS):
            counts.update(map(type, batch))
            for record in batch:
                handle = handlers[record.__class__]
                if handle is not None:
                    handle(record)
        for kind, count in counts.items():
            self.counts[kind.event.name] += count

    def _tracks(self, path: str, units: Sequence[dict[str, Any]], only: Sequence[str] | None) -> None:
        """The tracks that the file holds."""
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
        """The sums of an engine; one that TRACE_META does not list is added."""
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
            return  # the run was cut short before it started
        for group in self.groups.of(record.cmd_id):
            group.end(t_cycle, self.first if started is None else started, self.first)

    def job_done(self, record: Record) -> None:
        sums = self.engines.get(record.unit)
        if sums is not None:
            sums.queued += record.latency_cycles  # less what it ran, which its own end says

    def dma_start(self, record: Record) -> None:
        self._begin(record, "DMA")
        self.open_sizes[record.job_id] = record.size_bytes, record.direction
        for group in self.groups.of(record.cmd_id):
            group.dma.begin(record.t_cycle)

    def dma_end(self, record: Record) -> None:
        sums = self._over(record, "DMA")
        size, direction = self.open_sizes.pop(record.job_id, (0, ""))
        sums.work += size
        if direction:
            self.moved[direction] += size
        for group in self.groups.of(record.cmd_id):
            group.dma.end(record.t_cycle, self.first)
            group.bytes += size

    def te_start(self, record: Record) -> None:
        self._begin(record, "TE")
        self.open_bodies[record.job_id] = record.body_cycles
        for group in self.groups.of(record.cmd_id):
            group.te.begin(record.t_cycle)

    def te_end(self, record: Record) -> None:
        sums = self._over(record, "TE")
        sums.work += record.mac_count
        sums.held += record.stall_cycles
        sums.body += self.open_bodies.pop(record.job_id, 0)
        for group in self.groups.of(record.cmd_id):
            group.te.end(record.t_cycle, self.first)
            group.macs += record.mac_count

    def ve_start(self, record: Record) -> None:
        self._begin(record, "VE")
        for group in self.groups.of(record.cmd_id):
            group.ve.begin(record.t_cycle)

    def ve_end(self, record: Record) -> None:
        sums = self._over(record, "VE")
        sums.work += record.op_count
        sums.held += record.stall_cycles
        for group in self.groups.of(record.cmd_id):
            group.ve.end(record.t_cycle, self.first)
            group.ops += record.op_count

    def _begin(self, record: Record, kind: str) -> None:
        self._engine(record.unit, kind).active.begin(record.t_cycle)

    def _over(self, record: Record, kind: str) -> EngineSums:
        sums = self._engine(record.unit, kind)
        sums.active.end(record.t_cycle, self.first)
        sums.jobs += 1
        sums.running += record.latency_cycles
        return sums

    def stall_event(self, record: Record) -> None:
        key = record.unit, record.job_id, record.reason, record.channel
        self.open_stalls[key] = record.cmd_id, record.t_cycle

    def resume_event(self, record: Record) -> None:
        self.open_stalls.pop((record.unit, record.job_id, record.reason, record.channel), None)
        self._stalled(record.unit, record.cmd_id, record.reason, record.duration_cycles)

    def _stalled(self, unit: str, cmd_id: int, reason: str, cycles: int) -> None:
        sums = self.engines.get(unit)
        if sums is not None:
            sums.stalled(reason, cycles)
        for group in self.groups.of(cmd_id):
            group.stalled(reason, cycles)

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
    """The method of a collector for a class of records, found by its event's name when it first comes."""

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._collector = collector

    def __missing__(self, kind: type[Record]) -> Callable[[Record], None] | None:
        name = kind.event.name
        self[kind] = getattr(self._collector, name.lower()) if name in FIELDS else None
        return self[kind]


def patterns(meta: Record) -> list[Any] | None:
    """The units that a file is limited to, as patterns; None where it is not."""
    only = (meta.filter or {}).get("only")
    return only if isinstance(only, list) else None


def _added(sums: list[int], more: list[int]) -> list[int]:
    if len(sums) < len(more):
        sums = sums + [0] * (len(more) - len(sums))
    return [a + b for a, b in zip(sums, more + [0] * (len(sums) - len(more)), strict=True)]


def positive(value: Any, path: str, field_name: str) -> Fraction:
    """A number of the first line that must be above 0; InputError where it is not."""
    try:
        number = parse_rational(value)
    except ValueError:
        number = Fraction(0)
    if number <= 0:
        raise InputError(Problem(f"{path}:1", "it must be a number above 0", field_name, value))
    return number
