"""The KV cache of one layer: the addresses of K and V, and the tiles of the cache of a head in the scratchpad."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.models import ModelShape

PAGE_NUMBER_BITS = 32  #: bits of an entry of the page table


class PageTable(msgspec.Struct, frozen=True):
    """The addresses of the pages of each sequence. In DRAM it is `[sequence][pages]` numbers of pages.

    Sequences take the next free page of a common pool whenever they have filled one, in turn: so the pages of one of
    several sequences are never neighbours. `pages`: of each sequence.
    """

    sequences: int
    pages: int

    def page(self, sequence: int, index: int) -> int:
        """The place in the pool of a sequence's page."""
        return index * self.sequences + sequence

    @property
    def pool(self) -> int:
        """The pages of all sequences."""
        return self.sequences * self.pages


class KvTile(msgspec.Struct, frozen=True):
    """Tokens `[t_start, t_start + cached + new)` of one head: the first `cached` are loaded, the others are new."""

    t_start: int
    cached: int  #: [token] that earlier work has left in DRAM
    new: int  #: [token] that this work adds

    @property
    def t_len(self) -> int:
        """[token] The whole context."""
        return self.cached + self.new


def kv_tiles(context: int, new: int, tile_tokens: int, first: int = 0) -> tuple[KvTile, ...]:
    """A head's tiles when `context` tokens are in DRAM and `new` ones follow; the new ones are in the last tile.

    A tile has at most `tile_tokens` cached tokens. `first`: tokens before it are not needed.
    """
    starts = range(first, max(context, first + 1), max(tile_tokens, 1))
    tiles = [KvTile(t, min(tile_tokens, context - t), 0) for t in starts]
    last = tiles[-1]
    return (*tiles[:-1], KvTile(last.t_start, last.cached, new))


def kv_layout_for(model: ModelShape, t_max: int, config: NpuConfig, *, exact: bool = False) -> int:
    """The first of the machine's `kv_layouts` with the model's head_dim and room for `t_max` tokens, or just that.

    InputError if there is none.
    """
    for index, layout in enumerate(config.kv_layouts):
        if layout.head_dim == model.head_dim and (layout.t_max == t_max if exact else layout.t_max >= t_max):
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


class KvCache(msgspec.Struct, frozen=True):
    """The K and the V cache of a layer in DRAM, `[head][t_max][head_dim]` each (docs/model/bytes.md), sequence by sequence.

    With pages, `t_max` is the tokens of a page, and a page is such a cache of its tokens; `pages` says where each lies.
    `bits`: of an element by head. Heads of different widths have caches of their own, at different `bases`.
    """

    bases: dict[tuple[str, int], int]  #: DRAM address by `k` or `v` and bits
    layout_id: int
    t_max: int
    head_dim: int
    bits: tuple[int, ...]
    alignment: int  #: of the machine's transfers
    kv_heads: int
    pages: PageTable | None = None

    @staticmethod
    def nbytes(model: ModelShape, t_max: int, bits: int | None = None) -> int:
        """Bytes of the K cache of one sequence, and of the V cache."""
        return model.kv_heads * t_max * bytes_of(model.head_dim, model.kv_bits if bits is None else bits)

    def token_bytes(self, head: int) -> int:
        """Bytes of a token of a head in the K cache."""
        return bytes_of(self.head_dim, self.bits[head])

    def base(self, kind: str, head: int, sequence: int, t: int) -> int:
        """The `dram_base_addr` of the page or cache that holds token `t` of a head."""
        start = self.bases[kind, self.bits[head]]
        number = sequence if self.pages is None else self.pages.page(sequence, t // self.t_max)
        return start + number * self.kv_heads * self.t_max * self.token_bytes(head)

    def within(self, t: int) -> int:
        """The number of token `t` in its page or cache."""
        return t if self.pages is None else t % self.t_max

    def addr(self, kind: str, head: int, sequence: int, t: int) -> int:
        """The DRAM address of token `t` of a head."""
        inside = bytes_of((head * self.t_max + self.within(t)) * self.head_dim, self.bits[head])
        return self.base(kind, head, sequence, t) + inside

    def pieces(self, t_start: int, t_len: int) -> list[tuple[int, int]]:
        """`(t_start, t_len)` of each transfer that a range of tokens needs: one, or one a page."""
        if self.pages is None:
            return [(t_start, t_len)] if t_len else []
        cuts = [t_start, *range((t_start // self.t_max + 1) * self.t_max, t_start + t_len, self.t_max), t_start + t_len]
        return [(a, b - a) for a, b in pairwise(cuts) if b > a]

    def place_in(self, slot: int, kind: str, head: int, sequence: int, tile: KvTile, t: int) -> int:
        """The scratchpad address of token `t` in a slot that holds `tile`: byte after byte, the aligned start of the
        tile first."""
        first = self.addr(kind, head, sequence, tile.t_start)
        return slot + first % self.alignment + (t - tile.t_start) * self.token_bytes(head)

    def aligned_place_in(self, slot: int, kind: str, head: int, sequence: int, tile: KvTile, t: int) -> int:
        """The same for the aligned start of a transfer that begins with token `t`."""
        at = self.place_in(slot, kind, head, sequence, tile, t)
        return at - self.addr(kind, head, sequence, t) % self.alignment


def slot_bytes(model: ModelShape, t_len: int, alignment: int) -> int:
    """The scratchpad bytes for a tile of `t_len` tokens at any alignment."""
    nbytes = t_len * model.kv_token_bytes
    if all(bytes_of(model.head_dim, bits) % alignment == 0 for bits in model.kv_widths):
        return nbytes
    return ceil_div(nbytes, alignment) * alignment + alignment
