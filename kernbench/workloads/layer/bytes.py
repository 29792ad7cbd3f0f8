"""The bytes that a layer moves between DRAM and scratchpad for given token blocks, known before lowering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import msgspec

from kernbench.cmdq.footprint import bytes_of, unpacked_bits
from kernbench.common.units import ceil_div
from kernbench.components.service import chained_body
from kernbench.workloads.layer.buffers import ATTENTION, GATE_UP, STAGES, Buffering, LayerBuffers
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS, kv_tiles
from kernbench.workloads.routing import parts


class LayerBytes(msgspec.Struct, frozen=True):
    """[byte] by purpose, without alignment."""

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
    if (stage, size) not in buffers.weights:
        buffers.weights[stage, size] = _stage_weights(buffers, stage, size)
    return buffers.weights[stage, size]


def _stage_weights(buffers: LayerBuffers, stage: int, size: int) -> int:
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
    """The number of loads of the weights of a stage; with several experts, the sum over experts in units of one expert."""
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


Shape = tuple[int, int, int]  #: `m`, `n` and `k` of a product

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
            found[unpacked_bits(model.kv_bits_of(head))] += 2 * model.group * model.head_dim * scores
    return found


def _scores(buffers: LayerBuffers, size: int) -> int:
    """The scores of one query head of all sequences."""
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


def stage_cycles(buffers: LayerBuffers, level: Buffering, stage: int, size: int) -> int:
    """Cycles of a stage's products, spread over all tensor engines: at full rate, or by their shapes where these matter."""
    te = buffers.config.te
    if te.timing != "macs":
        return ceil_div(shaped_cycles(buffers, level, stage, size), te.engines)
    if (stage, size) not in buffers.cycles:
        total = 0
        for bits, macs in sorted(stage_macs(buffers, stage, size).items()):
            rate = te.rate(bits, buffers.model.activation_bits) * te.engines
            total += ceil_div(macs * rate.denominator, rate.numerator)
        buffers.cycles[stage, size] = total
    return buffers.cycles[stage, size]


def shaped_cycles(buffers: LayerBuffers, level: Buffering, stage: int, size: int) -> int:
    """[cycle] of one engine for all products of a stage where it matters how they are cut: each fills and drains a systolic
    array, and each has blocks at its edges and a last wave on an MMA engine."""
    te, key = buffers.config.te, (level.tile_bytes, level.kv_parts, stage, size)
    if key not in buffers.shaped:
        products = stage_products(buffers, buffers.tile_cols(level), buffers.kv_tile_tokens(level), stage, size)
        bits = buffers.model.activation_bits, buffers.model.activation_bits
        buffers.shaped[key] = sum(count * chained_body(te, *shape, *bits) for shape, count in products.items())
    return buffers.shaped[key]


def stage_products(
    buffers: LayerBuffers, tile_cols: Mapping[str, int], kv_tile_tokens: int, stage: int, size: int
) -> Counter[Shape]:
    """The number of products of each shape in a stage with blocks of `size` tokens and these tiles of weights and KV."""
    found = Counter[Shape]()
    shapes = {matrix.name: matrix for matrix in buffers.matrices}

    def add(name: str, rows: Counter[int]) -> None:
        """Blocks of rows by the column tiles of a matrix."""
        matrix = shapes[name]
        width = buffers.model.head_dim if stage == ATTENTION else matrix.cols
        for cols, (m, count) in product(_cut(width, tile_cols[name]), rows.items()):
            found[m, cols, matrix.rows] += count * (matrix.cols // width)

    for name in buffers.stage_matrices(stage):
        add(name, _block_rows(buffers, stage, size))
    if stage == GATE_UP and buffers.model.experts:
        add("router", Counter(_cut(buffers.tokens, size)))
    if stage == ATTENTION:
        for shape, count in _attention_products(buffers, kv_tile_tokens, size).items():
            found[shape] += count * buffers.model.heads * buffers.batch
    return found


def _block_rows(buffers: LayerBuffers, stage: int, size: int) -> Counter[int]:
    """The number of blocks of a stage by their rows."""
    if stage == ATTENTION and buffers.seq_tokens > 1:
        each = Counter(_cut(buffers.seq_tokens, size))
        return Counter({rows: count * buffers.batch for rows, count in each.items()})
    if stage < GATE_UP:
        return Counter(_cut(buffers.tokens, size))
    return Counter(rows for part in parts(buffers.model, buffers.tokens) for rows in _cut(part.count, size))


def _attention_products(buffers: LayerBuffers, tile_tokens: int, size: int) -> Counter[Shape]:
    """The products of one query head and sequence with its keys and values."""
    found = Counter[Shape]()
    window, dim, page = buffers.model.window, buffers.model.head_dim, buffers.page_tokens
    for start, block in _starts(buffers.seq_tokens, size if buffers.seq_tokens > 1 else 1):
        cached = buffers.context + start
        tiles = kv_tiles(cached, block, tile_tokens, first_cached(window, cached, page))
        for at, rows in _starts(block, QUERY_TOKENS):
            first = max(0, cached + at - window + 1) if window else 0
            for tile in tiles:
                low, high = max(first, tile.t_start), min(cached + at + rows, tile.t_start + tile.t_len)
                if low < high:
                    found[rows, high - low, dim] += 1
                    found[rows, dim, high - low] += 1
    return found


def _starts(length: int, step: int) -> Iterator[tuple[int, int]]:
    """First and length of each piece."""
    return ((at, min(step, length - at)) for at in range(0, length, step))


def _cut(length: int, step: int) -> Iterator[int]:
    """Lengths of the pieces."""
    return (piece for _, piece in _starts(length, step))
