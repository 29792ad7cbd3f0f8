"""What is added up of each engine, channel, link and scratchpad of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from kernbench.trace.metric.activity import Activity


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
    body: int = 0  #: [cycle] of work of TE jobs that started and ended in the file
    body_macs: int = 0  #: MACs of those
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
