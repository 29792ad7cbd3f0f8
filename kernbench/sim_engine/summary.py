"""A run at a glance: what `kbsim run` and a notebook show, as plain data computed from a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import msgspec

from kernbench.cmdq import Program
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.common.json_shapes import counted
from kernbench.common.units import ceil_div
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.run.waits import Wait, longest_waits, waits_of

ENGINE_KINDS = {"dma": "bytes", "te": "macs", "ve": "ops", "cpu": "launches"}  #: kind of engine: the counter of its work
LONGEST = 5  # waits that a summary names


class BoundShare(msgspec.Struct, frozen=True):
    """The largest lower bound compared with the run."""

    name: str  #: `critical path`, or the resource or engine that it is of
    cycles: int
    achieved: int  #: cycles that the run took
    others: tuple[tuple[str, int], ...]  #: largest bound of each other kind, in falling order

    @property
    def kind(self) -> str:
        """How the bound is called: `DRAM`, `link`, `critical path`, or the engine's name."""
        return {"dram": "DRAM", "noc": "link"}.get(naming.counted(self.name), self.name)

    @property
    def share(self) -> float:
        """Bound / achieved: 1 if the run could not have been faster."""
        return self.cycles / self.achieved if self.achieved else 1.0


class EngineUse(msgspec.Struct, frozen=True):
    """The cycles of one engine by state: busy + bank_conflict + backpressure + idle = cycles of the run."""

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


class ResourceUse(msgspec.Struct, frozen=True):
    """The traffic of a DRAM channel or a mesh link."""

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


class BankConflicts(msgspec.Struct, frozen=True):
    """Askings of all banks, and the bank that denied most."""

    requests: int
    denials: int
    worst: int | None  #: the bank with most denials (the first of equals); None without any
    worst_requests: int
    worst_denials: int
    where: str = ""  #: the scratchpad that the worst bank is in; empty if there is one

    @property
    def rate(self) -> float:
        """Denials / requests."""
        return self.denials / self.requests if self.requests else 0.0


class RunSummary(msgspec.Struct, frozen=True):
    """Everything that `kbsim run` prints of a result."""

    result: Result
    freq_ghz: Fraction
    max_cycles: int
    bound: BoundShare
    engines: tuple[EngineUse, ...]
    channels: tuple[ResourceUse, ...]
    links: tuple[ResourceUse, ...]  #: mesh links with traffic, busiest first
    banks: BankConflicts
    waits: tuple[Wait, ...]  #: the longest
    waits_in_all: int
    entries: int
    unfinished: int  #: entries that have not ended
    not_started: int


def summarise_run(
    result: Result, program: Program, plan: Plan, arrivals: Sequence[int | None] | None = None
) -> RunSummary:
    """The summary of a result of `program` by its plan, also for a run that is stopped or failed.

    `arrivals`: those of `Machine.arrivals`.
    """
    units = plan.command_units
    waits = waits_of(result, program, units, arrivals)
    resources = list(_resources(result, plan))
    arrays = [name for name, engine in zip(plan.compute, plan.machine["compute"], strict=True) if engine.get("overlaps")]
    return RunSummary(
        result=result,
        freq_ghz=plan.pe.freq_ghz,
        max_cycles=plan.machine["max_cycles"],
        bound=bound_share(result),
        engines=tuple(engine_uses(result)),
        channels=tuple(use for use in resources if naming.counted(use.name) == "dram"),
        links=tuple(sorted((use for use in resources if naming.counted(use.name) == "noc"), key=lambda link: -link.bytes)),
        banks=bank_conflicts(result),
        waits=tuple(longest_waits(waits, result, units, LONGEST, arrays)),
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
    name = max(pads, key=lambda name: max(pads[name]["denials"], default=0), default="")
    if not denials:
        return BankConflicts(requests, 0, None, 0, 0)
    denied = max(pads[name]["denials"])
    bank = pads[name]["denials"].index(denied)
    return BankConflicts(requests, denials, bank, pads[name]["requests"][bank], denied, name if len(pads) > 1 else "")


_IDS = {"dma": ("DMA engine", "dma_id"), "te": ("tensor engine", "te_id"), "ve": ("vector engine", "ve_id")}


def idle_advice(uses: Iterable[EngineUse]) -> str:
    """Advice for a program that left engines idle while others of the same PE had several jobs.

    A line about the kind with most idle engines, or an empty text.
    """
    places: dict[tuple[str, str], list[EngineUse]] = {}
    for use in uses:
        if use.kind in _IDS:
            places.setdefault((use.kind, naming.parent(use.name)), []).append(use)
    found = []
    for (kind, place), engines in places.items():
        used, jobs = sum(use.jobs > 0 for use in engines), sum(use.jobs for use in engines)
        if 0 < used < len(engines) and jobs > used:
            noun, field = _IDS[kind]
            all_ = f"{field} 0 to {len(engines) - 1}"
            at = f" of {place}" if place else ""
            line = f"{used} of {counted(len(engines), noun)}{at} had work: give the program's entries {all_} (the default is 0)"
            found.append((used - len(engines), line))
    return min(found, default=(0, ""))[1]


class Roof(msgspec.Struct, frozen=True):
    """One bound."""

    name: str  #: the channel or link, or the engines of a PE: `sip0.cube0.pe0 te`
    kind: str  #: DRAM, link, te, ve
    cycles: int


def roofs(result: Result, plan: Plan) -> list[Roof]:
    """The highest bound of each kind, falling.

    A channel or link needs its bytes over its capacity; the tensor (vector) engines of a PE need their busy cycles, spread over
    all of them.
    """
    found: dict[str, Roof] = {}
    for name, capacity in zip(plan.resources, plan.capacities, strict=True):
        if name in result.counters:
            kind = {"dram": "DRAM", "noc": "link"}[naming.counted(name)]
            _keep(found, Roof(name, kind, ceil_div(result.counters[name]["bytes"], capacity)))
    busy: dict[tuple[str, str], list[int]] = {}
    for name, counters in result.counters.items():
        kind = naming.counted(name)
        if kind in ("te", "ve"):
            busy.setdefault((naming.parent(name), kind), []).append(counters["busy"])
    for (place, kind), cycles in busy.items():
        _keep(found, Roof(f"{place} {kind}".strip(), kind, ceil_div(sum(cycles), len(cycles))))
    return sorted(found.values(), key=lambda roof: -roof.cycles)


def _keep(found: dict[str, Roof], roof: Roof) -> None:
    if roof.kind not in found or roof.cycles > found[roof.kind].cycles:
        found[roof.kind] = roof


def roof_share(result: Result, bounds: Sequence[Roof]) -> BoundShare:
    """The largest bound beside the time of the run, and the other bounds by their names."""
    best = bounds[0]
    others = tuple((roof.name, roof.cycles) for roof in bounds[1:] if roof.cycles)
    return BoundShare(best.name, best.cycles, result.cycles, others)
