"""A run as `why` looks at it: commands, jobs, flows, who was held by whom, and the limits of the machine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, chain

from kernbench.config.schema import Dma
from kernbench.trace.why_parts import Span, whole

CONTROL = ("NOP", "BARRIER", "END")
COMM = 3  #: channel of queues between PEs
QUEUED = ("IPCQ_SEND", "IPCQ_RECV")  #: PE_IPCQ gives them to the DMA engine
KERNEL = "KERNEL"  #: what a PE does of a launch: its time is that of the commands inside, which come from components


@dataclass(slots=True)
class Hold:
    """A request that a bank denied."""

    since: int  #: cycle of the first denial
    until: int  #: cycle in which it was served
    bank: int | None
    by: int | None  #: job that took the port
    scratchpad: str | None = None  #: of that bank, where it is not the engine's own


@dataclass(slots=True)
class Out:
    """Cycles in which a flow is no member of its resources."""

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
    route: tuple[str, ...]  #: its channel, where it has one, then its links
    bare: bool = False  #: it has none
    outs: list[Out] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """An issued job; what has not come is at the end of the run, `started` and `ended` say so."""

    number: int
    command: Command
    issue: int
    start: int
    end: int
    started: bool = False
    ended: bool = False
    channel: int | None = None  #: DMA channel; None: the trace does not say, as it did not start
    head: int = 0
    weight: int = 1  #: of a transfer's flows
    address: int = 0  #: first byte written
    stall: tuple[int, str, int | None] | None = None  #: of the queue: since, reason, job in the way
    holds: list[Hold] = field(default_factory=list)  #: of a TE or VE
    flows: dict[int, Flow] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Command:
    """An entry of the queue."""

    id: int
    place: int  #: in the queue
    opcode: str
    unit: str
    deps: tuple[int, ...]
    head_id: int | None
    gate: Command | None  #: the last BARRIER before it
    job: Job | None = None
    end: int | None = None


class Line:
    """The jobs of an engine."""

    def __init__(self, jobs: list[Job]) -> None:
        """`jobs`: in the order of their issue."""
        self._never = [job for job in jobs if not job.started]
        self._by_start = sorted((job for job in jobs if job.started), key=lambda job: (job.start, job.number))
        self._starts = [job.start for job in self._by_start]
        self._reach = list(accumulate((job.end for job in self._by_start), max))

    def around(self, start: int, end: int) -> list[Job]:
        """Jobs that run in some cycle of [start, end), the latest starts first."""
        found = []
        for i in range(bisect_left(self._starts, end) - 1, -1, -1):
            if self._reach[i] <= start:
                break
            if self._by_start[i].end > start:
                found.append(self._by_start[i])
        return found

    def pending(self, cycle: int) -> Iterator[Job]:
        """Jobs that are issued and not started after the starts of a cycle, those that start first before the others."""
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
    status: str  #: of TRACE_END; `cut off` where the file broke off before it
    broken: str
    cycles: int
    freq_ghz: Fraction
    dma: Dma  #: limits of a DMA engine
    comm: int  #: transfers of queues between PEs at a time, per DMA engine
    allocation: str
    capacity: dict[str, Fraction]  #: [B/cycle] of channels and links
    component: dict[str, str]  #: of every unit
    scratchpad: dict[str, str]  #: of every engine that has one
    processor: dict[str, str]  #: of every engine whose commands come from a kernel
    commands: list[Command]  #: in the order of the queue
    by_id: dict[int, Command]
    jobs: dict[int, Job]
    on: dict[str, Line]  #: jobs of an engine

    def until_issue(self, command: Command, ready: int, issue: int) -> Span:
        """What a command waits for that is ready: the queue's executor, a PE's processor, or the queues between PEs."""
        if command.opcode in QUEUED:
            return whole(ready, issue, "ipcq", command.unit)
        return whole(ready, issue, "issue", self.processor.get(command.unit, "control"))

    def command_of(self, job: int | None) -> tuple[int, ...]:
        """The id of a job's command."""
        return () if job is None or job not in self.jobs else (self.jobs[job].command.id,)
