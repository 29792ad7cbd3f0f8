"""The DRAM layout of one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div, near_size
from kernbench.config.kinds import beyond_dram
from kernbench.config.schema import NpuConfig
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS, KvCache, PageTable, kv_layout_for
from kernbench.workloads.models import Matrix, ModelShape
from kernbench.workloads.planner import TENSORS, LayerPlan


@dataclass(frozen=True, slots=True)
class Room:
    """The common regions of the layers of one run, which have the same addresses in all layers."""

    own_base: int  #: DRAM address of the layer's weights and KV cache
    shared_base: int  #: DRAM address of RoPE tables and activations
    step: int  #: [byte] shared regions begin at multiples of it from shared_base on
    rows: int  #: [token] room of each activation
    positions: int  #: [token] room of tables and of the KV cache of a sequence
    batch: int  #: sequences
    swapped: bool = False  #: the layer reads its input from the address to which the previous layer writes
    page_tokens: int = 0  #: of a page of the KV cache; 0: a sequence's cache is one piece


class LayerDram:
    """The DRAM addresses of the data of a layer. `regions`: all regions in address order, shared ones last.

    Without `room`, the layer starts at address 0 and has only the space that its plan needs.
    """

    def __init__(self, model: ModelShape, config: NpuConfig, plan: LayerPlan, room: Room | None = None) -> None:
        own = DramMap(config, room.own_base if room else 0)
        shared = DramMap(config, room.shared_base, room.step) if room else own
        positions = plan.context + plan.seq_tokens
        room = room or Room(0, 0, 0, plan.tokens, positions, plan.batch)
        self._config, self._plan, self._room = config, plan, room
        names = (*model.norms, *(("biases",) if model.bias_bytes else ()))
        sizes = {"biases": model.bias_bytes}
        self.gains = {name: own.allocate(name, sizes.get(name, model.gain_bytes)).base for name in names}
        self.weights = self._weights(model, own)
        self.kv = self._cache(model, own)
        # cos and sin of every position up to the last
        tables = ("rope_cos", "rope_sin") if model.rope else ()
        rows = max(room.positions, room.rows)
        self.rope = {name: _activations(name, rows, model.head_dim, 1, model, shared) for name in tables}
        table = self.kv.pages
        self.page_table = 0
        if table is not None:
            self.page_table = shared.allocate("page_table", table.sequences * bytes_of(table.pages, PAGE_NUMBER_BITS)).base
        # Data between two stages is in DRAM only if it does not stay in the scratchpad.
        stream, attended, inner = model.hidden, model.attention_width, model.ffn
        between = {"residual": ("x1", stream), "attention": ("attention", attended), "ffn": ("ffn", inner)}
        spilled = dict(between[tensor] for tensor in TENSORS if tensor not in plan.resident)
        ends = ("y", "x") if room.swapped else ("x", "y")
        widths = {**dict.fromkeys(ends, stream), **spilled}
        self.activations = {
            name: _activations(name, room.rows, width, plan.granule, model, shared) for name, width in widths.items()
        }
        self.regions = own.regions if shared is own else [*own.regions, *shared.regions]
        self.own_end = max(region.end for region in own.regions)
        self.shared_end = max(region.end for region in shared.regions)

    def _weights(self, model: ModelShape, own: DramMap) -> dict[str, WeightLayout]:
        """The layouts by name; those of an expert's matrices by `name.expert`."""
        found = {}
        for matrix in model.matrices:
            heads = {"wq": model.heads, "wk": model.kv_heads, "wv": model.kv_heads}.get(matrix.name, 0)
            bits = [model.slice_bits(matrix.name, head) for head in range(heads)]
            columns = model.head_dim if heads else matrix.cols
            shared = model.experts and matrix.name in ("w_gate", "w_up", "w_down")
            for name in [f"{matrix.name}.{e}" for e in range(model.experts)] if shared else [matrix.name]:
                tile = self._plan.tile_cols[matrix.name]
                alignment = self._config.dma.alignment_bytes
                found[name] = WeightLayout(matrix, tile, columns, own, alignment, name=name, bits=bits)
        return found

    def _cache(self, model: ModelShape, own: DramMap) -> KvCache:
        room, config = self._room, self._config
        pages = None
        if room.page_tokens:
            pages = PageTable(room.batch, ceil_div(room.positions, room.page_tokens))
        layout_id = kv_layout_for(model, room.page_tokens or room.positions, config, exact=pages is not None)
        t_max = config.kv_layouts[layout_id].t_max
        bits = tuple(model.kv_bits_of(head) for head in range(model.kv_heads))
        if pages is not None:
            _check_pages(model, room.page_tokens, bits, config)
        several = len(set(bits)) > 1
        bases = {}
        for kind in "kv":
            for width in sorted(set(bits)):
                nbytes = KvCache.nbytes(model, t_max, width) * (room.batch if pages is None else pages.pool)
                name = f"{kind}_cache_{width}" if several else f"{kind}_cache"
                bases[kind, width] = own.allocate(name, nbytes).base
        alignment = config.dma.alignment_bytes
        return KvCache(bases, layout_id, t_max, model.head_dim, bits, alignment, model.kv_heads, pages)


def _check_pages(model: ModelShape, page_tokens: int, bits: tuple[int, ...], config: NpuConfig) -> None:
    """InputError if the tokens of a head in a page are not whole aligned lines."""
    alignment = config.dma.alignment_bytes
    nbytes = page_tokens * bytes_of(model.head_dim, min(bits))
    if nbytes % alignment:
        rule = f"a head's part of a page, {nbytes} bytes, must be a multiple of dma.alignment_bytes = {alignment}"
        raise InputError(Problem(f"model {model.name}", rule, "page", page_tokens))


def _activations(name: str, tokens: int, cols: int, granule: int, model: ModelShape, dram: DramMap) -> ActivationLayout:
    base = dram.allocate(name, bytes_of(tokens * cols, model.activation_bits)).base
    return ActivationLayout(base, tokens, cols, granule, model.activation_bits)


class DramRegion(msgspec.Struct, frozen=True):
    """A named range of DRAM, aligned to the machine's transfers at both ends."""

    name: str
    base: int
    nbytes: int

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.base + self.nbytes


class DramMap:
    """Allocates consecutive regions from `base` on. InputError if the DRAM is full.

    `step`: the alignment of regions relative to `base`; None means the alignment of the machine. `what`: the owner of the
    regions, for the error message.
    """

    def __init__(self, config: NpuConfig, base: int = 0, step: int | None = None, what: str = "the layer") -> None:
        self._config = config
        self._what = what
        self._base = self._next = base
        self._step = step or config.dma.alignment_bytes
        self.regions: list[DramRegion] = []

    def allocate(self, name: str, nbytes: int) -> DramRegion:
        """`nbytes` bytes, widened to whole aligned lines."""
        alignment = self._config.dma.alignment_bytes
        start = self._base + ceil_div(self._next - self._base, self._step) * self._step
        region = DramRegion(name, start, ceil_div(nbytes, alignment) * alignment)
        self._next = region.end
        if self._next > self._config.dram.capacity_bytes:
            rule = f"{self._what} needs {near_size(self._next)} up to {name}"
            raise InputError(beyond_dram(self._config, rule, "give the DRAM more capacity"))
        self.regions.append(region)
        return region


class WeightTile(msgspec.Struct, frozen=True):
    """Some columns of a weight matrix with all their rows: one contiguous transfer, and one product."""

    index: int  #: `tile_id` within the matrix
    cols: int
    bits: int  #: per weight
    elements: int
    nbytes: int
    moved_bytes: int  #: [byte] that its transfer moves, with alignment
    dram_addr: int


class WeightLayout:
    """A weight matrix in DRAM, tile after tile; every tile begins at an aligned address.

    `tile_cols`: columns of a tile; no tile crosses a multiple of `slice_cols` (a head's columns, or all of them).
    `bits`: bits of a weight by slice, for slices that do not have the bits of the matrix.
    """

    def __init__(
        self,
        matrix: Matrix,
        tile_cols: int,
        slice_cols: int,
        dram: DramMap,
        alignment: int,
        *,
        name: str = "",
        bits: Sequence[int] = (),
    ) -> None:
        self.matrix = matrix
        bits = tuple(bits) or (matrix.bits,) * ceil_div(matrix.cols, slice_cols)
        self._cut = matrix.rows, tile_cols, slice_cols, alignment, bits
        self._base = dram.allocate(name or matrix.name, _layout_bytes(*self._cut)).base

    @cached_property
    def _slices(self) -> list[list[WeightTile]]:
        return _tiles_from(self._base, *self._cut)

    def tiles(self, slice_index: int = 0) -> list[WeightTile]:
        """The tiles of one slice, in the order of their columns. The list must not be modified."""
        return self._slices[slice_index]


# The points of a sweep often have equal matrices at equal addresses. Most layouts are made only for their size.
@lru_cache(256)
def _layout_bytes(rows: int, tile_cols: int, slice_cols: int, alignment: int, bits: tuple[int, ...]) -> int:
    """The bytes of a matrix in tiles: its slices have these bits."""
    return sum([moved for own in bits for _, _, moved in _cut(rows, tile_cols, slice_cols, alignment, own)])


@lru_cache(64)
def _tiles_from(
    addr: int, rows: int, tile_cols: int, slice_cols: int, alignment: int, bits: tuple[int, ...]
) -> list[list[WeightTile]]:
    """The tiles of each slice, from an address on."""
    index, slices = 0, []
    for own in bits:
        tiles = []
        for cols, nbytes, moved in _cut(rows, tile_cols, slice_cols, alignment, own):
            tiles.append(WeightTile(index, cols, own, rows * cols, nbytes, moved, addr))
            index, addr = index + 1, addr + moved
        slices.append(tiles)
    return slices


@lru_cache(256)
def _cut(rows: int, tile_cols: int, slice_cols: int, alignment: int, bits: int) -> list[tuple[int, int, int]]:
    """The columns of each tile of a slice, its bytes, and the bytes that its transfer moves."""
    widths = [min(tile_cols, slice_cols - col) for col in range(0, slice_cols, tile_cols)]
    sizes = [bytes_of(rows * cols, bits) for cols in widths]
    return [(cols, nbytes, ceil_div(nbytes, alignment) * alignment) for cols, nbytes in zip(widths, sizes, strict=True)]


class Span(msgspec.Struct, frozen=True):
    """One transfer of an activation: `rows` pieces of `row_elements`, `stride_bytes` apart."""

    dram_addr: int
    rows: int
    row_elements: int
    stride_bytes: int

    @property
    def elements(self) -> int:
        """Elements of all rows."""
        return self.rows * self.row_elements


class ActivationLayout(msgspec.Struct, frozen=True):
    """`tokens` by `cols` activations in DRAM, in groups of `granule` tokens, and inside a group column after column.

    Whole groups are therefore contiguous, and some columns of several groups are one transfer with one row for each group.
    """

    base: int
    tokens: int
    cols: int
    granule: int  #: [token] of a group; the last one may have fewer
    bits: int

    def spans(self, t_start: int, t_len: int, col: int = 0, cols: int | None = None) -> list[Span]:
        """The transfers of columns `[col, col + cols)`, by default all, of tokens that begin and end with groups."""
        cols = self.cols - col if cols is None else cols
        if cols == self.cols:
            return [Span(self._addr(t_start, 0, 0), 1, t_len * cols, bytes_of(t_len * cols, self.bits))]
        whole, rest = divmod(t_len, self.granule)
        stride = bytes_of(self.granule * self.cols, self.bits)
        found = []
        if whole:
            found.append(Span(self._addr(t_start, self.granule, col), whole, self.granule * cols, stride))
        if rest:
            at = self._addr(t_start + whole * self.granule, rest, col)
            found.append(Span(at, 1, rest * cols, bytes_of(rest * cols, self.bits)))
        return found

    def _addr(self, t_start: int, group_tokens: int, col: int) -> int:
        return self.base + bytes_of(t_start * self.cols + group_tokens * col, self.bits)
