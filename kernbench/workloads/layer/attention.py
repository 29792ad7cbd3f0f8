"""The attention stage: norm, and for each key and value head its projections, RoPE, KV cache and attention.

Projection and attention alternate head by head, so that queries, keys and values never go through DRAM and the
weights of the next head arrive while this one is computed.

The model: RoPE is `q * cos + rotated(q) * sin`, two VE_MUL and a VE_ADD (the rotation is an access pattern); a bias is a
VE_ADD whose second input is as long as the first; the quantisation of K and V is a VE_COPY at the width of the cache; a cap of
the scores is a VE_TANH. The queries of a block go through attention `QUERY_TOKENS` at a time: these attend to everything
before them, or to the window of the first of them, and to all of themselves, the full square; the softmax is over all these
positions, masked ones included. The scale is part of the weights. If V of a head has several tiles, VE_ADD adds the partial
products.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kernbench.cmdq.footprint import unpacked_bits
from kernbench.workloads.layer.bytes import QUERY_TOKENS, first_cached
from kernbench.workloads.layer.kv import KvTile, kv_tiles
from kernbench.workloads.layer.layer import Layer, Strip
from kernbench.workloads.planner import ATTENTION

Block = tuple[int, tuple[int, int]]  #: the number of a block of tokens, its first token, and its number of tokens

_PHASE = {"k": "ATTENTION_SCORE", "v": "ATTENTION_APPLY"}


def attention(layer: Layer) -> None:
    """Emits the stage for all blocks: `attention` is in its buffer, or spilled."""
    for block in enumerate(layer.plan.blocks(ATTENTION)):
        attention_block(layer, block)


def attention_block(layer: Layer, block: Block) -> None:
    """Emits the stage for one block, before the first one with the page table."""
    block_id, (start, count) = block
    if not block_id:
        layer.load_page_table()
    tokens = _Block(layer, block_id, start, count)
    tokens.prepare()
    for head in range(layer.model.kv_heads):
        tokens.kv_head(head)


class _Queries(msgspec.Struct, frozen=True):
    """Some rows of a block that attend to the same positions `[first, end)` of their sequence."""

    row: int  #: the first, counted from the block's
    rows: int
    first: int
    end: int
    score_offset: int  #: [byte] of their scores in those of their sequence

    @property
    def positions(self) -> int:
        """[element] of a row of scores."""
        return self.end - self.first


class _Sequence:
    """The rows of a block that belong to one sequence: `cached` tokens of it are in DRAM."""

    def __init__(self, layer: Layer, sequence: int, row: int, rows: int, cached: int) -> None:
        self.number = sequence
        self.cached = cached
        window = layer.model.window
        first = first_cached(window, cached, layer.page_tokens)
        self.tiles = kv_tiles(cached, rows, layer.plan.kv_tile_tokens, first)
        self.new_row = row
        self.queries = []
        offset = 0
        for at in range(0, rows, QUERY_TOKENS):
            count = min(QUERY_TOKENS, rows - at)
            sees = max(first, cached + at - window + 1) if window else 0
            self.queries.append(_Queries(row + at, count, sees, cached + at + count, offset))
            offset += layer.act(count * self.queries[-1].positions)
        self.score_bytes = offset


class _Block:
    """The attention of the new tokens of rows `[start, start + rows)`, of one sequence or one token of each of several."""

    def __init__(self, layer: Layer, block_id: int, start: int, rows: int) -> None:
        self.layer = layer
        self.emit = layer.emit
        self.model = layer.model
        self.start = start
        self.rows = rows
        each = layer.plan.seq_tokens
        t_start = start % each
        cached = layer.plan.context + t_start
        self.meta: dict[str, Any] = {"block_id": block_id, "token_idx": cached}
        self.end = cached + (rows if each > 1 else 1)
        if each > 1:
            self.sequences = [_Sequence(layer, start // each, 0, rows, cached)]
        else:
            self.sequences = [_Sequence(layer, start + row, row, 1, cached) for row in range(rows)]
        self.head_bytes = layer.act(layer.plan.block_tokens[ATTENTION] * self.model.head_dim)
        self.normed = layer.buffer(f"normed_{ATTENTION}")

    def prepare(self) -> None:
        """The buffers that all heads share: the rows of the RoPE tables and the normed tokens."""
        layer = self.layer
        for name, table in layer.dram.rope.items():
            at = layer.buffer(name)
            row = max(0, self.end - self.rows)
            layer.load_block(table, "embedding", row, self.rows, at, phase="ROPE", **self.meta)
        layer.norm(ATTENTION, "gain_attention", self.start, self.rows, **self.meta)

    def kv_head(self, head: int) -> None:
        """One key and value head with the query heads that share it."""
        group = self.model.group
        queries = [head * group + i for i in range(group)]
        k = self._project("wk", head)
        v = self._project("wv", head)
        self._rope(k, head)
        q = [self._project("wq", query) for query in queries]
        for query, at in zip(queries, q, strict=True):
            self._rope(at, query)
        outs = [self._out(query) for query in queries]
        for sequence in self.sequences:
            self._attend(sequence, head, k, v, q, outs)
        for query, out in zip(queries, outs, strict=True):
            self._spill(query, out)

    def _attend(self, sequence: _Sequence, head: int, k: int, v: int, q: list[int], outs: list[int]) -> None:
        """One sequence; `k`, `v`, `q` and `outs` are places of all rows of the block, the last two by query head."""
        group = self.model.group
        queries = [head * group + i for i in range(group)]
        ring = self.layer.rings["scores"]
        scores = [ring.take(sequence.score_bytes) for _ in queries]
        for index, tile in enumerate(sequence.tiles):
            slot = self._kv_tile("k", head, index, tile, k, sequence)
            for query, at, row in zip(queries, q, scores, strict=True):
                self._score(sequence, query, index, tile, at, slot, row)
        for query, row in zip(queries, scores, strict=True):
            self._softmax(sequence, query, row)
        for index, tile in enumerate(sequence.tiles):
            slot = self._kv_tile("v", head, index, tile, v, sequence)
            for query, row, out in zip(queries, scores, outs, strict=True):
                self._apply(sequence, query, index, tile, row, slot, out)

    def _project(self, matrix: str, head: int) -> int:
        """The address of the part of a projection for this head."""
        layer = self.layer
        place = at = layer.rings["heads"].take(self.head_bytes)
        for tile in layer.dram.weights[matrix].tiles(head):
            layer.project(tile, matrix, self.rows, self.normed, at, phase="QKV_PROJ", head_id=head, **self.meta)
            at += layer.act(self.rows * tile.cols)
        if self.model.qkv_bias:
            layer.bias(place, self.model.head_dim, self.rows, phase="QKV_PROJ", head_id=head, **self.meta)
        return place

    def _rope(self, at: int, head: int) -> None:
        layer, dim = self.layer, self.model.head_dim
        if not self.model.rope:
            return
        rotated = layer.rings["heads"].take(self.head_bytes)
        meta = {**self.meta, "head_id": head, "phase": "ROPE"}
        layer.vector("mul", dim, self.rows, at, rotated, layer.buffer("rope_sin"), **meta)
        layer.vector("mul", dim, self.rows, at, at, layer.buffer("rope_cos"), **meta)
        layer.vector("add", dim, self.rows, at, at, rotated, **meta)

    def _kv_tile(self, kind: str, head: int, index: int, tile: KvTile, new: int, sequence: _Sequence) -> int:
        """Brings a tile of K or V together: the cached tokens loaded, the new ones at `new` quantised behind them and
        stored. The scratchpad address of its first token."""
        layer, cache, number = self.layer, self.layer.dram.kv, sequence.number
        slot = layer.rings["kv"].take(layer.plan.kv_slot_bytes)
        bits = cache.bits[head]
        common = {
            "head_id": head,
            "kv_kind": kind,
            "qbits_kv": bits,
            "kv_layout_id": cache.layout_id,
            "tile_id": index,
            **self.meta,
        }
        for t, t_len in cache.pieces(tile.t_start, tile.cached):
            span = {"t_start": cache.within(t), "t_len": t_len}
            place = cache.aligned_place_in(slot, kind, head, number, tile, t)
            base = cache.base(kind, head, number, t)
            self.emit.kv_load(place, kv_range=span, dram_base_addr=base, **common, phase=_PHASE[kind])
            self.layer.after_page_table()
        if tile.new:
            t_new = tile.t_start + tile.cached
            behind = cache.place_in(slot, kind, head, number, tile, t_new)
            source = new + layer.act(sequence.new_row * self.model.head_dim)
            quantised = {"length": self.model.head_dim, "batch": tile.new, "qbits_activation": unpacked_bits(bits)}
            self.emit.ve("copy", source, behind, **quantised, phase="KV_STORE", head_id=head, **self.meta)
            for t, t_len in cache.pieces(t_new, tile.new):
                stored = cache.aligned_place_in(slot, kind, head, number, tile, t)
                where = {"t_start": cache.within(t), "dram_base_addr": cache.base(kind, head, number, t)}
                self.emit.kv_store(stored, t_len=t_len, phase="KV_STORE", **where, **common)
                self.layer.after_page_table()
        return cache.place_in(slot, kind, head, number, tile, tile.t_start)

    def _parts(self, sequence: _Sequence, tile: KvTile, head: int) -> list[tuple[_Queries, int, int, int]]:
        """For the queries that attend to some of a tile: the bytes and tokens of it, and of their scores before it."""
        found = []
        for queries in sequence.queries:
            low, high = max(queries.first, tile.t_start), min(queries.end, tile.t_start + tile.t_len)
            if low < high:
                skipped = (low - tile.t_start) * self.layer.dram.kv.token_bytes(head)
                found.append((queries, skipped, high - low, low - queries.first))
        return found

    def _score(self, sequence: _Sequence, query: int, index: int, tile: KvTile, q: int, k: int, scores: int) -> None:
        """Scores of a tile's tokens. The scores of some queries are in the order of tiles: `[tile][token][position]`."""
        dim, act, kv_head = self.model.head_dim, self.layer.act, query // self.model.group
        meta = {**self.meta, "head_id": query, "tile_id": index, "phase": "ATTENTION_SCORE"}
        for rows, skipped, n, before in self._parts(sequence, tile, kv_head):
            at = scores + rows.score_offset + act(rows.rows * before)
            source = q + act(rows.row * dim)
            self.emit.te("qkt", source, k + skipped, at, m=rows.rows, n=n, k=dim, **self._bits(kv_head), **meta)

    def _softmax(self, sequence: _Sequence, query: int, scores: int) -> None:
        meta = {**self.meta, "head_id": query, "phase": "ATTENTION_SOFTMAX"}
        for rows in sequence.queries:
            at = scores + rows.score_offset
            if self.model.softcap:
                self.layer.vector("tanh", rows.positions, rows.rows, at, at, **meta)
            self.layer.vector("softmax", rows.positions, rows.rows, at, at, **meta)

    def _apply(self, sequence: _Sequence, query: int, index: int, tile: KvTile, scores: int, v: int, out: int) -> None:
        """Adds a tile's part to the head's output."""
        dim, act, kv_head = self.model.head_dim, self.layer.act, query // self.model.group
        meta = {**self.meta, "head_id": query, "tile_id": index, "phase": "ATTENTION_APPLY"}
        for rows, skipped, k, before in self._parts(sequence, tile, kv_head):
            at = scores + rows.score_offset + act(rows.rows * before)
            place = out + act(rows.row * dim)
            part = self.layer.rings["partials"].take(act(rows.rows * dim)) if before else place
            self.emit.te("av", at, v + skipped, part, m=rows.rows, n=dim, k=k, **self._bits(kv_head), **meta)
            if before:
                self.layer.vector("add", dim, rows.rows, place, place, part, **meta)

    def _bits(self, head: int) -> dict[str, int]:
        return {"qbits_weight": unpacked_bits(self.layer.dram.kv.bits[head]), "qbits_activation": self.layer.act_bits}

    def _out(self, query: int) -> int:
        """The address of the output of a head."""
        if "attention" in self.layer.plan.resident:
            width, dim = self.model.attention_width, self.model.head_dim
            return self.layer.buffer("attention") + self.layer.act(self.start * width + self.rows * query * dim)
        return self.layer.strip_slot(ATTENTION)

    def _spill(self, query: int, out: int) -> None:
        """Stores the output of a head, if it does not stay in the scratchpad."""
        if "attention" not in self.layer.plan.resident:
            dim = self.model.head_dim
            strip = Strip(self.start, self.rows, query * dim, dim)
            self.layer.store_strip("attention", strip, out, phase="ATTENTION_APPLY", head_id=query, **self.meta)
