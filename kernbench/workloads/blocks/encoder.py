"""Layers of an encoder, and cross-attention to its output: each query attends to all tokens of the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.units import ceil_div
from kernbench.workloads.blocks import attention
from kernbench.workloads.blocks.batch import Batch, Piece, Sequences
from kernbench.workloads.blocks.emitter import LayerEmitter, as_elements
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.models.parts import Attention


def store_all_keys(layer: LayerEmitter) -> None:
    """Keys and values of all tokens of an encoder's layer go to memory first: every query attends to all of them."""
    mixer = layer.shape.block.mixer
    assert isinstance(mixer, Attention)
    first = 0
    for number, pieces in enumerate(layer.batch.blocks(layer.rows)):
        layer.meta = {"block_id": number, "token_idx": pieces[0].cached, "phase": "LAYER_INPUT"}
        rows = sum(piece.rows for piece in pieces)
        x = layer.load("activation", layer.act_bits, layer.source + layer.act(first * layer.hidden), rows * layer.hidden)
        normed = layer.norm(x, rows)
        _store_keys(layer, mixer, ("wk", "wv"), layer.shape.cached, normed, pieces, rows)
        layer.arena.give(x, normed)
        first += rows


def store_source_keys(layer: LayerEmitter) -> None:
    """Keys and values of the encoder's output, of the sequences that begin in this step."""
    cross, hidden = layer.shape.block.cross, layer.hidden
    assert cross is not None
    number, begun = 0, list[int]()
    for group in layer.batch.groups:
        begun += range(number, number + group.count) if not group.context else ()
        number += group.count
    total = len(begun) * layer.shape.sources
    most = max(1, total * layer.rows // layer.batch.tokens)  # as large a part of all as a block is of the step
    for block, pieces in enumerate(Batch((Sequences(layer.shape.sources, 0, len(begun)),)).blocks(min(most, total))):
        layer.meta = {"block_id": block, "token_idx": pieces[0].cached, "phase": "CROSS_INPUT"}
        rows = sum(piece.rows for piece in pieces)
        x = layer.take(rows * hidden)
        for piece in pieces:
            at = layer.encoded + layer.act((begun[piece.sequence] * layer.shape.sources + piece.cached) * hidden)
            layer.load_to("activation", layer.act_bits, at, piece.rows * hidden, x + layer.act(piece.row * hidden))
        owned = [replace(piece, sequence=begun[piece.sequence]) for piece in pieces]
        _store_keys(layer, cross, ("cross_wk", "cross_wv"), layer.shape.crossed, x, owned, rows)
        layer.arena.give(x)


def _store_keys(
    layer: LayerEmitter, mixer: Attention, names: tuple[str, str], cached: tuple[tuple[str, int, int], ...], source: int,
    pieces: Sequence[Piece], rows: int,
) -> None:  # fmt: skip
    """Keys and values of rows, at the cache's bits, to memory."""
    layer.set_phase("QKV_PROJ")
    bits = layer.shape.kv_bits
    room = layer.memory.positions if layer.shape.encoder else layer.memory.sources
    for weight, biased, (name, heads, dim) in zip(names, (mixer.k_bias, mixer.v_bias), cached, strict=True):
        made = layer.product(weight, rows, source)
        layer.add_bias(biased, made, heads * dim, rows)
        if mixer.rope and name == "k":
            attention.load_rope_tables(layer, dim, rows)
            attention.rope(layer, made, heads * dim, rows)
        layer.set_phase("KV_STORE")
        for piece in pieces:
            row = bytes_of(piece.rows * dim, unpacked_bits(bits))
            place = layer.arena.take(heads * (ceil_div(row, layer.align) + 2) * layer.align)
            sizes = {"length": heads * dim, "batch": piece.rows, "qbits_activation": unpacked_bits(bits)}
            layer.emit.ve("copy", made + layer.act(piece.row * heads * dim), place, **sizes, **layer.meta)
            address = layer.memory.cache_address(layer.shape, name, piece.sequence, 0, piece.cached)
            whole, number = as_elements(piece.rows * dim, bits)
            stride = bytes_of(room * dim, bits) if heads > 1 else bytes_of(piece.rows * dim, bits)
            layer.emit.store("kv", whole, Span(address, heads, number, stride), place, **layer.meta)
            layer.arena.give(place)
        layer.arena.give(made)
        layer.set_phase("QKV_PROJ")


def cross_attention(layer: LayerEmitter, cross: Attention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
    """Attention to the encoder's output."""
    return attend_to_all(layer, cross, ("cross_wq", "cross_wo"), ("cross_k", "cross_v"), normed, pieces, rows)


def attend_to_all(
    layer: LayerEmitter, mixer: Attention, names: tuple[str, str], keys: tuple[str, str], normed: int,
    pieces: Sequence[Piece], rows: int,
) -> int:  # fmt: skip
    """Queries of rows attend to all tokens of the encoder of their sequence, tile by tile from memory."""
    layer.set_phase("QKV_PROJ")
    q = layer.product(names[0], rows, normed)
    layer.add_bias(mixer.q_bias, q, mixer.width, rows)
    if mixer.rope and not mixer.cross:
        attention.load_rope_tables(layer, mixer.head_dim, rows)
        attention.rope(layer, q, mixer.width, rows)
    out = layer.take(rows * mixer.out_width)
    group, dims = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim)
    tile = layer.key_tile(mixer.head_dim)
    for piece in pieces:
        behind = replace(piece, cached=layer.shape.sources)  # no token is hidden from any query
        for head in range(mixer.kv_heads):
            at, to = attention.head_offsets(layer, mixer, piece, head)
            begun = set[int]()
            for start in range(0, layer.shape.sources, tile):
                count = min(tile, layer.shape.sources - start)
                layer.set_phase("ATTENTION_SCORE")
                places = [
                    _load_keys(layer, name, piece.sequence, head, start, count, dim)
                    for name, dim in zip(keys, dims, strict=True)
                ]
                pair = places[0], places[1]
                attention.attend_to_tile(layer, mixer, behind, group, q + at, out + to, pair, (start, count), dims, head, begun)
                layer.arena.give(*places)
    layer.arena.give(q)
    layer.set_phase("OUT_PROJ")
    found = layer.product(names[1], rows, out)
    layer.add_bias(mixer.out_bias, found, layer.hidden, rows)
    layer.arena.give(out)
    return found


def _load_keys(layer: LayerEmitter, name: str, sequence: int, head: int, start: int, count: int, dim: int) -> int:
    address = layer.memory.cache_address(layer.shape, name, sequence, head, start)
    return layer.load("kv", layer.shape.kv_bits, address, count * dim)
