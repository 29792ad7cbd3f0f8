"""The planners against the bounds of every machine: a large product, and a prefill of the largest model that fits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import isqrt
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, load_config, machine_names
from kernbench.config.kinds import as_npu
from kernbench.validate.run import Runner
from kernbench.validate.suite import Figure, Row, SuiteData
from kernbench.workloads.blocks.programs import programs_of
from kernbench.workloads.graphs.strips import product_strips
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.parts import Experts
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.fitting import least_bytes
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.programs import grid_job

#: options of `kbsim llm`, by the field of a job that they set
OPTIONS = {
    "expert_parallel": "--ep", "prefetch_experts": "--prefetch-experts", "search_divisions": "--search-divisions",
}  # fmt: skip
WITH_LINKS = (
    "reported only: the bound also counts the collectives, each as long as it takes alone, and nothing runs at the same time"
)
WHY = "the goal of the planner: the rest is what a plan fills, drains and cannot overlap"


@dataclass(frozen=True, slots=True)
class Prefill:
    """The fastest prefill of a machine."""

    case: str  #: its model and options
    share: Fraction  #: the bound over its cycles
    #: the bound with the collectives in sequence over its cycles; above 1 if they run beside other work; None for a single PE
    with_links: Fraction | None


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """For each machine, the share of the bound that a product reaches, and the share that a prefill reaches. The data file may
    leave one of them out."""
    for name in machine_names():
        if runner.options.quick and name not in data.fact("quick"):
            continue
        if name not in data.fact("no_product") and (not runner.options.quick or name in data.fact("quick_products")):
            for bits in data.fact("bits").get(name, [data.fact("other_bits")]):
                share = product_share(name, int(data.fact("size")), bits, runner)
                yield _row(f"{name}: product, {bits} bits", share, data, data.fact("product_limits").get(name, ""))
        if name not in data.fact("no_prefill"):
            found = largest_prefill(name, data, runner)
            if found is not None:
                case, share = f"{name}: prefill of {found.case}", found.share
                yield _row(case, share, data, data.fact("prefill_limits").get(name, ""))
                if found.with_links is not None:
                    yield replace(_row(f"{case}, with links", found.with_links, data, ""), allowed=None, why=WITH_LINKS)


def _row(case: str, share: Fraction, data: SuiteData, limit: str) -> Row:
    """A row; without a verdict if something outside the plan limits it."""
    expected, allowed = (Fraction(str(data.fact("least"))), 1), None if limit else 0
    why = f"reported only: {limit}" if limit else WHY
    return Row(case=case, source="bounds", expected=expected, ours=share, unit="of the bound", allowed=allowed, why=why)


def product_share(machine: str, size: int, bits: int, runner: Runner) -> Fraction:
    """The bound of a square product over its cycles. Programs that run for several parts of the rows run once here."""
    strips = product_strips(size, size, size, bits, load_config(machine))
    macs = sum(strip.count * strip.program.floor()[2] for strip in strips)
    bound = max(macs, least_traffic(strips[0].program.machine, size, bits))
    return Fraction(bound, sum(strip.count * runner.cycles(strip.program.program, strip.program.target) for strip in strips))


def least_traffic(machine: NpuConfig, size: int, bits: int) -> int:
    """[cycle] of the bytes that any schedule of a square product moves with the scratchpad of the machine.

    With room for S elements, at least 2 size^3 / sqrt(S) - 2 S elements are loaded (Smith et al., 2019), and size^2 are stored.
    """
    dram, room = machine.dram, machine.spm.size_bytes * 8 // bits
    loaded = max(2 * size**2, 2 * size**3 // (isqrt(room) + 1) - 2 * room)
    rate = dram.capacity * dram.channels
    return ceil_div((loaded + size**2) * bits // 8 * rate.denominator, rate.numerator)


def largest_prefill(machine: str, data: SuiteData, runner: Runner) -> Prefill | None:
    """The prefill of the largest listed model that fits a machine; None if no model fits.

    All PEs of a cube, or all chips of a board, share each layer. Of the ways to run a layer, the fastest one counts.
    """
    config = load_config(machine)
    tp = config.pes
    job = Job(prompt=int(data.fact("prompt")), tokens=1, phases=("prefill",), reduction="auto")
    room = as_npu(config).dram.capacity_bytes
    for model in _models():
        if least_bytes(model, Precision(), job, Layout(tp)) > room:
            continue
        found: list[Prefill] = []
        for layout, changes in _ways(model, tp):
            with suppress(InputError):  # too large, or not divisible in this way
                of = grid_job(replace(job, **changes), layout)
                programs = programs_of(model, Precision(), config, of)
                if programs.is_held:
                    options = " ".join([layout.text] * (tp > 1) + [OPTIONS[name] for name, asked in changes.items() if asked])
                    case = f"{model.name}{', ' if options else ''}{options}"
                    found.append(Prefill(case, *prefill_shares(programs, runner)))
        if found:
            return max(found, key=lambda way: way.share)
    return None


def _ways(model: Model, tp: int) -> Iterator[tuple[Layout, dict[str, Any]]]:
    """The layouts in which PEs run a layer, and the changes of the job for each layout.

    PEs have all rows or their own rows between products. For a mixture, they have shares of experts or whole ones, and experts
    are loaded behind the router or ahead of it. Other models have the fixed division of layers or the fastest one.
    """
    blocks = model.description.blocks if model.description is not None else ()
    mixes = any(isinstance(block.ffn, Experts) for block in blocks)
    for ahead, own_rows, whole in product((False, True), repeat=3):
        if (tp > 1 or not (own_rows or whole)) and (mixes or not (whole or ahead)):
            yield Layout(tp, sp=own_rows), {"expert_parallel": whole, "prefetch_experts": ahead}
    if tp > 1 and not mixes:
        yield Layout(tp), {"search_divisions": True}


@cache
def _models() -> list[Model]:
    """The listed models, largest first."""
    return sorted(map(load_model, preset_models()), key=lambda model: -model.parameters)


def prefill_shares(programs: LlmPrograms, runner: Runner) -> tuple[Fraction, Fraction | None]:
    """The bound of a prefill over its cycles, without and with its collectives; segments that are alike run once."""
    (step,) = programs.steps
    known: dict[Hashable, tuple[int, int]] = {}
    cycles = links = 0
    for segment in programs.segments(step):
        if segment.key not in known:
            before = len(programs.reduced)
            took = runner.cycles(programs.segment_program(segment), programs.target)
            sent = programs.reduced[before:]
            known[segment.key] = took, sum(map(programs.collective_cycles, sent))
        cycles += known[segment.key][0]
        links += known[segment.key][1]
    floor = floor_of(programs, step)
    bound = max(floor.dram_cycles, floor.mac_cycles)
    return Fraction(bound, cycles), Fraction(bound + links, cycles) if links else None


def left_out(data: SuiteData, runner: Runner) -> str:
    """The machines without a product or without a prefill, and why."""
    if runner.options.quick:
        return ""
    parts = []
    for what in ("product", "prefill"):
        by_reason: dict[str, list[str]] = {}
        for machine, why in data.fact(f"no_{what}").items():
            by_reason.setdefault(why, []).append(machine)
        parts += [f"the {what} on {', '.join(some)}, because {why}" for why, some in by_reason.items()]
    return "; ".join(parts)


def figures(data: SuiteData, rows: Sequence[Row]) -> list[Figure]:
    """None: the table says it."""
    return []
