"""The common state of the laws of a trace: the first line, the open jobs, and the list of violations."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.common.naming import LLC, counted
from kernbench.common.units import parse_rational
from kernbench.trace.laws.line import Line
from kernbench.trace.reader import Trace
from kernbench.trace.schema import LEVELS, PHASES, Event

LAWS: dict[str, str] = {
    "schema": "an event has the fields of its type, and no others",
    "level": "no event is of a higher level than the file's",
    "order": "cycles never decrease, and phases do not within a cycle",
    "track": "an event's unit is a track of TRACE_META, of the right kind",
    "pair": "every start has an end and every end a start, with the same properties",
    "overlap": "a tensor or vector engine has one job at a time; if its jobs overlap, they end in the order of their starts",
    "concurrency": "a DMA engine and its channels have no more transfers than the machine allows",
    "latency": "latencies and durations are differences of cycles",
    "bytes": "the flows of a transfer add up to its size, and its accesses to the bytes moved",
    "waits": "a wait begins and ends once; a conflict has more requests than ports",
    "samples": "a sample fits into its window, and windows have the length of TRACE_META",
    "counters": "samples and events add up to the counters of TRACE_END",
    "cycles": "busy + waits + idle = elapsed, for every engine",
    "energy": "energies of windows add up to those of the run",
    "end": "TRACE_END counts the events, and is at the last cycle",
}

#: the events that each job has at its end; END is the engine's own event, such as TE_END
ENDS = {"END": 1, "ENGINE_EVENT": 2, "JOB_DONE": 4}  #: events that end a job, with their bits in `Job.seen`
WITH_END = ("DMA", "TE", "VE")  #: kinds of engines that have such an event


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that a file breaks."""

    line: int  #: the line where the violation shows, counted from 1
    law: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line:,}: {self.law}: {self.message}"


class Flow:
    """The bytes of a transfer on one channel."""

    def __init__(self, size: int, bare: bool) -> None:
        self.size = size
        self.bare = bare  #: without a DRAM channel; only the link events describe the flow
        self.ended = False
        self.out = False  #: suspended
        self.accessed = 0  #: [B] of its MEM_ACCESS_EVENTs
        self.links: dict[str, bool] = {}  #: by link: whether the flow has ended there


class Job:
    """A job from its issue to the cycle after its end."""

    def __init__(self, number: int, cmd: int, unit: str, kind: str, issued: int, job_type: str) -> None:
        self.number = number
        self.cmd = cmd
        self.unit = unit
        self.kind = kind
        self.issued = issued
        self.job_type = job_type
        self.channel = -1  #: channel of a DMA job
        self.start = -1  #: [cycle]; -1: not started
        self.start_line = 0
        self.size = 0  #: [B] of a transfer
        #: how many ends of a transfer are scratchpads, and how many are memories opposite a scratchpad
        self.ends_in: tuple[int, int] = (1, 1)
        self.head = 0
        self.total = 0  #: [cycle] duration of a TE or VE job without contention
        self.end = -1
        self.end_line = 0
        self.held = 0  #: [cycle] held by bank conflicts, as reported by RESUME_EVENTs
        self.stalled = 0  #: [cycle] held by bank conflicts, as reported by the job's end
        self.seen = 0  #: the bits of those of ENDS that were read
        self.missing = 3 if kind in WITH_END else 2  #: how many of ENDS were not read
        self.flows: dict[int, Flow] = {}
        self.accessed = 0  #: [B] of its SRAM_ACCESSes
        self.waits = 0  #: number of open waits


def ends_of(job: Job) -> tuple[str, ...]:
    """The events at the end of a job; processors have no event of their own."""
    return tuple(ENDS) if job.kind in WITH_END else tuple(ENDS)[1:]


def _moves_flits(machine: Any) -> bool:
    """Whether the machine of a trace moves transfers over routers; the machine's description is not validated."""
    for path in (("noc", "model"), ("cube", "mesh", "model")):
        found = machine
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found == "flit":
            return True
    return False


def _ratios(machine: Any) -> frozenset[Fraction]:
    """The ratios of the codecs of a trace's machine, and 1; the machine's description is not validated."""
    dma = machine.get("dma") if isinstance(machine, dict) else None
    codecs = dma.get("codecs") if isinstance(dma, dict) else None
    found = [codec.get("ratio") if isinstance(codec, dict) else None for codec in codecs] if isinstance(codecs, list) else []
    try:
        return frozenset({Fraction(1), *[parse_rational(ratio) for ratio in found]})
    except ValueError:
        return frozenset({Fraction(1)})


class Context:
    """The state that all laws share."""

    def __init__(self, trace: Trace, most: int) -> None:
        self.meta = trace.meta
        self.full: bool = self.meta.level != "summary"
        self.partial: bool = self.meta.filter is not None  #: a begin or end outside the file is then no violation
        self.units: dict[str, str] = {str(u.get("unit")): str(u.get("component")) for u in self.meta.units}
        self.tracks: dict[str, dict[str, Any]] = {str(u.get("unit")): u for u in self.meta.units}
        self.ratios = _ratios(self.meta.sim_config)  #: bytes of a transfer for each byte of its flows
        self.flits: bool = _moves_flits(self.meta.sim_config)  #: then no flow is a member of a link between routers
        self.padded: set[str] = {str(u.get("parent")) for u in self.meta.units if u.get("component") == "SRAM"}
        self.jobs: dict[int, Job] = {}
        self._recent: list[Job | None] = [None] * _RECENT  # jobs that were last found, by the lowest bits of their numbers
        self.closing: list[Job] = []  #: jobs that ended in the current cycle
        self.line = 1
        self.t_cycle = -1  #: of the record that was read last
        self.most = most
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()  #: violations by law

    def ends_of_transfer(self, unit: str, direction: str) -> tuple[int, int]:
        """The number of ends of a transfer that are scratchpads, and that are memories opposite a scratchpad; a host copy has
        neither.
        """
        if direction == "SRAM_TO_SRAM":
            return 2, 0
        return (1, 1) if str(self.tracks.get(unit, {}).get("parent", "")) in self.padded else (0, 0)

    def job(self, number: int) -> Job | None:
        """The open job of a number."""
        found = self._recent[number & (_RECENT - 1)]
        if found is None or found.number != number:
            found = self.jobs.get(number)
            if found is not None:
                self._recent[number & (_RECENT - 1)] = found
        return found

    def add(self, job: Job) -> None:
        """Open a job; it replaces an open job of its number."""
        self.jobs[job.number] = job
        self._recent[job.number & (_RECENT - 1)] = job

    def remove(self, job: Job) -> None:
        """A job is closed."""
        self.jobs.pop(job.number, None)
        self._recent[job.number & (_RECENT - 1)] = None

    def over(self, job: Job, bit: int) -> None:
        """Note an event at a job's end; after the last such event, the job is closed at the end of the cycle."""
        if not job.seen & bit:
            job.seen |= bit
            job.missing -= 1
        if not job.missing:
            self.closing.append(job)

    def report(self, law: str, message: str, line: int = 0) -> None:
        """Report a violation, at the current line unless another line is given."""
        self.counts[law] += 1
        if len(self.violations) < self.most:
            self.violations.append(Violation(line or self.line, law, message))

    def misfit(self, line: int, why: str) -> None:
        """Report a line that is JSON but not a record."""
        self.report("schema", why, line)


class Law:
    """A group of laws: a check of each event, an action at the end of a cycle, and an action at the end of a complete file."""

    events = tuple[str, ...]()  #: the types of events that the law checks

    def __init__(self, context: Context) -> None:
        self.context = context

    def check(self, record: Line, event: int) -> None:
        """Check a record; `event` is the index of its type in `events`."""

    def close(self, job: Job) -> None:
        """The cycle of a job's end is over, so the file has no more events of the job."""

    def finish(self, end: Any) -> None:
        """The file is complete: TRACE_END was read."""


_RECENT = 64  # a power of two

#: Phases of (STALL_EVENT, RESUME_EVENT) for some waits; the table of events has one phase for all waits.
_WAITS = {"queue_full": (3, 3), "priority_deferred": (3, 3), "backpressure": (7, 6), "bank_conflict": (5, 6)}
_OF_COMMAND = {"IRQ_EMIT", "TOKEN_COMPLETE", "MARKER", "TOKEN"}  # phase 2 if a control command ends
_OF_SEVERAL = {"STALL_EVENT", "RESUME_EVENT", "CMD_END", *_OF_COMMAND}  # their phase depends on more than their unit
_KINDS = {"DMA_START": "DMA", "DMA_END": "DMA", "TE_START": "TE", "TE_END": "TE", "VE_START": "VE", "VE_END": "VE"}
_KINDS |= dict.fromkeys(("DRAM_TX_START", "DRAM_TX_END", "DRAM_TX_SUSPEND", "DRAM_TX_RESUME"), "DRAM")
_KINDS |= {"NOC_TX_START": "NOC", "NOC_TX_END": "NOC", "SRAM_CONFLICT": "SRAM", "BANK_SAMPLE": "SRAM"}
_KINDS |= {"SRAM_ACCESS": "SRAM", "MEM_ACCESS_EVENT": "DMA"}


class Order:
    """The order of events in the file: by cycle, then by phase."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.t_cycle: int = context.meta.t_cycle
        self.phase = 0
        self._level = LEVELS.index(context.meta.level) if context.meta.level in LEVELS else len(LEVELS)
        #: By event and unit, if an earlier line broke no law of `check`: the phase of all such lines, or -1 if it varies.
        self.phases: defaultdict[str, dict[str | None, int]] = defaultdict(dict)

    def check(self, record: Line) -> None:
        """Check the level and track of an event; except for waits, they are the same for all events of one type and unit."""
        name, unit = record.event.name, record.unit
        found = sum(self.context.counts.values())
        high = LEVELS.index(record.event.level) > self._level
        wait = not self.context.full and name in ("STALL_EVENT", "RESUME_EVENT")
        if high or (wait and record.reason == "bank_conflict"):
            self.context.report("level", f"{name} does not belong to a file of level {self.context.meta.level}")
        if unit is not None:
            kind = self.context.units.get(unit)
            if kind is None:
                self.context.report("track", f"{name} is of {unit}, which is no track of TRACE_META")
            elif name in _KINDS and kind != _KINDS[name] and not (_KINDS[name] == "DRAM" and counted(unit) == LLC):
                self.context.report("track", f"{name} is of {unit}, which is no track of {_KINDS[name]}, but of {kind}")
        if not wait and found == sum(self.context.counts.values()):
            self.phases[name][unit] = -1 if name in _OF_SEVERAL else self._phase(record, record.event)

    def check_order(self, record: Line) -> None:
        """Check that a line comes after the previous one."""
        event = record.event
        t_cycle, phase, name = record.t_cycle, self._phase(record, event), event.name
        if t_cycle < self.t_cycle:
            if name == "CMD_ENQUEUE":  # the file of a window keeps the cycle in which such a command was queued
                return
            self.context.report("order", f"cycle {t_cycle} comes after cycle {self.t_cycle}")
        elif t_cycle == self.t_cycle and phase < self.phase:
            text = f"{name} of phase {PHASES[phase]} comes after phase {PHASES[self.phase]} of cycle {t_cycle}"
            self.context.report("order", text)
        self.t_cycle, self.phase = t_cycle, phase

    def _phase(self, record: Line, event: Event) -> int:
        """The phase to which an event belongs."""
        if event.phase == 3 and event.name != "DMA_START":
            return self._start(record, event.name)
        return self._end(record, event.name) if event.phase == 0 else event.phase

    def _start(self, record: Line, name: str) -> int:
        if name == "CMD_START":
            return 2 if self.context.units.get(record.unit) == "CPU" else 3
        if name in ("STALL_EVENT", "RESUME_EVENT"):
            return _WAITS[record.reason][name == "RESUME_EVENT"]
        return 3

    def _end(self, record: Line, name: str) -> int:
        if name == "CMD_END":
            if record.status != "OK":
                return 8
            return 2 if self.context.units.get(record.unit) == "CPU" else 0
        control = name in _OF_COMMAND and record.t_cycle == self.t_cycle and self.phase == 2
        return 2 if control else 0

    def finish(self, end: Any, events: int) -> None:
        """The last line."""
        report = self.context.report
        if end.t_cycle < self.t_cycle:
            report("order", f"cycle {end.t_cycle} comes after cycle {self.t_cycle}")
        if end.t_cycle != end.cycles:
            report("end", f"TRACE_END is at cycle {end.t_cycle}, but the run has {end.cycles}")
        if end.events != events:
            report("end", f"TRACE_END says {end.events} events, but there are {events}")
