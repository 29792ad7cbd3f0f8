"""A layer in the making: its DRAM map, its buffers, and the steps that several stages share."""

from __future__ import annotations

from math import lcm
from typing import Any

import msgspec

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.buffers import ROWS_IN_TURN
from kernbench.workloads.layer.dram import ActivationLayout, LayerDram, Span, WeightTile
from kernbench.workloads.layer.kv import PAGE_NUMBER_BITS
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import ATTENTION, LayerPlan
from kernbench.workloads.scratchpad import Ring

_PIECE_BYTES = 16 << 10  # a block of activations is loaded in pieces of at least this, one or more per DMA engine


class Strip(msgspec.Struct, frozen=True):
    """Columns `[col, col + cols)` of the new tokens `[t_start, t_start + t_len)` of an activation."""

    t_start: int
    t_len: int
    col: int
    cols: int


class Layer:
    """The common state of stages: model, machine, plan, program so far, DRAM, and a ring for each buffer of tiles."""

    def __init__(
        self, model: ModelShape, config: NpuConfig, plan: LayerPlan, emit: Emitter, dram: LayerDram | None = None
    ) -> None:
        self.model = model
        self.config = config
        self.plan = plan
        self.emit = emit
        self.dram = dram or LayerDram(model, config, plan)
        self.page_tokens = 0 if self.dram.kv.pages is None else self.dram.kv.t_max
        self.act_bits = model.activation_bits
        self.places = plan.scratchpad
        self._line = config.spm.bank_width_bytes
        self._alignment = config.dma.alignment_bytes
        self.rings = {"weights": Ring(self.places["weights"], self._line, plan.weight_skew_bytes)}
        names = ("kv", "heads", "scores", "partials", *(f"strips_{stage}" for stage in range(4)), *ROWS_IN_TURN)
        self.rings.update({name: Ring(self.places[name], self._line) for name in names if name in self.places.buffers})

    def act(self, elements: int) -> int:
        """The bytes of a number of activations."""
        return bytes_of(elements, self.act_bits)

    def buffer(self, name: str) -> int:
        """The flat address of a buffer."""
        return self.places[name].start

    def strip_slot(self, stage: int) -> int:
        """The next place for a strip of a stage."""
        name = f"strips_{stage}"
        return self.rings[name].take(self.plan.strip_bytes[stage])

    def rows_place(self, name: str, stage: int) -> int:
        """The next place for whole rows of a block of a stage: stages that run in turn share a ring."""
        ring = self.rings.get(name)
        return self.buffer(f"{name}_{stage}") if ring is None else ring.take(ring.buffer.nbytes // ROWS_IN_TURN[name])

    def project(
        self, tile: WeightTile, matrix: str, m: int, ifm: int, ofm: int, routed: bool = False, **meta: Any
    ) -> None:
        """Loads a weight tile and multiplies `m` rows at `ifm` by it. `routed`: it is known only after the router has run."""
        slot = self.rings["weights"].take(tile.moved_bytes)
        span = Span(tile.dram_addr, 1, tile.elements, tile.nbytes)
        load = self.emit.load("weight", tile.bits, span, slot, tile_id=tile.index, **meta)
        if routed:
            self.emit.after(load, self.buffer("routes"), self.act(self.plan.tokens * self.model.experts))
        self.multiply(tile, matrix, m, ifm, slot, ofm, **meta)

    def keep(self, matrix: str, tiles: list[WeightTile]) -> list[int]:
        """Loads all tiles of a matrix into the buffer of its name; where each is."""
        at, places = self.buffer(matrix), []
        for tile in tiles:
            places.append(at)
            span = Span(tile.dram_addr, 1, tile.elements, tile.nbytes)
            token = self.token(0)
            self.emit.load("weight", tile.bits, span, at, tile_id=tile.index, phase="MLP_ROUTER", token_idx=token)
            at += tile.moved_bytes
        return places

    def multiply(self, tile: WeightTile, matrix: str, m: int, ifm: int, weights: int, ofm: int, **meta: Any) -> None:
        """Multiplies `m` rows at `ifm` by a tile at `weights`."""
        sizes = {"m": m, "n": tile.cols, "k": self.dram.weights[matrix].matrix.rows}
        formats = {"qbits_weight": tile.bits, "qbits_activation": self.act_bits}
        self.emit.te("gemm", ifm, weights, ofm, **sizes, **formats, tile_id=tile.index, **meta)

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

    def bias(self, at: int, length: int, rows: int, **meta: Any) -> None:
        """Adds a bias to `rows` rows of `length` results. Its one row is not a stream: the second input is the first."""
        job = self.vector("add", length, rows, at, at, at, **meta)
        self.emit.after(job, self.buffer("biases"), self.model.bias_bytes)

    def load_page_table(self) -> None:
        """Loads the numbers of the pages of all tokens, where the KV cache has pages: they say where its transfers go."""
        table, plan = self.dram.kv.pages, self.plan
        if table is not None:
            pages = ceil_div(plan.context + plan.seq_tokens, self.page_tokens)
            span = Span(self.dram.page_table, plan.batch, pages, bytes_of(table.pages, PAGE_NUMBER_BITS))
            self.emit.load("kv", PAGE_NUMBER_BITS, span, self.buffer("page_table"), phase="PAGE_TABLE", token_idx=plan.context)

    def after_page_table(self) -> None:
        """Makes the last transfer depend on the page table, which has its address."""
        if self.dram.kv.pages is not None:
            self.emit.after(self.emit.last, self.buffer("page_table"), self.places["page_table"].nbytes)

    def load_gain(self, name: str) -> None:
        """Loads the gains of a norm, or the biases."""
        nbytes = self.model.bias_bytes if name == "biases" else self.model.gain_bytes
        span = Span(self.dram.gains[name], 1, nbytes * 8 // self.model.gain_bits, nbytes)
        self.emit.load("weight", self.model.gain_bits, span, self.buffer(name), phase="NORM", token_idx=self.token(0))

    def norm(self, stage: int, gain: str, t_start: int, t_len: int, **meta: Any) -> int:
        """Emit the norm of a block of the residual stream; return its buffer."""
        hidden = self.model.hidden
        out = self.buffer(f"normed_{stage}")
        if "residual" in self.plan.resident:
            source = self.buffer("residual") + self.act(t_start * hidden)
        else:
            name = "x" if stage == ATTENTION else "x1"
            source = out
            self.load_block(self.dram.activations[name], "activation", t_start, t_len, out, phase="NORM", **meta)
        self.normalise(gain, t_len, source, out, **meta)
        return out

    def normalise(self, gain: str, rows: int, source: int, out: int, **meta: Any) -> None:
        """The norm of `rows` rows, distributed over the vector engines."""
        hidden = self.model.hidden
        step = ceil_div(rows, self.config.ve.engines)
        for first in range(0, rows, step):
            batch = min(step, rows - first)
            at = self.act(first * hidden)
            job = self.vector(self.model.norm, hidden, batch, source + at, out + at, phase="NORM", **meta)
            self.emit.after(job, self.buffer(gain), self.model.gain_bytes)
        self.emit.join(out, self.act(rows * hidden), phase="NORM", **meta)

    def token(self, row: int) -> int:
        """The position of a row's token in its sequence."""
        return self.plan.context + row % self.plan.seq_tokens

    def tensor_block(self, name: str, t_start: int, t_len: int, phase: str, row: int, **meta: Any) -> int:
        """The scratchpad address of a block of `attention` or `ffn`; it is loaded again if it was spilled.

        `row`: its first row in the buffer where it was not.
        """
        cols = self.model.attention_width if name == "attention" else self.model.ffn
        resident = name in self.plan.resident
        at = self.buffer(name) + self.act(row * cols) if resident else self.buffer(f"{name}_block")
        if not resident:
            self.load_block(self.dram.activations[name], "activation", t_start, t_len, at, phase=phase, **meta)
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
