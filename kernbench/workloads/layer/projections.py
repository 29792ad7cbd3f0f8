"""The three stages after attention: output projection, gate and up projection with their activation, down projection.

A layer with several experts runs the last two for each expert and the tokens that are routed to it. The norm of these
tokens is made for each of their experts: it represents the time for gathering the tokens. A router's weight is a VE_MUL.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import msgspec

from kernbench.workloads.layer.attention import Block, attention_block
from kernbench.workloads.layer.dram import WeightTile
from kernbench.workloads.layer.layer import Layer, Strip
from kernbench.workloads.planner import DOWN, GATE_UP, OUT
from kernbench.workloads.routing import ExpertRows, parts

Among = Literal["shards", "groups", "all"]  #: PEs that meet: those of one layer, those with the same shard, or all of a stage


class PartialRows(msgspec.Struct, frozen=True):
    """Results of a shard: they are complete when those of all shards are added up."""

    place: int  #: scratchpad address of the results
    room: int  #: of the partial sums of other shards
    elements: int
    meta: dict[str, Any]
    name: str = "all-reduce"
    among: Among = "shards"
    queued: bool = False  #: its transfers go behind those of the queued sums before
    #: partial sums are added in pairs, so that fewer additions wait for each other: each of them may wait for other vector
    #: operations
    pairs: bool = False


def output_projection(layer: Layer) -> Iterator[PartialRows]:
    """Emits attention times wo, added to the residual stream; on a shard, yields the partial sums that the shards must add up
    first."""
    for block in enumerate(layer.plan.blocks(OUT)):
        yield from _output_block(layer, block)


def feed_forward(layer: Layer) -> Iterator[PartialRows]:
    """Emits the feed-forward network, added to the residual stream; that is the layer's output `y`, stored to DRAM.

    For a shard, yields the partial sums that must be reduced first.
    """
    if layer.model.experts:
        _route(layer)
    for part in parts(layer.model, layer.plan.tokens):
        for block in enumerate(layer.plan.blocks(GATE_UP, part.start, part.count)):
            _gate_and_up(layer, part, block)
        for block in enumerate(layer.plan.blocks(DOWN, part.start, part.count)):
            yield from _down_block(layer, part, block)


def in_turn(layer: Layer) -> Iterator[PartialRows]:
    """Emits all four stages in turn, block by block. Yields the partial sums that the shards must add up.

    While the shards add up the rows of a block, the tensor engines multiply another block. The output projection of a block
    follows the attention of the next block, and the down projection follows the gate and up projection of the next block.
    """
    part = ExpertRows(None, 0, 0, layer.plan.tokens)
    blocks = list(enumerate(layer.plan.blocks(OUT)))
    last = len(blocks) - 1
    attention_block(layer, blocks[0])
    for before, block in pairwise(blocks):
        attention_block(layer, block)
        yield from _output_block(layer, before)
    for number, block in enumerate(blocks):
        if number == min(1, last - 1):  # the first block is added up by then, also if there are only two
            yield from _output_block(layer, blocks[last])
        _gate_and_up(layer, part, block)
        if number:
            yield from _down_block(layer, part, blocks[number - 1])
    yield from _down_block(layer, part, blocks[last])


def _output_block(layer: Layer, block: Block) -> Iterator[PartialRows]:
    part = ExpertRows(None, 0, 0, layer.plan.tokens)
    yield from _project_and_add(layer, OUT, ("wo", "attention", "OUT_PROJ"), part, block)


def _down_block(layer: Layer, part: ExpertRows, block: Block) -> Iterator[PartialRows]:
    yield from _project_and_add(layer, DOWN, ("w_down", "ffn", "MLP_DOWN"), part, block)


def _route(layer: Layer) -> None:
    """The router: from its softmax on it is known which experts a token goes to."""
    experts = layer.model.experts
    tiles = layer.dram.weights["router"].tiles()
    slots = layer.keep("router", tiles)
    for block_id, (t_start, t_len) in enumerate(layer.plan.blocks(GATE_UP)):
        meta = {"block_id": block_id, "token_idx": layer.token(t_start)}
        normed = layer.norm(GATE_UP, "gain_mlp", t_start, t_len, **meta)
        place = at = layer.buffer("routes") + layer.act(t_start * experts)
        for tile, slot in zip(tiles, slots, strict=True):
            layer.multiply(tile, "router", t_len, normed, slot, at, phase="MLP_ROUTER", **meta)
            at += layer.act(t_len * tile.cols)
        layer.vector("softmax", experts, t_len, place, place, phase="MLP_ROUTER", **meta)


def _gate_and_up(layer: Layer, part: ExpertRows, block: Block) -> None:
    """Emits the norm and silu(normed * w_gate) * (normed * w_up) of a block: `ffn` is in its buffer, or spilled."""
    names = ("w_gate", "w_up") if layer.model.gated else ("w_up",)
    block_id, (t_start, t_len) = block
    meta = {"block_id": block_id, "token_idx": layer.token(t_start)}
    normed = layer.norm(GATE_UP, "gain_mlp", t_start, t_len, **meta)
    matrices = [_matrix(name, part) for name in names]
    strips = [_strips(layer, GATE_UP, layer.dram.weights[name].tiles()) for name in matrices]
    for columns in zip(*strips, strict=True):
        places = [layer.strip_slot(GATE_UP) for _ in matrices]
        offset = 0
        for tiles in zip(*(strip for _, strip in columns), strict=True):
            for tile, name, at in zip(tiles, matrices, places, strict=True):
                routed = part.expert is not None
                layer.project(tile, name, t_len, normed, at + offset, routed, phase="MLP_GATE_UP", **meta)
            offset += layer.act(t_len * tiles[0].cols)
        col, tiles_of_one = columns[0]
        _activate(layer, places, Strip(t_start, t_len, col, sum(tile.cols for tile in tiles_of_one)), part, meta)


def _activate(layer: Layer, places: list[int], strip: Strip, part: ExpertRows, meta: dict[str, Any]) -> None:
    """activation(gate) * up of a strip, or activation(up), to where `ffn` belongs."""
    meta = {**meta, "phase": "MLP_ACTIVATION"}
    model, first = layer.model, places[0]
    for at in places if model.mlp_bias else ():
        layer.bias(at, strip.cols, strip.t_len, **meta)
    resident = "ffn" in layer.plan.resident
    row = strip.t_start - part.start
    out = layer.buffer("ffn") + layer.act(row * model.ffn + strip.t_len * strip.col) if resident else first
    layer.vector(model.activation, strip.cols, strip.t_len, first, first if model.gated else out, **meta)
    if model.gated:
        layer.vector("mul", strip.cols, strip.t_len, first, out, places[1], **meta)
    if not resident:
        layer.store_strip("ffn", strip, out, **meta)


def _project_and_add(
    layer: Layer, stage: int, names: tuple[str, str, str], part: ExpertRows, block: Block
) -> Iterator[PartialRows]:
    """A block of a projection, added to the residual stream. `names`: of its matrix, of its input, and of its phase."""
    matrix, source, phase = names
    routed = part.expert is not None and stage == DOWN
    biased = layer.model.out_bias if stage == OUT else layer.model.mlp_bias
    block_id, (t_start, t_len) = block
    meta = {"block_id": block_id, "token_idx": layer.token(t_start)}
    ifm = layer.tensor_block(source, t_start, t_len, phase, t_start - part.start, **meta)
    whole = layer.model.whole_rows
    product = layer.rows_place("post", stage) if whole else 0
    for col, tiles in _strips(layer, stage, layer.dram.weights[_matrix(matrix, part)].tiles()):
        strip = Strip(t_start, t_len, col, sum(tile.cols for tile in tiles))
        out = product + layer.act(t_len * col) if whole else layer.strip_slot(stage)
        offset = 0
        for tile in tiles:
            layer.project(tile, _matrix(matrix, part), t_len, ifm, out + offset, routed, phase=phase, **meta)
            offset += layer.act(t_len * tile.cols)
        if biased:
            layer.bias(out, strip.cols, t_len, phase=phase, **meta)
        if routed:
            layer.vector("mul", strip.cols, t_len, out, out, out, phase=phase, **meta)
        if not whole:
            _add_residual(layer, stage, out, strip, part.choice, meta)
    if layer.model.shards > 1:
        yield PartialRows(product, layer.rows_place("parts", stage), t_len * layer.model.hidden, meta)
    if whole:
        _add_rows(layer, stage, product, t_start, t_len, part.choice, meta)


def _add_residual(layer: Layer, stage: int, product: int, strip: Strip, choice: int, meta: dict[str, Any]) -> None:
    """Adds a strip of the product to the residual stream: in its buffer, or through DRAM."""
    meta = {**meta, "phase": "RESIDUAL"}
    down, resident = stage == DOWN, "residual" in layer.plan.resident
    if resident:
        at = layer.buffer("residual") + layer.act(strip.t_start * layer.model.hidden + strip.t_len * strip.col)
    else:
        at = layer.strip_slot(stage)
        layer.load_strip(("y" if choice else "x1") if down else "x", strip, at, **meta)
    layer.vector("add", strip.cols, strip.t_len, at, at, product, **meta)
    last = choice == max(layer.model.experts_per_token, 1) - 1
    if (down and last) or not resident:
        layer.store_strip("y" if down else "x1", strip, at, **meta)


def _add_rows(
    layer: Layer, stage: int, product: int, t_start: int, t_len: int, choice: int, meta: dict[str, Any]
) -> None:
    """The norm behind a projection, if there is one, and the residual stream added to its rows, which are complete."""
    hidden, resident = layer.model.hidden, "residual" in layer.plan.resident
    layer.emit.join(product, layer.act(t_len * hidden), phase="NORM", **meta)
    if layer.model.post_norms:
        layer.normalise("gain_post_attention" if stage == OUT else "gain_post_mlp", t_len, product, product, **meta)
    meta = {**meta, "phase": "RESIDUAL"}
    rows, down = Strip(t_start, t_len, 0, hidden), stage == DOWN
    if resident:
        at = layer.buffer("residual") + layer.act(t_start * hidden)
    else:
        at = layer.rows_place("added", stage)
        layer.load_strip(("y" if choice else "x1") if down else "x", rows, at, **meta)
    layer.vector("add", hidden, t_len, at, at, product, **meta)
    last = choice == max(layer.model.experts_per_token, 1) - 1
    if (down and last) or not resident:
        layer.store_strip("y" if down else "x1", rows, at, **meta)


def _matrix(name: str, part: ExpertRows) -> str:
    """The name of a matrix of an expert, or of the layer."""
    return name if part.expert is None or name == "wo" else f"{name}.{part.expert}"


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
