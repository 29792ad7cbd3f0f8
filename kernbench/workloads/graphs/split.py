"""Products whose dimension k is cut into slabs, where blocks of whole rows and columns are too small or do not fit.

A block of the result stays in the scratchpad while the slabs of k go by. A slab is some columns of the left operand and some
rows of the right one. The tensor engines write the product of the first slab to the block. They write the products of later
slabs to slots of their own, and the vector engines add each of them to the block. The way to cut with the fewest estimated
cycles is chosen.

The column tiles of a slab of the right operand are loaded one by one. Where one transfer is in flight at a time, they may also
be loaded all at once, which takes fewer setups. Two slabs that follow each other then share half of their places: the tensor
engines use up the shared half of a slab first, so that the next slab is loaded while they use the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.components.service import chained_body, ve_service
from kernbench.workloads.graphs.graph import Product
from kernbench.workloads.layer.buffers import array_columns

if TYPE_CHECKING:
    from kernbench.workloads.graphs.sizes import Sizes

SLABS = 2  #: slabs of the left operand in the scratchpad: one is loaded while the other is multiplied
TILES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32)  #: column tiles of a block that are tried
PARTS = (*range(1, 21), 22, 24, 26, 28, 30, 32, 40, 48, 64, 96, 128, 256, 512, 1024)  #: blocks along the rows that are tried
ALMOST = (101, 100)  #: cycles of a cut with fewer entries, over the least, as a fraction
GAIN = (50, 49)  #: factor by which a product must become faster if the tiles of a slab are loaded at once
MAX_JOBS = 15 << 14  #: entries of a product that is cut so, at most: nearly those that a program may have


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to cut a product. Bytes are those of one slot, with alignment."""

    rows: int  #: of a block
    cols: int  #: of a column tile
    tiles: int  #: column tiles of a block
    depth: int  #: elements of k in a slab
    partials: int  #: slots for products that are not added yet
    block: int  #: [byte] of a block of the result
    slab: int  #: [byte] of a slab of the left operand
    tile: int  #: [byte] of a tile of the right operand
    partial: int  #: [byte] of a product that is not added yet
    at_once: bool = False  #: whether all column tiles of a slab of the right operand are one load
    cycles: int = 0  #: estimated

    @property
    def wide(self) -> int:
        """Columns of a block."""
        return self.cols * self.tiles

    @property
    def shared(self) -> int:
        """Column tiles of a slab whose places the next slab gets too, if slabs are loaded at once."""
        return self.tiles // 2 if self.at_once else 0

    @property
    def slots(self) -> int:
        """Places for column tiles."""
        return 2 * self.tiles - self.shared if self.at_once else self.tiles + 1

    @property
    def places(self) -> tuple[int, int, int, int]:
        """[byte] of the ring of blocks, of slabs, of tiles and of partial products."""
        return self.block, SLABS * self.slab, self.slots * self.tile, self.partials * self.partial

    @property
    def nbytes(self) -> int:
        """[byte] of all rings together."""
        return sum(self.places)

    def text(self, work: Product) -> str:
        """The report of the planner about it."""
        return f"k in {ceil_div(work.k, self.depth)} slabs of {self.depth}, for blocks of {self.rows} x {self.wide}"

    def blocks(self, work: Product) -> int:
        """Blocks of the result of a product."""
        return len(work.matrices) * ceil_div(work.m, self.rows) * ceil_div(work.n, self.wide)

    def entries(self, work: Product) -> int:
        """About as many entries as a product has."""
        loads = 1 + (1 if self.at_once else self.tiles)
        return self.blocks(work) * ceil_div(work.k, self.depth) * (loads + 2 * self.tiles)


def _shortest(cuts: list[Cut], work: Product) -> Cut | None:
    """The cut with the fewest entries of those that take almost the fewest cycles; None if there is none."""
    shortest = min((cut.cycles for cut in cuts), default=0)
    good = [cut for cut in cuts if cut.cycles * ALMOST[1] <= shortest * ALMOST[0]]
    return min(good, key=lambda cut: (cut.entries(work), cut.cycles, cut.nbytes), default=None)


def can_be_cut(work: Product) -> bool:
    """Whether the slabs of a product are parts of its stored operands: convolutions make theirs during the run."""
    return work.window is None and work.groups == 1 and not work.depth


class Splitter:
    """The best cut of products on a machine. `most`: entries of a product that is cut."""

    def __init__(self, sizes: Sizes, most: int = MAX_JOBS) -> None:
        self.sizes, self.config, self.most = sizes, sizes.config, most
        dma, dram = self.config.dma, self.config.dram
        self.rate = float(dram.capacity * dram.channels)
        self.flows = dma.engines * min(dma.max_concurrent_transfers, dma.channels.act_weight.max_concurrent)
        self.latency = dram.t_setup_cycles
        self.setup = self.latency / self.flows  # [cycle] of a transfer, where as many as can be are in flight
        self._known: dict[tuple[object, ...], Cut | None] = {}

    def best(self, work: Product, nbytes: int) -> Cut | None:
        """The cut whose rings have at most `nbytes` bytes, with the fewest entries of those that take almost the fewest cycles.

        None if there is none.
        """
        tensors = self.sizes.lowered.tensors
        bits = tensors[work.a].bits, tensors[work.b].bits, tensors[work.out].bits
        key = (work.m, work.n, work.k, len(work.matrices), work.swapped, self.sizes.is_weight(work.b), bits, nbytes)
        if key not in self._known:
            cuts = [cut for cut in self._cuts(work, bits, nbytes) if cut.entries(work) <= self.most]
            each, joined = (_shortest([cut for cut in cuts if cut.at_once == one], work) for one in (False, True))
            gains = joined is not None and (each is None or joined.cycles * GAIN[0] < each.cycles * GAIN[1])
            self._known[key] = joined if gains else each
        return self._known[key]

    def _cuts(self, work: Product, bits: tuple[int, int, int], nbytes: int) -> Iterator[Cut]:
        engines, stored = self.config.te.engines, self.sizes.is_weight(work.b)  # tile after tile in DRAM
        for depth in self._depths(work, bits[0]):
            may_join = stored and self.flows == 1 and depth * bits[1] // 8 % self.sizes.align == 0
            for tiles, at_once in product(TILES, (False, True)):
                if at_once and (tiles == 1 or not may_join):
                    continue
                for partials in {1, engines + 1}:
                    for rows in dict.fromkeys(ceil_div(work.m, parts) for parts in PARTS):
                        cut = self._widest(work, bits, (rows, depth, tiles, partials, at_once), nbytes)
                        if cut is not None:
                            yield self._timed(work, bits, cut)

    def _depths(self, work: Product, bits: int) -> list[int]:
        """Elements of k of a slab: whole aligned lines of the left operand."""
        step = max(1, self.sizes.align * 8 // bits)
        found = []
        while step < work.k:
            found.append(step)
            step *= 2
        return found

    def _widest(
        self, work: Product, bits: tuple[int, int, int], shape: tuple[int, int, int, int, bool], nbytes: int
    ) -> Cut | None:
        """The cut with so many rows whose blocks have most columns; the columns of all blocks are about equal."""
        rows, depth, tiles, partials, at_once = shape
        slots = 2 * tiles - tiles // 2 if at_once else tiles + 1
        per_column = (rows * bits[2] * (1 + partials / tiles) + slots / tiles * depth * bits[1]) / 8
        left = nbytes - SLABS * self._slab(work, rows, depth, bits[0])
        most = int(left / per_column) if left > 0 else 0
        step = array_columns(self.config.te)
        parts = ceil_div(work.n, min(most, work.n)) if most else 0
        for more in range(3):
            cols = ceil_div(ceil_div(work.n, parts + more), tiles) if parts else 0
            cols = ceil_div(cols, step) * step if cols > step else cols
            if cols < 1:
                return None
            cut = self._cut(work, bits, (rows, cols, tiles, depth, partials), at_once=at_once)
            if cut.nbytes <= nbytes:
                return cut
        return None

    def _cut(
        self, work: Product, bits: tuple[int, int, int], shape: tuple[int, int, int, int, int], *, at_once: bool
    ) -> Cut:
        rows, cols, tiles, depth, partials = shape
        align = self.sizes.align
        block = self._aligned(bytes_of(rows * cols * tiles, bits[2])) + align
        slab = self._slab(work, rows, depth, bits[0])
        tile = self._aligned(bytes_of(depth * cols, bits[1]))
        if not self.sizes.is_weight(work.b):  # pieces of its rows, each with lines of its own
            pieces, length = (cols, depth) if work.swapped else (depth, cols)
            tile = pieces * (self._aligned(bytes_of(length, bits[1])) + align)
        partial = self._aligned(bytes_of(rows * cols, bits[2]))
        return Cut(rows, cols, tiles, depth, partials, block, slab, tile, partial, at_once)

    def _slab(self, work: Product, rows: int, depth: int, bits: int) -> int:
        more = self.sizes.align if work.k * bits // 8 % self.sizes.align else 0
        return rows * (self._aligned(bytes_of(depth, bits)) + more)

    def _aligned(self, nbytes: int) -> int:
        return ceil_div(nbytes, self.sizes.align) * self.sizes.align

    def _timed(self, work: Product, bits: tuple[int, int, int], cut: Cut) -> Cut:
        """With its cycles: the slabs of all blocks one after the other, loads beside products, stores beside the next block."""
        te, ve = self.config.te, self.config.ve
        slabs = ceil_div(work.k, cut.depth)
        right = cut.tiles * cut.tile / self.rate
        loads = cut.slab / self.rate + right + (2 if cut.at_once else 1 + cut.tiles) * self.setup
        one = chained_body(te, cut.rows, cut.cols, cut.depth, bits[1], bits[0]) + te.init_cycles + te.finalize_cycles
        add = ve_service(ve, "add", cut.rows * cut.cols, 1, bits[2]).total
        products, sums = ceil_div(cut.tiles, te.engines) * one, ceil_div(cut.tiles, ve.engines) * add
        of_slab = float(max(products, sums) if cut.partials > te.engines else products + sums)
        first_byte, tile = self.latency + cut.slab / self.rate, self.latency + cut.tile / self.rate
        # A slot is loaded again when its last reader has ended: as many rounds as there are slots go on at a time.
        of_slabs = (first_byte + of_slab) / SLABS
        of_tiles = cut.tiles / (cut.tiles + 1) * (tile + of_slab / cut.tiles)
        if cut.at_once:  # the next slab comes when the places that it shares are free
            of_tiles = cut.shared / cut.tiles * of_slab + self.latency + right
        of_slab = max(of_slab, of_slabs, of_tiles)
        store = cut.block / self.rate + cut.tiles * self.setup
        each = max(slabs * loads + store, slabs * of_slab + store / cut.tiles)
        return replace(cut, cycles=int(cut.blocks(work) * each + loads + store))
