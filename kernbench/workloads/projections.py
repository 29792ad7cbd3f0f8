"""The three stages after attention: output projection, gate and up projection with SwiGLU, down projection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernbench.workloads.dram_map import WeightTile
from kernbench.workloads.layer import Layer, Strip
from kernbench.workloads.planner import DOWN, GATE_UP, OUT


def output_projection(layer: Layer) -> None:
    """Emits attention times wo, added to the residual stream."""
    _project_and_add(layer, OUT, "wo", "attention", "OUT_PROJ")


def down_projection(layer: Layer) -> None:
    """Emits ffn times w_down, added to the residual stream; that is the layer's output `y`, stored to DRAM."""
    _project_and_add(layer, DOWN, "w_down", "ffn", "MLP_DOWN")


def gate_and_up(layer: Layer) -> None:
    """Emits the norm and silu(normed * w_gate) * (normed * w_up): `ffn` is in its buffer, or spilled."""
    gates, ups = layer.dram.weights["w_gate"].tiles(), layer.dram.weights["w_up"].tiles()
    for block_id, (t_start, t_len) in enumerate(layer.plan.blocks(GATE_UP)):
        meta = {"block_id": block_id, "token_idx": layer.plan.context + t_start}
        normed = layer.norm(GATE_UP, "gain_mlp", t_start, t_len, **meta)
        for (col, gate), (_, up) in zip(_strips(layer, GATE_UP, gates), _strips(layer, GATE_UP, ups), strict=True):
            a, b = layer.strip_slot(GATE_UP), layer.strip_slot(GATE_UP)
            offset = 0
            for gate_tile, up_tile in zip(gate, up, strict=True):
                layer.project(gate_tile, "w_gate", t_len, normed, a + offset, phase="MLP_GATE_UP", **meta)
                layer.project(up_tile, "w_up", t_len, normed, b + offset, phase="MLP_GATE_UP", **meta)
                offset += layer.act(t_len * gate_tile.cols)
            _swiglu(layer, a, b, Strip(t_start, t_len, col, sum(tile.cols for tile in gate)), meta)


def _swiglu(layer: Layer, gate: int, up: int, strip: Strip, meta: dict[str, Any]) -> None:
    """silu(gate) * up of a strip, to where `ffn` belongs."""
    meta = {**meta, "phase": "MLP_ACTIVATION"}
    resident = "ffn" in layer.plan.resident
    out = layer.buffer("ffn") + layer.act(strip.t_len * strip.col) if resident else gate
    layer.vector("silu", strip.cols, strip.t_len, gate, gate, **meta)
    layer.vector("mul", strip.cols, strip.t_len, gate, out, up, **meta)
    if not resident:
        layer.store_strip("ffn", strip, out, **meta)


def _project_and_add(layer: Layer, stage: int, matrix: str, source: str, phase: str) -> None:
    for block_id, (t_start, t_len) in enumerate(layer.plan.blocks(stage)):
        meta = {"block_id": block_id, "token_idx": layer.plan.context + t_start}
        ifm = layer.tensor_block(source, t_start, t_len, phase, **meta)
        for col, tiles in _strips(layer, stage, layer.dram.weights[matrix].tiles()):
            out = layer.strip_slot(stage)
            offset = 0
            for tile in tiles:
                layer.project(tile, matrix, t_len, ifm, out + offset, phase=phase, **meta)
                offset += layer.act(t_len * tile.cols)
            _add_residual(layer, stage, out, Strip(t_start, t_len, col, sum(tile.cols for tile in tiles)), meta)


def _add_residual(layer: Layer, stage: int, product: int, strip: Strip, meta: dict[str, Any]) -> None:
    """Adds a strip of the product to the residual stream: in its buffer, or through DRAM."""
    meta = {**meta, "phase": "RESIDUAL"}
    last = stage == DOWN
    if "residual" in layer.plan.resident:
        at = layer.buffer("residual") + layer.act(strip.t_len * strip.col)
    else:
        at = layer.strip_slot(stage)
        layer.load_strip("x1" if last else "x", strip, at, **meta)
    layer.vector("add", strip.cols, strip.t_len, at, at, product, **meta)
    if last or "residual" not in layer.plan.resident:
        layer.store_strip("y" if last else "x1", strip, at, **meta)


def _strips(layer: Layer, stage: int, tiles: list[WeightTile]) -> Iterator[tuple[int, list[WeightTile]]]:
    """The tiles of a matrix in strips, each with its first column."""
    wanted = layer.plan.strip_cols[stage]
    first = cols = 0
    strip: list[WeightTile] = []
    for tile in tiles:
        strip.append(tile)
        cols += tile.cols
        if cols >= wanted:
            yield first, strip
            first, cols, strip = first + cols, 0, []
    if strip:
        yield first, strip
