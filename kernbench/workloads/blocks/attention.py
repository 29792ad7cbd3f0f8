"""Attention with keys and values of its own: projections, the cache, and scores tile by tile.

Keys go through the scratchpad tile by tile, with a softmax of each tile and a correction of the output so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.units import ceil_div
from kernbench.workloads.blocks.batch import QUERY_TOKENS, Piece, first_key
from kernbench.workloads.blocks.emitter import LayerEmitter, as_elements
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.models.parts import Attention, LatentAttention


def mix(layer: LayerEmitter, mixer: Attention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
    """Attention of rows to the cached keys of their sequences and to the new ones."""
    return mix_projected(layer, mixer, project(layer, mixer, normed, rows, "qkv"), pieces, rows)


def mix_projected(layer: LayerEmitter, mixer: Attention, made: dict[str, int], pieces: Sequence[Piece], rows: int) -> int:
    """The same from the projections on, which are given back."""
    out = layer.take(rows * mixer.out_width)
    for piece in pieces:
        new = store_new_keys(layer, {"k": made["k"], "v": made["v"]}, piece)
        for head in range(mixer.kv_heads):
            attend(layer, mixer, piece, head, made["q"], out, new)
        layer.arena.give(*new.values())
    return project_output(layer, mixer, made, out, rows)


def in_parts(
    layer: LayerEmitter, mixer: Attention, made: dict[str, int], pieces: Sequence[Piece], most: int
) -> Iterator[tuple[int, int, int]]:
    """Attention and output projection of prompts from their first token on, in parts of at most `most` rows; yields the output
    of each part, its first row and its rows. `made`: the projections of all rows, which are given back.

    The output projection of a part follows its attention. Its weights are loaded once and stay until the last part.
    """
    weight, base, _ = layer.memory.weights["wo"]
    layer.set_phase("OUT_PROJ")
    (tiles,) = layer.tiles_that_stay((weight, base, weight.rows, weight.cols))
    group, dims = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim)
    outputs: list[int] = []  # the first output projection of each part
    for piece in pieces:
        new = store_new_keys(layer, {"k": made["k"], "v": made["v"]}, piece)
        for first, part in parts_of(piece, most):
            out = layer.take(part.rows * mixer.out_width)
            for head in range(mixer.kv_heads):
                at, _ = head_offsets(layer, mixer, piece, head)
                q = made["q"] + at + layer.act(first * group * mixer.head_dim)
                to = out + layer.act(part.rows * head * group * mixer.value_dim)
                attend_to_new(layer, mixer, part, q, to, new, piece, head, dims, layer.not_far_ahead(outputs))
            layer.set_phase("OUT_PROJ")
            found = layer.take(part.rows * weight.cols)
            outputs += layer.multiply_loaded(weight, part.rows, out, found, tiles, weight.rows)[:1]
            layer.add_bias(mixer.out_bias, found, layer.hidden, part.rows)
            layer.arena.give(out)
            yield found, piece.row + first, part.rows
        layer.arena.give(*new.values())
    layer.arena.give(*made.values())


def in_parts_with_products(
    layer: LayerEmitter, mixer: Attention, x: int, normed: int, pieces: Sequence[Piece], most: int
) -> Iterator[tuple[int, int, int]]:
    """The same, with the norm and the projections of each part before its attention. All weights are loaded once and stay until
    the last part. `x`: the residual stream; `normed`: a buffer for its norm.
    """
    matrices = [layer.memory.weights[name] for name in ("wk", "wv", "wq", "wo")]
    phases = "QKV_PROJ", "QKV_PROJ", "QKV_PROJ", "OUT_PROJ"
    wanted = ((weight, base, weight.rows, weight.cols) for weight, base, _ in matrices)
    *stay, of_output = layer.tiles_that_stay(*wanted, phases=phases)
    before: list[list[int]] = [[] for _ in matrices]
    group, dims, output = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim), matrices[-1][0]
    for piece in pieces:
        new = {name: room_for_keys(layer, piece, heads, dim) for name, heads, dim in layer.shape.cached}
        for first, part in parts_of(piece, most):
            begin = layer.act((piece.row + first) * layer.hidden)
            layer.norm(x + begin, part.rows, normed + begin)
            layer.set_phase("QKV_PROJ")
            made = {}
            for number, (tiles, (weight, *_)) in enumerate(zip(stay, matrices[:-1], strict=True)):
                place = made[weight.name[1:]] = layer.take(part.rows * weight.cols)
                before[number] = layer.multiply_loaded(
                    weight, part.rows, normed + begin, place, tiles, weight.rows, before[number]
                )
            finish_projections(layer, mixer, made, part.rows)
            for name in new:
                store_part_of_keys(layer, name, made[name], new[name], piece, part)
            out = layer.take(part.rows * mixer.out_width)
            for head in range(mixer.kv_heads):
                q = made["q"] + layer.act(part.rows * head * group * mixer.head_dim)
                to = out + layer.act(part.rows * head * group * mixer.value_dim)
                attend_to_new(layer, mixer, part, q, to, new, piece, head, dims)
            layer.arena.give(*made.values())
            layer.set_phase("OUT_PROJ")
            found = layer.take(part.rows * output.cols)
            before[-1] = layer.multiply_loaded(output, part.rows, out, found, of_output, output.rows, before[-1])
            layer.add_bias(mixer.out_bias, found, layer.hidden, part.rows)
            layer.arena.give(out)
            yield found, piece.row + first, part.rows
        layer.arena.give(*new.values())


def room_for_keys(layer: LayerEmitter, piece: Piece, heads: int, dim: int) -> int:
    """A buffer for the keys or values of a piece, head by head."""
    row = bytes_of(piece.rows * dim, unpacked_bits(layer.shape.kv_bits))
    return layer.arena.take(heads * ceil_div(row, layer.align) * layer.align + 2 * layer.align)


def store_part_of_keys(layer: LayerEmitter, name: str, source: int, room: int, piece: Piece, part: Piece) -> None:
    """Keys or values of a part of a piece at the cache's bits: to their place among those of the piece, and to the cache."""
    bits, first = layer.shape.kv_bits, part.cached - piece.cached
    _, heads, dim = next(one for one in layer.shape.cached if one[0] == name)
    layer.set_phase("KV_STORE")
    for head in range(heads):
        at = room + bytes_of((piece.rows * head + first) * dim, bits)
        layer.vector("copy", dim, part.rows, source + layer.act(part.rows * head * dim), at)
        for token, some in layer.by_page(part.cached, part.rows):
            address = layer.memory.cache_address(layer.shape, name, piece.sequence, head, token)
            whole, number = as_elements(some * dim, bits)
            span = Span(address, 1, number, bytes_of(some * dim, bits))
            begin = at + bytes_of((token - part.cached) * dim, bits)
            layer.after_table(layer.emit.store("kv", whole, span, begin, **layer.meta))


def parts_of(piece: Piece, most: int) -> Iterator[tuple[int, Piece]]:
    """Parts of at most `most` rows of a piece: the first row of each in the piece, and the rows after those before."""
    for first in range(0, piece.rows, most):
        yield first, replace(piece, rows=min(most, piece.rows - first), cached=piece.cached + first)


def attend_to_new(
    layer: LayerEmitter, mixer: Attention, part: Piece, q: int, out: int, new: dict[str, int], piece: Piece, head: int,
    dims: tuple[int, int], after: Sequence[int] = (),
) -> None:  # fmt: skip
    """The query heads of one key and value head of a part of a piece, over the new keys of the piece."""
    bits, group = layer.shape.kv_bits, mixer.heads // mixer.kv_heads
    k, v = (new[name] + bytes_of(piece.rows * head * dim, bits) for name, dim in zip(("k", "v"), dims, strict=True))
    attend_to_tile(layer, mixer, part, group, q, out, (k, v), (piece.cached, piece.rows), dims, head, set(), after)


def project(layer: LayerEmitter, mixer: Attention, normed: int, rows: int, names: str) -> dict[str, int]:
    """The projections of queries, keys and values that are in `names`, with biases, norms and RoPE."""
    layer.set_phase("QKV_PROJ")
    return finish_projections(layer, mixer, {name: layer.product(f"w{name}", rows, normed) for name in names}, rows)


def finish_projections(layer: LayerEmitter, mixer: Attention, made: dict[str, int], rows: int) -> dict[str, int]:
    """Biases, norms and RoPE of the products with the weights of queries, keys and values."""
    widths = {"q": mixer.query_width, "k": mixer.kv_width, "v": mixer.value_width}
    biased = {"q": mixer.q_bias, "k": mixer.k_bias, "v": mixer.v_bias}
    heads = {"q": mixer.heads, "k": mixer.kv_heads}
    for name, place in made.items():
        layer.add_bias(biased[name], place, widths[name], rows)
    turned = {name: place for name, place in made.items() if name != "v"}
    for name, place in turned.items() if mixer.qk_norm else ():
        layer.split_vector("layernorm" if mixer.qk_shift else "rmsnorm", mixer.head_dim, rows * heads[name], place, place)
    if mixer.rope and turned:
        load_rope_tables(layer, mixer.head_dim, rows)
        for name, place in turned.items():
            rope(layer, place, heads[name] * mixer.head_dim, rows)
    return made


def project_output(layer: LayerEmitter, mixer: Attention, made: dict[str, int], out: int, rows: int) -> int:
    """The gate and the output projection behind the attention of queries, keys and values."""
    if mixer.gated:
        layer.vector("sigmoid", mixer.out_width, rows, made["q"], made["q"])
        layer.split_vector("mul", mixer.out_width, rows, out, out, made["q"])
    layer.arena.give(*made.values())
    layer.set_phase("OUT_PROJ")
    found = layer.product("wo", rows, out)
    layer.add_bias(mixer.out_bias, found, layer.hidden, rows)
    layer.arena.give(out)
    return found


def store_new_keys(layer: LayerEmitter, new: dict[str, int], piece: Piece) -> dict[str, int]:
    """New keys and values at the cache's bits: where they are in the scratchpad; they are stored to the cache as well."""
    found = {}
    layer.set_phase("KV_STORE")
    for name, heads, dim in layer.shape.cached:
        bits = layer.shape.kv_bits
        row = bytes_of(piece.rows * dim, unpacked_bits(bits))
        cuts = sum(1 for _ in layer.by_page(piece.cached, piece.rows))
        lines = heads * (ceil_div(row, layer.align) + 2 * cuts) * layer.align
        place = layer.arena.take(lines)
        source = new[name] + layer.act(piece.row * heads * dim)
        sizes = {"length": heads * dim, "batch": piece.rows, "qbits_activation": unpacked_bits(bits)}
        layer.emit.ve("copy", source, place, **sizes, **layer.meta)
        stride = bytes_of((layer.memory.page_tokens or layer.memory.positions) * dim, bits)
        for token, some in layer.by_page(piece.cached, piece.rows):
            address = layer.memory.cache_address(layer.shape, name, piece.sequence, 0, token)
            whole, number = as_elements(some * dim, bits)
            span = Span(address, heads, number, stride if heads > 1 else bytes_of(some * dim, bits))
            at = place + heads * bytes_of((token - piece.cached) * dim, bits)
            layer.after_table(layer.emit.store("kv", whole, span, at, **layer.meta))
        found[name] = place
    return found


def attend(
    layer: LayerEmitter, mixer: Attention, piece: Piece, head: int, q: int, out: int, new: dict[str, int] | None
) -> None:
    """The query heads of one key and value head, over the cached keys tile by tile and then over the new ones."""
    group, dims, bits = mixer.heads // mixer.kv_heads, (mixer.head_dim, mixer.value_dim), layer.shape.kv_bits
    at, to = head_offsets(layer, mixer, piece, head)
    first = first_key(mixer.window, mixer.chunk, piece.cached)
    tile = layer.key_tile(mixer.head_dim)
    begun: set[int] = set()
    for start in range(first, piece.cached, tile):
        count = min(tile, piece.cached - start)
        layer.set_phase("ATTENTION_SCORE")
        places = [layer.load_cache(name, piece, head, start, count, dim) for name, dim in zip(("k", "v"), dims, strict=True)]
        attend_to_tile(layer, mixer, piece, group, q + at, out + to, (places[0], places[1]), (start, count), dims, head, begun)
        layer.arena.give(*places)
    if new is None:  # which another PE has
        return
    k, v = (new[name] + bytes_of(piece.rows * head * dim, bits) for name, dim in zip(("k", "v"), dims, strict=True))
    attend_to_tile(layer, mixer, piece, group, q + at, out + to, (k, v), (piece.cached, piece.rows), dims, head, begun)


def head_offsets(layer: LayerEmitter, mixer: Attention, piece: Piece, head: int) -> tuple[int, int]:
    """[byte] from the first query of a block to those of a key and value head, and the same of the outputs."""
    group = mixer.heads // mixer.kv_heads
    q, out = (
        layer.act(piece.row * mixer.heads * dim + piece.rows * head * group * dim) for dim in (mixer.head_dim, mixer.value_dim)
    )
    return q, out


def attend_to_tile(
    layer: LayerEmitter, mixer: Attention | LatentAttention, piece: Piece, group: int, q: int, out: int, keys: tuple[int, int],
    span: tuple[int, int], dims: tuple[int, int], head: int, begun: set[int], after: Sequence[int] = (),
) -> None:  # fmt: skip
    """Scores, softmax and output of the queries that see some of a tile; `begun`: queries that have an output already. `after`:
    jobs for which the scores wait."""
    start, count = span
    score_dim, value_dim = dims
    bits = layer.shape.kv_bits
    window, chunk = (mixer.window, mixer.chunk) if isinstance(mixer, Attention) else (0, 0)
    for row in range(0, piece.rows, QUERY_TOKENS):
        some = min(QUERY_TOKENS, piece.rows - row)
        low = max(start, first_key(window, chunk, piece.cached + row))
        high = min(start + count, piece.cached + row + some)
        if low >= high:
            continue
        m, n = some * group, high - low
        scores = layer.take(m * n)
        key, value = (place + bytes_of((low - start) * dim, bits) for place, dim in zip(keys, dims, strict=True))
        layer.set_phase("ATTENTION_SCORE")
        layer.te("qkt", q + layer.act(row * group * score_dim), key, scores, m, n, score_dim, unpacked_bits(bits), head)
        if after:
            layer.emit.behind(after)
        layer.set_phase("ATTENTION_SOFTMAX")
        if layer.shape.softcap:
            layer.vector("tanh", n, m, scores, scores)
        layer.vector("softmax", n, m, scores, scores)
        layer.set_phase("ATTENTION_APPLY")
        place = out + layer.act(row * group * value_dim)
        part = layer.take(m * value_dim) if row in begun else place
        layer.te("av", scores, value, part, m, value_dim, n, unpacked_bits(bits), head)
        if part != place:
            layer.vector("mul", value_dim, m, place, place, place)
            layer.vector("add", value_dim, m, place, place, part)
            layer.arena.give(part)
        begun.add(row)
        layer.arena.give(scores)


def rope(layer: LayerEmitter, place: int, width: int, rows: int) -> None:
    """Two products and a sum, as in the planner of layers."""
    layer.set_phase("ROPE")
    rotated = layer.take(rows * width)
    layer.split_vector("mul", width, rows, place, rotated, place)
    layer.split_vector("mul", width, rows, place, place, place)
    layer.split_vector("add", width, rows, place, place, rotated)
    layer.arena.give(rotated)


def load_rope_tables(layer: LayerEmitter, dim: int, rows: int) -> None:
    """The rows of the tables of new tokens."""
    layer.set_phase("ROPE")
    layer.arena.give(layer.load("embedding", layer.act_bits, layer.rope, 2 * rows * dim))
