"""Layouts that hold a model: a lower bound of the bytes of the fullest PE, which needs no planning, and layouts that are tried
until one fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import msgspec

from kernbench.common.errors import InputError
from kernbench.common.units import near_size
from kernbench.config.kinds import as_npu
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.context import most_cached
from kernbench.workloads.blocks.shape import holders_of
from kernbench.workloads.llm.dram import TooLarge
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.parts import LatentAttention
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import (
    RANKS,
    Layout,
    check_layout,
    cut_layers,
    expert_bits,
    layer_bits,
    layout_in_ranks,
)

TRIED = 6  #: limit of the layouts that are placed to find one that fits


def least_bytes(model: Model, precision: Precision, job: Job, layout: Layout) -> int:
    """[byte] A lower bound on the memory of the fullest PE: its share of weights, the whole embedding, and the caches of its
    layers."""
    return min(_fullest(model, precision, job, layout, by_memory) for by_memory in (False, True))


def _fullest(model: Model, precision: Precision, job: Job, layout: Layout, by_memory: bool) -> int:
    layers = job.layers or model.layers
    width = model.shape.hidden * model.vocab
    most, costs = 0, layer_bits(model, precision, layers)
    shared = expert_bits(model, precision, layers) if layout.shared_experts else [0] * layers
    for stage in cut_layers(model, precision, layers, layout, by_memory=by_memory):
        some = slice(stage.first, stage.first + stage.count)
        bits = (sum(costs[some]) - sum(shared[some])) // layout.tp + sum(shared[some]) // (layout.tp * layout.sharers)
        if stage.embedding:
            bits += width * precision.role("embedding")
        if stage.head and not (model.tied and stage.embedding):
            bits += width * precision.role("embedding" if model.tied else "lm_head") // (layout.tp * layout.cp)
        most = max(most, bits // 8 + stage.count * cache_bytes(model, precision, job, layout))
    return most


def cached_elements(shape: ModelShape, shards: int) -> int:
    """The elements of the keys and values of a token on one shard."""
    return max(1, shape.kv_heads // shards) * (shape.head_dim + shape.head_dim // holders_of(shape.heads, shards))


def cache_bytes(model: Model, precision: Precision, job: Job, layout: Layout) -> int:
    """[byte] The cache of one layer of one shard."""
    positions = job.prompt + (job.tokens if "decode" in job.phases else 0)
    if layout.cp > 1:
        positions = most_cached(layout.cp, job.prompt, positions)
    elements = cached_elements(model.shape, layout.tp)
    if model.description is not None and any(isinstance(block.mixer, LatentAttention) for block in model.description.blocks):
        elements = model.shape.head_dim  # one latent vector, which all heads share
    return positions * -(-layout.replica(job.batch) // layout.sharers) * elements * precision.kv // 8


def layouts_that_may_fit(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, tp: int = 0, unit: int = 1
) -> Iterator[Layout]:
    """Layouts of one replica whose weights and caches fit the DRAM, in the order of their number of PEs.

    `tp`: allow only this number of shards; `unit`: the PEs of a rank; only whole ranks are used.
    """
    pes = config.pes
    layers = job.layers or model.layers
    capacity = as_npu(config).dram.capacity_bytes
    shards = (tp,) if tp else tuple(unit << k for k in range(pes.bit_length()) if unit << k <= pes)
    stages = sorted({*(1 << k for k in range(layers.bit_length())), *(n for n in range(1, layers + 1) if layers % n == 0)})
    found = [Layout(each, count) for each in shards for count in stages if count <= min(layers, pes // each)]
    for layout in sorted(found, key=lambda one: (one.pes, one.pp)):
        if least_bytes(model, precision, job, layout) <= capacity:
            yield layout


def fits(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout) -> bool:
    """Whether the DRAM holds the layout; all regions are placed to find out."""
    from kernbench.workloads.parallel.programs import ParallelPrograms

    try:
        check_layout(layout, model, config, job.batch, job.layers or model.layers)
        programs = ParallelPrograms(model, precision, config, job, layout, explains=False)
    except InputError:
        return False
    return programs.dram.end <= programs.machine.dram.capacity_bytes


def suggested(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout) -> list[str]:
    """Layouts that fit: one with the same number of shards and more stages, and one with the fewest PEs."""
    found: list[str] = []
    for tp in (layout.tp, 0):
        for one in islice(layouts_that_may_fit(model, precision, config, job, tp, layout.rank_pes), TRIED):
            one = replace(one, sp=layout.sp and one.tp > 1, rank=layout.rank, rank_pes=layout.rank_pes)
            if one.pp * one.tp > layout.pp * layout.tp * layout.cp and fits(model, precision, config, job, one):
                if one.text not in found:
                    found.append(one.text)
                break
    found += more_ranks(model, precision, config, job, layout)
    found += larger_ranks(model, precision, config, job, layout)
    return found


def fewer_ranks(model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout) -> str:
    """A layout that fits with the largest power of 2 of ranks that share a layer, and as many stages instead; empty if there is
    none."""
    layers = job.layers or model.layers
    for ranks in (1 << k for k in reversed(range((layout.ranks - 1).bit_length()))):
        stages = min(layers, layout.pp * layout.ranks // ranks)
        for pp in dict.fromkeys((layout.pp, stages)):
            one = replace(layout, tp=ranks * layout.rank_pes, pp=pp, sp=layout.sp and ranks * layout.rank_pes > 1)
            if fits(model, precision, config, job, one):
                return one.text
    return ""


def larger_ranks(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout
) -> Iterator[str]:
    """The same layout with a cube or a SIP as the rank of tensor parallelism, whichever fits first."""
    if layout.tp == 1 or layout.rank_pes > 1 or config.pes == 1:
        return
    for rank in RANKS[1:]:
        one = layout_in_ranks(layout, rank, config)
        if one.pes > config.pes or one.rank_pes == 1:
            return
        may = least_bytes(model, precision, job, one) <= as_npu(config).dram.capacity_bytes
        if may and fits(model, precision, config, job, one):
            yield one.text
            return


def more_ranks(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout
) -> Iterator[str]:
    """The same layout with the fewest ranks of a context with which the caches fit; none if the weights are too large."""
    for ranks in (2 << k for k in range(config.pes.bit_length())):
        one = replace(layout, cp=ranks)
        if ranks <= layout.cp:
            continue
        if one.pes > config.pes or 2 * ranks > job.prompt:
            return
        if least_bytes(model, precision, job, one) > as_npu(config).dram.capacity_bytes:
            continue
        if fits(model, precision, config, job, one):
            yield one.text
            return


def refusal(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout, error: InputError
) -> InputError:
    """The error of a stage that does not fit, with layouts that fit."""
    if not isinstance(error, TooLarge):
        return error
    ways = suggested(model, precision, config, job, layout)
    for name in ("w", "kv") if not (precision.layers or precision.roles) else ():
        for bits in (8, 4, 2, 1):
            less = precision.model_copy(update={name: bits})
            if bits < getattr(precision, name) and fits(model, less, config, job, layout):
                ways.append(f"--{name} {bits}")
                break
    least = least_bytes(model, precision, job, layout)
    capacity = as_npu(config).dram.capacity_bytes
    remedy = f"to make the model fit, use {', '.join(ways[:-1])}{' or ' if len(ways) > 1 else ''}{ways[-1]}" if ways else ""
    if least > capacity:
        share = f"its weights and caches alone take {near_size(least)} per PE with {layout.text}"
        remedy = f"{share}; {remedy}" if remedy else share
    return InputError(msgspec.structs.replace(error.problem, remedy=remedy or error.problem.remedy))
