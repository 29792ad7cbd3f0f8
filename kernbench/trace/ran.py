"""What a comparison needs of a run, from its trace: every command with the cycles that it took and what they went into."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kernbench.common.units import cycles_to_ns
from kernbench.trace.events import Record
from kernbench.trace.reader import Break, Trace

#: What the cycles of a command go into, from its issue to its end: their sum is just that.
PARTS: dict[str, str] = {
    "queue": "issued, its engine busy or at its limits",
    "head": "head latency of a transfer",
    "move": "bytes of a transfer, with every wait on the way",
    "work": "TE or VE",
    "bank": "TE or VE held by a bank conflict",
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "CMD_ENQUEUE": ("t_cycle", "cmd_id", "cmd_type", "unit", "layer_id", "phase", "head_id", "tile_id"),
    "CMD_START": ("t_cycle", "cmd_id", "unit"),
    "CMD_END": ("t_cycle", "cmd_id", "unit", "status"),
    "JOB_ISSUE": ("t_cycle", "job_id", "cmd_id"),
    "DMA_START": ("t_cycle", "job_id", "cmd_id", "head_cycles"),
    "TE_START": ("t_cycle", "job_id", "cmd_id"),
    "VE_START": ("t_cycle", "job_id", "cmd_id"),
    "DMA_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles"),
    "TE_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles", "stall_cycles"),
    "VE_END": ("t_cycle", "job_id", "cmd_id", "latency_cycles", "stall_cycles"),
}


@dataclass(slots=True)
class Command:
    """An entry of the queue, and how it went."""

    number: int  #: its id
    opcode: str
    unit: str
    layer: int | None = None
    phase: str | None = None
    head: int | None = None
    tile: int | None = None
    issue: int | None = None  #: [cycle] of its first job; of a command without one its start
    start: int | None = None
    end: int | None = None  #: None where it did not end as it should
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))

    @property
    def key(self) -> tuple[Any, ...]:
        """By what it is the same as one of another run."""
        return self.opcode, self.layer, self.phase, self.head, self.tile

    @property
    def cycles(self) -> int | None:
        """From issue to end."""
        return None if self.end is None or self.issue is None else self.end - self.issue


@dataclass(frozen=True)
class Ran:
    """A run."""

    path: str
    program: str
    machine: dict[str, Any]  #: the configuration
    status: str
    cycles: int  #: of the run; of a trace that breaks off those that are there
    freq_ghz: Fraction
    commands: list[Command]
    counters: dict[str, Any]  #: as TRACE_END has them; empty where there is none
    units: dict[str, str]  #: component by unit
    broken: Break | None
    filtered: bool  #: written with a filter: of commands that it leaves out there is nothing to compare

    @property
    def ns(self) -> Fraction:
        """The length of the run in nanoseconds, exactly."""
        return cycles_to_ns(self.cycles, self.freq_ghz)


def read_run(trace: Trace) -> Ran:
    """Read a trace once, in memory that grows with the number of commands."""
    reader = _Reader()
    for records in trace.batches(only=_FIELDS):
        for record in records:
            reader.take(record)
    meta, end = trace.meta, trace.end
    return Ran(
        path=trace.path,
        program=meta.program,
        machine=meta.sim_config,
        status="broken off" if end is None else end.status,
        cycles=reader.last if end is None else end.cycles,
        freq_ghz=trace.freq_ghz,
        commands=list(reader.commands.values()),
        counters={} if end is None else end.counters,
        units={str(unit.get("unit")): str(unit.get("component")) for unit in meta.units},
        broken=trace.broken,
        filtered=meta.filter is not None,
    )


class _Reader:
    def __init__(self) -> None:
        self.commands: dict[int, Command] = {}
        self.last = 0
        self._issued: dict[int, int] = {}
        self._head: dict[int, int] = {}

    def take(self, record: Record) -> None:
        """One event."""
        name = record.event.name
        if name not in _FIELDS:
            return
        self.last = max(self.last, record.t_cycle)
        if name == "CMD_ENQUEUE":
            where = (record.layer_id, record.phase, record.head_id, record.tile_id)
            self.commands[record.cmd_id] = Command(record.cmd_id, record.cmd_type, record.unit, *where)
            return
        command = self.commands.get(record.cmd_id)
        if command is None:  # of a trace that was filtered
            unit = getattr(record, "unit", "")
            command = self.commands[record.cmd_id] = Command(record.cmd_id, "command", unit)
        if name.startswith("CMD_"):
            self._command(record, command)
        else:
            self._job(record, command)

    def _command(self, record: Record, command: Command) -> None:
        if record.event.name == "CMD_START":
            command.start = record.t_cycle
            command.issue = record.t_cycle if command.issue is None else command.issue
        elif record.status == "OK":
            command.end = record.t_cycle

    def _job(self, record: Record, command: Command) -> None:
        name, parts = record.event.name, command.parts
        if name == "JOB_ISSUE":
            self._issued[record.job_id] = record.t_cycle
            command.issue = record.t_cycle if command.issue is None else command.issue
        elif name.endswith("_START"):
            parts["queue"] += record.t_cycle - self._issued.pop(record.job_id, record.t_cycle)
            if name == "DMA_START":
                self._head[record.job_id] = record.head_cycles
        elif name == "DMA_END":
            head = min(self._head.pop(record.job_id, 0), record.latency_cycles)
            parts["head"] += head
            parts["move"] += record.latency_cycles - head
        else:
            parts["bank"] += record.stall_cycles
            parts["work"] += record.latency_cycles - record.stall_cycles
