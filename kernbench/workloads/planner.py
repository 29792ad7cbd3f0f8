"""Chooses tiles, token blocks and scratchpad places of a decoder layer for one machine.

A layer is four stages, each a matrix product with what belongs to it: attention (norm, QKV, RoPE, softmax), output
projection, gate and up projection (norm, SwiGLU), down projection. A stage goes over the tokens in blocks and loads
its weights once a block. What goes from stage to stage stays in the scratchpad where it fits, and is spilled to DRAM
otherwise. Of the plans that fit, the best buffered one is taken whose DRAM traffic is within 5% of that of the
smallest buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.buffers import ATTENTION, DOWN, GATE_UP, OUT, STAGE_MATRICES, STAGES, Buffering, LayerBuffers
from kernbench.workloads.models import ModelShape
from kernbench.workloads.scratchpad import DoesNotFit, ScratchpadPlan

__all__ = ["ATTENTION", "DOWN", "GATE_UP", "OUT", "TENSORS", "LayerPlan", "plan_layer"]

TENSORS = ("residual", "attention", "ffn")  # what goes from stage to stage
_RESIDENT_BY_STAGE = (("residual", "attention"), ("residual", "attention"), ("residual", "ffn"), ("residual", "ffn"))
_SLACK = (21, 20)  # DRAM traffic that better buffering may cost, over the least
_TILE_KIB = (256, 128, 64, 32)  # of weights: large enough to be worth a transfer each, small enough to double-buffer
_FEW_TILES = [(64, 4), (32, 4), (64, 3), (32, 3), (64, 2), (32, 2), (16, 4), (16, 2), (8, 2), (4, 2), (2, 2), (1, 2)]
_KV = [(1, 8, 2), (1, 4, 2), (2, 4, 2), (4, 4, 2), (8, 4, 1), (16, 2, 1), (64, 2, 1)]  # parts, tiles in the ring, depth


def _levels(config: NpuConfig) -> list[Buffering]:
    """Ways to divide the scratchpad, best first: two weight tiles per DMA engine on their way and one per tensor
    engine in use, as large as they can be; then fewer and smaller ones, and smaller KV tiles."""
    wanted = 2 * config.dma.engines + config.te.engines
    weights = [*((kib, wanted) for kib in _TILE_KIB), *(few for few in _FEW_TILES if few[1] < wanted)]
    return [Buffering(kib << 10, tiles, *kv) for (kib, tiles), kv in product(weights, _KV)]


@dataclass(frozen=True)
class LayerPlan:
    """How one layer runs on one machine. Blocks are `(t_start, t_len)`, counted from the first new token."""

    tokens: int
    context: int  #: [token] in the KV cache before
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
    dram_bytes: int  #: [byte] that the layer moves, without alignment

    def blocks(self, stage: int) -> list[tuple[int, int]]:
        """The stage's token blocks in order."""
        size = self.block_tokens[stage]
        return [(t, min(size, self.tokens - t)) for t in range(0, self.tokens, size)]


def plan_layer(model: ModelShape, config: NpuConfig, tokens: int, context: int) -> LayerPlan:
    """The plan for `tokens` new tokens after `context` earlier ones.

    InputError where no tiling fits the scratchpad.
    """
    buffers = LayerBuffers(model, config, tokens, context)
    levels = [level for level in _levels(config) if buffers.has_tiles(level)]
    if not levels:
        rule = f"a column of a weight matrix must fit a tile of {_TILE_KIB[0]} KiB"
        raise InputError(Problem(f"model {model.name}", rule, "hidden, ffn", (model.hidden, model.ffn)))
    smallest = _best(buffers, levels[-1])
    if smallest is None:
        raise InputError(_refusal(buffers, levels[-1]))
    most = smallest.dram_bytes * _SLACK[0] // _SLACK[1]
    plans = (_best(buffers, level) for level in levels)
    return next(plan for plan in plans if plan is not None and plan.dram_bytes <= most)


def _best(buffers: LayerBuffers, level: Buffering) -> LayerPlan | None:
    """The plan with the least DRAM traffic at this buffering; ties to the one that keeps more in the scratchpad."""
    best: LayerPlan | None = None
    for resident in _choices():
        plan = _try(buffers, level, resident)
        if plan is not None and (best is None or plan.dram_bytes < best.dram_bytes):
            best = plan
    return best


def _choices() -> Iterator[frozenset[str]]:
    for count in range(len(TENSORS), -1, -1):
        yield from map(frozenset, combinations(TENSORS, count))


def _try(buffers: LayerBuffers, level: Buffering, resident: frozenset[str]) -> LayerPlan | None:
    blocks = []
    for stage in STAGES:
        whole = any(tensor in resident for tensor in _RESIDENT_BY_STAGE[stage])
        sizes = [buffers.tokens] if whole else _block_sizes(buffers.tokens)
        size = next((m for m in sizes if buffers.live_bytes(level, resident, stage, m) <= buffers.capacity), None)
        if size is None:
            return None
        blocks.append(size)
    try:
        places = ScratchpadPlan(buffers.needs(level, resident, blocks), buffers.capacity, buffers.line)
    except DoesNotFit:
        return None
    return LayerPlan(
        tokens=buffers.tokens,
        context=buffers.context,
        resident=resident,
        block_tokens=tuple(blocks),
        granule=min(blocks),
        tile_cols=buffers.tile_cols(level),
        weight_skew_bytes=buffers.skew,
        strip_cols=tuple(buffers.strip_cols(level, stage, blocks[stage]) for stage in STAGES),
        strip_bytes=tuple(buffers.strip_bytes(level, stage, blocks[stage]) for stage in STAGES),
        kv_tile_tokens=buffers.kv_tile_tokens(level),
        kv_slot_bytes=buffers.kv_slot_bytes(level, blocks[ATTENTION]),
        scratchpad=places,
        dram_bytes=_traffic(buffers, resident, blocks),
    )


def _block_sizes(tokens: int) -> list[int]:
    """All tokens, or a power of two below, largest first: so that every block is whole groups of the smallest."""
    return [tokens, *(1 << e for e in range((tokens - 1).bit_length() - 1, -1, -1))]


def _traffic(buffers: LayerBuffers, resident: frozenset[str], blocks: list[int]) -> int:
    """Bytes between DRAM and scratchpad: weights once a block, KV, gains, tables, activations."""
    model, tokens = buffers.model, buffers.tokens
    matrices = {matrix.name: matrix.nbytes for matrix in model.matrices}
    total = sum(ceil_div(tokens, blocks[s]) * matrices[name] for s in STAGES for name in STAGE_MATRICES[s])
    cached = sum(buffers.context + t for t in range(0, tokens, blocks[ATTENTION]))
    total += 2 * model.kv_heads * model.kv_token_bytes * (cached + tokens)
    total += 2 * model.gain_bytes + 2 * buffers.activation_bytes(tokens * model.head_dim)
    passes = 2 if "residual" in resident else 6  # in and out; else also to add, x1 out, to norm, to add
    total += passes * buffers.activation_bytes(tokens * model.hidden)
    total += 0 if "attention" in resident else 2 * buffers.activation_bytes(tokens * model.attention_width)
    total += 0 if "ffn" in resident else 2 * buffers.activation_bytes(tokens * model.ffn)
    return total


def _refusal(buffers: LayerBuffers, level: Buffering) -> Problem:
    """What the smallest tiling would need."""
    least = max(buffers.live_bytes(level, frozenset(), stage, 1) for stage in STAGES)
    rule = (
        f"the smallest tiles of a {buffers.model.name} layer with {buffers.tokens} new and {buffers.context} earlier "
        f"tokens need {least} bytes"
    )
    field, remedy = "spm.num_banks * spm.bank_size_bytes", "raise one of them"
    return Problem(buffers.config.source, rule, field, buffers.capacity, remedy)
