"""A run at a glance: what `kbsim run` and a notebook show, as plain data computed from a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from kernbench.cmdq import Program
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.run.waits import Wait, longest_waits, waits_of

ENGINE_KINDS = {"dma": "bytes", "te": "macs", "ve": "ops", "cpu": "launches"}  #: kind of engine: the counter of its work
LONGEST = 5  # waits that a summary names


@dataclass(frozen=True, slots=True)
class BoundShare:
    """The largest lower bound beside what the run took."""

    name: str  #: `critical path`, or the resource or engine that it is of
    cycles: int
    achieved: int  #: cycles that the run took
    others: tuple[tuple[str, int], ...]  #: the largest of each other kind of bound, falling

    @property
    def kind(self) -> str:
        """How the bound is called: `DRAM`, `link`, `critical path`, or the engine's name."""
        return {"dram": "DRAM", "noc": "link"}.get(naming.counted(self.name), self.name)

    @property
    def share(self) -> float:
        """Bound / achieved: 1 where nothing could have been faster."""
        return self.cycles / self.achieved if self.achieved else 1.0


@dataclass(frozen=True, slots=True)
class EngineUse:
    """Where the cycles of one engine went: busy + bank_conflict + backpressure + idle = cycles of the run."""

    name: str
    kind: str  #: dma, te, ve, cpu
    busy: int
    bank_conflict: int
    backpressure: int  #: DMA engines only, else 0
    idle: int
    queue_full: int  #: [job-cycle] DMA engines only
    priority_deferred: int  #: [job-cycle] DMA engines only
    jobs: int  #: completed
    work: int  #: bytes moved, MACs or ops

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.busy + self.bank_conflict + self.backpressure + self.idle

    @property
    def utilisation(self) -> float:
        """Busy cycles / cycles."""
        return self.busy / self.cycles if self.cycles else 0.0


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What a DRAM channel or a mesh link carried."""

    name: str
    bytes: int
    busy: int  #: cycles with a member
    cycles: int  #: of the run
    capacity: Fraction  #: [byte/cycle] that it can carry
    freq_ghz: Fraction

    @property
    def achieved(self) -> float:
        """Bytes per cycle over the whole run."""
        return self.bytes / self.cycles if self.cycles else 0.0

    @property
    def share(self) -> float:
        """Achieved / capacity."""
        return self.achieved / float(self.capacity)

    @property
    def gb_per_s(self) -> float:
        """10^9 bytes per second: bytes per ns."""
        return self.achieved * float(self.freq_ghz)


@dataclass(frozen=True, slots=True)
class BankConflicts:
    """Askings of all banks, and the bank that denied most."""

    requests: int
    denials: int
    worst: int | None  #: the bank with most denials (the first of equals); None without any
    worst_requests: int
    worst_denials: int
    where: str = ""  #: the scratchpad that the worst bank is in; empty where there is one

    @property
    def rate(self) -> float:
        """Denials / requests."""
        return self.denials / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that `kbsim run` prints of a result."""

    result: Result
    freq_ghz: Fraction
    max_cycles: int
    bound: BoundShare
    engines: tuple[EngineUse, ...]
    channels: tuple[ResourceUse, ...]
    links: tuple[ResourceUse, ...]  #: of a mesh: those with traffic, busiest first
    banks: BankConflicts
    waits: tuple[Wait, ...]  #: the longest
    waits_in_all: int
    entries: int
    unfinished: int  #: entries that have not ended
    not_started: int


def summarise_run(result: Result, program: Program, plan: Plan) -> RunSummary:
    """The summary of a result of `program` by its plan, also of a run that stands still or ended badly."""
    waits = waits_of(result, program, plan.units)
    resources = list(_resources(result, plan))
    return RunSummary(
        result=result,
        freq_ghz=plan.pe.freq_ghz,
        max_cycles=plan.machine["max_cycles"],
        bound=bound_share(result),
        engines=tuple(engine_uses(result)),
        channels=tuple(use for use in resources if naming.counted(use.name) == "dram"),
        links=tuple(sorted((use for use in resources if naming.counted(use.name) == "noc"), key=lambda link: -link.bytes)),
        banks=bank_conflicts(result),
        waits=tuple(longest_waits(waits, result, plan.units, LONGEST)),
        waits_in_all=len(waits),
        entries=len(result.entries),
        unfinished=sum(times.end is None for times in result.entries),
        not_started=sum(times.start is None for times in result.entries),
    )


def bound_share(result: Result) -> BoundShare:
    """The bounds in the result's metrics; of each kind only the largest is named."""
    bounds = {name: n for name, n in result.metrics["bounds"].items() if name not in ("cycles", "limit")}
    bounds["critical path"] = bounds.pop("critical_path")
    limit = result.metrics["bounds"]["limit"]
    largest: dict[str, tuple[str, int]] = {}
    for name, cycles in bounds.items():
        kind = naming.counted(name)
        if kind not in largest or cycles > largest[kind][1]:
            largest[kind] = name, cycles
    others = sorted((pair for pair in largest.values() if pair[0] != limit and pair[1]), key=lambda pair: -pair[1])
    return BoundShare(limit, bounds[limit], result.cycles, tuple(others))


def engine_uses(result: Result) -> Iterator[EngineUse]:
    """The engines of a result in the order of its counters."""
    for name, counters in result.counters.items():
        kind = naming.counted(name)
        if kind in ENGINE_KINDS:
            yield EngineUse(
                name=name,
                kind=kind,
                busy=counters["busy"],
                bank_conflict=counters["stalled"]["bank_conflict"],
                backpressure=counters["stalled"].get("backpressure", 0),
                idle=counters["idle"],
                queue_full=counters.get("queue_full", 0),
                priority_deferred=counters.get("priority_deferred", 0),
                jobs=counters["jobs"],
                work=counters[ENGINE_KINDS[kind]],
            )


def _resources(result: Result, plan: Plan) -> Iterator[ResourceUse]:
    for name, capacity in zip(plan.resources, plan.capacities, strict=True):
        if name in result.counters:
            used = result.counters[name]
            yield ResourceUse(name, used["bytes"], used["busy"], result.cycles, capacity, plan.pe.freq_ghz)


def bank_conflicts(result: Result) -> BankConflicts:
    """The scratchpads' counters, summed, and the worst bank of all."""
    pads = {name: c for name, c in result.counters.items() if naming.counted(name) == "spm"}
    requests = sum(sum(pad["requests"]) for pad in pads.values())
    denials = sum(sum(pad["denials"]) for pad in pads.values())
    banks = ((name, bank, denied) for name, pad in pads.items() for bank, denied in enumerate(pad["denials"]))
    name, bank, denied = max(banks, key=lambda item: item[2], default=("", 0, 0))
    if not denied:
        return BankConflicts(requests, 0, None, 0, 0)
    return BankConflicts(requests, denials, bank, pads[name]["requests"][bank], denied, name if len(pads) > 1 else "")
