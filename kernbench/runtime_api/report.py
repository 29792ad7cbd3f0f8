"""The result of a run of a bench: the output of `kbsim run BENCH` as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kernbench.common import naming
from kernbench.common.json_shapes import counted
from kernbench.runtime_api.bench import Bench
from kernbench.sim_engine.engine import GraphEngine, LaunchTimes
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import BoundShare, EngineUse, ResourceUse, Roof, engine_uses, roof_share, roofs

if TYPE_CHECKING:
    from kernbench.sim_engine.verify import Verification


def described(bench: Bench) -> dict[str, Any]:
    """The name, the description, the parameters with their allowed values, and the file of a bench."""
    params = {
        name: {"default": param.default, "doc": param.doc, "choices": list(param.choices), "least": param.least}
        for name, param in bench.params.items()
    }
    return {
        "name": bench.name,
        "description": bench.description,
        "machine": bench.machine,
        "params": params,
        "reference": bench.reference is not None,
        "source": bench.source,
    }


_NAMES = {"te": ("tensor engine", "product"), "ve": ("vector engine", "step")}


def idle_engines(uses: Iterable[EngineUse]) -> list[str]:
    """One line for each kind of engine of which a PE left engines idle; the line is about the PE that left the most.

    A job goes to the engine with the fewest unfinished jobs, so the number of engines with work is the largest number of jobs
    in flight at a time.
    """
    found: dict[str, dict[str, list[EngineUse]]] = {kind: {} for kind in _NAMES}
    for use in uses:
        if use.kind in found:
            found[use.kind].setdefault(naming.parent(use.name), []).append(use)
    return [line for kind, places in found.items() if (line := _line(kind, places))]


def _line(kind: str, places: dict[str, list[EngineUse]]) -> str:
    used = {place: sum(use.jobs > 0 for use in engines) for place, engines in places.items()}
    lacking = [place for place, engines in places.items() if 0 < used[place] < len(engines)]
    if not lacking:
        return ""
    place = min(lacking, key=lambda one: used[one])
    engine, job = _NAMES[kind]
    jobs, there = sum(use.jobs for use in places[place]), len(places[place])
    line = f"{used[place]} of {counted(there, engine)}{f' of {place}' if place else ''} had work: "
    if jobs == used[place]:
        return f"{line}the kernels had {counted(jobs, job)} in all; smaller blocks make more"
    return f"{line}the kernels had at most {counted(used[place], job)} in flight at a time"


@dataclass(frozen=True, slots=True)
class KindUse:
    """The use of all engines of a kind that had work."""

    kind: str  #: dma, te, ve
    engines: int  #: of the machine
    used: int  #: that had work
    mean: float  #: mean share of the run in which these engines were busy
    least: float
    most: float
    stalled: float  #: mean share of the run in which banks or backpressure stalled these engines
    jobs: int
    work: int  #: bytes, MACs or ops

    @classmethod
    def of(cls, kind: str, uses: list[EngineUse]) -> KindUse:
        """The means over the engines of the kind."""
        used = [one for one in uses if one.jobs]
        shares = [one.utilisation for one in used] or [0.0]
        waits = [(one.bank_conflict + one.backpressure) / one.cycles for one in used] or [0.0]
        return cls(
            kind,
            len(uses),
            len(used),
            sum(shares) / len(shares),
            min(shares),
            max(shares),
            sum(waits) / len(waits),
            sum(one.jobs for one in used),
            sum(one.work for one in used),
        )


class BenchReport(msgspec.Struct, frozen=True):
    """The duration of a run of a bench, the limits of the run, and whether its outputs are right; `Run.report` returns the
    report.

    >>> import kernbench as kb
    >>> report = kb.run("vector_add", n=4096, verify=True).report
    >>> report.bench, report.outputs, report.verification.ok
    ('vector_add', ('out',), True)
    """

    bench: str
    params: Mapping[str, Any]
    freq_ghz: float
    result: Result
    launches: tuple[LaunchTimes, ...]
    roofs: tuple[Roof, ...]  #: lower bounds, the highest first
    kinds: tuple[KindUse, ...]
    channels: tuple[ResourceUse, ...]
    links: tuple[ResourceUse, ...]  #: links with traffic, the busiest first
    implicit_waits: int  #: uses of a result whose command had not ended
    outputs: tuple[str, ...]
    verification: Verification | None  #: None without `verify`
    notes: tuple[str, ...] = ()  #: remarks on the run: idle engines with the reason, and remarks on Triton kernels

    @property
    def bound(self) -> BoundShare:
        """The highest lower bound of the cycles, and its share of the run."""
        return roof_share(self.result, self.roofs)

    @property
    def exit_code(self) -> int:
        """1 if an output tensor is wrong, otherwise 0."""
        return 0 if self.verification is None else self.verification.exit_code

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `result` has the format of docs/model/formats.md."""
        launches = [asdict(one) | {"cycles": one.cycles} for one in self.launches]
        return {
            "bench": self.bench,
            "machine": self.result.machine,
            "params": dict(self.params),
            "status": self.result.status,
            "cycles": self.result.cycles,
            "t_ns": self.result.t_ns,
            "launches": launches,
            "bounds": [msgspec.structs.asdict(roof) for roof in self.roofs],
            "utilisation": [asdict(kind) for kind in self.kinds],
            "implicit_waits": self.implicit_waits,
            "notes": list(self.notes),
            "verification": None if self.verification is None else _checked(self.verification),
            "result": self.result.to_dict(),
        }


def _checked(verification: Verification) -> dict[str, Any]:
    failures = [
        {
            "tensor": one.tensor,
            "index": None if one.index is None else list(one.index),
            "expected": None if one.index is None else float(one.expected),
            "got": None if one.index is None else float(one.got),
            "tolerance": one.tolerance,
            "differing": one.differing,
            "elements": one.elements,
            "ops": list(one.ops),
            "line": one.line,
            "message": str(one),
        }
        for one in verification.failures
    ]
    return {"ok": verification.ok, "checked": list(verification.checked), "failures": failures}


def report(engine: GraphEngine, *, verify: bool = False, debug: bool = False) -> BenchReport:
    """The report of an engine's last run. `verify`: run Phase 2, and compare the outputs with the reference; `debug`: replay
    one op after another.

    A run that failed, was aborted or is in a deadlock is not verified. InputError as `Running.verify`.
    """
    running, timing, plan = engine.activity, engine.get_timing_result(), engine.machine.plan
    engines = list(engine_uses(timing.result))
    uses = [
        ResourceUse(name, used["bytes"], used["busy"], timing.cycles, capacity, plan.pe.freq_ghz)
        for name, capacity in zip(plan.resources, plan.capacities, strict=True)
        if (used := timing.result.counters.get(name)) is not None
    ]
    return BenchReport(
        bench=running.bench.name,
        params=running.params,
        freq_ghz=float(plan.pe.freq_ghz),
        result=timing.result,
        launches=timing.launches,
        roofs=tuple(roofs(timing.result, plan)),
        kinds=tuple(KindUse.of(kind, [one for one in engines if one.kind == kind]) for kind in ("dma", "te", "ve")),
        channels=tuple(use for use in uses if naming.counted(use.name) == "dram"),
        links=tuple(sorted((use for use in uses if naming.counted(use.name) == "noc"), key=lambda link: -link.bytes)),
        implicit_waits=sum(state.implicit_waits for state in running.system.states()),
        outputs=tuple(running.context.outputs),
        verification=running.verify(debug=debug) if verify and timing.status == "done" else None,
        notes=(*idle_engines(engines), *running.notes()),
    )
