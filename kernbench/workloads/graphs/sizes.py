"""The tiling of a node: rows of a block, columns of a weight tile, and the bytes that it moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.components.service import chained_body, ve_service
from kernbench.config.schema import NpuConfig
from kernbench.workloads.graphs.graph import Copy, Lowered, Pool, Product, Rows, Vector, Work, read_by
from kernbench.workloads.graphs.split import Cut
from kernbench.workloads.layer.buffers import array_columns, even_split
from kernbench.workloads.transfers import setup_bytes

ELEMENTWISE = frozenset({"add", "mul", "copy", "exp", "tanh", "sigmoid", "gelu", "silu"})
_VECTOR_BYTES = 64 << 10  # a job of a vector engine is at most so large where more of them can share the work
_VECTOR_JOBS = 4  # jobs of each vector engine, if a job has at least as many elements as its grain says
TILE_KIB = (256, 128, 64)  # sizes of a weight tile at which the setup of a transfer costs little
_COLUMNS_SHARE = 16  # the copied windows of a block take at most this fraction (1 / n) of the scratchpad
_STRIP_BYTES = 4 << 10  # results go to DRAM in pieces of whole column tiles of at least this


@dataclass(frozen=True, slots=True)
class Grain:
    """How far work is cut where that costs time, so that other work can begin earlier."""

    vector_elements: int  #: of a job of a vector engine, at least, where not all engines would have a job otherwise
    almost: tuple[int, int]  #: cycles of a tiling with smaller blocks, over the least, as a fraction


COARSE = Grain(8 << 10, (28, 25))
FINE = Grain(4 << 10, (6, 5))


@dataclass(frozen=True, slots=True)
class Level:
    """How the scratchpad is divided."""

    tile_bytes: int  #: [byte] of a weight tile, at most
    tiles: int  #: weight tiles in the ring
    block_bytes: int  #: [byte] of a block of activations, at most


@dataclass(frozen=True, slots=True)
class Size:
    """One piece of work, cut. Bytes are for one slot of each ring, without alignment."""

    rows: int  #: of a block: of a product, of a vector operation; elements where it is elementwise
    cols: int = 0  #: columns of a weight tile; of several groups all of them together where they fit one
    held: bool = False  #: the weights are loaded once, and stay while all blocks go by
    streamed: bool = False  #: the broadcast operand is too large to stay, and is loaded repeatedly
    block: int = 0  #: [byte] read, of all inputs
    strip: int = 0  #: tiles of results that leave together
    columns: int = 0  #: [byte] of the inputs of a window, side by side
    out: int = 0  #: [byte] written
    tile: int = 0  #: [byte]
    params: int = 0  #: [byte]
    cut: Cut | None = None  #: of a product whose dimension k is cut


class Sizes:
    """The sizes of all work of a graph on a machine, for one way to divide the scratchpad."""

    def __init__(self, lowered: Lowered, config: NpuConfig, grain: Grain = COARSE) -> None:
        self.lowered, self.config, self.grain = lowered, config, grain
        self.align = config.dma.alignment_bytes
        self.strip_bytes = max(_STRIP_BYTES, setup_bytes(config) // 4)
        #: [byte] between weight tiles in the ring: tensor engines in step would else read theirs from the same banks.
        self.skew = (config.spm.num_banks // 4 + 1) * config.spm.bank_width_bytes if config.te.spm_traffic else 0
        self._cut: dict[Any, tuple[int, int]] = {}  #: rows and columns that were chosen, by the shape of a product
        self._asked = {lowered.bytes_at(name) for name in lowered.graph.outputs}

    def nbytes(self, name: str, elements: int | None = None) -> int:
        """Bytes of a tensor, or of this many of its elements."""
        tensor = self.lowered.tensors[name]
        return bytes_of(tensor.elements if elements is None else elements, tensor.bits)

    def is_weight(self, name: str) -> bool:
        """Whether it is a constant in DRAM."""
        return self.lowered.tensors[name].source == "weight"

    def all(self, level: Level) -> list[Size] | None:
        """The tiling of every node; None if a row or a column does not fit."""
        found = []
        for _, work in self.lowered.jobs:
            size = self._size(work, level)
            if size is None:
                return None
            found.append(size)
        return found

    def each(self, level: Level) -> list[Size | None]:
        """The tiling of every node by itself; None for a node of which a row or a column does not fit."""
        return [self._size(work, level) for _, work in self.lowered.jobs]

    def _size(self, work: Work, level: Level) -> Size | None:
        match work:
            case Product():
                return self._product(work, level)
            case Vector():
                return self._vector(work, level)
            case Pool():
                return self._pool(work, level)
            case Copy():
                return self._copy(work, level)
            case Rows():
                return self._rows(work, level)

    def _product(self, work: Product, level: Level) -> Size | None:
        out_row = self.nbytes(work.out, work.n * work.groups)
        b_bits, m = self.lowered.tensors[work.b].bits, work.m
        fitting = level.tile_bytes * 8 // (work.k * b_bits)
        cols = even_split(work.n, fitting, array_columns(self.config.te)) if fitting else 0
        total = work.groups * ceil_div(work.n, cols or 1) * (bytes_of(work.k * cols, b_bits) + 2 * self.align)
        held = 2 * total <= level.tiles * level.tile_bytes
        row = self.nbytes(work.a, work.k * work.groups)
        most = level.block_bytes // row
        if work.window is not None:
            m = prod(work.window.out)
            columns = max(level.block_bytes, self.config.spm.size_bytes // _COLUMNS_SHARE)
            most = min(columns // row, self._window_rows(work, level))
        if not cols or most < (1 if work.window is None or work.tile[0] == 1 else work.window.out[1]):
            return None
        rows = min(m, most)
        if held:
            rows, cols = self._shared(work, m, rows, cols)
        elif work.window is not None and rows > work.window.out[1]:
            rows = rows // work.window.out[1] * work.window.out[1]
        if work.window is None or work.tile[0] == 1:  # tiles of several rows end with their line
            rows = self._whole_lines(rows, m, gcd(out_row, row if work.window is None else out_row))
        block = rows * row
        if work.window is not None:
            block = self._source_bytes(work, rows)
        tile = bytes_of(work.k * cols, b_bits)
        width = self.nbytes(work.out, cols)
        strip = min(ceil_div(work.n, cols), ceil_div(self.strip_bytes, rows * width))
        out = out_row if work.groups > 1 else min(out_row, strip * width)
        if not self.is_weight(work.b) and not work.swapped and cols < work.n:
            tile += 2 * work.k * self.align  # every row of it by itself
        every = bytes_of(work.k * work.n * work.groups, b_bits)
        if work.groups > 1 and held and every <= level.tile_bytes:
            cols, tile = work.n * work.groups, every
        columns = rows * row if work.window is not None else 0
        return Size(rows, cols, held, block=block, strip=strip, columns=columns, out=rows * out, tile=tile)

    def _shared(self, work: Product, m: int, most: int, cols: int) -> tuple[int, int]:
        """Rows of a block and columns of a tile by which all tensor engines end soonest, with weights that stay.

        Of almost equal ways that with the smallest blocks: the next node can begin with the first of them.
        """
        shape = (m, most, cols, work.n, work.k, work.groups, len(work.matrices), work.window, work.tile)
        bits = self.lowered.tensors[work.b].bits, self.lowered.tensors[work.a].bits
        if (known := self._cut.get((shape, bits))) is not None:
            return known
        te, window = self.config.te, work.window
        times = len(work.matrices) * (1 if window is None else window.images)
        around = te.init_cycles + te.finalize_cycles
        array, found = array_columns(te), []
        tiles = {even_split(work.n, max(array, ceil_div(work.n, parts)), array) for parts in range(1, 2 * te.engines + 1)}
        for wide in sorted(wide for wide in tiles | {cols} if wide <= cols) if work.groups == 1 else [cols]:
            for parts in range(1, 4 * te.engines + 1):
                rows = min(ceil_div(m, parts), most)
                if window is not None and (rows > window.out[1] or work.tile[0] > 1):
                    rows = max(rows // window.out[1], 1) * window.out[1]
                one = chained_body(te, rows, wide, work.k, *bits) + around
                blocks, jobs = times * ceil_div(m, rows), work.groups * ceil_div(work.n, wide)
                each = max(ceil_div(jobs * one, te.engines), columns := self._columns_of(work, rows))
                whole = columns + (blocks - 1) * each + ceil_div(jobs, te.engines) * one
                if work.groups > 1:  # the first products begin when some of the groups are copied
                    whole = ceil_div(columns, 4) + blocks * each + one
                if window is None:
                    total = times * jobs * chained_body(te, m, wide, work.k, *bits) + blocks * jobs * around
                    whole = min(ceil_div(blocks * jobs, te.engines) * one, ceil_div(total, te.engines) + one)
                found.append((whole, rows, -wide))
        times, of = self.grain.almost
        least = min(found)[0] * times
        _, rows, wide = min((one for one in found if one[0] * of <= least), key=lambda one: (one[1], one[2]))
        self._cut[shape, bits] = rows, -wide
        return rows, -wide

    def _columns_of(self, work: Product, rows: int) -> int:
        """[cycle] in which the vector engines copy the windows of a block side by side."""
        if work.window is None:
            return 0
        ve, bits = self.config.ve, self.lowered.tensors[work.a].bits
        total = ceil_div(work.window.positions * rows * work.window.channels, ve.engines)
        return ve_service(ve, "copy", total, 1, bits).total

    def _whole_lines(self, rows: int, of: int, row_bytes: int) -> int:
        """Fewer rows, so that the next block begins at a line; all or too few stay as they are."""
        step = self.align // gcd(self.align, row_bytes)
        return rows if rows >= of or rows < step else rows // step * step

    def _window_rows(self, work: Product | Pool, level: Level) -> int:
        """Outputs whose inputs fit a block: whole rows of the image, or some of one."""
        assert work.window is not None
        window = work.window
        best = 0
        low, high = 1, window.out[0]
        while low <= high:  # more rows read more inputs
            count = (low + high) // 2
            if self._source_bytes(work, count * window.out[1]) <= level.block_bytes:
                best, low = count, count + 1
            else:
                high = count - 1
        return best * window.out[1]

    def _source_bytes(self, work: Product | Pool, rows: int) -> int:
        """The largest number of input bytes that this number of outputs reads."""
        assert work.window is not None
        window = work.window
        high = ceil_div(rows, window.out[1]) + (1 if rows % window.out[1] else 0)
        span = (high - 1) * window.strides[0] + (window.kernel[0] - 1) * window.dilations[0] + 1
        return min(span, window.size[0]) * self.nbytes(work.a, window.size[1] * window.channels)

    def _vector(self, work: Vector, level: Level) -> Size | None:
        params = sum(self.nbytes(name) + 2 * self.align for name in work.params)
        streamed = params > level.block_bytes
        wide = max(self.nbytes(name, 64) for name in (work.a, work.out)) / 64
        limit = min(level.block_bytes, _VECTOR_BYTES)
        total = work.length * work.batch
        each = self._each_vector(total)
        for name in work.gathers:  # a job reads at most all of it
            each = max(1, min(each, self.lowered.tensors[name].elements))
        if work.op in ELEMENTWISE:
            elements = min(int(limit / wide), each)
            elements = min(total, elements // self.align * self.align or (elements if work.gathers else self.align))
            nbytes, inputs = int(elements * wide), 1 + bool(work.b) + (len(work.params) if streamed else 0)
            params = 0 if streamed else params
            return Size(elements, streamed=streamed, block=inputs * nbytes, out=nbytes, params=params)
        if work.length * wide > level.block_bytes:
            return None
        rows = min(work.batch, max(1, min(int(limit / wide), each) // work.length))
        out_row = self.nbytes(work.out, 1 if work.reduces else work.length)
        rows = self._whole_lines(rows, work.batch, out_row)
        block = self.nbytes(work.a, rows * work.length) * (1 + (len(work.params) if streamed else 0))
        return Size(rows, streamed=streamed, block=block, out=rows * out_row, params=0 if streamed else params)

    def _each_vector(self, total: int) -> int:
        """[element] of a vector job: several for each engine where a job is not too short, so that others can begin early."""
        engines = self.config.ve.engines
        return max(ceil_div(total, _VECTOR_JOBS * engines), min(ceil_div(total, engines), self.grain.vector_elements))

    def _pool(self, work: Pool, level: Level) -> Size | None:
        row = self.nbytes(work.out, work.window.channels)
        width, (high, wide) = self.config.ve.engines, work.window.out
        each = max(1, high // (2 * width)) * wide  # whole lines, several for each vector engine
        rows = min(self._window_rows(work, level), level.block_bytes // row, each)
        if rows < 1:
            return None
        return Size(rows, block=self._source_bytes(work, rows), out=rows * row)

    def _copy(self, work: Copy, level: Level) -> Size:
        per = max(self.nbytes(name, 64) for name in (work.out, *work.sources)) / 64
        most = min(level.block_bytes, _VECTOR_BYTES)
        each = self._each_vector(self.lowered.tensors[work.out].elements)
        elements = max(self.align, min(int(most / per), each) // self.align * self.align)
        return Size(elements, block=int(elements * per), out=int(elements * per))

    def _rows(self, work: Rows, level: Level) -> Size | None:
        slot = max(self.nbytes(work.table, work.length), self.nbytes(work.out, work.length)) + 2 * self.align
        indices = self.nbytes(work.indices) if work.indices else 0
        if max(slot, indices) > level.block_bytes:
            return None
        rows = min(work.count, max(1, min(16, level.block_bytes // (4 * slot))))
        return Size(rows, block=2 * slot, out=rows * self.nbytes(work.out, work.length), params=indices)

    def entries(self, work: Work, size: Size, resident: frozenset[str]) -> int:
        """About as many entries as a piece of work is emitted as; `resident`: as for `moved`."""
        tensors = self.lowered.tensors
        streams = sum(not self.is_weight(name) and self.lowered.bytes_at(name) not in resident for name in read_by(work))
        out = self.lowered.bytes_at(work.out)
        streams += out not in resident or out in self._asked
        match work:
            case Product() if size.cut is not None:
                return size.cut.entries(work)
            case Product():
                window = work.window
                blocks = len(work.matrices) * ceil_div(work.m, size.rows)
                jobs = work.groups * ceil_div(work.n, min(size.cols, work.n))
                if window is not None:
                    blocks = window.images * ceil_div(prod(window.out), size.rows)
                    jobs += window.positions * ceil_div(size.rows * window.channels, window.size[1] * window.channels)
                return blocks * (jobs * (1 if size.held else 2) + streams)
            case Vector():
                total = work.length * work.batch if work.op in ELEMENTWISE else work.batch
                return ceil_div(total, size.rows) * (1 + streams)
            case Pool():
                return work.window.images * ceil_div(prod(work.window.out), size.rows) * (work.window.positions + streams)
            case Copy():
                smallest = min(size.rows, *(tensors[name].elements for name in work.sources))
                return ceil_div(tensors[work.out].elements, smallest) * (1 + streams)
            case Rows():
                return work.count * 2

    def moved(self, work: Work, size: Size, resident: frozenset[str]) -> tuple[int, int]:
        """[byte] without alignment that a piece of work loads of weights, and of activations that it loads and stores.

        An approximation of the emitted jobs, for comparisons; `resident`: the roots of tensors that stay in the scratchpad.
        """
        weights, others = 0, 0
        for name in read_by(work):
            nbytes = self.nbytes(name)
            if isinstance(work, Rows) and name == work.table:
                nbytes = work.count * self.nbytes(name, work.length)
            elif isinstance(work, Product):
                nbytes = self._product_bytes(work, size, name)
            elif isinstance(work, Copy):
                nbytes = min(nbytes, self.nbytes(work.out))
            if self.is_weight(name):
                weights += nbytes
            elif self.lowered.bytes_at(name) not in resident:
                others += nbytes
        if (root := self.lowered.bytes_at(work.out)) not in resident or root in self._asked:
            others += self.nbytes(work.out)
        return weights, others

    def _product_bytes(self, work: Product, size: Size, name: str) -> int:
        if size.cut is not None:  # each block of the result loads its part of both operands
            shape, times = ((work.m, work.k), ceil_div(work.n, size.cut.wide)) if name == work.a else (
                (work.k, work.n), ceil_div(work.m, size.rows))
            return len(work.matrices) * self.nbytes(name, prod(shape)) * times
        if name == work.a and work.window is None:
            return len(work.matrices) * self.nbytes(name, work.m * work.k)
        if name == work.a:
            return self.nbytes(name)
        blocks = 1 if size.held else ceil_div(work.m, size.rows)
        return len(work.matrices) * work.groups * self.nbytes(name, work.k * work.n) * blocks
