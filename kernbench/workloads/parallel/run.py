"""Runs a job on a layout: each distinct stage and hand-off is simulated once, and their times are combined to a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kernbench.common.errors import InternalError
from kernbench.common.units import even_parts
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.blocks.programs import programs_of
from kernbench.workloads.limit import StoppedError
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.run import LlmRun, Progress, StepRun, Tally, periods_are_one, run_llm, segment_tally, tally_of
from kernbench.workloads.llm.steps import Job, LlmPrograms, Step
from kernbench.workloads.models.parts import Experts
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import Layout, check_layout
from kernbench.workloads.parallel.pipeline import Item, Timeline, run_pipeline
from kernbench.workloads.parallel.programs import Micro, ParallelPrograms, grid_job


def job_programs(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout, *,
    max_cycles: int | None = None,
) -> LlmPrograms | ParallelPrograms:  # fmt: skip
    """The programs of a job on a layout. Raises InputError if a part does not fit."""
    layout = shared_layout(model, job, layout)
    if layout.pp == layout.copies == layout.rank_pes == 1 and not layout.micro_batches:
        if layout.stage_pes > layout.tp or layout.cp < 1:
            check_layout(layout, model, config, job.batch, job.layers or model.layers)
        return programs_of(model, precision, config, grid_job(job, layout), max_cycles=max_cycles)
    return ParallelPrograms(model, precision, config, job, layout, max_cycles=max_cycles)


def shared_layout(model: Model, job: Job, layout: Layout) -> Layout:
    """The layout, in which replicas of a mixture share its experts if the job places whole experts on PEs."""
    blocks = model.description.blocks if model.description is not None else ()
    mixture = any(isinstance(block.ffn, Experts) for block in blocks)
    return replace(layout, shared_experts=job.expert_parallel and mixture and type(layout.dp) is int and layout.dp > 1)


def run_model(
    programs: LlmPrograms | ParallelPrograms, *, reuse: bool = True, progress: Progress | None = None
) -> LlmRun:
    """Simulates a job, on one group of PEs or on a layout of several."""
    if isinstance(programs, LlmPrograms):
        return run_llm(programs, reuse=reuse, progress=progress)
    return run_parallel(programs, reuse=reuse, progress=progress)


def run_parallel(programs: ParallelPrograms, *, reuse: bool = True, progress: Progress | None = None) -> LlmRun:
    """Simulates a job. `reuse`: equal segments are simulated once; otherwise each phase is one program, including hand-offs.

    Phases run in sequence. Raises StoppedError if the cycles reach `programs.max_cycles`.
    """
    if not (reuse and periods_are_one(programs.machine)):
        return _run_whole(programs, progress)
    work = _Work(programs)
    steps: list[StepRun] = []
    waiting: dict[str, float] = {}
    hidden: dict[str, tuple[int, int]] = {}
    total = len(programs.steps)
    for phase in dict.fromkeys(step.phase for step in programs.steps):
        some = [step for step in programs.steps if step.phase == phase]
        line = _phase(work, some, steps, hidden)
        busy = [sum(ends[s] - starts[s] for starts, ends in zip(line.starts, line.ends, strict=True)) for s in
                range(programs.layout.pp)]  # fmt: skip
        waiting[phase] = 1 - max(busy) / line.end
        if sum(one.total.cycles for one in steps) >= programs.max_cycles:
            raise StoppedError(programs.model.name, programs.max_cycles, f"in {phase}")
        if progress is not None:
            progress(len(steps), total)
    return LlmRun(programs, steps, len(work.contents), work.segments, waiting=waiting, hand_offs=hidden)


class _Work:
    """The cycles of a micro-batch in each stage, and the simulated results behind them."""

    def __init__(self, programs: ParallelPrograms) -> None:
        self.programs = programs
        self.contents = set[object]()
        self.segments = 0
        replicas = even_parts(programs.job.batch, programs.layout.copies)
        self.replicas = Counter(replicas)

    def item(self, micro: Micro) -> Item:
        """Its cycles."""
        programs, pp = self.programs, self.programs.layout.pp
        stages = tuple(self.stage(number, micro).cycles for number in range(pp))
        if pp == 1:
            return Item(micro.number, stages)
        ways = [programs.hand_off(number, micro).cycles for number in range(pp)]
        return Item(micro.number, stages, tuple(ways[:-1]), ways[-1])

    def stage(self, number: int, micro: Micro) -> Tally:
        """All segments of a stage."""
        return self.kinds(number, micro)[0]

    def kinds(self, number: int, micro: Micro) -> tuple[Tally, dict[str, Tally], Counter[str]]:
        """The sum, the sum by kind of segment, and the number of segments of each kind."""
        stage = self.programs.stage(number, micro.size)
        total, kinds, counts = Tally(), dict[str, Tally](), Counter[str]()
        for segment in stage.segments(micro.step):
            self.contents.add(stage.content(segment))
            tally = segment_tally(stage, segment)
            total.add(tally)
            kinds.setdefault(segment.kind, Tally()).add(tally)
            counts[segment.kind] += 1
        return total, kinds, counts


def _phase(work: _Work, some: Sequence[Step], steps: list[StepRun], hidden: dict[str, tuple[int, int]]) -> Timeline:
    """Appends the steps of a phase; returns its timeline."""
    programs = work.programs
    micros = [micro for step in some for micro in programs.micros(step)]
    items = [work.item(micro) for micro in micros]
    line = run_pipeline(items)
    each = len(programs.sizes)
    before = 0
    for index, step in enumerate(some):
        end = line.done((index + 1) * each)
        steps.append(_step_run(work, step, end - before))
        before = end
    if programs.layout.pp > 1:
        at_once = [replace(item, hand_offs=(0,) * len(item.hand_offs)) for item in items]
        free = at_once, [replace(item, back=0) for item in items]
        shorter = [(line.end - run_pipeline(without).end) // len(some) for without in free]
        hidden[some[0].phase] = shorter[0], shorter[1]
    return line


def _step_run(work: _Work, step: Step, cycles: int) -> StepRun:
    """Bytes, MACs and energy of all replicas; the bounds are those of the stage that works longest."""
    programs = work.programs
    whole, kinds, counts = Tally(), dict[str, Tally](), Counter[str]()
    stages = [Tally() for _ in range(programs.layout.pp)]
    for size, times in work.replicas.items():
        most = max(1, size // programs.layout.sharers)
        parts = even_parts(size, min(most, programs.layout.micro_batches or programs.layout.pp))
        largest = size == max(work.replicas)
        for number, part in enumerate(parts):
            micro = Micro(step, number, part)
            for stage in range(programs.layout.pp):
                total, by_kind, many = work.kinds(stage, micro)
                whole.add(total, times)
                if programs.layout.pp > 1:
                    whole.add(programs.hand_off(stage, micro), times)
                if largest:
                    stages[stage].add(total)
                    for kind, tally in by_kind.items():
                        kinds.setdefault(kind, Tally()).add(tally)
                    counts += many
                    work.segments += sum(many.values())
    busiest = max(stages, key=lambda one: one.cycles)
    energy = whole.energy_pj
    if whole.cycles:
        energy["static"] = energy["static"] / whole.cycles * cycles  # type: ignore[assignment]  # energies are floats
    whole.bounds, whole.cycles = busiest.bounds, cycles
    whole.te_cycles = cycles * programs.machine.te.engines * programs.layout.pes
    return StepRun(step, whole, kinds, dict(counts))


def _run_whole(programs: ParallelPrograms, progress: Progress | None) -> LlmRun:
    """Each phase as one program, in which hand-offs share links and memory with all other work."""
    steps: list[StepRun] = []
    for phase in dict.fromkeys(step.phase for step in programs.steps):
        some = [step for step in programs.steps if step.phase == phase]
        program = programs.phase_program(some)
        machine = Machine(programs.target, program)
        machine.run()
        result = machine.result()
        if result.status == "aborted":
            raise StoppedError(program.name, result.cycles)
        if result.status != "done":
            raise InternalError(f"{program.name}: {result.status} at cycle {result.cycles}")
        whole = tally_of(program, result, programs.machine, programs.layout.pes)
        positions = {step.context + step.tokens - 1: index for index, step in enumerate(some)}
        ends = [0] * len(some)
        for entry, times in zip(program.entries, result.entries, strict=True):
            if "token" in entry.meta:
                index = positions[int(entry.meta["token_idx"])]
                ends[index] = max(ends[index], times.end or 0)
        before = 0
        for index, (step, end) in enumerate(zip(some, ends, strict=True)):
            tally = Tally()
            if not index:
                tally.add(whole)
            tally.cycles, before = end - before, end
            tally.te_cycles = tally.cycles * programs.machine.te.engines * programs.layout.pes
            steps.append(StepRun(step, tally, {}))
        if progress is not None:
            progress(len(steps), len(programs.steps))
    count = sum(len(list(programs.stage(n, size).segments(step))) for step in programs.steps for size in programs.sizes
                for n in range(programs.layout.pp))  # fmt: skip
    return LlmRun(programs, steps, count, count)
