"""The least bytes and the MACs of a layer of parts, from its shape and batch alone: no plan takes part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernbench.cmdq.footprint import bytes_of
from kernbench.workloads.blocks.batch import QUERY_TOKENS, Batch, Sequences, first_key
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.models.parts import Attention, Experts, LatentAttention, LinearAttention, StateSpace
from kernbench.workloads.routing import Routing

if TYPE_CHECKING:
    from kernbench.workloads.blocks.context import ContextShare


@dataclass(frozen=True, slots=True)
class LayerWork:
    """Bytes by role, and MACs."""

    weights: int
    kv: int
    activations: int
    macs: int


def layer_work(shape: BlockShape, batch: Batch, routing: Routing, routed: tuple[int, int] | None = None) -> LayerWork:
    """One layer of one shard: every weight in use once, the cache that the first row of each sequence sees, rows in and out.

    Scores that a mask hides are not counted. `routed`: where replicas share experts, the rows of all of them, and those that
    the router of this shard looks at.
    """
    rows, hidden = batch.tokens, shape.hidden
    weights = bytes_of(shape.vector_elements, shape.gain_bits)
    macs = 0
    counts = _expert_rows(shape, rows if routed is None else routed[0], routing)
    begun = sum(group.count for group in batch.groups if not group.context)
    for weight in shape.block.weights(hidden):
        each = shape.matrix_bytes(weight)
        if weight.name in ("cross_wk", "cross_wv"):
            weights += each * bool(begun)
            macs += begun * shape.sources * weight.rows * weight.cols
        elif shape.experts and weight.name.startswith("w_"):
            weights += each * sum(1 for some in counts if some)
            macs += sum(counts) * weight.rows * weight.cols
        elif weight.name == "router" and routed is not None:
            weights += each * bool(routed[1])
            macs += routed[1] * weight.rows * weight.cols
        else:
            weights += each
            macs += rows * weight.rows * weight.cols
    weights += sum(1 for some in counts if some) * bytes_of(shape.expert_vectors, shape.gain_bits)
    kv, mixer_macs, tables = _mixer(shape, batch)
    activations = (3 if shape.block.predicts else 2) * shape.act(rows * hidden) + tables
    activations += begun * shape.act(shape.sources * hidden) * bool(shape.crossed)
    cross_kv, cross_macs = _cross(shape, batch, begun)
    return LayerWork(weights, kv + cross_kv, activations, macs + mixer_macs + cross_macs)


def context_work(shape: BlockShape, share: ContextShare, context: int, sequences: int, routing: Routing) -> LayerWork:
    """One layer of one rank of a context in a decode step: it attends to the tokens that it keeps, the new one perhaps too."""
    mixer = shape.block.mixer
    if not isinstance(mixer, Attention | LatentAttention):
        return layer_work(shape, Batch((Sequences(1, context, sequences),)), routing)
    hidden = first_key(mixer.window, mixer.chunk, context) if isinstance(mixer, Attention) else 0
    seen = share.cached(context) - share.cached(hidden)
    if isinstance(mixer, Attention):
        shape = replace(shape, block=replace(shape.block, mixer=replace(mixer, window=0, chunk=0)))
    found = layer_work(shape, Batch((Sequences(1, seen, sequences),)), routing)
    if share.owns(context):
        return found
    each = _macs_of_pair(mixer)
    keys = [one for one in mixer.weights(shape.hidden) if one.name in ("wk", "wv", "wkv_a")]
    return replace(
        found,
        weights=found.weights - sum(shape.matrix_bytes(one) for one in keys),
        kv=found.kv - sequences * sum(bytes_of(heads * dim, shape.kv_bits) for _, heads, dim in shape.cached),
        macs=found.macs - sequences * (each + sum(one.elements for one in keys)),
    )


def _cross(shape: BlockShape, batch: Batch, begun: int) -> tuple[int, int]:
    """Bytes of the encoder's keys and values, and MACs with them. `begun`: sequences of which they are made in this step."""
    cross = shape.block.cross
    if cross is None:
        return 0, 0
    token = sum(bytes_of(heads * dim, shape.kv_bits) for _, heads, dim in shape.crossed)
    return (batch.sequences + begun) * token * shape.sources, _macs_of_pair(cross) * batch.tokens * shape.sources


def _macs_of_pair(mixer: Attention | LatentAttention) -> int:
    """The MACs of a new token with a token that it attends to: of the scores, and of the outputs."""
    if isinstance(mixer, Attention):
        return mixer.width + mixer.out_width
    return mixer.heads * (mixer.token_elements + mixer.kv_rank)


def _expert_rows(shape: BlockShape, rows: int, routing: Routing) -> tuple[int, ...]:
    ffn = shape.block.ffn
    if not isinstance(ffn, Experts):
        return ()
    first, count = shape.local_experts or (0, ffn.count)
    return routing.rows(ffn.count, ffn.top_k, rows)[first : first + count]


def _mixer(shape: BlockShape, batch: Batch) -> tuple[int, int, int]:
    """Bytes of cache and states, MACs with the cache or states, and bytes of RoPE tables."""
    mixer, bits, rows = shape.block.mixer, shape.kv_bits, batch.tokens
    kv = macs = 0
    if isinstance(mixer, Attention | LatentAttention):
        token = sum(bytes_of(heads * dim, bits) for _, heads, dim in shape.cached)
        window, chunk = (mixer.window, mixer.chunk) if isinstance(mixer, Attention) else (0, 0)
        if shape.encoder and isinstance(mixer, Attention):  # keys and values of all tokens are stored and loaded once
            squares = sum(group.count * group.tokens**2 for group in batch.groups)
            return 2 * token * rows, _macs_of_pair(mixer) * squares, _tables(shape, mixer, rows)
        each = _macs_of_pair(mixer)
        for group in batch.groups:
            first = first_key(window, chunk, group.context)
            kv += group.count * token * (group.context - first + group.tokens)
            seen = sum(at + 1 - first_key(window, chunk, at) for at in range(group.context, group.context + group.tokens))
            macs += group.count * each * seen
        return kv, macs, _tables(shape, mixer, rows)
    if mixer is None:
        return 0, 0, 0
    state = shape.act(shape.state_elements)
    kv = sum(group.count * state * (2 if group.context else 1) for group in batch.groups)
    if isinstance(mixer, LinearAttention):
        dims = mixer.key_heads, mixer.value_heads, mixer.key_dim, mixer.value_dim
        delta = mixer.kind == "delta"
    elif isinstance(mixer, StateSpace) and mixer.groups:
        dims, delta = (mixer.groups, mixer.heads, mixer.state, mixer.inner // mixer.heads), False
    else:
        return kv, 0, 0
    macs = sum(group.count * recurrence_macs(group.tokens, dims, delta=delta) for group in batch.groups)
    return kv, macs, 0


def _tables(shape: BlockShape, mixer: Attention | LatentAttention, rows: int) -> int:
    """Bytes of the rows of RoPE's tables."""
    dim = mixer.head_dim if isinstance(mixer, Attention) else mixer.rope_dim
    return shape.act(2 * rows * dim) if not isinstance(mixer, Attention) or mixer.rope else 0


def recurrence_macs(tokens: int, dims: tuple[int, int, int, int], *, delta: bool) -> int:
    """The MACs of the chunks of a sequence: squares inside a chunk, and products with the state."""
    groups, heads, key, value = dims
    total = 0
    for at in range(0, tokens, QUERY_TOKENS):
        c = min(QUERY_TOKENS, tokens - at)
        total += groups * c * c * key * (2 if delta else 1) + heads * (c * c * value + 2 * c * key * value)
        total += heads * c * c * (key + value) if delta else 0
    return total
