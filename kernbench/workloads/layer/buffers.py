"""The scratchpad buffers of a decoder layer, for given tiles and token blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

import msgspec

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig, Te
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS, slot_bytes
from kernbench.workloads.models import Matrix, ModelShape
from kernbench.workloads.routing import largest_part
from kernbench.workloads.scratchpad import BufferSpec

ATTENTION, OUT, GATE_UP, DOWN = STAGES = range(4)
STAGE_MATRICES = (("wq", "wk", "wv"), ("wo",), ("w_gate", "w_up"), ("w_down",))  #: the matrix by which each stage multiplies
_RESIDENT_IN = (  # which of the resident tensors the buffers of each stage depend on
    frozenset({"attention"}),
    frozenset({"residual", "attention"}),
    frozenset[str](),
    frozenset({"residual", "ffn"}),
)
ROWS_IN_TURN = {"post": 2, "parts": 1, "added": 1}  #: blocks of whole rows for which stages that run in turn have room
_STRIP_BYTES = 1 << 10  # a strip is at least this, so that one token does not make an entry for every few elements
_KV_TOKENS = 64  # KV tiles are whole multiples of it
_EVEN_COLS = 16  # tiles with that many columns or more have a multiple of it


class Buffering(msgspec.Struct, frozen=True):
    """How much is in flight at a time."""

    tile_bytes: int  #: [byte] of a weight tile, at most
    weight_tiles: int  #: weight tiles in the ring
    kv_parts: int  #: a head's cached tokens go through the scratchpad in this many tiles
    kv_tiles: int  #: KV tiles in the ring
    depth: int  #: 2: intermediate results are double-buffered


class LayerBuffers:
    """The sizes of one layer's buffers: `tokens` new tokens after `context` earlier ones, in each of `batch` sequences.

    `page_tokens`: the tokens of a page of the KV cache; 0 without pages.
    `capacity` and `line` are the scratchpad's bytes and the multiple at which buffers begin.
    """

    def __init__(
        self, model: ModelShape, config: NpuConfig, tokens: int, context: int, batch: int = 1, page_tokens: int = 0
    ) -> None:
        self.model = model
        self.config = config
        self.seq_tokens = tokens
        self.batch = batch
        self.tokens = tokens * batch
        self.context = context
        self.page_tokens = page_tokens
        self.matrices = model.matrices
        self._cols = {matrix.name: matrix.cols for matrix in self.matrices}
        self._widest = {matrix.name: self._most_bits(matrix) for matrix in self.matrices}
        self._longest_column = max(ceil_div(m.rows * self.widest(m), 8) for m in self.matrices)  # [byte]
        # The search for a plan needs the following values again and again, so each is computed once.
        self._tile_cols: dict[int, dict[str, int]] = {}  # columns of tiles, by tile_bytes
        self._strip_cols: dict[tuple[int, int, int], int] = {}  # by tile_bytes, stage and tokens
        self._shared_live: dict[tuple[int, int, frozenset[str]], list[int]] = {}  # bytes by stage, of `_shared_bytes`
        self._locals: dict[tuple[Any, ...], tuple[list[BufferSpec], int]] = {}  # buffers of a stage, their bytes
        self._sizes: dict[tuple[Any, ...], list[tuple[int, int]]] = {}  # sizes of blocks, and the bytes of their buffers
        self._heads: dict[tuple[int, int], int] = {}  # of `_head_copies`, by tile_bytes and depth
        self._kv_slots: dict[tuple[int, int], int] = {}  # bytes by kv_parts and tokens
        self.shaped: dict[tuple[int, int, int, int], int] = {}  #: cycles of `shaped_cycles`
        self.weights: dict[tuple[int, int], int] = {}  #: bytes of `stage_weights`
        self.cycles: dict[tuple[int, int], int] = {}  #: of `stage_cycles` where the shapes of products do not matter
        self.fitting: dict[tuple[Buffering, frozenset[str]], dict[int, list[int]]] = {}  #: sizes of blocks by stage
        self.divided: dict[tuple[Buffering, frozenset[str], tuple[int, ...]], Any] = {}  #: plans without their cycles
        self.moved: dict[tuple[frozenset[str], tuple[int, ...]], int] = {}  #: bytes of `layer_bytes`
        self.pages = ceil_div(context + tokens, page_tokens) if page_tokens else 0  # of a sequence
        self.kv_step = lcm(_KV_TOKENS, page_tokens or 1)
        self.part_rows = largest_part(model, self.tokens)
        self.capacity = config.spm.size_bytes
        self.line = config.spm.bank_width_bytes
        #: [byte] between weight tiles in the ring: tensor engines in step would else read theirs from the same banks.
        self.skew = (config.spm.num_banks // 4 + 1) * self.line
        self._align = config.dma.alignment_bytes

    def activation_bytes(self, elements: int) -> int:
        """The bytes of a number of activations."""
        return bytes_of(elements, self.model.activation_bits)

    def has_tiles(self, level: Buffering) -> bool:
        """Whether one column of every matrix fits a tile."""
        return self._longest_column <= level.tile_bytes

    def widest(self, matrix: Matrix) -> int:
        """Most bits of a weight of a matrix: some heads may have more than others."""
        return self._widest[matrix.name]

    def _most_bits(self, matrix: Matrix) -> int:
        if not self.model.head_bits or matrix.name not in STAGE_MATRICES[ATTENTION]:
            return matrix.bits
        heads = self.model.heads if matrix.name == "wq" else self.model.kv_heads
        return max(self.model.slice_bits(matrix.name, head) for head in range(heads))

    def rows(self, stage: int) -> int:
        """[token] rows that go through a stage together where nothing divides them."""
        if stage == ATTENTION:
            return self.batch if self.seq_tokens == 1 else self.seq_tokens
        return self.part_rows if stage in (GATE_UP, DOWN) else self.tokens

    def stage_matrices(self, stage: int) -> tuple[str, ...]:
        """The weights of a stage, of one expert."""
        return STAGE_MATRICES[stage] if stage != GATE_UP or self.model.gated else ("w_up",)

    def tile_cols(self, level: Buffering) -> dict[str, int]:
        """Columns of a weight tile by matrix; a tile of `wq`, `wk` or `wv` is inside one head."""
        if level.tile_bytes not in self._tile_cols:
            self._tile_cols[level.tile_bytes] = self._new_tile_cols(level)
        return self._tile_cols[level.tile_bytes]

    def _new_tile_cols(self, level: Buffering) -> dict[str, int]:
        return {
            m.name: even_split(
                self.model.head_dim if m.name in STAGE_MATRICES[ATTENTION] else m.cols,
                level.tile_bytes * 8 // (m.rows * self.widest(m)),
                array_columns(self.config.te),
            )
            for m in self.matrices
        }

    def strip_cols(self, level: Buffering, stage: int, m: int) -> int:
        """Columns of the output that are finished, and spilled, at a time: whole tiles, and whole aligned lines."""
        if stage == ATTENTION:
            return self.model.head_dim
        key = level.tile_bytes, stage, m
        if key not in self._strip_cols:
            self._strip_cols[key] = self._new_strip_cols(level, stage, m)
        return self._strip_cols[key]

    def _new_strip_cols(self, level: Buffering, stage: int, m: int) -> int:
        name = self.stage_matrices(stage)[0]
        tile, width = self.tile_cols(level)[name], self._width(name)
        step = lcm(tile, ceil_div(self._align * 8, self.model.activation_bits))
        if step > width:
            step = tile
        wanted = ceil_div(_STRIP_BYTES * 8, self.model.activation_bits * m)
        return min(width, step * ceil_div(wanted, step))

    def strip_bytes(self, level: Buffering, stage: int, m: int) -> int:
        """Bytes of a strip of `m` tokens, with room for the alignment of each of its rows in DRAM."""
        cols = self.strip_cols(level, stage, m)
        width = self.model.attention_width if stage == ATTENTION else self._width(self.stage_matrices(stage)[0])
        if self.activation_bytes(cols) % self._align == 0 and self.activation_bytes(width) % self._align == 0:
            return self.activation_bytes(m * cols)
        return m * (self.activation_bytes(cols) + 2 * self._align)

    def kv_tile_tokens(self, level: Buffering) -> int:
        """[token] cached tokens of a KV tile, at most: a multiple of 64, so that no machine gets tiny ones."""
        cached = max(self.context + self.seq_tokens - 1, 1)  # of the last token
        if self.model.window:
            cached = min(cached, self.model.window + self.kv_step)
        return ceil_div(ceil_div(cached, level.kv_parts), self.kv_step) * self.kv_step

    def kv_slot_bytes(self, level: Buffering, m: int) -> int:
        """Bytes of a KV tile with the `m` tokens of a block."""
        m = 1 if self.seq_tokens == 1 else m
        key = level.kv_parts, m
        if key not in self._kv_slots:
            cached = self.context + (ceil_div(self.seq_tokens, m) - 1) * m  # before the last block
            self._kv_slots[key] = slot_bytes(self.model, min(self.kv_tile_tokens(level), cached) + m, self._align)
        return self._kv_slots[key]

    def live_bytes(self, level: Buffering, resident: frozenset[str], stage: int, m: int) -> int:
        """Bytes that are live in a stage with blocks of `m` tokens."""
        return self._shared_bytes(level, resident)[stage] + self._local(level, resident, stage, m)[1]

    def fitting_sizes(self, level: Buffering, resident: frozenset[str], stage: int) -> list[int]:
        """[token] The sizes of blocks with which the buffers that are live in a stage fit the scratchpad, largest first."""
        key = self._local_key(level, resident, stage)
        if key not in self._sizes:
            sizes = block_sizes(self.rows(stage))
            self._sizes[key] = [(m, self._local(level, resident, stage, m)[1]) for m in sizes]
        room = self.capacity - self._shared_bytes(level, resident)[stage]
        return [m for m, nbytes in self._sizes[key] if nbytes <= room]

    def _shared_bytes(self, level: Buffering, resident: frozenset[str]) -> list[int]:
        """[byte] by stage of what `_shared` has live in it."""
        key = level.tile_bytes, level.weight_tiles, resident
        if key not in self._shared_live:
            needs = [(need.first, need.last, self._lines(need.nbytes)) for need in self._shared(level, resident)]
            self._shared_live[key] = [sum(size for first, last, size in needs if first <= stage <= last) for stage in STAGES]
        return self._shared_live[key]

    def needs(self, level: Buffering, resident: frozenset[str], blocks: Sequence[int]) -> list[BufferSpec]:
        """Every buffer, those with the longest lives first; `blocks`: [token] of a block per stage."""
        local = [need for stage in STAGES for need in self._local(level, resident, stage, blocks[stage])[0]]
        return [*self._shared(level, resident), *local]

    def needs_in_turn(self, level: Buffering, resident: frozenset[str], blocks: Sequence[int]) -> list[BufferSpec]:
        """Every buffer of a plan in which all stages go on in turn.

        Whole rows of the two projections that are added to the residual stream share rings; their blocks have equal sizes.
        """
        shared = [BufferSpec(need.name, need.nbytes, min(need.first, OUT), DOWN) for need in self._shared(level, resident)]
        local: dict[str, BufferSpec] = {}
        for stage in (OUT, GATE_UP, DOWN):
            for need in self._local(level, resident, stage, blocks[stage])[0]:
                ring = need.name.rpartition("_")[0]
                count = ROWS_IN_TURN.get(ring, 0)
                name = ring if count else need.name
                first = local[name].first if name in local else ATTENTION if stage == OUT else OUT
                local[name] = BufferSpec(name, need.nbytes * max(count, 1), first, DOWN)
        return [*shared, *local.values(), *self._local(level, resident, ATTENTION, blocks[ATTENTION])[0]]

    def least_in_turn(self, level: Buffering, blocks: Sequence[int]) -> int:
        """[byte] that the buffers of `needs_in_turn` occupy at least, without resident tensors."""
        none = frozenset[str]()
        most = 0
        for stage in (GATE_UP, ATTENTION):  # those of OUT are live in both
            live = sum(self._local(level, none, one, blocks[one])[1] for one in (OUT, stage))
            most = max(most, self._shared_bytes(level, none)[stage] + live)
            if most > self.capacity:
                break
        return most

    def _copies(self, level: Buffering, products: int) -> int:
        """The number of result buffers, each for `products` matrix products, that keeps all tensor engines busy."""
        return level.depth * ceil_div(self.config.te.engines, products) if level.depth > 1 else 1

    def _head_copies(self, level: Buffering) -> int:
        """The number of heads in the scratchpad that keeps all tensor engines busy with their projections."""
        key = level.tile_bytes, level.depth
        if key not in self._heads:
            products = (self.model.group + 2) * ceil_div(self.model.head_dim, self.tile_cols(level)["wq"])
            self._heads[key] = self._copies(level, products)
        return self._heads[key]

    def _width(self, name: str) -> int:
        return self._cols[name]

    def _lines(self, nbytes: int) -> int:
        return ceil_div(nbytes, self.line) * self.line

    def _moved(self, nbytes: int, unit: int) -> int:
        """Bytes that DMA needs for `nbytes` that begin at a multiple of `unit` bytes in DRAM."""
        if unit % self._align == 0 and nbytes % self._align == 0:
            return nbytes
        return ceil_div(nbytes, self._align) * self._align + self._align

    def _shared(self, level: Buffering, resident: frozenset[str]) -> list[BufferSpec]:
        """The buffers that are used in more than one stage."""
        model, act = self.model, self.activation_bytes
        cols = self.tile_cols(level)
        tile = max(self._moved(bytes_of(m.rows * cols[m.name], self.widest(m)), self._align) for m in self.matrices)
        gain = self._moved(model.gain_bytes, self._align)
        needs = [
            BufferSpec("weights", level.weight_tiles * (self._lines(tile) + self.skew), ATTENTION, DOWN),
            BufferSpec("gain_mlp", gain, ATTENTION, GATE_UP),
        ]
        if model.post_norms:
            needs.append(BufferSpec("gain_post_attention", gain, ATTENTION, OUT))
            needs.append(BufferSpec("gain_post_mlp", gain, ATTENTION, DOWN))
        if model.bias_bytes:
            needs.append(BufferSpec("biases", self._moved(model.bias_bytes, self._align), ATTENTION, DOWN))
        if model.experts:
            needs.append(BufferSpec("routes", act(self.tokens * model.experts), GATE_UP, DOWN))
            router = next(matrix for matrix in self.matrices if matrix.name == "router")
            tiles = ceil_div(router.cols, cols["router"])
            needs.append(BufferSpec("router", router.nbytes + tiles * self._align, GATE_UP, GATE_UP))
        if "residual" in resident:
            needs.append(BufferSpec("residual", self._moved(act(self.tokens * model.hidden), self._align), ATTENTION, DOWN))
        if "attention" in resident:
            needs.append(BufferSpec("attention", act(self.tokens * model.attention_width), ATTENTION, OUT))
        if "ffn" in resident:
            needs.append(BufferSpec("ffn", act(self.part_rows * model.ffn), GATE_UP, DOWN))
        return needs

    def _local_key(self, level: Buffering, resident: frozenset[str], stage: int) -> tuple[Any, ...]:
        """All of a division on which the buffers of one stage depend: many divisions have the same."""
        here = resident & _RESIDENT_IN[stage]
        if stage == ATTENTION:
            return level.kv_parts, level.kv_tiles, self._head_copies(level), here
        return stage, level.tile_bytes, level.depth, here

    def _local(self, level: Buffering, resident: frozenset[str], stage: int, m: int) -> tuple[list[BufferSpec], int]:
        """The buffers of one stage with blocks of `m` tokens, and their bytes in whole lines."""
        key = self._local_key(level, resident, stage), m
        if key not in self._locals:
            needs = self._new_local(level, resident, stage, m)
            self._locals[key] = needs, sum(self._lines(need.nbytes) for need in needs)
        return self._locals[key]

    def _new_local(self, level: Buffering, resident: frozenset[str], stage: int, m: int) -> list[BufferSpec]:
        if stage == ATTENTION:
            return self._attention(level, resident, m)
        model, act = self.model, self.activation_bytes
        needs = []
        if stage == GATE_UP:
            needs.append(self._normed(stage, m))
        if stage == OUT and "attention" not in resident:
            row = act(model.attention_width)
            needs.append(BufferSpec("attention_block", self._moved(m * row, row), stage, stage))
        if stage == DOWN and "ffn" not in resident:
            row = act(model.ffn)
            needs.append(BufferSpec("ffn_block", self._moved(m * row, row), stage, stage))
        if model.whole_rows and stage in (OUT, DOWN):
            row = act(model.hidden)
            needs.append(BufferSpec(f"post_{stage}", self._moved(m * row, row), stage, stage))
            if model.shards > 1:
                parts = (model.shards - 1) * chunk_bytes(m * row, model.shards, self.line)
                needs.append(BufferSpec(f"parts_{stage}", parts, stage, stage))
            if "residual" not in resident:
                needs.append(BufferSpec(f"added_{stage}", self._moved(m * row, row), stage, stage))
            return needs
        strips = 2 if stage == GATE_UP or "residual" not in resident else 1
        strip = self._lines(self.strip_bytes(level, stage, m))
        names = self.stage_matrices(stage)
        products = ceil_div(self.strip_cols(level, stage, m), self.tile_cols(level)[names[0]]) * len(names)
        needs.append(BufferSpec(f"strips_{stage}", self._copies(level, products) * strips * strip, stage, stage))
        return needs

    def _normed(self, stage: int, m: int) -> BufferSpec:
        row = self.activation_bytes(self.model.hidden)
        return BufferSpec(f"normed_{stage}", self._moved(m * row, row), stage, stage)

    def _attention(self, level: Buffering, resident: frozenset[str], m: int) -> list[BufferSpec]:
        model, act = self.model, self.activation_bytes
        t_all = self.context + self.seq_tokens
        if model.window:
            t_all = min(t_all, model.window - 1 + m + self.kv_step)
        head = self._lines(act(m * model.head_dim))
        table = self._moved(act(m * model.head_dim), act(model.head_dim))
        per_group = model.group + 2 + (model.group + 1 if model.rope else 0)  # q, k, v; a temporary for each RoPE
        seq_rows = 1 if self.seq_tokens == 1 else m
        depth = self._head_copies(level)
        needs = [
            BufferSpec("gain_attention", self._moved(model.gain_bytes, self._align), ATTENTION, ATTENTION),
            self._normed(ATTENTION, m),
            *(BufferSpec(name, table, ATTENTION, ATTENTION) for name in (("rope_cos", "rope_sin") if model.rope else ())),
            BufferSpec("kv", level.kv_tiles * self._lines(self.kv_slot_bytes(level, m)), ATTENTION, ATTENTION),
            BufferSpec("heads", depth * per_group * head, ATTENTION, ATTENTION),
            BufferSpec("scores", depth * model.group * self._lines(act(seq_rows * t_all)), ATTENTION, ATTENTION),
        ]
        if self.pages:
            row = self._moved(bytes_of(self.pages, PAGE_NUMBER_BITS), 1)
            needs.append(BufferSpec("page_table", self.batch * row, ATTENTION, ATTENTION))
        if level.kv_parts > 1:
            needs.append(BufferSpec("partials", depth * head, ATTENTION, ATTENTION))
        if "attention" not in resident:
            strip = self._lines(self.strip_bytes(level, ATTENTION, m))
            needs.append(BufferSpec(f"strips_{ATTENTION}", depth * model.group * strip, ATTENTION, ATTENTION))
        return needs


def block_sizes(tokens: int) -> list[int]:
    """[token] All tokens, or a power of two below, largest first: so that every block is whole groups of the smallest."""
    return [tokens, *(1 << e for e in range((tokens - 1).bit_length() - 1, -1, -1))]


def chunk_bytes(nbytes: int, shards: int, line: int) -> int:
    """Bytes of the part of some results that each of several shards adds up: whole lines."""
    return ceil_div(ceil_div(nbytes, shards), line) * line


def array_columns(te: Te) -> int:
    """Columns of a result that one pass of a systolic array makes; 1 where the number of columns costs nothing of its own."""
    return te.cols if te.cols is not None and te.dataflow in ("os", "ws") else 1


def even_split(width: int, most: int, together: int = 1) -> int:
    """Columns of each of the fewest tiles of at most `most` columns that make up `width`, near even.

    Whole multiples of `together` where a tile has room for one.
    """
    if most >= width:
        return width
    if most < _EVEN_COLS:
        return 1 << most.bit_length() - 1
    step = lcm(_EVEN_COLS, together)
    step = step if step <= most else _EVEN_COLS
    most = most // step * step
    even = ceil_div(width, ceil_div(width, most))
    return ceil_div(even, step) * step
