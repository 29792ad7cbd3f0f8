"""The fastest layout of a job on a machine: all layouts that fit are estimated, and the best of them are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import near_size
from kernbench.config.kinds import as_npu, beyond_dram
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.context import check_context
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.report import LlmReport, report_of
from kernbench.workloads.llm.steps import Job, Step
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.fitting import cached_elements, least_bytes
from kernbench.workloads.parallel.layout import Layout, check_layout, cut_layers, layer_bits
from kernbench.workloads.parallel.pipeline import Item, run_pipeline
from kernbench.workloads.parallel.run import job_programs, run_model, shared_layout

SIMULATED = 6  #: number of layouts that are simulated
HAND_OFF = 500  #: [cycle] assumed by estimates: the latencies of a load, a send and a store
MAX_SHARDS = 64  #: limit, because a layer on more PEs takes minutes to simulate
MAX_RANKS = 16  #: limit of the ranks of a context


@dataclass(slots=True)
class Candidate:
    """A layout, with its estimated and its simulated cycles."""

    layout: Layout
    least_bytes: int  #: [byte] lower bound of the fullest PE
    estimate: int = 0  #: [cycle] of all steps
    parts: tuple[int, int, int] = (0, 0, 0)  #: [cycle] of each part: DRAM or MACs, reductions, waits of the pipeline
    report: LlmReport | None = None
    verdict: str = ""

    @property
    def cycles(self) -> int | None:
        """[cycle] of all steps from the simulation; None if the layout was not simulated."""
        return None if self.report is None else sum(phase.total.cycles for phase in self.report.phases.values())


def search(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, *, max_cycles: int | None = None,
    simulated: int = SIMULATED, progress: Callable[[int, int], None] | None = None,
) -> list[Candidate]:  # fmt: skip
    """The candidates: first those that were simulated, then those that were only estimated, the fastest first in both parts.

    Raises InputError if no layout fits; the error names the bytes that the smallest one needs.
    """
    found: list[Candidate] = []
    smallest: Candidate | None = None
    for layout in _layouts(model, config, job):
        one = Candidate(layout, least_bytes(model, precision, job, layout))
        if smallest is None or one.least_bytes < smallest.least_bytes:
            smallest = one
        if one.least_bytes <= as_npu(config).dram.capacity_bytes:
            one.estimate, one.parts = _estimate(model, precision, config, job, layout)
            found.append(one)
    if not found:
        assert smallest is not None
        rule = f"no layout fits; {smallest.layout.text} needs least, {near_size(smallest.least_bytes)} on a PE"
        raise InputError(beyond_dram(as_npu(config), rule, "use fewer bits, or a larger machine"))
    found.sort(key=lambda one: (one.estimate, one.layout.pes, one.layout))
    _simulate(found, (model, precision, config, job), max_cycles, simulated, progress)
    _also_with_own_rows(found, (model, precision, config, job), max_cycles)
    ran = sorted((one for one in found if one.report is not None), key=lambda one: (one.cycles, one.layout.pes, one.layout))
    rest = [one for one in found if one.report is None]
    _explain(ran, rest)
    return [*ran, *rest]


def _simulate(
    found: list[Candidate], made: tuple[Model, Precision, NpuConfig | SystemConfig, Job], max_cycles: int | None, most: int,
    progress: Callable[[int, int], None] | None,
) -> None:  # fmt: skip
    """Simulates the candidates with the best estimates, in sequence."""
    model, precision, config, job = made
    done = 0
    for one in found:
        if done == most:
            return
        try:
            # layouts without shards have no divisions to search
            asked = replace(job, search_divisions=job.search_divisions and one.layout.tp > 1)
            programs = job_programs(model, precision, config, asked, one.layout, max_cycles=max_cycles)
            programs.dram  # noqa: B018  # places everything
        except InputError as error:
            one.verdict = "does not fit: " + (error.problem.rule if hasattr(error, "problem") else str(error)).split(";")[0]
            continue
        one.report = report_of(run_model(programs))
        done += 1
        if progress is not None:
            progress(done, most)


def _also_with_own_rows(
    found: list[Candidate], made: tuple[Model, Precision, NpuConfig | SystemConfig, Job], max_cycles: int | None
) -> None:
    """Adds the fastest layout with shards again with `--sp`, so that shards have their own rows between products; estimates do
    not show the difference."""
    model, precision, config, job = made
    ran = [one for one in found if one.report is not None and one.layout.tp > 1]
    if not ran:
        return
    best = min(ran, key=lambda one: (one.cycles, one.layout.pes, one.layout))
    layout = replace(best.layout, sp=True)
    try:
        programs = job_programs(model, precision, config, job, layout, max_cycles=max_cycles)
        programs.dram  # noqa: B018  # places everything
    except InputError:
        return
    report = report_of(run_model(programs))
    found.append(Candidate(layout, best.least_bytes, best.estimate, best.parts, report))


def _layouts(model: Model, config: NpuConfig | SystemConfig, job: Job) -> Iterator[Layout]:
    """Layouts with powers of two as numbers of shards and replicas, and also divisors of the number of layers as numbers of
    stages."""
    pes = config.pes
    layers = job.layers or model.layers
    powers = [1 << k for k in range(pes.bit_length()) if 1 << k <= pes]
    stages = sorted({*powers, *(n for n in range(1, layers + 1) if layers % n == 0)})
    for tp in (one for one in powers if one <= MAX_SHARDS):
        for pp in (one for one in stages if one <= (1 if job.predicting else layers)):
            for dp in (one for one in powers if one <= job.batch and tp * pp * one <= pes):
                for cp in (one for one in powers if one <= MAX_RANKS and tp * pp * dp * one <= pes):
                    layout = shared_layout(model, job, Layout(tp, pp, dp, cp=cp))
                    if layout.stage_pes > MAX_SHARDS:
                        continue
                    try:
                        check_layout(layout, model, config, job.batch, layers)
                        _check_cut(model, layout, job)
                    except InputError:
                        continue
                    yield layout


def _check_cut(model: Model, layout: Layout, job: Job) -> None:
    """Raises InputError if a layer cannot be divided into this number of shards, or a context into this number of ranks."""
    tp = layout.tp
    if layout.cp > 1:
        if model.description is None or job.predicting or layout.shared_experts:
            raise InputError(Problem("kbsim llm", "the tokens of a sequence cannot be shared out", "cp", layout.cp))
        encoder = model.description.encoder is not None
        check_context(model.name, model.description.blocks, layout.cp, job.prompt, encoder=encoder)
    from kernbench.workloads.blocks.shape import BlockShape, shard_of_parts, shares_heads
    from kernbench.workloads.llm.shards import shard_of

    if model.planned and not job.expert_parallel and not shares_heads(model, tp):
        shard_of(model.shape, tp)
        return
    assert model.description is not None
    for block in dict.fromkeys(model.description.blocks):
        shape = BlockShape(
            name=model.name, block=block, hidden=model.description.hidden, weight_bits=4, activation_bits=8, kv_bits=4
        )
        shard_of_parts(shape, tp, 0, job.expert_parallel, layout.sharers)


def _estimate(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout
) -> tuple[int, tuple[int, int, int]]:
    """[cycle] of all steps: each stage at the full rate of DRAM or tensor engines, with reductions; and the parts of this
    sum."""
    layers = job.layers or model.layers
    sizes = layout.micro_sizes(job.batch)
    cuts = cut_layers(model, precision, layers, layout)
    link = float(config.link_bytes_per_cycle)
    work = reduced = waits = 0
    for phase in job.phases:
        steps = [step for step in job.steps() if step.phase == phase]
        items = []
        for step in steps:
            for number, size in enumerate(sizes):
                ranks = layout.cp if step.phase == "prefill" else 1
                handed = HAND_OFF + int(size * step.tokens / ranks * model.shape.hidden * precision.a / 8 / link)
                each = _stage_cycles(model, precision, config, layout, step, size, [stage.count for stage in cuts], layers)
                moved = [handed] * (layout.pp - 1)
                items.append(Item(number, tuple(sum(pair) for pair in each), tuple(moved), HAND_OFF * (layout.pp > 1)))
                slowest = max(each, key=sum)
                work, reduced = work + slowest[0], reduced + slowest[1]
        end = run_pipeline(items).end
        busiest = max(sum(item.stages[s] for item in items) for s in range(layout.pp)) if items else 0
        waits += end - busiest
    return work + reduced + waits, (work, reduced, waits)


def _stage_cycles(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, layout: Layout, step: Step, size: int,
    counts: list[int], layers: int,
) -> list[tuple[int, int]]:  # fmt: skip
    """[cycle] of each stage for a micro-batch: work, and reductions."""
    pe = as_npu(config)
    rows = -(-size // layout.sharers) * step.tokens
    if step.phase == "prefill":
        rows = -(-rows // layout.cp)
    shape = model.layer(0, precision)
    rate = pe.dram.capacity * pe.dram.channels
    speed = pe.te.rate(shape.weight_bits, shape.activation_bits) * pe.te.engines
    mean = sum(layer_bits(model, precision, layers)) // layers
    used = 1.0
    if model.shape.experts:
        used = min(1.0, model.shape.experts_per_token * rows / model.shape.experts)
    cached = cached_elements(shape, layout.tp) * shape.kv_bits // 8 * size * (step.context + step.tokens)
    moved = mean * used / 8 / layout.tp / layout.sharers + cached / layout.cp / layout.sharers
    active = mean / shape.weight_bits
    if model.shape.experts:
        active *= model.shape.experts_per_token / model.shape.experts
    macs = rows * active / layout.tp
    work = int(max(moved / float(rate), macs / float(speed)))
    reduced = 0
    if layout.tp > 1:
        nbytes = rows * shape.hidden * shape.activation_bits // 8
        link = float(config.link_bytes_per_cycle)
        hops = 2 * layout.tp.bit_length()
        reduced = int(2 * (2 * nbytes * (layout.tp - 1) / layout.tp / link + hops * 60))
    if layout.cp > 1:
        new = cached_elements(shape, layout.tp) * shape.kv_bits // 8 * rows * (layout.cp - 1)
        sums = rows * shape.heads * shape.head_dim * shape.activation_bits // 8 // layout.tp
        sent = new if step.phase == "prefill" else 2 * sums
        reduced += int(sent / float(config.link_bytes_per_cycle) + 2 * layout.cp.bit_length() * 60)
    if layout.shared_experts:
        sent = 2 * rows * model.shape.experts_per_token * shape.hidden * shape.activation_bits // 8 // layout.tp
        reduced += int(sent / float(config.link_bytes_per_cycle) + 2 * layout.stage_pes * 60)
    found = [(count * work, count * reduced) for count in counts]
    parts = layout.tp * layout.cp
    head = model.vocab * shape.hidden * precision.role("embedding" if model.tied else "lm_head") // 8 // parts
    found[-1] = found[-1][0] + int(head / float(rate)), found[-1][1]
    return found


def _explain(ran: list[Candidate], rest: list[Candidate]) -> None:
    """Says for each candidate how it compares with the fastest one, and for the fastest one why it is the fastest."""
    if not ran:
        return
    best = ran[0]
    for one in ran[1:]:
        assert one.cycles is not None and best.cycles is not None
        more = one.cycles / best.cycles - 1
        one.verdict = f"{f'{more:.0%}' if more >= 0.01 else f'{more:.1%}'} slower: {_why(one, best)}"
    best.verdict = f"fastest: {_why_best(best, ran[1] if len(ran) > 1 else None)}"
    for one in rest:
        if not one.verdict:
            one.verdict = f"not run: estimated {one.estimate / max(1, best.estimate) - 1:+.0%}"


_NAMES = ("weights, caches or products on each PE", "collectives", "waits of the pipeline")


def _why(one: Candidate, best: Candidate) -> str:
    """The part of the estimate that grows most; estimates do not include the effect of `--sp`."""
    if replace(one.layout, sp=best.layout.sp) == best.layout:
        return f"the same layout {'with' if one.layout.sp else 'without'} --sp"
    more = [a - b for a, b in zip(one.parts, best.parts, strict=True)]
    return f"more {_NAMES[more.index(max(more))]}" if max(more) > 0 else "its jobs wait for each other"


def _why_best(best: Candidate, second: Candidate | None) -> str:
    """The parts in which it is faster than the second one."""
    shares = best.parts
    name = _NAMES[shares.index(max(shares))]
    if second is None:
        return "the only one that ran"
    if replace(second.layout, sp=best.layout.sp) == best.layout:
        return "faster with --sp than without it" if best.layout.sp else "faster without --sp than with it"
    less = [b - a for a, b in zip(best.parts, second.parts, strict=True)]
    return f"fewer {_NAMES[less.index(max(less))]} than {second.layout.text}" if max(less) > 0 else f"most of it is {name}"
