"""The result of `metrics`: the exact figures of a run, as plain data. `docs/reference/trace_metrics.md` has the formula of each
figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def share(part: int, whole: int) -> Fraction:
    """part / whole; 0 if the whole is 0."""
    return Fraction(part, whole) if whole else Fraction(0)


@dataclass(frozen=True, slots=True)
class Run:
    """The file, and the run that the file describes."""

    program: str
    sim_id: str
    level: str
    status: str  #: of TRACE_END; `cut off` if the file ends before that event
    broken: str  #: where and why the file ends too early; empty if the file is complete
    first: int  #: [cycle] the first cycle that the figures cover
    cycles: int  #: number of cycles from `first` on
    freq_ghz: Fraction
    events: int
    skipped: int  #: number of events whose types only newer versions know
    counts: dict[str, int]  #: events by type
    filter: dict[str, object] | None  #: the events that the file omits, according to its first line
    warnings: dict[str, int]  #: number of warnings by code
    errors: dict[str, int]
    missing: tuple[str, ...]  #: figures that this file cannot give, with the reason

    @property
    def ns(self) -> Fraction:
        """[ns] The duration of the run."""
        return self.cycles / self.freq_ghz


@dataclass(frozen=True, slots=True)
class Engine:
    """The cycles of an engine by state: busy + bank_conflict + backpressure + idle = cycles."""

    unit: str
    kind: str  #: TE, VE or DMA
    cycles: int
    busy: int
    bank_conflict: int
    backpressure: int
    jobs: int  #: jobs that ended
    work: int  #: MACs, operations or bytes of the jobs that ended
    running: int  #: [job-cycle] from start to end, of the jobs that ended
    queued: int  #: [job-cycle] from issue to start, of the jobs that ended

    @property
    def idle(self) -> int:
        """Cycles without a job."""
        return self.cycles - self.busy - self.bank_conflict - self.backpressure

    @property
    def utilisation(self) -> Fraction:
        """busy / cycles."""
        return share(self.busy, self.cycles)

    @property
    def occupied(self) -> int:
        """Cycles with a job, including those in which it waits."""
        return self.busy + self.bank_conflict + self.backpressure

    @property
    def occupancy(self) -> Fraction:
        """occupied / cycles."""
        return share(self.occupied, self.cycles)


@dataclass(frozen=True, slots=True)
class Channel:
    """A DRAM channel or a link."""

    unit: str
    kind: str  #: DRAM or NOC
    cycles: int
    read: int  #: [B] towards the scratchpad
    write: int  #: [B] towards DRAM
    busy: int  #: cycles with a member
    members: int  #: [member-cycle]
    capacity: Fraction  #: [B/cycle]

    @property
    def bytes(self) -> int:
        """[B] in both directions."""
        return self.read + self.write

    @property
    def utilisation(self) -> Fraction:
        """busy / cycles."""
        return share(self.busy, self.cycles)

    @property
    def bandwidth(self) -> Fraction:
        """[B/cycle]"""
        return share(self.bytes, self.cycles)

    @property
    def used(self) -> Fraction:
        """bandwidth / capacity."""
        return self.bandwidth / self.capacity


@dataclass(frozen=True, slots=True)
class Transfers:
    """The bytes that DMA engines moved."""

    ended: int  #: transfers
    bytes: int  #: [B] of the transfers that ended, aligned
    loaded: int  #: [B] towards the scratchpad
    stored: int  #: [B] towards DRAM
    between: int  #: [B] from one scratchpad to another
    open: int  #: number of transfers that had not ended
    cycles: int

    @property
    def bandwidth(self) -> Fraction:
        """[B/cycle] averaged over the whole run."""
        return share(self.bytes, self.cycles)


@dataclass(frozen=True, slots=True)
class Banks:
    """The banks of a scratchpad; a value is None if the file does not have it."""

    requests: list[int]  #: by bank, as the next two
    grants: list[int]
    denials: list[int]
    accesses: int | None  #: number of (bank, direction, cycle) in which some request was first made
    conflicts: int | None  #: number of (bank, direction, cycle) in which some request was denied when it was first made

    @property
    def conflict_rate(self) -> Fraction | None:
        """conflicts / accesses."""
        return None if self.accesses is None or self.conflicts is None else share(self.conflicts, self.accesses)

    @property
    def denial_rate(self) -> Fraction | None:
        """denials / requests, over all banks."""
        return share(sum(self.denials), sum(self.requests)) if self.requests else None


@dataclass(frozen=True, slots=True)
class StageMetrics:
    """A phase or a layer."""

    name: str | int | None  #: None for commands without a phase or layer
    commands: int
    ended: int
    first: int | None  #: [cycle] the first start; None if none started
    last: int | None  #: [cycle] the last end; the end of the run if a command still runs
    active: int  #: cycles in which at least one of its commands ran
    te: int  #: cycles in which at least one tensor engine had a job of its commands; `ve` and `dma` likewise
    ve: int
    dma: int
    command_cycles: int  #: sum of the durations of its commands
    longest: int  #: [cycle] duration of its longest command
    macs: int
    ops: int
    bytes: int
    stalls: dict[str, int]  #: [job-cycle] by reason

    @property
    def latency(self) -> int | None:
        """[cycle] From the first start to the last end."""
        return None if self.first is None or self.last is None else self.last - self.first


@dataclass(frozen=True, slots=True)
class Stall:
    """The waits of one engine for one reason."""

    unit: str
    reason: str
    episodes: int
    cycles: int  #: [job-cycle]
    open: int  #: waits that were open at the end of the run; their cycles are counted up to the end


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of numbers; percentile P is the smallest of the numbers such that P% of the numbers are not larger."""

    count: int
    mean: Fraction
    least: int
    p50: int
    p90: int
    p99: int
    most: int

    @classmethod
    def of(cls, rising: Sequence[int]) -> Spread | None:
        """The distribution of sorted numbers; None if there are no numbers."""
        if not rising:
            return None
        count = len(rising)
        p50, p90, p99 = (rising[-(-percent * count // 100) - 1] for percent in (50, 90, 99))
        return cls(count, Fraction(sum(rising), count), rising[0], p50, p90, p99, rising[-1])


@dataclass(frozen=True, slots=True)
class Tokens:
    """The decoded tokens of a sequence, and their times in cycles."""

    count: int  #: decoded tokens: positions after the prompt that went through the model
    prompt: int  #: positions of the prompt that went through the model
    ttft: int | None  #: [cycle] time to first token: the end of the prompt's pass; None if the trace has no such pass
    tpot: Fraction | None  #: [cycle] time per output token: the mean over the steps of the decoded tokens
    latency: Spread | None  #: [cycle] of decoded tokens, from the first start to the last end of their commands
    #: [cycle] from the end of one pass to the end of the next; the passes are those of the prompt and of each decoded token
    gap: Spread | None
    completions: dict[str, int]  #: number of TOKEN_COMPLETE events by status


@dataclass(frozen=True, slots=True)
class Roofline:
    """The position of the run in the roofline of the machine. An operation is one multiply, one add or one VE operation, so a
    MAC counts as two operations.
    """

    ops: int
    bytes: int  #: [B] moved by the DRAM channels
    cycles: int
    peak: Fraction | None  #: [op/cycle] of all engines
    bandwidth: Fraction | None  #: [B/cycle] of all DRAM channels

    @property
    def intensity(self) -> Fraction | None:
        """[op/B]"""
        return Fraction(self.ops, self.bytes) if self.bytes else None

    @property
    def attained(self) -> Fraction:
        """[op/cycle]"""
        return share(self.ops, self.cycles)

    @property
    def ridge(self) -> Fraction | None:
        """[op/B] The intensity from which on the engines are the limit."""
        return self.peak / self.bandwidth if self.peak is not None and self.bandwidth else None

    @property
    def roof(self) -> Fraction | None:
        """[op/cycle] The limit at this intensity."""
        if self.peak is None or self.bandwidth is None or self.intensity is None:
            return self.peak
        return min(self.peak, self.intensity * self.bandwidth)

    @property
    def bound(self) -> str | None:
        """`memory` if the intensity is below the ridge, otherwise `compute`."""
        if self.ridge is None or not self.ops:
            return None
        return "memory" if self.intensity is not None and self.intensity < self.ridge else "compute"


@dataclass(frozen=True, slots=True)
class Metrics:
    """Everything."""

    run: Run
    engines: tuple[Engine, ...]
    transfers: Transfers
    channels: tuple[Channel, ...]
    links: tuple[Channel, ...]
    banks: Banks
    phases: tuple[StageMetrics, ...]
    layers: tuple[StageMetrics, ...]
    stalls: tuple[Stall, ...]
    tokens: Tokens
    energy_pj: dict[str, Fraction]  #: by part, with `total`
    roofline: Roofline
