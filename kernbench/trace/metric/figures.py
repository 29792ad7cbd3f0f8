"""The result of `metrics`: exact figures of a run, as plain data. `docs/reference/trace_metrics.md` has each one's formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def share(part: int, whole: int) -> Fraction:
    """part / whole; 0 of nothing."""
    return Fraction(part, whole) if whole else Fraction(0)


@dataclass(frozen=True, slots=True)
class Run:
    """The file and the run that it is of."""

    program: str
    sim_id: str
    level: str
    status: str  #: of TRACE_END; `cut off` where the file broke off before it
    broken: str  #: where and why the file broke off; empty if it is whole
    first: int  #: [cycle] the first of the figures
    cycles: int  #: from there on
    freq_ghz: Fraction
    events: int
    skipped: int  #: events of types that only newer versions know
    counts: dict[str, int]  #: events by type
    filter: dict[str, object] | None  #: what the file leaves out, as its first line says
    warnings: dict[str, int]  #: by code
    errors: dict[str, int]
    missing: tuple[str, ...]  #: figures that this file cannot give, and why

    @property
    def ns(self) -> Fraction:
        """How long it took."""
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
    jobs: int  #: that ended
    work: int  #: MACs, operations or bytes of those
    running: int  #: [job-cycle] from start to end of those
    queued: int  #: [job-cycle] from issue to start of those

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
        """Both ways."""
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
    """What DMA engines moved."""

    ended: int  #: transfers
    bytes: int  #: of those, aligned
    loaded: int  #: [B] towards the scratchpad
    stored: int  #: [B] towards DRAM
    between: int  #: [B] from one scratchpad to another
    open: int  #: transfers that had not ended
    cycles: int

    @property
    def bandwidth(self) -> Fraction:
        """[B/cycle] of the whole run."""
        return share(self.bytes, self.cycles)


@dataclass(frozen=True, slots=True)
class Banks:
    """The banks of a scratchpad; None if the file does not have them."""

    requests: list[int]  #: by bank, as the next two
    grants: list[int]
    denials: list[int]
    accesses: int | None  #: banks, directions and cycles in which some request asked first
    conflicts: int | None  #: banks, directions and cycles in which some request was denied its first asking

    @property
    def conflict_rate(self) -> Fraction | None:
        """conflicts / accesses."""
        return None if self.accesses is None or self.conflicts is None else share(self.conflicts, self.accesses)

    @property
    def denial_rate(self) -> Fraction | None:
        """denials / requests, over all banks."""
        return share(sum(self.denials), sum(self.requests)) if self.requests else None


@dataclass(frozen=True, slots=True)
class Part:
    """A phase or a layer."""

    name: str | int | None  #: None: commands that name none
    commands: int
    ended: int
    first: int | None  #: [cycle] the first start; None if none started
    last: int | None  #: [cycle] the last end; of what still runs, the end of the run
    active: int  #: cycles in which at least one of its commands ran
    te: int  #: cycles in which at least one tensor engine worked for it; likewise
    ve: int
    dma: int
    command_cycles: int  #: sum over its commands
    longest: int  #: its longest command
    macs: int
    ops: int
    bytes: int
    stalls: dict[str, int]  #: [job-cycle] by reason

    @property
    def latency(self) -> int | None:
        """From its first start to its last end."""
        return None if self.first is None or self.last is None else self.last - self.first


@dataclass(frozen=True, slots=True)
class Stall:
    """One reason, on one engine."""

    unit: str
    reason: str
    episodes: int
    cycles: int  #: [job-cycle]
    open: int  #: episodes that the end cut short; their cycles are counted up to there


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of numbers; a percentile P is the smallest number that P% of them do not exceed."""

    count: int
    mean: Fraction
    least: int
    p50: int
    p90: int
    p99: int
    most: int

    @classmethod
    def of(cls, rising: Sequence[int]) -> Spread | None:
        """The percentile of sorted numbers; None without numbers."""
        if not rising:
            return None
        count = len(rising)
        p50, p90, p99 = (rising[-(-percent * count // 100) - 1] for percent in (50, 90, 99))
        return cls(count, Fraction(sum(rising), count), rising[0], p50, p90, p99, rising[-1])


@dataclass(frozen=True, slots=True)
class Tokens:
    """Decoded tokens of a sequence, and how long they took [cycle]."""

    count: int  #: decoded: positions behind the prompt that went through the model
    prompt: int  #: positions of the prompt that did
    ttft: int | None  #: [cycle] time to first token: the end of the prompt's pass; None of a trace without one
    tpot: Fraction | None  #: [cycle] time per output token: the mean of the decoded tokens' steps
    latency: Spread | None  #: of decoded tokens, from the first start to the last end of their commands
    gap: Spread | None  #: from the end of the prompt's pass, or of a decoded token, to that of the next
    completions: dict[str, int]  #: TOKEN_COMPLETE, by status


@dataclass(frozen=True, slots=True)
class Roofline:
    """The position of the run in the roofline of the machine. An operation is one multiply, add or VE operation: a MAC is two.
    """

    ops: int
    bytes: int  #: of DRAM channels
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
        """[op/B] from which on the engines are the roof."""
        return self.peak / self.bandwidth if self.peak is not None and self.bandwidth else None

    @property
    def roof(self) -> Fraction | None:
        """[op/cycle] that this intensity allows."""
        if self.peak is None or self.bandwidth is None or self.intensity is None:
            return self.peak
        return min(self.peak, self.intensity * self.bandwidth)

    @property
    def bound(self) -> str | None:
        """`memory` left of the ridge, otherwise `compute`."""
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
    phases: tuple[Part, ...]
    layers: tuple[Part, ...]
    stalls: tuple[Stall, ...]
    tokens: Tokens
    energy_pj: dict[str, Fraction]  #: by part, with `total`
    roofline: Roofline
