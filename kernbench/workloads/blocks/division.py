"""How the rows of a layer and the scratchpad are divided: the first choice, and smaller ones for what does not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.transfers import setup_bytes

EIGHTHS = 8  #: of the scratchpad
HALF = 4  #: eighths of the scratchpad that hold weights which are loaded ahead, before a search
SLICES = 4, 2  #: slices of columns of a network's output before a search
LOADS = 3  #: loads of weights ahead in progress before a search
EXPERT_PARTS = 64  #: of the experts that are loaded once for each half of the rows
LEAST = 2  #: before a search, a slice has at least this many times the bytes that a transfer could move during its setup


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a layer."""

    rows: int  #: [token] of a block, at most
    ring: int = 0  #: eighths of the scratchpad that hold weights; 0: a few tiles of weights
    network_rows: int = 0  #: [token] of a block of the network, if larger than those of the mixer; 0: each goes through both
    slices: int = 0  #: of columns in which outputs of the network are added up over PEs, at most; 0: as a whole
    #: 1: each PE makes the latent vectors of attention of a part of the rows, which all PEs gather; 0: each makes all of them
    shares_latents: int = 0
    extra: int = 0  #: further eighths of the scratchpad that hold weights from the network on
    part_rows: int = 0  #: [token] of a part of a block, whose sum over PEs runs beside the attention of the next; 0: no parts
    #: 1: each of these parts also has products of its own before the attention and in a network without experts. Their weights
    #: are loaded once, and sums of a part over PEs go behind those of the part before
    part_products: int = 0
    #: of weights that are in progress, for each transfer of weights that hides the setup of others; fewer than `LOADS`: weights
    #: arrive in their order, until the network has begun and they have filled the ring once
    loads: int = LOADS
    ahead: int = 0  #: parts whose scores run ahead of an output projection, at most; 0: all
    part_router: int = 0  #: 1: the router, and a network for all rows beside experts, have products for each of these parts
    #: the rows are in two halves, and so many 64ths of the experts are loaded once for each half; 0: not in halves
    twice: int = 0
    tiles: int = 1  #: bytes of weights that are in progress at least, as tiles, where loads are not in order
    halved: int = 0  #: how often the last slice of columns is cut in half: its sum has nothing to run beside


def first_blocks(shape: BlockShape, config: NpuConfig, rows: int, *, prefetches: bool) -> Blocks:
    """The blocks that need most of the scratchpad. `prefetches`: experts are loaded ahead of the router."""
    if not prefetches:
        return Blocks(rows)
    down = next(weight for weight in shape.block.weights(shape.hidden) if weight.name == "w_down")
    most = shape.matrix_bytes(down) // max(1, LEAST * setup_bytes(config))
    return Blocks(rows, HALF, slices=next((some for some in SLICES if some <= most), 0))


def smaller_blocks(blocks: Blocks) -> Blocks:
    """Blocks that need less of the scratchpad: first without slices, then without a large ring of weights, then with half
    as many rows."""
    if blocks.slices:
        return replace(blocks, slices=0)
    return Blocks(blocks.rows if blocks.ring else ceil_div(blocks.rows, 2))
