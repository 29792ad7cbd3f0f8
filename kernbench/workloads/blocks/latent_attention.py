"""Multi-head latent attention: the cache has one latent vector a token, which all heads share."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import even_parts
from kernbench.workloads.blocks import attention
from kernbench.workloads.blocks.batch import Piece
from kernbench.workloads.blocks.emitter import LayerEmitter, Tile
from kernbench.workloads.blocks.meetings import GatheredRows
from kernbench.workloads.models.parts import LatentAttention, Weight


def mix(layer: LayerEmitter, mixer: LatentAttention, normed: int, pieces: Sequence[Piece], rows: int) -> int:
    """Queries go through the matrix that expands keys, outputs through the one that expands values: keys stay latent."""
    made = project(layer, mixer, normed, rows, ("q", "latent"))
    queries = latent_queries(layer, mixer, made["q"], rows)
    out = layer.take(rows * mixer.heads * mixer.kv_rank)
    for piece in pieces:
        new = attention.store_new_keys(layer, {"latent": made["latent"]}, piece)["latent"]
        attend(layer, mixer, piece, queries, out, new)
        layer.arena.give(new)
    layer.arena.give(*made.values(), queries)
    return project_output(layer, mixer, out, rows)


def in_parts(
    layer: LayerEmitter, mixer: LatentAttention, made: dict[str, int], pieces: Sequence[Piece], rows: int, most: int
) -> Iterator[tuple[int, int, int]]:
    """The same in parts, as `attention.in_parts`."""
    queries = latent_queries(layer, mixer, made["q"], rows)
    layer.arena.give(made["q"])
    layer.set_phase("OUT_PROJ")
    weight, base, _ = layer.memory.weights["wo"]
    of_values = _head_matrices(layer, "wv_b", mixer.kv_rank, mixer.value_dim, mixer.heads)
    *tiles, of_output = layer.tiles_that_stay(*of_values, (weight, base, weight.rows, weight.cols))
    outputs: list[int] = []  # the first output projection of each part
    for piece in pieces:
        new = attention.store_new_keys(layer, {"latent": made["latent"]}, piece)["latent"]
        for first, part in attention.parts_of(piece, most):
            out = layer.take(part.rows * mixer.heads * mixer.kv_rank)
            q = queries + layer.act((piece.row + first) * mixer.heads * mixer.token_elements)
            dims, span = (mixer.token_elements, mixer.kv_rank), (piece.cached, piece.rows)
            after = layer.not_far_ahead(outputs)
            attention.attend_to_tile(layer, mixer, part, mixer.heads, q, out, (new, new), span, dims, 0, set(), after)
            values = layer.take(part.rows * mixer.heads * mixer.value_dim)
            layer.set_phase("OUT_PROJ")
            _multiply_heads(layer, "wv_b", part.rows, out, values, mixer.kv_rank, mixer.value_dim, tiles)
            found = layer.take(part.rows * weight.cols)
            outputs += layer.multiply_loaded(weight, part.rows, values, found, of_output, weight.rows)[:1]
            layer.add_bias(mixer.bias, found, layer.hidden, part.rows)
            layer.arena.give(out, values)
            yield found, piece.row + first, part.rows
        layer.arena.give(new)
    layer.arena.give(made["latent"], queries)


def project(layer: LayerEmitter, mixer: LatentAttention, normed: int, rows: int, names: tuple[str, ...]) -> dict[str, int]:
    """The projections of queries and latent vectors that are in `names`, with biases, norms and RoPE."""
    layer.set_phase("QKV_PROJ")
    made = {}
    if "q" in names and mixer.q_rank:
        narrow = _narrow_queries(layer, mixer, normed, rows, layer.take(rows * mixer.q_rank))
        made["q"] = layer.product("wq_b", rows, narrow)
        layer.arena.give(narrow)
    elif "q" in names:
        made["q"] = layer.product("wq", rows, normed)
    if "latent" in names:
        made["latent"] = _latents(layer, mixer, normed, rows, layer.take(rows * mixer.token_elements))
    _turn(layer, mixer, made, rows)
    return made


def project_shares(
    layer: LayerEmitter, mixer: LatentAttention, normed: int, rows: int, own: tuple[int, int]
) -> Generator[GatheredRows, None, dict[str, int]]:
    """The same on PEs that share the rows: each makes the narrow queries and latent vectors of its own rows, which all PEs then
    gather. `normed`: the own rows; `own`: the first and the number of them."""
    first, count = own
    layer.set_phase("QKV_PROJ")
    narrow, latent = layer.take(rows * mixer.q_rank), layer.take(rows * mixer.token_elements)
    _narrow_queries(layer, mixer, normed, count, narrow + layer.act(first * mixer.q_rank))
    yield _gathered(layer, narrow, rows, mixer.q_rank)
    layer.set_phase("QKV_PROJ")
    _latents(layer, mixer, normed, count, latent + layer.act(first * mixer.token_elements))
    yield _gathered(layer, latent, rows, mixer.token_elements)
    layer.set_phase("QKV_PROJ")
    made = {"q": layer.product("wq_b", rows, narrow), "latent": latent}
    layer.arena.give(narrow)
    _turn(layer, mixer, made, rows)
    return made


def _gathered(layer: LayerEmitter, place: int, rows: int, width: int) -> GatheredRows:
    """An all-gather of rows of which each PE has made its own ones."""
    parts = tuple(count * width for count in even_parts(rows, layer.seat.shards))
    return GatheredRows("all-gather", "shards", place, parts, layer.act_bits, dict(layer.meta))


def _narrow_queries(layer: LayerEmitter, mixer: LatentAttention, normed: int, rows: int, place: int) -> int:
    """Queries before their second matrix, at `place`."""
    layer.product("wq_a", rows, normed, out=place)
    layer.add_bias(mixer.bias, place, mixer.q_rank, rows)
    layer.split_vector("rmsnorm", mixer.q_rank, rows, place, place)
    return place


def _latents(layer: LayerEmitter, mixer: LatentAttention, normed: int, rows: int, place: int) -> int:
    """Latent vectors before RoPE, at `place`."""
    layer.product("wkv_a", rows, normed, out=place)
    layer.add_bias(mixer.bias, place, mixer.token_elements, rows)
    layer.split_vector("rmsnorm", mixer.kv_rank, rows, place, place)
    return place


def _turn(layer: LayerEmitter, mixer: LatentAttention, made: dict[str, int], rows: int) -> None:
    """RoPE of queries and latent vectors."""
    attention.load_rope_tables(layer, mixer.rope_dim, rows)
    for name, place in made.items():
        attention.rope(layer, place, (mixer.heads if name == "q" else 1) * mixer.rope_dim, rows)


def latent_queries(layer: LayerEmitter, mixer: LatentAttention, q: int, rows: int) -> int:
    """Queries that are multiplied by latent vectors."""
    queries = layer.take(rows * mixer.heads * mixer.token_elements)
    layer.set_phase("QKV_PROJ")
    tiles = _head_tiles(layer, "wk_b", mixer.nope_dim, mixer.kv_rank, mixer.heads)
    _multiply_heads(layer, "wk_b", rows, q, queries, mixer.nope_dim, mixer.kv_rank, tiles)
    layer.split_vector("copy", mixer.heads * mixer.rope_dim, rows, q, queries)
    return queries


def project_output(layer: LayerEmitter, mixer: LatentAttention, out: int, rows: int) -> int:
    """The values of latent outputs, and the output projection."""
    heads, rank = mixer.heads, mixer.kv_rank
    values = layer.take(rows * heads * mixer.value_dim)
    layer.set_phase("OUT_PROJ")
    tiles = _head_tiles(layer, "wv_b", rank, mixer.value_dim, heads)
    _multiply_heads(layer, "wv_b", rows, out, values, rank, mixer.value_dim, tiles)
    found = layer.product("wo", rows, values)
    layer.add_bias(mixer.bias, found, layer.hidden, rows)
    layer.arena.give(out, values)
    return found


def _head_matrices(layer: LayerEmitter, name: str, k: int, n: int, heads: int) -> Iterator[tuple[Weight, int, int, int]]:
    """The matrix of each head: weight, address, rows and columns."""
    weight, base, _ = layer.memory.weights[name]
    bits = layer.shape.bits_of(weight)
    for head in range(heads):
        yield weight, base + bytes_of(head * layer.shape.stored(weight, k) * n, bits), k, n


def _head_tiles(layer: LayerEmitter, name: str, k: int, n: int, heads: int) -> Iterator[Iterator[Tile]]:
    """The tiles of the matrix of each head, which are loaded in turn."""
    for matrix in _head_matrices(layer, name, k, n, heads):
        yield layer.tiles(*matrix)


def _multiply_heads(
    layer: LayerEmitter, name: str, rows: int, source: int, out: int, k: int, n: int, tiles: Iterable[Iterable[Tile]]
) -> None:
    """The rows of each head times the matrix of that head."""
    weight, _, _ = layer.memory.weights[name]
    for head, some in enumerate(tiles):
        at, to = source + layer.act(rows * head * k), out + layer.act(rows * head * n)
        layer.multiply_loaded(weight, rows, at, to, some, k)


def attend(
    layer: LayerEmitter, mixer: LatentAttention, piece: Piece, q: int, out: int, new: int | None, first: int = 0
) -> None:
    """All heads at once: they share the keys, and the values are the first elements of these."""
    heads, dim, begun = mixer.heads, mixer.token_elements, set[int]()
    dims, tile = (dim, mixer.kv_rank), layer.key_tile(dim)
    q += layer.act(piece.row * heads * dim)
    out += layer.act(piece.row * heads * mixer.kv_rank)
    for start in range(first, piece.cached, tile):
        count = min(tile, piece.cached - start)
        layer.set_phase("ATTENTION_SCORE")
        place = layer.load_cache("latent", piece, 0, start, count, dim)
        attention.attend_to_tile(layer, mixer, piece, heads, q, out, (place, place), (start, count), dims, 0, begun)
        layer.arena.give(place)
    if new is not None:
        attention.attend_to_tile(layer, mixer, piece, heads, q, out, (new, new), (piece.cached, piece.rows), dims, 0, begun)
