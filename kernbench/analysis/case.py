"""A target on a machine, divided into parts that run in sequence; the target may be a program, a bench, a language model or a
graph.

`compare` runs one case on several machines; `what_if` runs one work on machines without limits.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from kernbench.cmdq import Program
from kernbench.cmdq.entries import PairEntry
from kernbench.common import naming
from kernbench.common.files import temporary_folder
from kernbench.common.units import cycles_to_ns
from kernbench.config import MachineConfig
from kernbench.runtime_api.bench import Bench
from kernbench.sim_engine.engine import GraphEngine
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.recording.options import TraceOptions
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import bank_conflicts, bound_share, engine_uses, roof_share, roofs
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.trace.writer import TraceFile
from kernbench.workloads.graphs.graph import Graph
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.params import checked_params, llm_programs
from kernbench.workloads.llm.run import periods_are_one
from kernbench.workloads.parallel.programs import ParallelPrograms

CRITICAL_PATH = "critical path"
KINDS = ("dma", "te", "ve")
Progress = Callable[[Machine], None]


@dataclass(frozen=True, slots=True)
class Demand:
    """The largest numbers of transfers and tiles that a program or kernel can have in flight; a machine with these limits never
    holds it back."""

    transfers: int  #: number of transfers of DMA engines
    pairs: int  #: number of tiles that PEs send to or fetch from each other

    @classmethod
    def of(cls, program: Program) -> Demand:
        """The demand of a program."""
        return cls(
            sum(entry.engine == "dma" for entry in program.entries),
            sum(isinstance(entry, PairEntry) for entry in program.entries),
        )


class Started(Protocol):
    """A machine at cycle 0, with a loaded program or bench."""

    @property
    def machine(self) -> Machine:
        """The machine with its parameters."""
        ...

    def check(self) -> None:
        """Raise the exception of the user's code, if such an exception ended the run."""


@dataclass(frozen=True, slots=True)
class _Standing:
    machine: Machine
    engine: GraphEngine | None = None

    def check(self) -> None:
        if self.engine is not None:
            self.engine.check()


@dataclass(frozen=True, slots=True)
class WorkPart:
    """A part of a work, which runs from its cycle 0 to its end and counts `times` times."""

    start: Callable[[MachineConfig], Started]
    times: int = 1
    stage: str = ""  #: stage of a language model: prefill or decode
    #: whether the part is traced to find causes; other parts of its stage are assumed to have the same causes
    sampled: bool = True
    program: Program | None = None  #: None for a bench
    kind: str = ""  #: kind of a segment: embedding, layer, head


@dataclass(frozen=True, slots=True)
class Work:
    """All parts of a target, prepared for one machine."""

    target: str
    config: MachineConfig
    parts: tuple[WorkPart, ...]

    def run(self, config: MachineConfig | None = None, progress: Progress | None = None) -> Outcome:
        """Run all parts on the machine, or on another one; stop after the first part that is not done."""
        machine = config or self.config
        runs: list[PartRun] = []
        for part in self.parts:
            runs.append(_run_part(part, machine, progress))
            if runs[-1].result.status != "done":
                break
        return Outcome(self, machine, tuple(runs))


@dataclass(frozen=True, slots=True)
class PartRun:
    """A part and the result of its run."""

    part: WorkPart
    result: Result
    bounds: Mapping[str, int]  #: [cycle]


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the time of the critical path with one cause: the bandwidth of the DRAM, the work of the tensor engines."""

    name: str
    cycles: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a work on a machine."""

    work: Work
    config: MachineConfig
    runs: tuple[PartRun, ...]
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def machine(self) -> str:
        """The name of the machine."""
        return str(self.config.source)

    @property
    def status(self) -> str:
        """done, or how the last part ended: aborted, deadlock, failed."""
        return self.runs[-1].result.status

    @property
    def cycles(self) -> int:
        """[cycle] The sum over all parts."""
        return sum(run.result.cycles * run.part.times for run in self.runs)

    @property
    def t_ns(self) -> float:
        """[ns] The sum over all parts."""
        return float(cycles_to_ns(self.cycles, self.config.freq_ghz))  # type: ignore[attr-defined]  # both kinds have it

    @cached_property
    def bounds(self) -> dict[str, int]:
        """[cycle] Lower bounds by resource, engine and critical path, the highest first. The bounds of parts are added up,
        because parts run in sequence."""
        found: Counter[str] = Counter()
        for run in self.runs:
            for name, cycles in run.bounds.items():
                found[name] += cycles * run.part.times
        return dict(sorted(found.items(), key=lambda one: -one[1]))

    @property
    def bound_by(self) -> str:
        """The resource of the highest lower bound."""
        return next(iter(self.bounds), CRITICAL_PATH)

    @property
    def bound_share(self) -> float:
        """Highest bound / cycles; 1 if the machine cannot run the work faster."""
        return next(iter(self.bounds.values()), 0) / self.cycles if self.cycles else 1.0

    @property
    def demand(self) -> Demand:
        """The largest demand of all parts."""
        each = [_demand(run) for run in self.runs]
        return Demand(max(one.transfers for one in each), max(one.pairs for one in each))

    @property
    def metrics(self) -> dict[str, Any]:
        """Numbers by name, as in `kernbench.Run.metrics`; shares are means over the cycles."""
        found: dict[str, Any] = {"cycles": self.cycles, "t_ns": self.t_ns}
        found |= {"bound": next(iter(self.bounds.values()), 0), "bound_by": self.bound_by, "bound_share": self.bound_share}
        found["energy_pj"] = math.fsum(one.result.metrics["energy_pj"]["total"] * one.part.times for one in self.runs)
        found["dram_bytes"] = sum(_dram_bytes(one.result) * one.part.times for one in self.runs)
        for kind in KINDS:
            found[f"{kind}_busy"] = self._mean(lambda result, kind=kind: _busy(result, kind))  # type: ignore[misc]
        requests = sum(bank_conflicts(one.result).requests * one.part.times for one in self.runs)
        denials = sum(bank_conflicts(one.result).denials * one.part.times for one in self.runs)
        return found | {"bank_denials": denials / requests if requests else 0.0}

    def _mean(self, share: Callable[[Result], float]) -> float:
        cycles = self.cycles
        parts = (share(one.result) * one.result.cycles * one.part.times for one in self.runs)
        return math.fsum(parts) / cycles if cycles else 0.0

    def causes(self) -> tuple[Cause, ...]:
        """The cycles by cause, the largest first; they add up to the total. The sampled parts are run again with a trace."""
        if "causes" not in self._kept:
            self._kept["causes"] = tuple(_causes(self))
        found: tuple[Cause, ...] = self._kept["causes"]
        return found


def _run_part(part: WorkPart, config: MachineConfig, progress: Progress | None) -> PartRun:
    started = part.start(config)
    machine = started.machine
    machine.run(progress=progress)
    started.check()
    result = machine.result()
    if part.program is None:
        bound = roof_share(result, roofs(result, machine.plan))
        return PartRun(part, result, dict([(bound.name, bound.cycles), *bound.others]))
    if part.stage or not result.cycles:  # parts of a model run in sequence, so their bounds add up
        given = {name: cycles for name, cycles in result.metrics["bounds"].items() if name not in ("cycles", "limit")}
        given[CRITICAL_PATH] = given.pop("critical_path")
        return PartRun(part, result, given)
    bound = bound_share(result)
    return PartRun(part, result, dict([(bound.name, bound.cycles), *bound.others]))


def _demand(run: PartRun) -> Demand:
    if run.part.program is not None:
        return Demand.of(run.part.program)
    jobs = sum(use.jobs for use in engine_uses(run.result) if use.kind == "dma")
    return Demand(jobs, jobs)


def _dram_bytes(result: Result) -> int:
    return sum(counted["bytes"] for name, counted in result.counters.items() if naming.counted(name) == "dram")


def _busy(result: Result, kind: str) -> float:
    shares = [use.utilisation for use in engine_uses(result) if use.kind == kind]
    return math.fsum(shares) / len(shares) if shares else 0.0


def _causes(outcome: Outcome) -> Iterator[Cause]:
    whole: Counter[str] = Counter()
    sampled: Counter[str] = Counter()
    for run in outcome.runs:
        cycles = run.result.cycles * run.part.times
        whole[run.part.stage] += cycles
        sampled[run.part.stage] += cycles if run.part.sampled else 0
    found: defaultdict[str, float] = defaultdict(float)
    for run in outcome.runs:
        if run.part.sampled and run.result.cycles:
            scale = run.part.times * whole[run.part.stage] / sampled[run.part.stage]
            for name, traced in _traced(run.part, outcome.config).items():
                found[name] += traced * scale
    yield from (Cause(name, cycles) for name, cycles in sorted(found.items(), key=lambda one: (-one[1], one[0])))


def _traced(part: WorkPart, config: MachineConfig) -> dict[str, float]:
    """[cycle] of each group of the critical path."""
    with temporary_folder("the trace of a part") as folder:
        path = folder / "run.jsonl"
        machine = part.start(config).machine
        with TraceFile(path) as file:
            tracing = machine.trace(file, TraceOptions("full"))
            machine.run()
            tracing.close()
        return {group.name: float(group.cycles) for group in explain(open_trace(path)).groups}


class Case(Protocol):
    """A target with its parameters, not yet on a machine."""

    @property
    def name(self) -> str:
        """The name of the target."""
        ...

    @property
    def machine(self) -> str:
        """The default machine."""
        ...

    def on(self, config: MachineConfig) -> Work:
        """The work on a machine. InputError if it is not possible."""
        ...


DEFAULT_MACHINE = "npu_server"  #: the default machine


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """A program; `make` makes it for a machine."""

    name: str
    make: Callable[[MachineConfig], Program]
    machine: str = DEFAULT_MACHINE

    def on(self, config: MachineConfig) -> Work:
        """The work, which has one part."""
        return program_work(self.make(config), config, self.name)


def program_work(program: Program, config: MachineConfig, name: str = "") -> Work:
    """A program on a machine."""
    return Work(name or program.name, config, (_program_part(program),))


def _program_part(program: Program, times: int = 1, stage: str = "", sampled: bool = True, kind: str = "") -> WorkPart:
    def start(config: MachineConfig) -> Started:
        return _Standing(Machine(config, program))

    return WorkPart(start, times, stage, sampled, program, kind)


@dataclass(frozen=True, slots=True)
class BenchCase:
    """A bench with its parameters."""

    bench: Bench
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the bench."""
        return self.bench.name

    @property
    def machine(self) -> str:
        """The machine of the bench."""
        return self.bench.machine

    def on(self, config: MachineConfig) -> Work:
        """The work, which has one part."""

        def start(machine: MachineConfig) -> Started:
            engine = GraphEngine(machine, op_log=False)
            return _Standing(engine.prepare(self.bench, **self.params), engine)

        return Work(self.name, config, (WorkPart(start),))


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A language model with the parameters of `kernbench.workloads.llm.params`."""

    model: Model
    params: Mapping[str, Any]
    machine: str = DEFAULT_MACHINE

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    def on(self, config: MachineConfig) -> Work:
        """The work with one part for each different segment; the segments of the last step of a phase are sampled."""
        programs = llm_programs(self.model, config, checked_params(self.name, self.params))
        last = {step.phase: step for step in programs.steps}
        parts = []
        if isinstance(programs, ParallelPrograms):  # stages and hand-offs share links, so each phase is one program
            for phase in last:
                some = [step for step in programs.steps if step.phase == phase]
                parts.append(_program_part(programs.phase_program(some), 1, phase, sampled=True))
            return Work(self.name, programs.target, tuple(parts))
        for step in programs.steps:
            sampled = last[step.phase] is step
            if not periods_are_one(programs.machine):  # the result depends on the first cycle of a segment
                parts.append(_program_part(programs.step_program(step), 1, step.phase, sampled))
                continue
            segments = list(programs.segments(step))
            counts = Counter(segment.key for segment in segments)
            for segment in {segment.key: segment for segment in reversed(segments)}.values():
                made = programs.segment_program(segment)
                parts.append(_program_part(made, counts[segment.key], step.phase, sampled, segment.kind))
        return Work(self.name, programs.target, tuple(parts))


@dataclass(frozen=True, slots=True)
class GraphCase:
    """An ONNX model; `read` reads the model with the requested widths."""

    graph: Graph
    activation_bits: int
    machine: str = DEFAULT_MACHINE

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name

    def on(self, config: MachineConfig) -> Work:
        """The work, which has one part."""
        made = GraphProgram(self.graph, config, self.activation_bits)
        return Work(self.name, made.target, (_program_part(made.program),))
