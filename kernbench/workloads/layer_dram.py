"""Where everything of one layer is in DRAM."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.dram_map import ActivationLayout, DramMap, WeightLayout
from kernbench.workloads.kv import PAGE_NUMBER_BITS, KvCache, PageTable, kv_layout_for
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import TENSORS, LayerPlan


@dataclass(frozen=True, slots=True)
class Room:
    """What the layers of one run share, so that each finds everything where the others do."""

    own_base: int  #: DRAM address of the layer's weights and KV cache
    shared_base: int  #: DRAM address of RoPE tables and activations
    step: int  #: [byte] shared regions begin at multiples of it from shared_base on
    rows: int  #: [token] room of each activation
    positions: int  #: [token] room of tables and of the KV cache of a sequence
    batch: int  #: sequences
    swapped: bool = False  #: the layer reads where its neighbour writes
    page_tokens: int = 0  #: of a page of the KV cache; 0: a sequence's cache is one piece


class LayerDram:
    """Where a layer's data is in DRAM. `regions`: all of it, in address order, what it shares behind the rest.

    Without `room` the layer is alone: from address 0 on, with just the room that its plan needs.
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
        # What goes from stage to stage is here only where it does not stay in the scratchpad.
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
    """InputError where the tokens of a head in a page are not whole aligned lines."""
    alignment = config.dma.alignment_bytes
    nbytes = page_tokens * bytes_of(model.head_dim, min(bits))
    if nbytes % alignment:
        rule = f"a head's part of a page, {nbytes} bytes, must be a multiple of dma.alignment_bytes = {alignment}"
        raise InputError(Problem(f"model {model.name}", rule, "page", page_tokens))


def _activations(name: str, tokens: int, cols: int, granule: int, model: ModelShape, dram: DramMap) -> ActivationLayout:
    base = dram.allocate(name, bytes_of(tokens * cols, model.activation_bits)).base
    return ActivationLayout(base, tokens, cols, granule, model.activation_bits)
