"""Engines that execute matrix instructions on several cores: the section `te.mma` (docs/model/compute.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from kernbench.common.errors import InputError, Problem
from kernbench.config.fields import Count, Name, Natural, Pairs, Rate, integer
from kernbench.config.section import Field, Section

Bits = Literal[1, 2, 4, 8, 16, 32, 64]


class MmaShape(Section):
    """A matrix instruction, `(m, k) @ (k, n)`."""

    qbits_weight: Bits = Field(description="[bit] largest width of a weight")
    qbits_activation: Bits = Field(description="[bit] largest width of an activation")
    qbits_accumulator: Bits = Field(default=32, description="[bit] width of a sum")
    fidelity: Name | None = Field(default=None, description="name of a math fidelity; absent: all fidelities")
    m: Count = Field(description="rows of the result")
    n: Count = Field(description="columns of the result")
    k: Count = Field(description="products in a sum")
    cycles: Rate = Field(description="[cycle] time in which a core issues one instruction, on all of its tensor units together")

    @property
    def rate(self) -> Fraction:
        """[MAC/cycle] of a core."""
        return self.m * self.n * self.k / self.cycles


class Mma(Section):
    """The cores of an engine and their instructions."""

    cores: Annotated[int, integer(1, 1 << 20)] = Field(description="cores of an engine, to which blocks are distributed")
    blocks_per_core: Count = Field(default=1, description="blocks that a core works on at a time")
    shapes: tuple[MmaShape, ...] = Field(min_length=1, description="matrix instructions")
    tiles: Pairs = Field(
        default=((128, 128),), min_length=1, description="[rows, columns] of blocks: candidates for jobs that name no block"
    )
    qbits_accumulator: Bits = Field(default=32, description="[bit] width of the sums, which selects the instructions of jobs")
    fidelity: Name | None = Field(default=None, description="math fidelity, which selects the instructions of jobs")
    prologue_cycles: Natural = Field(default=0, description="[cycle] time before the first instruction of a block")
    epilogue_cycles: Natural = Field(default=0, description="[cycle] time after the last instruction of a block")

    def taken(self) -> list[MmaShape]:
        """The instructions that jobs can use: those with the required accumulator and fidelity."""
        return [
            shape
            for shape in self.shapes
            if shape.qbits_accumulator == self.qbits_accumulator and shape.fidelity in (None, self.fidelity)
        ]

    def instruction(self, qbits_weight: int, qbits_activation: int) -> MmaShape:
        """The narrowest instruction for operands of both widths. InputError if there is none."""
        found = [s for s in self.taken() if s.qbits_weight >= qbits_weight and s.qbits_activation >= qbits_activation]
        if not found:
            wanted = f"weights of {qbits_weight} bits and activations of {qbits_activation}"
            way = f"adds up in {self.qbits_accumulator} bits" + (f" at fidelity {self.fidelity}" if self.fidelity else "")
            rule = f"no instruction that {way} takes {wanted}"
            raise InputError(Problem("te.mma.shapes", rule, remedy="add one to the machine"))
        return min(found, key=lambda shape: (shape.qbits_weight + shape.qbits_activation, shape.qbits_weight))
