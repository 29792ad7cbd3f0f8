"""The least bytes and MACs of a step, computed only from the shape of the model and the rates of the machine.

Weights once a step (of a mixture those of the experts in use), K and V as often as one block of tokens needs them, the
input and output of each layer; nothing is spilled, and no score that is masked is computed. It does not depend on a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.front import front_work
from kernbench.workloads.blocks.shape import PartShape
from kernbench.workloads.blocks.work import layer_work
from kernbench.workloads.layer.buffers import STAGES, LayerBuffers
from kernbench.workloads.layer.bytes import LayerBytes, layer_bytes, stage_macs
from kernbench.workloads.llm.steps import LlmPrograms, Step
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import TENSORS

if TYPE_CHECKING:
    from kernbench.workloads.parallel.programs import ParallelPrograms


@dataclass(frozen=True, slots=True)
class Floor:
    """Bytes by role, MACs, and the cycles that each takes at full rate."""

    weights: int
    kv: int
    activations: int
    macs: int
    dram_cycles: int
    mac_cycles: int

    def __add__(self, other: Floor) -> Floor:
        """Both in sequence."""
        return Floor(
            self.weights + other.weights,
            self.kv + other.kv,
            self.activations + other.activations,
            self.macs + other.macs,
            self.dram_cycles + other.dram_cycles,
            self.mac_cycles + other.mac_cycles,
        )


def floor_of(programs: LlmPrograms, step: Step) -> Floor:
    """The lower bound of one step."""
    layers = {shape: _shards(shape, programs, step) for shape in dict.fromkeys(programs.shapes)}
    ends = _together([_ends(programs, step)] * programs.job.shards)
    encoder = programs.encoder_shapes(step)
    seen = {shape: _shards(shape, programs, step) for shape in dict.fromkeys(encoder)}
    before = [_together([_source(encoder[0], programs)] * programs.job.shards)] if encoder else []
    drafts = [_shards(shape, programs, step) + ends for shape in programs.draft_shapes()]
    total = [layers[shape] for shape in programs.shapes] + [ends, *before, *(seen[shape] for shape in encoder), *drafts]
    return _sum(total)


def _source(shape: PartShape, programs: LlmPrograms) -> Floor:
    """What is before an encoder: convolutions, or the rows of the embedding."""
    model, batch, machine = programs.model, programs.job.batch, programs.machine
    assert model.description is not None and model.description.encoder is not None
    convolutions = model.description.encoder.convolutions
    if convolutions:
        weights, activations, macs = front_work(shape, convolutions, batch)
        cycles = _mac_cycles(machine, macs, shape.weight_bits, shape.activation_bits)
        return _floor(machine, LayerBytes(weights, 0, activations), macs, cycles)
    rows, row = batch * shape.sources, bytes_of(shape.hidden, programs.precision.role("embedding"))
    return _floor(machine, LayerBytes(0, 0, rows * row + shape.act(rows * shape.hidden)), 0, 0)


def _shards(shape: ModelShape | PartShape, programs: LlmPrograms, step: Step) -> Floor:
    """A layer on all shards. Shards with whole experts have tokens of their own."""
    count = programs.job.shards
    if not isinstance(shape, PartShape) or shape.local_experts is None:
        return _together([_layer(shape, programs, step)] * count)
    each = shape.local_experts[1]
    shards = (replace(shape, local_experts=(number * each, each)) for number in range(count))
    return _together([_layer(shard, programs, step) for shard in shards])


def _together(parts: Sequence[Floor]) -> Floor:
    """Work of several PEs at a time: the bytes and MACs of all, the cycles of the one that needs most."""
    most = {name: max(getattr(one, name) for one in parts) for name in ("dram_cycles", "mac_cycles")}
    return replace(_sum(parts), **most)


def floor_of_stages(programs: ParallelPrograms, step: Step) -> Floor:
    """The lower bound of a step on a layout: bytes and MACs of all replicas, cycles of the stage that needs most."""
    stages = []
    for number in range(programs.layout.pp):
        parts = [floor_of(programs.stage(number, size), step) for size in programs.sizes]
        stages.append(_sum(parts))
    whole = _sum(stages)
    most = {name: max(getattr(one, name) for one in stages) for name in ("dram_cycles", "mac_cycles")}
    more = {name: getattr(whole, name) * programs.layout.dp for name in ("weights", "kv", "activations", "macs")}
    return replace(whole, **most, **more)


def _sum(parts: Sequence[Floor]) -> Floor:
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _layer(shape: ModelShape | PartShape, programs: LlmPrograms, step: Step) -> Floor:
    machine, job = programs.machine, programs.job
    if isinstance(shape, PartShape):
        batch = Batch((Sequences(shape.sources, 0, job.batch),)) if shape.encoder else programs.batch_of(step)
        work = layer_work(shape, batch, job.routing)
        moved = LayerBytes(work.weights, work.kv, work.activations)
        return _floor(machine, moved, work.macs, _mac_cycles(machine, work.macs, shape.weight_bits, shape.activation_bits))
    buffers = LayerBuffers(shape, machine, step.tokens, step.context, job.batch, job.page_tokens)
    blocks = [buffers.rows(stage) for stage in STAGES]
    moved = layer_bytes(buffers, frozenset(TENSORS), blocks)
    macs, cycles = 0, 0
    for stage in STAGES:
        for bits, count in sorted(stage_macs(buffers, stage, blocks[stage], masked=False).items()):
            macs += count
            cycles += _mac_cycles(machine, count, bits, shape.activation_bits)
    return _floor(machine, moved, macs, cycles)


def _ends(programs: LlmPrograms, step: Step) -> Floor:
    """Embedding and LM head, as far as they are here."""
    machine, model, whole, stage = programs.machine, programs.model, programs.batch_of(step), programs.stage
    batch = whole.sequences
    vocab = ceil_div(model.vocab, programs.job.shards)
    shape, hidden = programs.shapes[-1], model.shape.hidden
    act = shape.activation_bits
    rows = whole.tokens
    head_bits = programs.precision.role("embedding" if model.tied else "lm_head")
    weights = (bytes_of(hidden * vocab, head_bits) + shape.gain_bytes) * stage.head
    row = bytes_of(hidden, programs.precision.role("embedding"))
    moved = rows * hidden * stage.embedding + batch * (hidden + vocab) * stage.head
    activations = rows * row * stage.embedding + bytes_of(moved, act)
    macs = batch * hidden * vocab * stage.head
    return _floor(machine, LayerBytes(weights, 0, activations), macs, _mac_cycles(machine, macs, head_bits, act))


def _floor(machine: NpuConfig, moved: LayerBytes, macs: int, mac_cycles: int) -> Floor:
    rate = machine.dram.capacity * machine.dram.channels
    dram_cycles = ceil_div(moved.total * rate.denominator, rate.numerator)
    return Floor(moved.weights, moved.kv, moved.activations, macs, dram_cycles, mac_cycles)


def _mac_cycles(machine: NpuConfig, macs: int, bits: int, activation_bits: int) -> int:
    rate = machine.te.rate(bits, activation_bits) * machine.te.engines
    return ceil_div(macs * rate.denominator, rate.numerator)
