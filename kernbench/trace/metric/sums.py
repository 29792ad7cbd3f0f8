"""What is added up of each engine, channel, link and scratchpad of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from kernbench.trace.store.joins import IdMap

KINDS = ("TE", "VE", "DMA")  #: of engines, as TRACE_META.units calls their component


@dataclass(slots=True)
class Activity:
    """The length of the union of intervals that come in the order of their events; nothing is kept of them."""

    cycles: int = 0  #: covered by intervals that are closed
    running: int = 0
    since: int = 0  #: where something runs: since when without a gap

    def begin(self, t_cycle: int) -> None:
        """Something starts."""
        if not self.running:
            self.since = t_cycle
        self.running += 1

    def end(self, t_cycle: int) -> None:
        """Something is over that began in the file."""
        self.running -= 1
        if not self.running:
            self.cycles += t_cycle - self.since

    def end_early(self, t_cycle: int, first: int) -> None:
        """Something is over that has run since before `first`, the first cycle of the file, and so in all cycles up to here."""
        self.cycles = 0 if self.running else t_cycle - first
        self.since = first

    def until(self, t_cycle: int) -> int:
        """Cycles covered before `t_cycle`, what still runs included."""
        return self.cycles + (t_cycle - self.since if self.running else 0)


@dataclass(slots=True)
class Group:
    """The commands of one phase or layer."""

    name: str | int | None  #: None: of commands that name none
    commands: int = 0
    ended: int = 0
    first: int | None = None  #: [cycle] the first of their starts
    last: int = 0  #: [cycle] the last of their ends
    longest: int = 0  #: [cycle] the longest command
    command_cycles: int = 0  #: of all commands, each by itself
    any: Activity = field(default_factory=Activity)
    by_kind: dict[str, Activity] = field(default_factory=lambda: {kind: Activity() for kind in KINDS})  #: of engines
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
        """A command is over; `started`: None of one that has run since before `first`, the first cycle of the file."""
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
        """A wait of one of its jobs is over."""
        self.stalls[reason] = self.stalls.get(reason, 0) + cycles


class Groups:
    """Which phase and which layer a command belongs to: four bytes a command, whatever it says of itself."""

    def __init__(self, commands: int) -> None:
        self.phases: dict[str | int | None, Group] = {}
        self.layers: dict[str | int | None, Group] = {}
        self._pairs: list[tuple[Group, Group]] = []
        self._numbers: dict[tuple[str | None, int | None], int] = {}
        self._number_of = IdMap(commands)

    def enqueue(self, cmd_id: int, phase: str | None, layer: int | None) -> None:
        """A command is in the queue."""
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
