"""Blocks and waves of a product on an engine that executes matrix instructions (docs/model/compute.md, `timing: mma`)."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.common.units import ceil_div
from kernbench.config.mma import Mma, MmaShape


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a product is cut into blocks; the planner's or the op's choice."""

    tile_m: int
    tile_n: int
    split_k: int = 1  #: parts of `k`, whose partial results a vector job adds up


@dataclass(frozen=True, slots=True)
class Waves:
    """A product on the cores of an engine."""

    tiling: Tiling
    blocks: int
    full: int  #: waves with `blocks_per_core` blocks on every core
    last: int  #: blocks on the fullest core of the last wave; 0 where all waves are full
    main: int  #: [cycle] the matrix instructions of one block
    cycles: int  #: [cycle] of the body, at the clock of the machine

    @property
    def count(self) -> int:
        """Waves."""
        return self.full + bool(self.last)


def mma_waves(
    mma: Mma, m: int, n: int, k: int, qbits_weight: int, qbits_activation: int, tiling: Tiling | None = None
) -> Waves:
    """A product `(m, k) @ (k, n)` cut so; without `tiling` by the candidate of the machine that takes least."""
    instruction = mma.instruction(qbits_weight, qbits_activation)
    if tiling is not None:
        return _waves(mma, instruction, m, n, k, tiling)
    return min((_waves(mma, instruction, m, n, k, Tiling(*tile)) for tile in mma.tiles), key=lambda waves: waves.cycles)


def _waves(mma: Mma, instruction: MmaShape, m: int, n: int, k: int, tiling: Tiling) -> Waves:
    tile_m, tile_n, split = tiling.tile_m, tiling.tile_n, tiling.split_k
    blocks = ceil_div(m, tile_m) * ceil_div(n, tile_n) * split
    steps = ceil_div(ceil_div(k, split), instruction.k)
    main = ceil_div(ceil_div(tile_m, instruction.m) * ceil_div(tile_n, instruction.n) * steps * instruction.cycles)
    full, rest = divmod(blocks, mma.cores * mma.blocks_per_core)
    last = ceil_div(rest, mma.cores)
    around = mma.prologue_cycles + mma.epilogue_cycles
    cycles = full * (around + mma.blocks_per_core * main) + (around + last * main if last else 0)
    return Waves(tiling, blocks, full, last, main, cycles)
