"""Runs of a language model as targets: every segment that differs from the others is simulated once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.common.units import cycles_to_ns, plain_number
from kernbench.config import MachineConfig, NpuConfig
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result
from kernbench.sweep.store.tables import hash_of_times, measured
from kernbench.workloads.llm.emitted import Emitted
from kernbench.workloads.llm.known import Kept
from kernbench.workloads.llm.params import checked_params, llm_programs
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.steps import LlmPrograms, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.parallel.programs import ParallelPrograms
from kernbench.workloads.parallel.run import run_model


class LlmTarget:
    """A model, given by its name or file, with the parameters of `kbsim llm`."""

    native = True
    default_machine = "npu_server"

    def __init__(self, label: str, model: str, params: Mapping[str, Any]) -> None:
        self.label = label
        self.where = model
        self.given = dict(params)
        self.model = load_model(model)
        self.notes: Sequence[str] = self.model.notes

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        given = self.given | dict(params)
        if "runtime" in params and "runtime" not in self.given:
            remedy = "add a runtime to the params of the target, such as none"
            raise InputError(Problem(self.label, "an axis replaces values of a target", "runtime", params["runtime"], remedy))
        if "runtime" in given:
            from kernbench.sweep.targets.chip import checked_model_params

            return checked_model_params(self.label, self.given, params)
        return checked_params(self.label, given)

    def fingerprint(self) -> str:
        profiles = ""
        if "runtime" in self.given:
            from kernbench.sweep.targets.chip import profiles_digest

            profiles = f" {profiles_digest(self.given)}"
        return f"llm {self.model!r} {package_digest('kernbench.workloads')}{profiles}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        if "runtime" in self.given:
            from kernbench.sweep.targets.chip import without_program

            raise without_program(self.label)
        return self._run(config, params).longest()

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> dict[str, Any]:
        if "runtime" in self.given:
            from kernbench.sweep.targets.chip import generated

            return generated(self.label, self.model, config, self.checked(params))
        return self._run(config, params).fields(config)

    def _run(self, config: MachineConfig, params: Mapping[str, Any]) -> _Run | _ParallelRun:
        """Simulate the whole job."""
        programs = llm_programs(self.model, config, self.checked(params))
        return _ParallelRun(programs) if isinstance(programs, ParallelPrograms) else _Run(programs)

    def plain(self) -> dict[str, Any]:
        return {"llm": self.where, "label": self.label, "params": self.given}


@dataclass(frozen=True, slots=True)
class Simulated:
    """The data that a row takes from a segment."""

    status: str
    cycles: int
    jobs: int
    times: str  #: the hash of the times of the segment's entries
    metrics: dict[str, Any]
    bounds: dict[str, int]  #: [cycle] by resource and engine, and of the critical path


SIMULATED = Kept[Simulated](1 << 14, "row", Simulated)  #: segments by content, because points of a sweep share many segments


class _ParallelRun:
    """A job on several groups of PEs."""

    def __init__(self, programs: ParallelPrograms) -> None:
        self.programs = programs
        self.report = report_of(run_model(programs))

    def longest(self) -> tuple[str, Machine]:
        """The longest segment of the first stage, at cycle 0."""
        return _Run(self.programs.stage(0, self.programs.sizes[0])).longest()

    def fields(self, config: MachineConfig) -> dict[str, Any]:
        """The fields of a row."""
        phases, steps = list(self.report.phases.values()), self.report.run.steps
        cycles = sum(phase.total.cycles for phase in phases)
        ns = cycles_to_ns(cycles, config.freq_ghz)  # type: ignore[attr-defined]
        name, bound = max((phase.limit for phase in phases), key=lambda one: one[1])
        metrics: dict[str, Any] = {
            "energy_pj": sum(sum(phase.total.energy_pj.values()) for phase in phases),
            "dram_bytes": sum(sum(phase.total.bytes.values()) for phase in phases),
            "te_busy": sum(phase.total.te_busy for phase in phases) / max(1, sum(phase.total.te_cycles for phase in phases)),
            "bound": bound,
            "bound_by": name,
            "tokens_per_s": float(sum(phase.tokens for phase in phases) * 10**9 / ns),
        }
        digest = hashlib.sha256("\n".join(str(step.total.cycles) for step in steps).encode()).hexdigest()
        jobs = sum(step.total.entries for step in steps)
        return {
            "status": "done", "cycles": cycles, "ns": plain_number(ns), "jobs": jobs, "jobs_hash": digest, "metrics": metrics,
            "error": "",
        }  # fmt: skip


class _Run:
    """A job, segment by segment; each segment counts as often as it occurs."""

    def __init__(self, programs: LlmPrograms) -> None:
        self.programs = programs
        self.cycles, self.jobs, self.tokens = 0, 0, 0
        self.status = "done"
        self.sums: Counter[str] = Counter()  # metrics that are added up, and busy shares times cycles
        self.bounds: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()  # cycles by kind, such as `decode layers`,
        self.segments: dict[str, tuple[int, Segment]] = {}  # and the longest segment of each kind
        self.digest = hashlib.sha256()
        for step in programs.steps:
            self.tokens += step.tokens * programs.job.batch
            counts: dict[Any, tuple[Segment, int]] = {}
            for segment in programs.segments(step):
                counts[segment.key] = (counts.get(segment.key, (segment, 0))[0], counts.get(segment.key, (segment, 0))[1] + 1)
            for segment, count in counts.values():
                if self.status == "done":
                    self._add(segment, count)

    def _add(self, segment: Segment, count: int) -> None:
        program = self.programs.emitted(segment)
        key = self.programs.content(segment) if program is None else self.programs.run_content(program)
        result = SIMULATED.of(self.programs.target, key, lambda: self._simulated(segment, program))
        self.digest.update(f"{count} {result.times}\n".encode())
        self.status = result.status
        self.cycles += result.cycles * count
        kind = f"{segment.step.phase} {segment.kind}{'' if segment.kind == 'embedding' else 's'}"
        self.kinds[kind] += result.cycles * count
        if kind not in self.segments or self.segments[kind][0] < result.cycles:
            self.segments[kind] = result.cycles, segment
        self.jobs += result.jobs * count
        for name, value in result.metrics.items():
            adds_up = name in ("energy_pj", "dram_bytes")
            self.sums[name] += value * count * (1 if adds_up else result.cycles)
        for name, cycles in result.bounds.items():
            self.bounds[name.replace("_", " ")] += cycles * count

    def _simulated(self, segment: Segment, known: Emitted | None = None) -> Simulated:
        if known is None:
            machine = Machine(self.programs.target, self.programs.segment_program(segment))
        else:
            assert isinstance(self.programs.target, NpuConfig)
            machine = Machine(self.programs.target, known.program, plan=known.plan(self.programs.target))
        machine.run()
        result: Result = machine.result(entries=False)
        fields = measured(result, self.programs.target.freq_ghz)
        jobs, times = hash_of_times(machine.time_table())
        bounds = {name: cycles for name, cycles in result.metrics["bounds"].items() if name not in ("cycles", "limit")}
        return Simulated(result.status, result.cycles, jobs, times, fields["metrics"], bounds)

    def longest(self) -> tuple[str, Machine]:
        """The longest segment of the kind with the most cycles, at cycle 0."""
        kind = max(sorted(self.kinds), key=lambda name: self.kinds[name])
        program = self.programs.segment_program(self.segments[kind][1])
        of = f"{self.kinds[kind] / self.cycles:.0%} of the cycles are {kind}; {program.name}: "
        return of, Machine(self.programs.target, program)

    def fields(self, config: MachineConfig) -> dict[str, Any]:
        """The fields of a row. Shares are means over the cycles; bounds of segments are added up, because segments run in
        sequence."""
        ns = cycles_to_ns(self.cycles, config.freq_ghz)  # type: ignore[attr-defined]
        shares = {name: value / self.cycles for name, value in self.sums.items() if name not in ("energy_pj", "dram_bytes")}
        limit = max(sorted(self.bounds), key=lambda name: self.bounds[name])
        metrics: dict[str, Any] = {name: self.sums[name] for name in ("energy_pj", "dram_bytes")} | shares
        metrics |= {"bound": self.bounds[limit], "bound_by": limit, "tokens_per_s": float(self.tokens * 10**9 / ns)}
        return {
            "status": self.status,
            "cycles": self.cycles,
            "ns": plain_number(ns),
            "jobs": self.jobs,
            "jobs_hash": self.digest.hexdigest(),
            "metrics": metrics,
            "error": "",
        }
