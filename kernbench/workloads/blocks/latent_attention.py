"""Multi-head latent attention: the cache has one latent vector a token, which all heads share."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.cmdq.footprint import bytes_of
from kernbench.workloads.blocks import attention
from kernbench.workloads.blocks.batch import Piece
from kernbench.workloads.blocks.emitter import LayerEmitter
from kernbench.workloads.models.parts import LatentAttention


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


def project(layer: LayerEmitter, mixer: LatentAttention, normed: int, rows: int, names: tuple[str, ...]) -> dict[str, int]:
    """The projections of queries and latent vectors that are in `names`, with biases, norms and RoPE."""
    layer.set_phase("QKV_PROJ")
    made = {}
    if "q" in names and mixer.q_rank:
        narrow = layer.product("wq_a", rows, normed)
        layer.add_bias(mixer.bias, narrow, mixer.q_rank, rows)
        layer.split_vector("rmsnorm", mixer.q_rank, rows, narrow, narrow)
        made["q"] = layer.product("wq_b", rows, narrow)
        layer.arena.give(narrow)
    elif "q" in names:
        made["q"] = layer.product("wq", rows, normed)
    if "latent" in names:
        latent = made["latent"] = layer.product("wkv_a", rows, normed)
        layer.add_bias(mixer.bias, latent, mixer.token_elements, rows)
        layer.split_vector("rmsnorm", mixer.kv_rank, rows, latent, latent)
    attention.load_rope_tables(layer, mixer.rope_dim, rows)
    for name, place in made.items():
        attention.rope(layer, place, (mixer.heads if name == "q" else 1) * mixer.rope_dim, rows)
    return made


def latent_queries(layer: LayerEmitter, mixer: LatentAttention, q: int, rows: int) -> int:
    """Queries that are multiplied by latent vectors."""
    queries = layer.take(rows * mixer.heads * mixer.token_elements)
    layer.set_phase("QKV_PROJ")
    _multiply_heads(layer, "wk_b", rows, q, queries, mixer.nope_dim, mixer.kv_rank, mixer.heads)
    layer.split_vector("copy", mixer.heads * mixer.rope_dim, rows, q, queries)
    return queries


def project_output(layer: LayerEmitter, mixer: LatentAttention, out: int, rows: int) -> int:
    """The values of latent outputs, and the output projection."""
    heads, rank = mixer.heads, mixer.kv_rank
    values = layer.take(rows * heads * mixer.value_dim)
    layer.set_phase("OUT_PROJ")
    _multiply_heads(layer, "wv_b", rows, out, values, rank, mixer.value_dim, heads)
    found = layer.product("wo", rows, values)
    layer.add_bias(mixer.bias, found, layer.hidden, rows)
    layer.arena.give(out, values)
    return found


def _multiply_heads(layer: LayerEmitter, name: str, rows: int, source: int, out: int, k: int, n: int, heads: int) -> None:
    """The rows of each head times the matrix of that head."""
    weight, base, _ = layer.memory.weights[name]
    bits = layer.shape.bits_of(weight)
    for head in range(heads):
        at, to = source + layer.act(rows * head * k), out + layer.act(rows * head * n)
        first = base + bytes_of(head * layer.shape.stored(weight, k) * n, bits)
        layer.multiply(weight, rows, at, to, first, k, n)


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
