"""The figures of a run of a language model: tokens per second, latencies, bytes, energy, and the bounds that explain them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import cycles_to_ns
from kernbench.workloads.llm.exchanges import Sent
from kernbench.workloads.llm.floor import Floor, floor_of, floor_of_stages
from kernbench.workloads.llm.run import ROLES, LlmRun, StepRun, Tally, segment_tally
from kernbench.workloads.llm.steps import PHASES, LlmPrograms, Step

if TYPE_CHECKING:
    from kernbench.workloads.parallel.layout import Layout

#: a phase is called bound by DRAM or MACs if their bound is at least this share of its cycles
NEAR_DRAM, NEAR_MACS = 0.90, 0.85
NEAR = 0.90  #: the same threshold for any other resource or engine
WORTH = 0.10  #: the smallest share of a phase at which a kind of segment is named
_WORDS = {
    "dram": "DRAM bandwidth",
    "ch": "DRAM bandwidth",
    "te": "tensor engines",
    "pe_gemm": "tensor engines",
    "ve": "vector engines",
    "pe_math": "vector engines",
    "dma": "DMA engines",
    "pe_dma": "DMA engines",
    "critical path": "dependencies between jobs",
}
_KINDS = {"source": "source", "encoder": "encoder layers", "embedding": "embedding", "layer": "layers", "head": "LM head",
          "draft": "MTP blocks"}


def words(limit: str) -> str:
    """The name of a resource or engine in words; a link keeps its name."""
    for part in (limit.split(".")[-1], limit.split(".")[0]):
        found = _WORDS.get(part.rstrip("0123456789"))
        if found is not None:
            return found
    return f"the link {limit}"


@dataclass(frozen=True, slots=True)
class Collective:
    """Transfers between PEs in the last step of a phase: one algorithm with one size."""

    name: str  #: all-reduce, hand-off, or the name of a collective of `exchanges`
    algorithm: str
    pes: int
    nbytes: int  #: bytes of the rows on each PE
    count: int  #: number in a step, on the busiest PE
    each: int  #: [cycle] time of one, without other work on the links of the machine
    exposed: int  #: [cycle] by which the step becomes shorter without the collectives of this name; 0 if it does not

    @property
    def cycles(self) -> int:
        """[cycle] time of all of them in sequence."""
        return self.count * self.each


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase: all its steps together."""

    phase: str
    steps: int
    tokens: int  #: tokens of all sequences that went through the model
    total: Tally
    kinds: dict[str, tuple[int, Tally]]  #: segments of each kind, and their tally; empty if steps ran as whole programs
    floor: Floor
    waiting: float = 0.0  #: for a pipeline, the share of the time in which its busiest stage waits
    stages: int = 1
    collectives: tuple[Collective, ...] = ()
    step_cycles: int = 0  #: cycles of the last step

    @property
    def limit(self) -> tuple[str, int]:
        """The resource, engine or path with the largest bound of this program, and that bound."""
        return self.total.limit

    @property
    def reason(self) -> str:
        """The limit of the phase in words."""
        cycles, (name, bound) = self.total.cycles, self.limit
        if self.waiting >= WORTH:
            return f"the pipeline: its busiest stage waits {self.waiting:.0%} of the time"
        if self.floor.dram_cycles / cycles >= NEAR_DRAM:
            return "DRAM bandwidth"
        if self.floor.mac_cycles / cycles >= NEAR_MACS:
            return "tensor engines"
        if bound / cycles >= NEAR:
            return words(name)
        large = {kind: tally for kind, (_, tally) in self.kinds.items() if tally.cycles / cycles >= WORTH}
        if large and all(tally.limit[1] / tally.cycles >= NEAR for tally in large.values()):
            return "; ".join(f"{_KINDS[kind]}: {words(tally.limit[0])}" for kind, tally in large.items())
        return f"no single limit; the largest: {words(name)}"

    @property
    def te_use(self) -> float:
        """The busy share of the tensor engines."""
        return self.total.te_busy / self.total.te_cycles if self.total.te_cycles else 0.0

    def per_token(self, value: float) -> float:
        """A figure of the phase divided by its tokens."""
        return value / self.tokens


@dataclass(frozen=True, slots=True)
class LlmReport:
    """All phases. Times are in nanoseconds."""

    run: LlmRun
    phases: dict[str, PhaseReport]
    freq_ghz: Fraction

    @property
    def layout(self) -> Layout | None:
        """The layout of a job on several groups of PEs."""
        return None if isinstance(self.run.programs, LlmPrograms) else self.run.programs.layout

    def ns(self, cycles: int) -> float:
        """[ns] The time of this number of cycles."""
        return float(cycles_to_ns(cycles, self.freq_ghz))

    def rate(self, phase: PhaseReport) -> float:
        """Tokens of a phase that go through the model per second."""
        return phase.tokens * 1e9 / self.ns(phase.total.cycles)

    @property
    def ttft_ns(self) -> float | None:
        """[ns] Time to first token: the prefill; None without a prefill."""
        return self.ns(self.phases["prefill"].total.cycles) if "prefill" in self.phases else None

    @property
    def tpot_ns(self) -> float | None:
        """[ns] Time per output token: the mean time of a decode step; None without decode steps."""
        phase = self.phases.get("decode")
        return None if phase is None else self.ns(phase.total.cycles) / phase.steps

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded tokens per second, over all sequences."""
        return None if self.tpot_ns is None else self.run.programs.job.batch * 1e9 / self.tpot_ns

    def to_dict(self) -> dict[str, Any]:
        """The data for `--json`."""
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
            **self._layout(),
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

    def _layout(self) -> dict[str, Any]:
        """The layout of a job on several groups of PEs."""
        programs = self.run.programs
        if isinstance(programs, LlmPrograms):
            job = programs.job
            if job.groups == 1 and not job.splits_rows:
                return {}
            grid = {"tp": job.shards, "pp": 1, "dp": job.sharers, "micro_batches": 1, "cp": job.contexts, "sp": job.splits_rows}
            return {"layout": {**grid, "shared_experts": job.sharers > 1}}
        return {"layout": programs.layout.to_dict() | {"micro_batches": len(programs.sizes)}}

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
            **self._cost(phase),
            "segments": {
                kind: {"count": count, "cycles": tally.cycles, "limit": tally.limit[0], "bound": tally.limit[1]}
                for kind, (count, tally) in phase.kinds.items()
            },
            **({"collectives": [asdict(one) for one in phase.collectives]} if phase.collectives else {}),
        }

    def usd_per_million_tokens(self, phase: PhaseReport) -> float | None:
        """[$] The cost of a million tokens of a phase; None if the machine states no price."""
        cost, rate = self.run.programs.machine.cost, self.rate(phase)
        if cost is None or cost.usd_per_hour is None or not rate:
            return None
        return float(cost.usd_per_hour) / 3600 / rate * 1e6

    def _cost(self, phase: PhaseReport) -> dict[str, Any]:
        usd = self.usd_per_million_tokens(phase)
        return {} if usd is None else {"usd_per_million_tokens": usd}

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
    programs = run.programs
    floors = [
        floor_of(programs, step.step) if isinstance(programs, LlmPrograms) else floor_of_stages(programs, step.step)
        for step in steps
    ]
    floor = floors[0]
    for more in floors[1:]:
        floor += more
    for step in steps:
        total.add(step.total)
        for kind, tally in step.kinds.items():
            count, sum_so_far = kinds.get(kind, (0, Tally()))
            sum_so_far.add(tally)
            kinds[kind] = count + step.counts[kind], sum_so_far
    tokens = sum(step.step.tokens for step in steps) * run.programs.job.batch
    waiting, stages = run.waiting.get(phase, 0.0), 1 if isinstance(programs, LlmPrograms) else programs.layout.pp
    sent = tuple(collectives_of(run, steps[-1]))
    return PhaseReport(phase, len(steps), tokens, total, kinds, floor, waiting, stages, sent, steps[-1].total.cycles)


def collectives_of(run: LlmRun, step: StepRun) -> Iterator[Collective]:
    """The reductions and hand-offs of a step that ran by segments. Their cost in the step comes from a simulation without
    them."""
    programs = run.programs
    if not step.kinds:
        return
    if isinstance(programs, LlmPrograms):
        stages = [(programs, 1)]
    else:
        stages = [(programs.stage(number, programs.sizes[0]), len(programs.sizes)) for number in range(programs.layout.pp)]
    most: dict[str, Counter[Sent]] = {}
    exposed: dict[str, int] = {}
    for stage, times in stages if programs.job.shards > 1 or programs.job.groups > 1 else ():
        for name, (found, hidden) in _sent(stage, step.step).items():
            if name not in most or hidden * times > exposed[name]:
                most[name], exposed[name] = Counter({key: count * times for key, count in found.items()}), hidden * times
    for name in sorted(most):
        for sent, count in sorted(most[name].items()):
            each = stages[0][0].collective_cycles(sent)
            yield Collective(name, sent.algorithm, sent.pes, sent.nbytes, count, each, exposed[name])
    if isinstance(programs, LlmPrograms) or programs.layout.pp == 1:
        return
    micro = next(programs.micros(step.step))
    for number in range(programs.layout.pp):
        last = number == programs.layout.pp - 1
        if number and not last:
            continue  # all collectives of one kind
        sizes, bits = programs.handed(number, micro)
        elements = max(sizes)
        each, count = programs.hand_off(number, micro).cycles, len(programs.sizes)
        name = "words back" if last else "hand-off"
        extra = run.hand_offs[step.step.phase][last]
        yield Collective(name, "send", programs.layout.tp, bytes_of(elements, bits), count, each, extra)


def _sent(stage: LlmPrograms, step: Step) -> dict[str, tuple[Counter[Sent], int]]:
    """The collectives of a stage in a step by name, and by how many cycles each name makes the stage longer."""
    found: dict[str, Counter[Sent]] = {}
    more: Counter[str] = Counter()
    without: dict[str, LlmPrograms] = {}
    for segment in stage.segments(step):
        tally = segment_tally(stage, segment)
        for sent, count in tally.reductions.items():
            found.setdefault(sent.name, Counter())[sent] += count
        for name in {sent.name for sent in tally.reductions}:
            other = without.setdefault(name, stage.without(name))
            more[name] += tally.cycles - segment_tally(other, segment).cycles
    return {name: (counts, max(0, more[name])) for name, counts in found.items()}
