"""A run of a language model in the figures that are asked of it: tokens a second, latencies, bytes, energy, and why."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.common.units import cycles_to_ns
from kernbench.workloads.llm.floor import Floor, floor_of
from kernbench.workloads.llm.run import ROLES, LlmRun, StepRun, Tally
from kernbench.workloads.llm.steps import PHASES

NEAR_DRAM, NEAR_MACS = 0.90, 0.85  #: a phase that comes so near to one of these bounds is bound by it
NEAR = 0.90  #: the same of any single resource or engine
WORTH = 0.10  #: a kind of segment with such a share of a phase is named
_WORDS = {
    "dram": "DRAM bandwidth",
    "ch": "DRAM bandwidth",
    "te": "tensor engines",
    "pe_gemm": "tensor engines",
    "ve": "vector engines",
    "pe_math": "vector engines",
    "dma": "DMA engines",
    "pe_dma": "DMA engines",
    "critical path": "jobs that wait for each other",
}
_KINDS = {"embedding": "embedding", "layer": "layers", "head": "LM head"}


def words(limit: str) -> str:
    """A resource or engine as people call it; a link by its name."""
    for part in (limit.split(".")[-1], limit.split(".")[0]):
        found = _WORDS.get(part.rstrip("0123456789"))
        if found is not None:
            return found
    return f"the link {limit}"


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase: all its steps together."""

    phase: str
    steps: int
    tokens: int  #: that went through the model, of all sequences
    total: Tally
    kinds: dict[str, tuple[int, Tally]]  #: segments of each kind, and what they took; empty if steps ran whole
    floor: Floor

    @property
    def limit(self) -> tuple[str, int]:
        """The resource, engine or path with the largest bound of this program, and that bound."""
        return self.total.limit

    @property
    def reason(self) -> str:
        """What binds it, in words."""
        cycles, (name, bound) = self.total.cycles, self.limit
        if self.floor.dram_cycles / cycles >= NEAR_DRAM:
            return "DRAM bandwidth"
        if self.floor.mac_cycles / cycles >= NEAR_MACS:
            return "tensor engines"
        if bound / cycles >= NEAR:
            return words(name)
        large = {kind: tally for kind, (_, tally) in self.kinds.items() if tally.cycles / cycles >= WORTH}
        if large and all(tally.limit[1] / tally.cycles >= NEAR for tally in large.values()):
            return "; ".join(f"{_KINDS[kind]}: {words(tally.limit[0])}" for kind, tally in large.items())
        return f"nothing alone; most is asked of {words(name)}"

    @property
    def te_use(self) -> float:
        """Busy share of the tensor engines."""
        return self.total.te_busy / self.total.te_cycles if self.total.te_cycles else 0.0

    def per_token(self, value: float) -> float:
        """A figure of the phase, for one token."""
        return value / self.tokens


@dataclass(frozen=True, slots=True)
class LlmReport:
    """All phases. Times are in ns."""

    run: LlmRun
    phases: dict[str, PhaseReport]
    freq_ghz: Fraction

    def ns(self, cycles: int) -> float:
        """The time of some cycles."""
        return float(cycles_to_ns(cycles, self.freq_ghz))

    def rate(self, phase: PhaseReport) -> float:
        """Tokens of a phase that go through the model in a second."""
        return phase.tokens * 1e9 / self.ns(phase.total.cycles)

    @property
    def ttft_ns(self) -> float | None:
        """Time to first token: the prefill; None without one."""
        return self.ns(self.phases["prefill"].total.cycles) if "prefill" in self.phases else None

    @property
    def tpot_ns(self) -> float | None:
        """Time per output token: a decode step, of the mean; None without any."""
        phase = self.phases.get("decode")
        return None if phase is None else self.ns(phase.total.cycles) / phase.steps

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded tokens a second, of all sequences."""
        return None if self.tpot_ns is None else self.run.programs.job.batch * 1e9 / self.tpot_ns

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        programs = self.run.programs
        job, model = programs.job, programs.model
        return {
            "status": "done",
            "model": model.name,
            "machine": programs.machine.source,
            "prompt": job.prompt,
            "tokens": job.tokens,
            "batch": job.batch,
            "layers": programs.layers,
            "precision": programs.shapes[0].precision,
            "page_tokens": job.page_tokens,
            "ttft_ns": self.ttft_ns,
            "tpot_ns": self.tpot_ns,
            "tokens_per_s": self.tokens_per_s,
            "cycles": sum(phase.total.cycles for phase in self.phases.values()),
            "segments": self.run.segments,
            "simulated": self.run.simulated,
            "dram_used_bytes": programs.dram.end,
            "kv_layout": None if programs.added is None else programs.added.model_dump(),
            "phases": {name: self._phase(phase) for name, phase in self.phases.items()},
            "steps": [self._step(step) for step in self.run.steps],
        }

    def _phase(self, phase: PhaseReport) -> dict[str, Any]:
        name, bound = phase.limit
        cycles, floor = phase.total.cycles, phase.floor
        return {
            "cycles": cycles,
            "t_ns": self.ns(cycles),
            "tokens": phase.tokens,
            "tokens_per_s": self.rate(phase),
            "reason": phase.reason,
            "limit": {"name": name, "cycles": bound, "share": bound / cycles},
            "dram_bound": {"cycles": floor.dram_cycles, "share": floor.dram_cycles / cycles},
            "mac_bound": {"cycles": floor.mac_cycles, "share": floor.mac_cycles / cycles},
            "te_use": phase.te_use,
            "macs": phase.total.macs,
            "dram_bytes": {role: phase.total.bytes[role] for role in ROLES},
            "dram_bytes_per_token": {role: phase.per_token(phase.total.bytes[role]) for role in ROLES},
            "least_bytes": {role: getattr(floor, role) for role in ROLES},
            "energy_pj": dict(sorted(phase.total.energy_pj.items())),
            "energy_pj_per_token": phase.per_token(sum(phase.total.energy_pj.values())),
            "segments": {
                kind: {"count": count, "cycles": tally.cycles, "limit": tally.limit[0], "bound": tally.limit[1]}
                for kind, (count, tally) in phase.kinds.items()
            },
        }

    def _step(self, run: StepRun) -> dict[str, Any]:
        step = run.step
        return {"phase": step.phase, "tokens": step.tokens, "context": step.context, "cycles": run.total.cycles}


def report_of(run: LlmRun) -> LlmReport:
    """The figures of a run."""
    phases: dict[str, PhaseReport] = {}
    for phase in PHASES:
        steps = [step for step in run.steps if step.step.phase == phase]
        if steps:
            phases[phase] = _phase_report(run, phase, steps)
    return LlmReport(run, phases, run.programs.machine.freq_ghz)


def _phase_report(run: LlmRun, phase: str, steps: list[StepRun]) -> PhaseReport:
    total, kinds = Tally(), dict[str, tuple[int, Tally]]()
    floors = [floor_of(run.programs, step.step) for step in steps]
    floor = floors[0]
    for more in floors[1:]:
        floor += more
    for step in steps:
        total.add(step.total)
        for kind, tally in step.kinds.items():
            count, sum_so_far = kinds.get(kind, (0, Tally()))
            sum_so_far.add(tally)
            kinds[kind] = count + (run.programs.layers if kind == "layer" else 1), sum_so_far
    tokens = sum(step.step.tokens for step in steps) * run.programs.job.batch
    return PhaseReport(phase, len(steps), tokens, total, kinds, floor)
