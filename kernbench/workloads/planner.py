"""Chooses tiles, token blocks and scratchpad places of a decoder layer for one machine.

A layer has four stages, each of which is a matrix product with related operations: attention (norm, QKV, RoPE, softmax),
output projection, gate and up projection (norm, SwiGLU), down projection. A stage goes over the tokens in blocks and loads its
weights once a block. Data between stages stays in the scratchpad if it fits, and is spilled to DRAM otherwise. Among the plans
that fit and whose bytes and products take at most 5% more time at full rate than with the smallest buffers, the one with most
buffers is chosen. On systolic arrays the products take the cycles of their shapes.

On a shard the stages may also go on in turn, block by block: then the shards add up the rows of a block while the tensor
engines multiply another one. Such a plan is chosen if its estimated cycles, waits for sums included, are fewer. If shards are
on several SIPs, the sums of the estimate are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations, product

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.components.service import ve_service
from kernbench.config.kinds import beyond_scratchpad
from kernbench.config.schema import NpuConfig
from kernbench.config.section_texts import texts_of
from kernbench.workloads.layer.buffers import (
    ATTENTION,
    DOWN,
    GATE_UP,
    OUT,
    STAGES,
    Buffering,
    LayerBuffers,
    block_sizes,
)
from kernbench.workloads.layer.bytes import QUERY_TOKENS, layer_bytes, stage_cycles, stage_weights
from kernbench.workloads.llm.known import Known
from kernbench.workloads.models import ModelShape
from kernbench.workloads.scratchpad import DoesNotFit, ScratchpadPlan
from kernbench.workloads.transfers import LAYER_PART, load_cycles, setup_bytes, tile_sizes

__all__ = ["ATTENTION", "DOWN", "GATE_UP", "OUT", "TENSORS", "LayerPlan", "plan_layer"]

TENSORS = ("residual", "attention", "ffn")  # the tensors that go from stage to stage
Sums = Callable[[int], int]  #: [cycle] of the sum of a number of elements over all shards
_SLACK = (21, 20)  # cycles that better buffering may cost, over the least
_TILE_KIB = (256, 128, 64, 32)  # sizes of a tile of weights: large enough to be worth a transfer, small enough to double-buffer
_ARRAY_TILE_KIB = (32, 64, 128, 256, 512, 1024, 2048)  # on systolic arrays: the smallest whose columns fill them
_FEW_TILES = [(64, 4), (32, 4), (64, 3), (32, 3), (64, 2), (32, 2), (16, 4), (16, 2), (8, 2), (4, 2), (2, 2), (1, 2)]
_KV = [(1, 8, 2), (1, 4, 2), (2, 4, 2), (4, 4, 2), (8, 4, 1), (16, 2, 1), (64, 2, 1)]  # parts, tiles in the ring, depth


def _levels(config: NpuConfig) -> Sequence[Buffering]:
    """Ways to divide the scratchpad, best first: two weight tiles per DMA engine in flight and one per tensor
    engine in use, as large as they can be, on systolic arrays as small; then fewer and smaller ones, and smaller KV tiles."""
    wanted = 2 * config.dma.engines + config.te.engines
    return _levels_of(wanted, _ARRAY_TILE_KIB if config.te.timing == "systolic" else tile_sizes(config, _TILE_KIB, LAYER_PART))


@lru_cache(maxsize=16)
def _levels_of(wanted: int, sizes: tuple[int, ...]) -> tuple[Buffering, ...]:
    weights = [*((kib, wanted) for kib in sizes), *(few for few in _FEW_TILES if few[1] < wanted)]
    return tuple(Buffering(kib << 10, tiles, *kv) for (kib, tiles), kv in product(weights, _KV))


@dataclass(frozen=True)
class LayerPlan:
    """How one layer runs on one machine. Blocks are `(t_start, t_len)`, counted from the first new token."""

    tokens: int  #: [token] new ones, of all sequences
    context: int  #: [token] in the KV cache before, of each sequence
    batch: int  #: sequences
    resident: frozenset[str]  #: which of TENSORS stay in the scratchpad between stages
    block_tokens: tuple[int, ...]  #: [token] per stage
    granule: int  #: [token] group of activations in DRAM; every block is whole groups
    tile_cols: dict[str, int]  #: columns of a weight tile by matrix
    weight_skew_bytes: int  #: [byte] of scratchpad left free between weight tiles
    strip_cols: tuple[int, ...]  #: columns of the output that a stage finishes at a time
    strip_bytes: tuple[int, ...]  #: [byte] per stage, with room for alignment where strips go to DRAM
    kv_tile_tokens: int  #: [token] cached tokens in a KV tile, at most
    kv_slot_bytes: int  #: [byte] of scratchpad for a KV tile
    scratchpad: ScratchpadPlan
    least_cycles: int  #: with everything at full rate, and loads hidden behind products or the other way round
    dram_bytes: int  #: [byte] that the layer moves, without alignment
    #: how the scratchpad is divided if the stages go on block by block, in turn; None if they go on stage by stage
    in_turn: Buffering | None = None

    @property
    def seq_tokens(self) -> int:
        """[token] new ones of each sequence."""
        return self.tokens // self.batch

    def blocks(self, stage: int, start: int = 0, count: int | None = None) -> list[tuple[int, int]]:
        """The stage's token blocks in order: of rows `[start, start + count)`, by default all."""
        count = self.tokens if count is None else count
        size = self.block_tokens[stage]
        if stage == ATTENTION and self.seq_tokens > 1:  # a block is inside one sequence
            firsts = range(0, self.tokens, self.seq_tokens)
            return [(s + t, min(size, self.seq_tokens - t)) for s in firsts for t in range(0, self.seq_tokens, size)]
        return [(start + t, min(size, count - t)) for t in range(0, count, size)]


def plan_layer(
    model: ModelShape, config: NpuConfig, tokens: int, context: int, batch: int = 1, page_tokens: int = 0,
    summed: Sums | None = None,
) -> LayerPlan:  # fmt: skip
    """The plan for `tokens` new tokens after `context` earlier ones, in each of `batch` sequences.

    `summed`: the cycles in which the shards of a layer add up a number of elements; None: the time of as many bytes of DRAM.
    InputError if no tiling fits the scratchpad.
    """
    buffers = _buffers(model, config, tokens, context, batch, page_tokens)
    levels = [level for level in _levels(config) if buffers.has_tiles(level)]
    if not levels:
        rule = f"a column of a weight matrix must fit a tile of {_TILE_KIB[0]} KiB"
        raise InputError(Problem(f"model {model.name}", rule, "hidden, ffn", (model.hidden, model.ffn)))
    smallest = _best(buffers, levels[-1])
    if smallest is None:
        raise InputError(_refusal(buffers, levels[-1]))
    plans: Iterable[LayerPlan | None] = (_best(buffers, level) for level in levels)
    least = smallest.least_cycles
    if config.te.timing == "systolic" or setup_bytes(config):  # small tiles cost cycles
        plans = list(plans)
        least = min(plan.least_cycles for plan in plans if plan is not None)
    most = least * _SLACK[0] // _SLACK[1]
    staged = next(plan for plan in plans if plan is not None and plan.least_cycles <= most)
    return _in_turn(buffers, levels, staged, summed) or staged


BUFFERS = Known[LayerBuffers](1 << 8)  #: by shape, step, and all values of the machine except the DRAM


def _buffers(model: ModelShape, config: NpuConfig, tokens: int, context: int, batch: int, page_tokens: int) -> LayerBuffers:
    """The buffers of a layer. Values that do not depend on the DRAM are computed once for all machines."""
    step = tokens, context, batch, page_tokens
    key = model, *step, texts_of(config, ("dma", "spm", "te"))
    known = copy(BUFFERS.get(key, lambda: LayerBuffers(model, config, *step)))
    known.config = config
    return known


class Candidate(msgspec.Struct, frozen=True):
    """A division of the scratchpad that was compared, and its result."""

    level: Buffering
    plan: LayerPlan | None  #: None if it does not fit
    verdict: str


def compared_plans(
    model: ModelShape, config: NpuConfig, tokens: int, context: int, batch: int = 1, page_tokens: int = 0,
    summed: Sums | None = None,
) -> list[Candidate]:  # fmt: skip
    """What `plan_layer` compares, in its order: of each size and number of weight tiles the best division of the rest."""
    used = plan_layer(model, config, tokens, context, batch, page_tokens, summed)
    buffers = LayerBuffers(model, config, tokens, context, batch, page_tokens)
    found: dict[tuple[int, int], Candidate] = {}
    passed = False
    for level in _levels(config):
        key = level.tile_bytes, level.weight_tiles
        plan = _best(buffers, level) if buffers.has_tiles(level) else None
        is_used = not passed and plan is not None and _choice(plan) == _choice(used)
        passed = passed or is_used
        if is_used or key not in found or (found[key].plan is None and plan is not None):
            found[key] = Candidate(level, plan, "used" if is_used else _verdict(plan, used))
    in_turn = [] if used.in_turn is None else [Candidate(used.in_turn, used, "used: block by block, in turn")]
    return [*in_turn, *found.values()]


def _choice(plan: LayerPlan) -> tuple[object, ...]:
    return plan.tile_cols, plan.block_tokens, plan.kv_tile_tokens, plan.resident, plan.scratchpad.buffers


def _verdict(plan: LayerPlan | None, used: LayerPlan) -> str:
    if plan is None:
        return "does not fit"
    more = plan.least_cycles / used.least_cycles - 1
    if more * 1000 >= 1:
        return f"{more:.1%} slower"
    but = "within 5%" if used.in_turn is None else "but waits longer for sums"
    return "no faster" if more > -0.001 else f"{-more:.1%} faster, {but}"


def _best(buffers: LayerBuffers, level: Buffering) -> LayerPlan | None:
    """The plan that takes least at this buffering; ties to less DRAM traffic, then to more in the scratchpad.

    Only divisions that are better than all that fit are placed in the scratchpad.
    """
    ways = []
    for number, resident in enumerate(_choices()):
        blocks = _blocks(buffers, level, resident)
        if blocks is not None:
            moved = _moved(buffers, resident, blocks)
            ways.append((_least_cycles(buffers, level, moved, blocks), moved, number, resident, blocks))
    for cycles, _, _, resident, blocks in sorted(ways):
        key = level, resident, blocks
        if key not in buffers.divided:
            buffers.divided[key] = _divided(buffers, level, resident, blocks)
        plan: LayerPlan | None = buffers.divided[key]
        if plan is not None:
            return replace(plan, least_cycles=cycles)
    return None


@cache
def _choices() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(some) for count in range(len(TENSORS), -1, -1) for some in combinations(TENSORS, count))


def _moved(buffers: LayerBuffers, resident: frozenset[str], blocks: tuple[int, ...]) -> int:
    """[byte] that a layer moves with these blocks."""
    key = resident, blocks
    if key not in buffers.moved:
        buffers.moved[key] = layer_bytes(buffers, resident, blocks).total
    return buffers.moved[key]


def _divided(
    buffers: LayerBuffers, level: Buffering, resident: frozenset[str], blocks: tuple[int, ...], *, in_turn: bool = False
) -> LayerPlan | None:
    """A plan without its cycles; None if it does not fit. Values that do not depend on the DRAM are kept in `buffers`."""
    try:
        needs = (buffers.needs_in_turn if in_turn else buffers.needs)(level, resident, blocks)
        places = ScratchpadPlan(needs, buffers.capacity, buffers.line)
    except DoesNotFit:
        return None
    return LayerPlan(
        tokens=buffers.tokens,
        context=buffers.context,
        batch=buffers.batch,
        resident=resident,
        block_tokens=blocks,
        granule=1 if buffers.model.experts or (buffers.batch > 1 and buffers.seq_tokens > 1) else min(blocks),
        tile_cols=buffers.tile_cols(level),
        weight_skew_bytes=buffers.skew,
        strip_cols=tuple(buffers.strip_cols(level, stage, blocks[stage]) for stage in STAGES),
        strip_bytes=tuple(buffers.strip_bytes(level, stage, blocks[stage]) for stage in STAGES),
        kv_tile_tokens=buffers.kv_tile_tokens(level),
        kv_slot_bytes=buffers.kv_slot_bytes(level, blocks[ATTENTION]),
        scratchpad=places,
        least_cycles=0,
        dram_bytes=_moved(buffers, resident, blocks),
        in_turn=level if in_turn else None,
    )


def _blocks(buffers: LayerBuffers, level: Buffering, resident: frozenset[str]) -> tuple[int, ...] | None:
    """[token] of a block by stage; None if not even one token fits.

    The largest blocks load weights least often. But if the products of a stage take four times as long as its loads, more
    loads cost nothing: then the smallest blocks leave most room, and let most jobs run concurrently.
    """
    fits = buffers.fitting.get((level, resident))
    if fits is None:
        fits = buffers.fitting[level, resident] = {stage: buffers.fitting_sizes(level, resident, stage) for stage in STAGES}
    if not all(fits.values()):
        return None
    chosen = [_size(buffers, level, stage, fits[stage]) for stage in STAGES]
    if "residual" in resident:  # strips that are added must have the same rows on all PEs
        common = [m for m in fits[OUT] if all(m in fits[s] or m >= buffers.rows(s) for s in STAGES)]
        wanted = [m for m in common if m >= max(chosen)]
        if not common:
            return None
        chosen = [min(wanted[-1] if wanted else common[0], buffers.rows(stage)) for stage in STAGES]
    # A resident buffer is read in blocks that consist of whole groups of the blocks that wrote it.
    for tensor, writer, reader in (("attention", ATTENTION, OUT), ("ffn", GATE_UP, DOWN)):
        if tensor in resident and chosen[reader] < chosen[writer]:
            chosen[writer] = chosen[reader]
    return tuple(chosen)


def _in_turn(
    buffers: LayerBuffers, levels: Sequence[Buffering], staged: LayerPlan, summed: Sums | None
) -> LayerPlan | None:
    """The plan of a shard whose stages go on block by block, in turn; None if a plan stage by stage (`staged`) takes less.

    Stage by stage, the tensor engines wait twice while the shards add up the last blocks of a projection; in turn, only at the
    end. But all matrices are loaded once a block, and the buffers of all stages are in the scratchpad together.
    """
    model = buffers.model
    if model.shards == 1 or model.experts:
        return None
    waits = (_meeting_cycles(buffers, staged.block_tokens[stage], summed) for stage in (OUT, DOWN))
    best, least = None, staged.least_cycles + sum(waits)
    for m in block_sizes(buffers.tokens)[1:]:
        if m < QUERY_TOKENS or (buffers.batch > 1 < buffers.seq_tokens and buffers.seq_tokens % m):
            continue  # a block of the attention is inside one sequence
        met = _meeting_cycles(buffers, m, summed)
        if load_cycles(buffers.config, _moved(buffers, frozenset(TENSORS), (m,) * len(STAGES))) + met >= least:
            continue  # no division of the scratchpad moves less
        found = next(filter(None, (_best_in_turn(buffers, level, m) for level in levels)), None)
        if found is None:
            continue
        sums = 2 * ceil_div(buffers.tokens, m) * summed(m * model.hidden) if summed is not None else 0
        if (cycles := max(found.least_cycles, sums) + met) < least:
            best, least = found, cycles
    return best


def _best_in_turn(buffers: LayerBuffers, level: Buffering, m: int) -> LayerPlan | None:
    """The plan with blocks of `m` tokens that moves least at this buffering; None if it does not fit."""
    blocks = (m,) * len(STAGES)
    if buffers.least_in_turn(level, blocks) > buffers.capacity:
        return None
    least = _divided(buffers, level, frozenset(), blocks, in_turn=True)
    if least is None:  # a resident buffer takes more space than one of its blocks
        return None
    ways = ((_moved(buffers, resident, blocks), number, resident) for number, resident in enumerate(_choices()))
    better = sorted(way for way in ways if way[0] < least.dram_bytes)
    plans = (_divided(buffers, level, resident, blocks, in_turn=True) for _, _, resident in better)
    best = next(filter(None, plans), least)
    products = sum(stage_cycles(buffers, level, stage, m) for stage in STAGES)
    weights = sum(stage_weights(buffers, stage, m) for stage in STAGES)
    loads = load_cycles(buffers.config, weights, level.tile_bytes) + load_cycles(buffers.config, best.dram_bytes - weights)
    return replace(best, least_cycles=max(products, loads))


def _meeting_cycles(buffers: LayerBuffers, m: int, summed: Sums | None) -> int:
    """[cycle] from the products of a block of `m` tokens until its rows are in the residual stream: the shards add them up.

    Without `summed`, the bytes that a shard sends count like loads. Vector operations of one block do not overlap.
    """
    model, ve = buffers.model, buffers.config.ve
    bits, rows = model.activation_bits, m * model.hidden
    others = model.shards - 1
    vectors = ve_service(ve, "add", model.hidden, m, bits).total
    if model.post_norms:
        vectors += ve_service(ve, model.norm, model.hidden, ceil_div(m, ve.engines), bits).total
    if summed is not None:
        return vectors + summed(rows) + load_cycles(buffers.config, buffers.activation_bytes(rows))
    vectors += others * ve_service(ve, "add", ceil_div(rows, model.shards), 1, bits).total
    sent = 2 * others * buffers.activation_bytes(ceil_div(rows, model.shards))
    return vectors + load_cycles(buffers.config, sent + buffers.activation_bytes(rows))


def _size(buffers: LayerBuffers, level: Buffering, stage: int, fits: list[int]) -> int:
    cycles = {m: stage_cycles(buffers, level, stage, m) for m in fits if m >= QUERY_TOKENS}
    for m, found in reversed(cycles.items()):  # a systolic array may take longer for smaller blocks
        hidden = 4 * load_cycles(buffers.config, stage_weights(buffers, stage, m), level.tile_bytes) <= found
        if hidden and found * _SLACK[1] <= min(cycles.values()) * _SLACK[0]:
            return m
    return fits[0]


def _least_cycles(buffers: LayerBuffers, level: Buffering, moved: int, blocks: Sequence[int]) -> int:
    """Each stage takes as long as its weights or its products, and the layer at least as long as all that it moves."""
    stages = (
        max(
            load_cycles(buffers.config, stage_weights(buffers, s, blocks[s]), level.tile_bytes),
            stage_cycles(buffers, level, s, blocks[s]),
        )
        for s in STAGES
    )
    return max(sum(stages), load_cycles(buffers.config, moved))


def _refusal(buffers: LayerBuffers, level: Buffering) -> Problem:
    """The bytes of the smallest tiling."""
    least = max(buffers.live_bytes(level, frozenset(), stage, 1) for stage in STAGES)
    rule = (
        f"the smallest tiles of a {buffers.model.name} layer with {buffers.tokens} new and {buffers.context} earlier "
        f"tokens need {least} bytes"
    )
    return beyond_scratchpad(buffers.config, rule)
