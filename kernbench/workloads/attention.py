"""The attention stage: norm, and for each key and value head its projections, RoPE, KV cache and attention.

Projection and attention alternate head by head, so that queries, keys and values never go through DRAM and the
weights of the next head arrive while this one is computed.

What is modelled: RoPE as `q * cos + rotated(q) * sin`, two VE_MUL and a VE_ADD (the rotation is a way of reading);
quantising K and V as a VE_COPY at the cache's width; the softmax over all positions of a row, masked ones included:
a block of tokens attends to everything before it and to all of itself, the full square. The scale is part of the
weights. Where a head's V comes in several tiles, the partial products are added by VE_ADD.
"""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.workloads.kv import KvTile, kv_tiles
from kernbench.workloads.layer import Layer, Strip
from kernbench.workloads.planner import ATTENTION

_PHASE = {"k": "ATTENTION_SCORE", "v": "ATTENTION_APPLY"}


def attention(layer: Layer) -> None:
    """Emits the stage for all blocks: `attention` is in its buffer, or spilled."""
    for block_id, (t_start, t_len) in enumerate(layer.plan.blocks(ATTENTION)):
        block = _Block(layer, block_id, t_start, t_len)
        block.prepare()
        for head in range(layer.model.kv_heads):
            block.kv_head(head)


class _Block:
    """The attention of some new tokens: `[t_start, t_start + t_len)` of them."""

    def __init__(self, layer: Layer, block_id: int, t_start: int, t_len: int) -> None:
        self.layer = layer
        self.emit = layer.emit
        self.model = layer.model
        self.t_start = t_start
        self.t_len = t_len
        self.bits = {"qbits_weight": layer.model.kv_bits, "qbits_activation": layer.act_bits}
        self.meta: dict[str, Any] = {"block_id": block_id, "token_idx": layer.plan.context + t_start}
        cached = layer.plan.context + t_start
        self.tiles = kv_tiles(cached, t_len, layer.plan.kv_tile_tokens)
        self.row = cached + t_len  # [element] of a row of scores
        most = layer.plan.block_tokens[ATTENTION]
        self.head_bytes = layer.act(most * self.model.head_dim)
        self.score_bytes = layer.act(most * (layer.plan.context + layer.plan.tokens))
        self.normed = layer.buffer(f"normed_{ATTENTION}")

    def prepare(self) -> None:
        """What all heads share: the rows of the RoPE tables and the normed tokens."""
        layer, t_len = self.layer, self.t_len
        for name, table in layer.dram.rope.items():
            at = layer.buffer(name)
            layer.load_block(table, "embedding", self.row - t_len, t_len, at, phase="ROPE", **self.meta)
        layer.norm(ATTENTION, "gain_attention", self.t_start, t_len, **self.meta)

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
        scores = [self.layer.rings["scores"].take(self.score_bytes) for _ in queries]
        for index, tile in enumerate(self.tiles):
            slot = self._kv_tile("k", head, index, tile, k)
            for query, at, row in zip(queries, q, scores, strict=True):
                self._score(query, index, tile, at, slot, row)
        for query, row in zip(queries, scores, strict=True):
            meta = {**self.meta, "head_id": query, "phase": "ATTENTION_SOFTMAX"}
            self.layer.vector("softmax", self.row, self.t_len, row, row, **meta)
        outs = [self._out(query) for query in queries]
        for index, tile in enumerate(self.tiles):
            slot = self._kv_tile("v", head, index, tile, v)
            for query, row, out in zip(queries, scores, outs, strict=True):
                self._apply(query, index, tile, row, slot, out)
        for query, out in zip(queries, outs, strict=True):
            self._spill(query, out)

    def _project(self, matrix: str, head: int) -> int:
        """The head's part of a projection; where it is."""
        layer = self.layer
        place = at = layer.rings["heads"].take(self.head_bytes)
        for tile in layer.dram.weights[matrix].tiles(head):
            layer.project(tile, matrix, self.t_len, self.normed, at, phase="QKV_PROJ", head_id=head, **self.meta)
            at += layer.act(self.t_len * tile.cols)
        return place

    def _rope(self, at: int, head: int) -> None:
        layer, dim = self.layer, self.model.head_dim
        rotated = layer.rings["heads"].take(self.head_bytes)
        meta = {**self.meta, "head_id": head, "phase": "ROPE"}
        layer.vector("mul", dim, self.t_len, at, rotated, layer.buffer("rope_sin"), **meta)
        layer.vector("mul", dim, self.t_len, at, at, layer.buffer("rope_cos"), **meta)
        layer.vector("add", dim, self.t_len, at, at, rotated, **meta)

    def _kv_tile(self, kind: str, head: int, index: int, tile: KvTile, new: int) -> int:
        """Brings a tile of K or V together: the cached tokens loaded, the new ones at `new` quantised behind them and
        stored. The scratchpad address of its first token."""
        layer, cache = self.layer, self.layer.dram.kv
        slot = layer.rings["kv"].take(layer.plan.kv_slot_bytes)
        common = {
            "head_id": head,
            "kv_kind": kind,
            "dram_base_addr": cache.base(kind),
            "qbits_kv": cache.bits,
            "kv_layout_id": cache.layout_id,
            "tile_id": index,
            **self.meta,
        }
        if tile.cached:
            span = {"t_start": tile.t_start, "t_len": tile.cached}
            self.emit.kv_load(slot, kv_range=span, **{**common, "token_idx": tile.t_start}, phase=_PHASE[kind])
        if tile.new:
            t_new = tile.t_start + tile.cached
            behind = cache.place_in(slot, kind, head, tile, t_new)
            quantised = {"length": self.model.head_dim, "batch": tile.new, "qbits_activation": cache.bits}
            self.emit.ve("copy", new, behind, **quantised, phase="KV_STORE", head_id=head, **self.meta)
            stored = cache.aligned_place_in(slot, kind, head, tile, t_new)
            self.emit.kv_store(stored, t_start=t_new, t_len=tile.new, phase="KV_STORE", **common)
        return cache.place_in(slot, kind, head, tile, tile.t_start)

    def _score(self, query: int, index: int, tile: KvTile, q: int, k: int, scores: int) -> None:
        """Scores of a tile's tokens. Scores of a block are in order of tiles: `[tile][token][position]`."""
        at = scores + self._score_offset(tile)
        meta = {**self.meta, "head_id": query, "tile_id": index, "phase": "ATTENTION_SCORE"}
        self.emit.te("qkt", q, k, at, m=self.t_len, n=tile.t_len, k=self.model.head_dim, **self.bits, **meta)

    def _apply(self, query: int, index: int, tile: KvTile, scores: int, v: int, out: int) -> None:
        """Adds a tile's part to the head's output."""
        at = scores + self._score_offset(tile)
        meta = {**self.meta, "head_id": query, "tile_id": index, "phase": "ATTENTION_APPLY"}
        part = out if index == 0 else self.layer.rings["partials"].take(self.head_bytes)
        self.emit.te("av", at, v, part, m=self.t_len, n=self.model.head_dim, k=tile.t_len, **self.bits, **meta)
        if index > 0:
            self.layer.vector("add", self.model.head_dim, self.t_len, out, out, part, **meta)

    def _score_offset(self, tile: KvTile) -> int:
        return bytes_of(self.t_len * tile.t_start, self.layer.act_bits)

    def _out(self, query: int) -> int:
        """Where a head's output goes."""
        if "attention" in self.layer.plan.resident:
            return self.layer.buffer("attention") + self.layer.act(self.t_len * query * self.model.head_dim)
        return self.layer.strip_slot(ATTENTION)

    def _spill(self, query: int, out: int) -> None:
        """Stores a head's output where it does not stay."""
        if "attention" not in self.layer.plan.resident:
            dim = self.model.head_dim
            strip = Strip(self.t_start, self.t_len, query * dim, dim)
            self.layer.store_strip("attention", strip, out, phase="ATTENTION_APPLY", head_id=query, **self.meta)
