"""The multiplications of a layer, stage by stage, and the cycles that all tensor engines together need for them."""

from __future__ import annotations

from collections import Counter

from kernbench.common.units import ceil_div
from kernbench.workloads.buffers import ATTENTION, GATE_UP, STAGES, LayerBuffers
from kernbench.workloads.layer_bytes import first_cached

QUERY_TOKENS = 128  # queries that go through attention together: as many as a tensor engine's rows, or a few times more


def stage_macs(buffers: LayerBuffers, stage: int, size: int) -> Counter[int]:
    """[MAC] by bits of the second operand; `size`: [token] of the stage's blocks."""
    model, found = buffers.model, Counter[int]()
    networks = model.experts_per_token if model.experts else 1
    shapes = {matrix.name: matrix for matrix in model.matrices}
    for name in buffers.stage_matrices(stage):
        matrix = shapes[name]
        rows = buffers.tokens * (networks if stage >= GATE_UP else 1)
        found[matrix.bits] += rows * matrix.rows * matrix.cols
    if stage == GATE_UP and model.experts:
        found[shapes["router"].bits] += buffers.tokens * model.hidden * model.experts
    if stage == ATTENTION:
        for head in range(model.kv_heads):
            found[model.kv_bits_of(head)] += 2 * model.group * model.head_dim * _scores(buffers, size)
    return found


def _scores(buffers: LayerBuffers, size: int) -> int:
    """Scores of one query head, of all sequences."""
    window, total = buffers.model.window, 0
    for start in range(0, buffers.seq_tokens, size if buffers.seq_tokens > 1 else 1):
        block = min(size, buffers.seq_tokens - start)
        for at in range(start, start + block, QUERY_TOKENS):
            rows, t = min(QUERY_TOKENS, start + block - at), buffers.context + at
            total += rows * (t + rows - first_cached(window, t))
    return total * buffers.batch


def stage_cycles(buffers: LayerBuffers, stage: int, size: int) -> int:
    """Cycles of these MACs with all engines at full rate."""
    te = buffers.config.te
    total = 0
    for bits, macs in sorted(stage_macs(buffers, stage, size).items()):
        rate = te.rate(bits, buffers.model.activation_bits) * te.engines
        total += ceil_div(macs * rate.denominator, rate.numerator)
    return total


def layer_macs(buffers: LayerBuffers, blocks: tuple[int, ...]) -> int:
    """[MAC] of all stages."""
    return sum(sum(stage_macs(buffers, stage, blocks[stage]).values()) for stage in STAGES)
