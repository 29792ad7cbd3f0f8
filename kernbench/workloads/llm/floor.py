"""The least bytes and MACs of a step, computed only from the shape of the model and the rates of the machine.

Weights are read once in a step (of a mixture, those of the experts in use), and K and V once for each block of tokens; each
layer reads its input and writes its output. Nothing is spilled, and masked scores are not computed. The bound does not depend
on a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div, even_parts
from kernbench.config.schema import NpuConfig
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.front import front_work
from kernbench.workloads.blocks.shape import BlockShape, holders_of
from kernbench.workloads.blocks.work import LayerWork, context_work, layer_work
from kernbench.workloads.layer.buffers import STAGES, LayerBuffers
from kernbench.workloads.layer.bytes import LayerBytes, layer_bytes, stage_macs
from kernbench.workloads.llm.steps import LlmPrograms, Step
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import TENSORS

if TYPE_CHECKING:
    from kernbench.workloads.blocks.programs import BlockPrograms
    from kernbench.workloads.parallel.programs import ParallelPrograms


@dataclass(frozen=True, slots=True)
class Floor:
    """Bytes by role, MACs, and the cycles that each needs at full rate."""

    weights: int
    kv: int
    activations: int
    macs: int
    dram_cycles: int
    mac_cycles: int

    def __add__(self, other: Floor) -> Floor:
        """The floor of both parts of work in sequence."""
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
    ends = _together(_all_ends(programs, step))
    encoder = programs.encoder_shapes(step)
    seen = {shape: _shards(shape, programs, step) for shape in dict.fromkeys(encoder)}
    before = [_together([_source(encoder[0], programs)] * programs.job.shards)] if encoder else []
    drafts = [_shards(shape, programs, step) + ends for shape in programs.draft_shapes()]
    total = [layers[shape] for shape in programs.shapes] + [ends, *before, *(seen[shape] for shape in encoder), *drafts]
    return _sum(total)


def _source(shape: BlockShape, programs: LlmPrograms) -> Floor:
    """The work before an encoder: convolutions, or the rows of the embedding."""
    model, batch, machine = programs.model, programs.job.batch, programs.machine
    assert model.description is not None and model.description.encoder is not None
    convolutions = model.description.encoder.convolutions
    if convolutions:
        weights, activations, macs = front_work(shape, convolutions, batch)
        cycles = _mac_cycles(machine, macs, shape.weight_bits, shape.activation_bits)
        return _floor(machine, LayerBytes(weights, 0, activations), macs, cycles)
    rows, row = batch * shape.sources, bytes_of(shape.hidden, programs.precision.role("embedding"))
    return _floor(machine, LayerBytes(0, 0, rows * row + shape.act(rows * shape.hidden)), 0, 0)


def _shards(shape: ModelShape | BlockShape, programs: LlmPrograms, step: Step) -> Floor:
    """A layer on all shards. Shards that have whole experts also have their own tokens."""
    count = programs.job.shards
    if isinstance(shape, BlockShape) and (programs.job.groups > 1 or programs.job.splits_rows):
        return _together([_of_work(work, shape, programs) for work in _grid_work(shape, programs, step)])
    if not isinstance(shape, BlockShape) or shape.local_experts is None:
        return _together([_layer(shape, programs, step)] * count)
    each, holders = shape.local_experts[1], holders_of(shape.experts, count)
    shards = (replace(shape, local_experts=(number // holders * each, each)) for number in range(count))
    return _together([_layer(shard, programs, step) for shard in shards])


def _together(parts: Sequence[Floor]) -> Floor:
    """Work of several PEs at the same time: the bytes and MACs of all PEs, and the cycles of the PE that needs most."""
    most = {name: max(getattr(one, name) for one in parts) for name in ("dram_cycles", "mac_cycles")}
    return replace(_sum(parts), **most)


def floor_of_stages(programs: ParallelPrograms, step: Step) -> Floor:
    """The lower bound of a step on a layout: bytes and MACs of all replicas, and cycles of the stage that needs most."""
    stages = []
    for number in range(programs.layout.pp):
        parts = [floor_of(programs.stage(number, size), step) for size in programs.sizes]
        stages.append(_sum(parts))
    whole = _sum(stages)
    most = {name: max(getattr(one, name) for one in stages) for name in ("dram_cycles", "mac_cycles")}
    more = {name: getattr(whole, name) * programs.layout.copies for name in ("weights", "kv", "activations", "macs")}
    return replace(whole, **most, **more)


def _sum(parts: Sequence[Floor]) -> Floor:
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _layer(shape: ModelShape | BlockShape, programs: LlmPrograms, step: Step) -> Floor:
    machine, job = programs.machine, programs.job
    if isinstance(shape, BlockShape):
        batch = Batch((Sequences(shape.sources, 0, job.batch),)) if shape.encoder else programs.batch_of(step)
        return _of_work(layer_work(shape, batch, job.routing), shape, programs)
    buffers = LayerBuffers(shape, machine, step.tokens, step.context, job.batch, job.page_tokens)
    blocks = [buffers.rows(stage) for stage in STAGES]
    moved = layer_bytes(buffers, frozenset(TENSORS), blocks)
    macs, cycles = 0, 0
    for stage in STAGES:
        for bits, count in sorted(stage_macs(buffers, stage, blocks[stage], masked=False).items()):
            macs += count
            cycles += _mac_cycles(machine, count, bits, shape.activation_bits)
    return _floor(machine, moved, macs, cycles)


def _of_work(work: LayerWork, shape: BlockShape, programs: LlmPrograms) -> Floor:
    moved, machine = LayerBytes(work.weights, work.kv, work.activations), programs.machine
    return _floor(machine, moved, work.macs, _mac_cycles(machine, work.macs, shape.weight_bits, shape.activation_bits))


def _grid_work(shape: BlockShape, programs: LlmPrograms, step: Step) -> Iterator[LayerWork]:
    """A layer on each PE: of ranks of a context, of replicas that share experts, or of shards that have their own rows."""
    from kernbench.workloads.blocks.programs import BlockPrograms

    assert isinstance(programs, BlockPrograms)
    job = programs.job
    owned = [len(one) for one in even_rows(programs, step)]
    total = sum(programs.group_batch(step, group).tokens for group in range(job.sharers))
    for number, seat in enumerate(programs.seats):
        one = shape
        if shape.local_experts is not None:
            each, holders = shape.local_experts[1], holders_of(shape.experts, job.shards) if job.sharers == 1 else 1
            one = replace(shape, local_experts=(programs._number(seat) // holders * each, each))
        if job.contexts > 1 and step.phase == "decode":
            found = context_work(one, programs.share(seat.group), step.context, job.batch, job.routing)
        else:
            routed = (total, owned[number]) if job.sharers > 1 else None
            found = layer_work(one, programs.group_batch(step, seat.group), job.routing, routed)
        if job.splits_rows:
            own = 2 * shape.act(programs.own_counts(step)[number] * shape.hidden)
            whole = 2 * shape.act(programs.group_batch(step, seat.group).tokens * shape.hidden)
            found = replace(found, activations=found.activations - whole + own)
        yield found


def even_rows(programs: BlockPrograms, step: Step) -> Iterator[range]:
    """The rows that the router of each PE processes, if replicas share experts."""
    for seat in programs.seats:
        yield range(even_parts(programs.group_batch(step, seat.group).tokens, seat.shards)[seat.shard])


def _all_ends(programs: LlmPrograms, step: Step) -> list[Floor]:
    """Embedding and LM head on all PEs."""
    from kernbench.workloads.blocks.programs import BlockPrograms

    job = programs.job
    if not isinstance(programs, BlockPrograms) or not (job.groups > 1 or job.splits_rows):
        return [_ends(programs, step, programs.batch_of(step))] * job.shards
    counts = programs.own_counts(step)
    found = []
    for number, seat in enumerate(programs.seats):
        sequences = programs.group_batch(step, seat.group).sequences if job.sharers > 1 else job.batch
        alone = not job.splits_rows and job.contexts == 1
        found.append(_ends(programs, step, Batch((Sequences(1, 0, sequences),)), (counts[number], alone)))
    return found


def _ends(programs: LlmPrograms, step: Step, whole: Batch, own: tuple[int, bool] | None = None) -> Floor:
    """Embedding and LM head, as far as this PE has them. `own`: the number of rows of the embedding on this PE, and whether it
    has last rows."""
    machine, model, stage = programs.machine, programs.model, programs.stage
    batch = whole.sequences
    vocab = model.vocab // programs.job.head_parts if own else ceil_div(model.vocab, programs.job.head_parts)
    shape, hidden = programs.shapes[-1], model.shape.hidden
    act = shape.activation_bits
    rows, reads = (whole.tokens, True) if own is None else own
    head_bits = programs.precision.role("embedding" if model.tied else "lm_head")
    weights = (bytes_of(hidden * vocab, head_bits) + shape.gain_bytes) * stage.head
    row = bytes_of(hidden, programs.precision.role("embedding"))
    moved = rows * hidden * stage.embedding + batch * (hidden * reads + vocab) * stage.head
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
