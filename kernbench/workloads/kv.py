"""The KV cache of one layer: where K and V lie, and the tiles in which a head's cache goes through the scratchpad."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.models import ModelShape


@dataclass(frozen=True, slots=True)
class KvTile:
    """Tokens `[t_start, t_start + cached + new)` of one head: the first `cached` are loaded, the others are new."""

    t_start: int
    cached: int  #: [token] that earlier work has left in DRAM
    new: int  #: [token] that this work adds

    @property
    def t_len(self) -> int:
        """[token] all of it."""
        return self.cached + self.new


def kv_tiles(context: int, new: int, tile_tokens: int) -> tuple[KvTile, ...]:
    """A head's tiles when `context` tokens are in DRAM and `new` ones follow; the new ones are in the last tile.

    A tile has at most `tile_tokens` cached tokens.
    """
    starts = range(0, max(context, 1), max(tile_tokens, 1))
    tiles = [KvTile(t, min(tile_tokens, context - t), 0) for t in starts]
    last = tiles[-1]
    return (*tiles[:-1], KvTile(last.t_start, last.cached, new))


def kv_layout_for(model: ModelShape, t_max: int, config: NpuConfig) -> int:
    """The first of the machine's `kv_layouts` with the model's head_dim and room for `t_max` tokens.

    InputError where there is none.
    """
    for index, layout in enumerate(config.kv_layouts):
        if layout.head_dim == model.head_dim and layout.t_max >= t_max:
            return index
    raise InputError(
        Problem(
            config.source,
            f"{model.name} needs a layout with head_dim = {model.head_dim} and t_max of at least {t_max}",
            "kv_layouts",
            [f"t_max {layout.t_max}, head_dim {layout.head_dim}" for layout in config.kv_layouts],
            f"add {{t_max: {t_max}, head_dim: {model.head_dim}}}",
        )
    )


@dataclass(frozen=True, slots=True)
class KvCache:
    """The K and the V cache of one layer in DRAM, `[head][t_max][head_dim]` each (FORMATS.md)."""

    k_base: int  #: DRAM address
    v_base: int  #: DRAM address
    layout_id: int
    t_max: int
    head_dim: int
    bits: int
    alignment: int  #: of the machine's transfers

    @staticmethod
    def nbytes(model: ModelShape, t_max: int) -> int:
        """Bytes of the K cache, and of the V cache."""
        return model.kv_heads * t_max * model.kv_token_bytes

    def base(self, kind: str) -> int:
        """The DRAM address of the `k` or `v` cache."""
        return self.k_base if kind == "k" else self.v_base

    def addr(self, kind: str, head: int, t: int) -> int:
        """The DRAM address of token `t` of a head."""
        return self.base(kind) + bytes_of((head * self.t_max + t) * self.head_dim, self.bits)

    def aligned_addr(self, kind: str, head: int, t: int) -> int:
        """Where a transfer that begins with token `t` really begins."""
        return self.addr(kind, head, t) // self.alignment * self.alignment

    def place_in(self, slot: int, kind: str, head: int, tile: KvTile, t: int) -> int:
        """The scratchpad address of token `t` in a slot that holds `tile`: byte after byte as in DRAM, from the
        aligned start of the tile on."""
        return slot + self.addr(kind, head, t) - self.aligned_addr(kind, head, tile.t_start)

    def aligned_place_in(self, slot: int, kind: str, head: int, tile: KvTile, t: int) -> int:
        """The same for the aligned start of a transfer that begins with token `t`."""
        return slot + self.aligned_addr(kind, head, t) - self.aligned_addr(kind, head, tile.t_start)


def slot_bytes(model: ModelShape, t_len: int, alignment: int) -> int:
    """Scratchpad bytes that hold any tile of `t_len` tokens, however it lies to the alignment."""
    nbytes = t_len * model.kv_token_bytes
    if model.kv_token_bytes % alignment == 0:
        return nbytes
    return ceil_div(nbytes, alignment) * alignment + alignment
