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
from kernbench.workloads.footing import ATTENTION, DOWN, GATE_UP, OUT, STAGES, Buffering, Footing
from kernbench.workloads.models import ModelShape
from kernbench.workloads.scratchpad import DoesNotFit, ScratchpadPlan

__all__ = ["ATTENTION", "DOWN", "GATE_UP", "OUT", "LayerPlan", "plan_layer"]

TENSORS = ("residual", "attention", "ffn")  # what goes from stage to stage
_RESIDENT_BY_STAGE = (("residual", "attention"), ("residual", "attention"), ("residual", "ffn"), ("residual", "ffn"))
_SLACK = (21, 20)  # DRAM traffic that better buffering may cost, over the least

_WEIGHTS = [(256, 16), (256, 8), (256, 6), (256, 4), (128, 8), (128, 4), (64, 8), (64, 4), (32, 4), (64, 3), (32, 3), (64, 2), (32, 2)]
_SMALL_WEIGHTS = [(16, 4), (16, 2), (8, 2), (4, 2), (2, 2), (1, 2)]  # [KiB] of a tile, tiles in the ring
_KV = [(1, 8, 2), (1, 4, 2), (2, 4, 2), (4, 4, 2), (8, 4, 1), (16, 2, 1), (64, 2, 1)]  # parts of a context, tiles in the ring, depth
LEVELS = [Buffering(kib << 10, tiles, *kv) for (kib, tiles), kv in product(_WEIGHTS + _SMALL_WEIGHTS, _KV)]  # best first


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
    footing = Footing(model, config, tokens, context)
    levels = [level for level in LEVELS if footing.has_tiles(level)]
    if not levels:
        rule = f"a column of a weight matrix must fit a tile of {LEVELS[0].tile_bytes} bytes"
        raise InputError(Problem(f"model {model.name}", rule, "hidden, ffn", (model.hidden, model.ffn)))
    smallest = _best(footing, levels[-1])
    if smallest is None:
        raise InputError(_refusal(footing, levels[-1]))
    most = smallest.dram_bytes * _SLACK[0] // _SLACK[1]
    plans = (_best(footing, level) for level in levels)
    return next(plan for plan in plans if plan is not None and plan.dram_bytes <= most)


def _best(footing: Footing, level: Buffering) -> LayerPlan | None:
    """The plan with the least DRAM traffic at this buffering; ties to the one that keeps more in the scratchpad."""
    best: LayerPlan | None = None
    for resident in _choices():
        plan = _try(footing, level, resident)
        if plan is not None and (best is None or plan.dram_bytes < best.dram_bytes):
            best = plan
    return best


def _choices() -> Iterator[frozenset[str]]:
    for count in range(len(TENSORS), -1, -1):
        yield from map(frozenset, combinations(TENSORS, count))


def _try(footing: Footing, level: Buffering, resident: frozenset[str]) -> LayerPlan | None:
    blocks = []
    for stage in STAGES:
        whole = any(tensor in resident for tensor in _RESIDENT_BY_STAGE[stage])
        sizes = [footing.tokens] if whole else _block_sizes(footing.tokens)
        size = next((m for m in sizes if footing.live_bytes(level, resident, stage, m) <= footing.capacity), None)
        if size is None:
            return None
        blocks.append(size)
    try:
        places = ScratchpadPlan(footing.needs(level, resident, blocks), footing.capacity, footing.line)
    except DoesNotFit:
        return None
    return LayerPlan(
        tokens=footing.tokens,
        context=footing.context,
        resident=resident,
        block_tokens=tuple(blocks),
        granule=min(blocks),
        tile_cols=footing.tile_cols(level),
        weight_skew_bytes=footing.skew,
        strip_cols=tuple(footing.strip_cols(level, stage, blocks[stage]) for stage in STAGES),
        strip_bytes=tuple(footing.strip_bytes(level, stage, blocks[stage]) for stage in STAGES),
        kv_tile_tokens=footing.kv_tile_tokens(level),
        kv_slot_bytes=footing.kv_slot_bytes(level, blocks[ATTENTION]),
        scratchpad=places,
        dram_bytes=_traffic(footing, resident, blocks),
    )


def _block_sizes(tokens: int) -> list[int]:
    """All tokens, or a power of two below, largest first: so that every block is whole groups of the smallest."""
    return [tokens, *(1 << e for e in range((tokens - 1).bit_length() - 1, -1, -1))]


def _traffic(footing: Footing, resident: frozenset[str], blocks: list[int]) -> int:
    """Bytes between DRAM and scratchpad: weights once a block, KV, gains, tables, activations."""
    model, tokens = footing.model, footing.tokens
    matrices = {matrix.name: matrix.nbytes for matrix in model.matrices}
    stages = (("wq", "wk", "wv"), ("wo",), ("w_gate", "w_up"), ("w_down",))
    total = sum(ceil_div(tokens, blocks[s]) * matrices[name] for s in STAGES for name in stages[s])
    cached = sum(footing.context + t for t in range(0, tokens, blocks[ATTENTION]))
    total += 2 * model.kv_heads * model.kv_token_bytes * (cached + tokens)
    total += 2 * model.gain_bytes + 2 * footing.activation_bytes(tokens * model.head_dim)
    passes = 2 if "residual" in resident else 6  # in and out; else also to add, x1 out, to norm, to add
    total += passes * footing.activation_bytes(tokens * model.hidden)
    total += 0 if "attention" in resident else 2 * footing.activation_bytes(tokens * model.attention_width)
    total += 0 if "ffn" in resident else 2 * footing.activation_bytes(tokens * model.ffn)
    return total


def _refusal(footing: Footing, level: Buffering) -> Problem:
    """What the smallest tiling would need."""
    least = max(footing.live_bytes(level, frozenset(), stage, 1) for stage in STAGES)
    rule = (
        f"the smallest tiles of a {footing.model.name} layer with {footing.tokens} new and {footing.context} earlier "
        f"tokens need {least} bytes"
    )
    return Problem(footing.config.source, rule, "spm", f"{footing.capacity} bytes", "raise spm.num_banks or spm.bank_size_bytes")
