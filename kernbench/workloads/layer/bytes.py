"""What a layer moves between DRAM and scratchpad for given token blocks, before anything is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.layer.buffers import ATTENTION, GATE_UP, STAGES, LayerBuffers
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS
from kernbench.workloads.routing import parts


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """[byte] by what they are for, without alignment."""

    weights: int  #: with gains and biases
    kv: int  #: with the page table
    activations: int  #: with the rows of the RoPE tables

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.kv + self.activations


def layer_bytes(buffers: LayerBuffers, resident: frozenset[str], blocks: Sequence[int]) -> LayerBytes:
    """Weights once a block of each stage's `blocks` [token], KV, and activations as far as they are not `resident`."""
    return LayerBytes(
        weights=_weights(buffers, blocks),
        kv=_kv(buffers, blocks[ATTENTION]),
        activations=_activations(buffers, resident),
    )


def _weights(buffers: LayerBuffers, blocks: Sequence[int]) -> int:
    model = buffers.model
    total = len(model.norms) * model.gain_bytes + model.bias_bytes
    return total + sum(stage_weights(buffers, stage, blocks[stage]) for stage in STAGES)


def stage_weights(buffers: LayerBuffers, stage: int, size: int) -> int:
    """[byte] of weights that a stage loads with blocks of `size` tokens."""
    model = buffers.model
    sizes = {matrix.name: matrix.nbytes for matrix in buffers.matrices}
    if stage == ATTENTION:
        for name in buffers.stage_matrices(stage):
            heads = range(model.heads if name == "wq" else model.kv_heads)
            elements = model.hidden * model.head_dim
            sizes[name] = sum(bytes_of(elements, model.slice_bits(name, head)) for head in heads)
    total = sum(sizes[name] for name in buffers.stage_matrices(stage)) * _times(buffers, stage, size)
    return total + (sizes["router"] if model.experts and stage == GATE_UP else 0)


def _times(buffers: LayerBuffers, stage: int, size: int) -> int:
    """How often a stage's weights are loaded; of several experts those of one, all experts together."""
    if stage == ATTENTION and buffers.seq_tokens > 1:
        return buffers.batch * ceil_div(buffers.seq_tokens, size)
    if stage >= GATE_UP:
        return sum(ceil_div(part.count, size) for part in parts(buffers.model, buffers.tokens))
    return ceil_div(buffers.tokens, size)


def _kv(buffers: LayerBuffers, size: int) -> int:
    """K and V: loaded for each block as far back as its first token looks, stored once."""
    size = 1 if buffers.seq_tokens == 1 else size
    starts = range(buffers.context, buffers.context + buffers.seq_tokens, size)
    cached = sum(t - first_cached(buffers.model.window, t, buffers.page_tokens) for t in starts)
    return 2 * buffers.batch * buffers.model.kv_token_total * (cached + buffers.seq_tokens) + table_bytes(buffers)


def table_bytes(buffers: LayerBuffers) -> int:
    """[byte] of the page table that a layer reads: the pages of all tokens so far, of each sequence."""
    return buffers.batch * bytes_of(buffers.pages, PAGE_NUMBER_BITS)


def first_cached(window: int, t: int, page_tokens: int = 0) -> int:
    """The first cached token that token `t` needs: whole pages where there are pages."""
    first = max(0, t - window + 1) if window else 0
    return first // page_tokens * page_tokens if page_tokens else first


def _activations(buffers: LayerBuffers, resident: frozenset[str]) -> int:
    model, act, rows = buffers.model, buffers.activation_bytes, buffers.tokens
    networks = model.experts_per_token if model.experts else 1
    total = 2 * act(rows * model.head_dim) if model.rope else 0
    passes = 2  # in and out
    if "residual" not in resident:  # in to norm, in to add, x1 out; in to norm, in to add, out for each network
        passes = 3 + 3 * networks + (1 if model.experts else 0)  # the router needs it normed too
    total += passes * act(rows * model.hidden)
    total += 0 if "attention" in resident else 2 * act(rows * model.attention_width)
    return total + (0 if "ffn" in resident else 2 * networks * act(rows * model.ffn))
