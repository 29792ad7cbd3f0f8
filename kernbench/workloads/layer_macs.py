"""The multiplications of a layer, stage by stage, and the cycles that all tensor engines together need for them."""

from __future__ import annotations

from collections import Counter

from kernbench.common.units import ceil_div
from kernbench.workloads.buffers import ATTENTION, GATE_UP, LayerBuffers
from kernbench.workloads.layer_bytes import first_cached

QUERY_TOKENS = 128  # queries that go through attention together: as many as a tensor engine's rows, or a few times more


def stage_macs(buffers: LayerBuffers, stage: int, size: int, *, masked: bool = True) -> Counter[int]:
    """[MAC] by bits of the second operand; `size`: [token] of the stage's blocks.

    `masked`: with the scores of later tokens, or of earlier ones outside the window, that are computed and thrown away.
    """
    model, found = buffers.model, Counter[int]()
    networks = model.experts_per_token if model.experts else 1
    shapes = {matrix.name: matrix for matrix in buffers.matrices}
    for name in buffers.stage_matrices(stage):
        matrix = shapes[name]
        rows = buffers.tokens * (networks if stage >= GATE_UP else 1)
        found[matrix.bits] += rows * matrix.rows * matrix.cols
    if stage == GATE_UP and model.experts:
        found[shapes["router"].bits] += buffers.tokens * model.hidden * model.experts
    if stage == ATTENTION:
        for head in range(model.kv_heads):
            scores = _scores(buffers, size) if masked else _scores_in_use(buffers)
            found[model.kv_bits_of(head)] += 2 * model.group * model.head_dim * scores
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


def _scores_in_use(buffers: LayerBuffers) -> int:
    """The same without masked ones: token `t` attends to `t + 1` positions, or to its window."""
    new = range(buffers.context, buffers.context + buffers.seq_tokens)
    window = buffers.model.window
    return buffers.batch * sum(min(t + 1, window) if window else t + 1 for t in new)


def stage_cycles(buffers: LayerBuffers, stage: int, size: int) -> int:
    """Cycles of these MACs with all engines at full rate."""
    te = buffers.config.te
    total = 0
    for bits, macs in sorted(stage_macs(buffers, stage, size).items()):
        rate = te.rate(bits, buffers.model.activation_bits) * te.engines
        total += ceil_div(macs * rate.denominator, rate.numerator)
    return total
