"""A layer in the making: its DRAM map, its buffers, and the steps that several stages share."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.dram_map import ActivationLayout, DramMap, Span, WeightLayout, WeightTile
from kernbench.workloads.emitter import Emitter
from kernbench.workloads.kv import KvCache, kv_layout_for
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import ATTENTION, TENSORS, LayerPlan
from kernbench.workloads.scratchpad import Ring

_PIECE_BYTES = 16 << 10  # a block of activations is loaded in pieces of at least this, one or more per DMA engine


class LayerDram:
    """Where a layer's data is in DRAM. `regions`: all of it, in address order."""

    def __init__(self, model: ModelShape, config: NpuConfig, plan: LayerPlan) -> None:
        dram, alignment = DramMap(config), config.dma.alignment_bytes
        self.gains = {name: dram.allocate(name, model.gain_bytes).base for name in ("gain_attention", "gain_mlp")}
        heads = {"wq": model.head_dim, "wk": model.head_dim, "wv": model.head_dim}
        self.weights = {
            m.name: WeightLayout(m, plan.tile_cols[m.name], heads.get(m.name, m.cols), dram, alignment) for m in model.matrices
        }
        layout_id = kv_layout_for(model, plan.context + plan.tokens, config)
        t_max = config.kv_layouts[layout_id].t_max
        k, v = (dram.allocate(name, KvCache.nbytes(model, t_max)).base for name in ("k_cache", "v_cache"))
        self.kv = KvCache(k, v, layout_id, t_max, model.head_dim, model.kv_bits, alignment)
        # cos and sin of every position up to the last
        self.rope = {
            name: _activations(name, plan.context + plan.tokens, model.head_dim, 1, model, dram)
            for name in ("rope_cos", "rope_sin")
        }
        # What goes from stage to stage is here only where it does not stay in the scratchpad.
        stream, attended, inner = model.hidden, model.attention_width, model.ffn
        between = {"residual": ("x1", stream), "attention": ("attention", attended), "ffn": ("ffn", inner)}
        spilled = dict(between[tensor] for tensor in TENSORS if tensor not in plan.resident)
        widths = {"x": stream, "y": stream, **spilled}
        self.activations = {
            name: _activations(name, plan.tokens, width, plan.granule, model, dram) for name, width in widths.items()
        }
        self.regions = dram.regions


def _activations(name: str, tokens: int, cols: int, granule: int, model: ModelShape, dram: DramMap) -> ActivationLayout:
    base = dram.allocate(name, bytes_of(tokens * cols, model.activation_bits)).base
    return ActivationLayout(base, tokens, cols, granule, model.activation_bits)


@dataclass(frozen=True, slots=True)
class Strip:
    """Columns `[col, col + cols)` of the new tokens `[t_start, t_start + t_len)` of an activation."""

    t_start: int
    t_len: int
    col: int
    cols: int


class Layer:
    """What the stages work on: model, machine, plan, program so far, DRAM, and a ring per buffer that holds tiles."""

    def __init__(self, model: ModelShape, config: NpuConfig, plan: LayerPlan, emit: Emitter) -> None:
        self.model = model
        self.config = config
        self.plan = plan
        self.emit = emit
        self.dram = LayerDram(model, config, plan)
        self.act_bits = model.activation_bits
        self.places = plan.scratchpad
        self._line = config.spm.bank_width_bytes
        self._alignment = config.dma.alignment_bytes
        self.rings = {"weights": Ring(self.places["weights"], self._line, plan.weight_skew_bytes)}
        names = ("kv", "heads", "scores", "partials", *(f"strips_{stage}" for stage in range(4)))
        self.rings.update({name: Ring(self.places[name], self._line) for name in names if name in self.places.buffers})

    def act(self, elements: int) -> int:
        """Bytes of so many activations."""
        return bytes_of(elements, self.act_bits)

    def buffer(self, name: str) -> int:
        """The flat address of a buffer."""
        return self.places[name].start

    def strip_slot(self, stage: int) -> int:
        """The next place for a strip of a stage."""
        name = f"strips_{stage}"
        return self.rings[name].take(self.plan.strip_bytes[stage])

    def project(self, tile: WeightTile, matrix: str, m: int, ifm: int, ofm: int, **meta: Any) -> None:
        """Loads a weight tile and multiplies `m` rows at `ifm` by it."""
        layout = self.dram.weights[matrix]
        slot = self.rings["weights"].take(tile.moved_bytes)
        bits = layout.matrix.bits
        span = Span(tile.dram_addr, 1, tile.elements, tile.nbytes)
        self.emit.load("weight", bits, span, slot, tile_id=tile.index, **meta)
        sizes = {"m": m, "n": tile.cols, "k": layout.matrix.rows}
        formats = {"qbits_weight": bits, "qbits_activation": self.act_bits}
        self.emit.te("gemm", ifm, slot, ofm, **sizes, **formats, tile_id=tile.index, **meta)

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        """A vector operation on `batch` rows of `length` activations."""
        shape = {"length": length, "batch": batch, "qbits_activation": self.act_bits}
        return self.emit.ve(op, source, out, second, **shape, **meta)

    def load_block(self, tensor: ActivationLayout, role: str, t_start: int, t_len: int, spm: int, **meta: Any) -> None:
        """Loads all columns of some tokens, in pieces for all DMA engines."""
        (span,) = tensor.spans(t_start, t_len)
        unit = lcm(self._alignment, ceil_div(self.act_bits, 8))  # whole lines and whole elements
        step = max(_PIECE_BYTES, ceil_div(span.stride_bytes, self.config.dma.engines))
        step = ceil_div(step, unit) * unit
        for offset in range(0, span.stride_bytes, step):
            nbytes = min(step, span.stride_bytes - offset)
            piece = Span(span.dram_addr + offset, 1, nbytes * 8 // self.act_bits, nbytes)
            self.emit.load(role, self.act_bits, piece, spm + offset, **meta)

    def load_gain(self, name: str) -> None:
        """Loads the gains of an RMSNorm."""
        span = Span(self.dram.gains[name], 1, self.model.hidden, self.model.gain_bytes)
        self.emit.load("weight", self.model.gain_bits, span, self.buffer(name), phase="NORM")

    def norm(self, stage: int, gain: str, t_start: int, t_len: int, **meta: Any) -> int:
        """RMSNorm of a block of the residual stream, its rows dealt out to the vector engines; where it is."""
        hidden = self.model.hidden
        out = self.buffer(f"normed_{stage}")
        if "residual" in self.plan.resident:
            source = self.buffer("residual") + self.act(t_start * hidden)
        else:
            name = "x" if stage == ATTENTION else "x1"
            source = out
            self.load_block(self.dram.activations[name], "activation", t_start, t_len, out, phase="NORM", **meta)
        rows = ceil_div(t_len, self.config.ve.engines)
        for first in range(0, t_len, rows):
            batch = min(rows, t_len - first)
            at = self.act(first * hidden)
            job = self.vector("rmsnorm", hidden, batch, source + at, out + at, phase="NORM", **meta)
            self.emit.after(job, self.buffer(gain), self.model.gain_bytes)
        self.emit.join(out, self.act(t_len * hidden), phase="NORM", **meta)
        return out

    def tensor_block(self, name: str, t_start: int, t_len: int, phase: str, **meta: Any) -> int:
        """Where a block of `attention` or `ffn` is in the scratchpad: loaded back if it was spilled."""
        resident = name in self.plan.resident
        at = self.buffer(name if resident else f"{name}_block")
        if not resident:
            self.load_block(self.dram.activations[name], "activation", t_start, t_len, at, phase=phase, **meta)
        cols = self.model.attention_width if name == "attention" else self.model.ffn
        self.emit.join(at, self.act(t_len * cols), phase=phase, **meta)
        return at

    def load_strip(self, name: str, strip: Strip, spm: int, **meta: Any) -> None:
        """Loads a strip of an activation in DRAM."""
        for span in self._spans(name, strip):
            self.emit.load("activation", self.act_bits, span, spm, **meta)
            spm += self.act(span.elements)

    def store_strip(self, name: str, strip: Strip, spm: int, **meta: Any) -> None:
        """Stores a strip of an activation to DRAM."""
        for span in self._spans(name, strip):
            self.emit.store("activation", self.act_bits, span, spm, **meta)
            spm += self.act(span.elements)

    def _spans(self, name: str, strip: Strip) -> list[Span]:
        return self.dram.activations[name].spans(strip.t_start, strip.t_len, strip.col, strip.cols)
