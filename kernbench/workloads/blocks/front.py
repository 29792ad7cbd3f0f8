"""The convolutions before an encoder of sound. Each convolution is a matrix product over the inputs of its taps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.workloads.blocks.emitter import LayerEmitter
from kernbench.workloads.blocks.meetings import Meeting
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.models.parts import Convolution


@dataclass(frozen=True, slots=True)
class FrontStage:
    """A convolution with the number of its outputs and its addresses."""

    convolution: Convolution
    outputs: int  #: [token] of a sequence
    source: int
    target: int
    weight: int
    bias: int


def stages_of(convolutions: tuple[Convolution, ...], sources: int) -> list[int]:
    """[token] that each makes of a sequence: the last one those of the encoder."""
    found: list[int] = []
    for one in reversed(convolutions):
        found.insert(0, sources)
        sources *= one.stride
    return found


class Front(LayerEmitter):
    """The convolutions in the making: blocks of outputs, each loaded, put side by side, multiplied, and stored."""

    stages: tuple[FrontStage, ...] = ()

    def emit_all(self) -> Iterator[Meeting]:
        """All of them on this shard: every shard makes all rows, as it has the whole embedding of words."""
        for number, stage in enumerate(self.stages):
            self.meta = {"phase": "CONVOLUTION", "block_id": number, "token_idx": 0}
            one, bits = stage.convolution, self.shape.gain_bits
            weight = one.weight
            bias = self.load("weight", bits, stage.bias, one.outputs)
            for sequence in range(self.batch.sequences):
                for first in range(0, stage.outputs, self.rows):
                    rows = min(self.rows, stage.outputs - first)
                    at = (sequence * stage.outputs + first) * one.stride * one.inputs
                    x = self.load("activation", self.act_bits, stage.source + self.act(at), rows * one.stride * one.inputs)
                    beside = self.take(rows * one.inputs * one.taps)
                    for tap in range(one.taps):
                        place = beside + self.act(tap * rows * one.inputs)
                        self.vector("copy", one.inputs, rows, x, place)
                    out = self.take(rows * one.outputs)
                    self.multiply(weight, rows, beside, out, stage.weight, weight.rows, weight.cols)
                    self.split_vector("add", one.outputs, rows, out, out, out)
                    self.split_vector("gelu", one.outputs, rows, out, out)
                    to = (sequence * stage.outputs + first) * one.outputs
                    self.store("activation", self.act_bits, stage.target + self.act(to), rows * one.outputs, out)
                    self.arena.give(x, beside, out)
            self.arena.give(bias)
        yield from ()


def front_work(shape: BlockShape, convolutions: tuple[Convolution, ...], sequences: int) -> tuple[int, int, int]:
    """Bytes of weights, bytes of activations and MACs of all convolutions: inputs and outputs of each go through memory."""
    weights = activations = macs = 0
    for one, outputs in zip(convolutions, stages_of(convolutions, shape.sources), strict=True):
        weights += shape.matrix_bytes(one.weight) + bytes_of(one.outputs, shape.gain_bits)
        activations += sequences * shape.act(outputs * (one.stride * one.inputs + one.outputs))
        macs += sequences * outputs * one.weight.elements
    return weights, activations, macs
