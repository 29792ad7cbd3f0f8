"""Mixers with a state instead of a cache: linear attention and state-space models."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.common.units import ceil_div
from kernbench.workloads.blocks.batch import QUERY_TOKENS, Piece
from kernbench.workloads.blocks.emitter import LayerEmitter
from kernbench.workloads.models.parts import LinearAttention, StateSpace


def mix_linear_attention(layer: LayerEmitter, mixer: LinearAttention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
    layer.set_phase("QKV_PROJ")
    qkv, gate = (layer.product(name, rows, normed) for name in ("qkv", "gate"))
    if mixer.kind == "delta":
        layer.arena.give(layer.product("decay", rows, normed))
    if mixer.conv:
        _convolution(layer, qkv, mixer.conv_width, mixer.conv, rows)
    else:
        layer.split_vector("silu", 2 * mixer.key_width + mixer.value_width, rows, qkv, qkv)
    out = layer.take(rows * mixer.value_width)
    for piece in pieces:
        dims = mixer.key_heads, mixer.value_heads, mixer.key_dim, mixer.value_dim
        _recurrence(layer, piece, qkv, out, dims, delta=mixer.kind == "delta")
    layer.set_phase("OUT_PROJ")
    length = mixer.value_dim if mixer.kind == "delta" else mixer.value_width
    layer.split_vector("rmsnorm", length, rows * mixer.value_width // length, out, out)
    _gate(layer, mixer.value_width, rows, out, gate)
    found = layer.product("wo", rows, out)
    layer.arena.give(qkv, gate, out)
    return found


def mix_state_space(layer: LayerEmitter, mixer: StateSpace, normed: int, pieces: Sequence[Piece], rows: int) -> int:
    layer.set_phase("QKV_PROJ")
    wide = layer.product("in_proj", rows, normed)
    layer.add_bias(mixer.bias, wide, layer.memory.weights["in_proj"][0].cols, rows)
    _convolution(layer, wide, mixer.conv_width, mixer.conv, rows)
    out = layer.take(rows * mixer.inner)
    if mixer.groups:
        for piece in pieces:
            dims = mixer.groups, mixer.heads, mixer.state, mixer.inner // mixer.heads
            _recurrence(layer, piece, wide, out, dims, delta=False)
        layer.split_vector("rmsnorm", mixer.inner, rows, out, out)
    else:
        narrow = layer.product("x_proj", rows, wide)
        if mixer.inner_norms:
            for width in (mixer.rank, mixer.state, mixer.state):
                layer.split_vector("rmsnorm", width, rows, narrow, narrow)
        steps = layer.product("dt_proj", rows, narrow)
        layer.add_bias(True, steps, mixer.inner, rows)
        for piece in pieces:
            _scan(layer, mixer, piece, steps, out)
        layer.arena.give(narrow, steps)
    layer.set_phase("OUT_PROJ")
    _gate(layer, mixer.inner, rows, out, wide)
    found = layer.product("out_proj", rows, out)
    layer.add_bias(mixer.bias, found, layer.hidden, rows)
    layer.arena.give(wide, out)
    return found


def _convolution(layer: LayerEmitter, place: int, width: int, taps: int, rows: int) -> None:
    """A product and a sum for each tap, and the activation."""
    layer.set_phase("CONVOLUTION")
    for _ in range(taps):
        layer.split_vector("mul", width, rows, place, place, place)
        layer.split_vector("add", width, rows, place, place, place)
    layer.split_vector("silu", width, rows, place, place)


def _gate(layer: LayerEmitter, width: int, rows: int, place: int, gate: int) -> None:
    layer.split_vector("silu", width, rows, gate, gate)
    layer.split_vector("mul", width, rows, place, place, gate)


def _recurrence(
    layer: LayerEmitter, piece: Piece, source: int, out: int, dims: tuple[int, int, int, int], *, delta: bool
) -> None:
    """Chunks of at most 128 tokens: scores inside the chunk, the contribution of the state, and the state after the chunk.

    The delta rule corrects keys and values of a chunk first: two more squares, and two products with them.
    """
    groups, heads, key, value = dims
    layer.set_phase("STATE")
    state, address = _load_state(layer, piece)
    for row in range(0, piece.rows, QUERY_TOKENS):
        c = min(QUERY_TOKENS, piece.rows - row)
        scores, place = layer.take(c * c), out + layer.act((piece.row + row) * heads * value)
        left = source + layer.act((piece.row + row) * key)
        spare = layer.take(c * max(key, value))
        for group in range(groups):
            for _ in range(2 if delta else 1):
                layer.te("gemm", left, left, scores, c, c, key, layer.act_bits, group)
            for head in range(group * heads // groups, (group + 1) * heads // groups):
                at, kept = place + layer.act(c * head * value), state + layer.act(head * key * value)
                if delta:
                    layer.te("gemm", scores, left, spare, c, key, c, layer.act_bits, head)
                    layer.te("gemm", scores, left, spare, c, value, c, layer.act_bits, head)
                layer.te("gemm", scores, left, at, c, value, c, layer.act_bits, head)
                layer.te("gemm", left, kept, spare, c, value, key, layer.act_bits, head)
                layer.te("gemm", left, left, kept, key, value, c, layer.act_bits, head)
                layer.vector("add", value, c, at, at, spare)
        layer.arena.give(scores, spare)
    layer.store("kv", layer.act_bits, address, layer.shape.state_elements, state)
    layer.arena.give(state)


def _scan(layer: LayerEmitter, mixer: StateSpace, piece: Piece, steps: int, out: int) -> None:
    """Token by token: the state decays, gets the input, and is read: four operations on all of its elements."""
    layer.set_phase("STATE")
    state, address = _load_state(layer, piece)
    elements = mixer.inner * mixer.state
    decay = layer.take(elements)
    for row in range(piece.rows):
        at = out + layer.act((piece.row + row) * mixer.inner)
        layer.vector("exp", elements, 1, decay, decay)
        layer.vector("mul", elements, 1, state, state, decay)
        layer.vector("add", elements, 1, state, state, decay)
        layer.vector("mul", elements, 1, state, decay, state)
        layer.vector("add", mixer.inner, 1, decay, at, decay)
    layer.store("kv", layer.act_bits, address, layer.shape.state_elements, state)
    layer.arena.give(state, decay)


def _load_state(layer: LayerEmitter, piece: Piece) -> tuple[int, int]:
    """The state of a sequence, loaded if it has one: its place and its address."""
    each = ceil_div(layer.act(layer.shape.state_elements), layer.align) * layer.align
    address = layer.memory.state + piece.sequence * each
    if piece.cached:
        return layer.load("kv", layer.act_bits, address, layer.shape.state_elements), address
    return layer.take(layer.shape.state_elements), address
