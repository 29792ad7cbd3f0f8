"""Products as jobs, row block by row block. Weights stay in the scratchpad if they fit, and are loaded again for each block
otherwise.
"""

from __future__ import annotations

from math import prod
from typing import Any

from kernbench.cmdq.footprint import aligned_bytes, bytes_of
from kernbench.common.units import ceil_div
from kernbench.workloads.graphs.graph import Product, Window
from kernbench.workloads.graphs.memory import Memory
from kernbench.workloads.graphs.sizes import Size
from kernbench.workloads.layer.dram import Span

COPIES = 4  #: of each vector engine, of the windows of many groups
LoadedTile = tuple[int, tuple[int, int]]  # scratchpad address, and (address, bytes) of the range for which its readers wait


class ProductJobs:
    """The jobs of one product."""

    def __init__(self, memory: Memory, work: Product, size: Size, meta: dict[str, Any]) -> None:
        self.memory, self.work, self.size, self.meta = memory, work, size, meta
        self.emit = memory.emit
        tensors = memory.lowered.tensors
        self.a_bits, self.b_bits, self.out_bits = (tensors[name].bits for name in (work.a, work.b, work.out))
        self.weights = tensors[work.b].source == "weight"
        self._held: dict[tuple[int, int], LoadedTile] = {}
        self._held_matrix = -1

    def run(self) -> None:
        """All of them."""
        if self.work.window is not None:
            self._windows(self.work.window)
            return
        before: list[int] = []  # the load of the block before: long ones are loaded in turn, so that the first is soon there
        for of_a, of_b, of_out in self.work.matrices:
            for first in range(0, self.work.m, self.size.rows):
                rows, entries = min(self.size.rows, self.work.m - first), self.emit.program.entries
                at, row, count = (of_a * self.work.m + first) * self.work.k, self.work.k, len(entries)
                source, _ = self.memory.read(self.work.a, self._bytes(at), self._bytes(rows * row), **self.meta)
                if rows * row * self.a_bits >= 8 * self.memory.long_bytes and len(entries) > count:
                    self.emit.behind(before)
                    before = [self.emit.last]
                self._block(of_b, (of_out * self.work.m + first) * self.work.n, rows, [source])

    def _bytes(self, elements: int) -> int:
        return elements * self.a_bits // 8

    def _block(self, of_b: int, out_first: int, rows: int, sources: list[int]) -> None:
        """Some rows by one matrix, or by that of each group, whose inputs are in `sources`."""
        work, element = self.work, self.out_bits // 8
        start = out_first * element
        columns = [(group, number, *column) for group in range(len(sources)) for number, column in enumerate(self._columns())]
        step = len(columns) if work.groups > 1 else self.size.strip
        for first in range(0, len(columns), step):
            strip = columns[first : first + step]
            nbytes = rows * sum(cols for *_, cols in strip) * element
            place = at = self.memory.place(work.out, start, nbytes)
            for group, number, col, cols in strip:
                wgt, waits = self._weights(of_b + group, number, col, cols)
                sizes = {"m": rows, "n": cols, "k": work.k, "tile_id": number}
                bits = {"qbits_weight": self.b_bits, **widths(self.a_bits, self.out_bits)}
                job = self.emit.te(work.op, sources[group], wgt, at, **sizes, **bits, **self.meta)
                self.emit.after(job, *waits)
                at += rows * cols * element
            self.memory.written(work.out, start, nbytes, place, **self.meta)
            start += nbytes
        self.memory.block_written(work.out, out_first * element, start - out_first * element, self.meta)

    def _columns(self) -> list[tuple[int, int]]:
        n, cols = self.work.n, min(self.size.cols, self.work.n)
        return [(col, min(cols, n - col)) for col in range(0, n, cols)]

    def _weights(self, of_b: int, number: int, col: int, cols: int) -> LoadedTile:
        """A tile of the second operand; held ones are loaded once."""
        if not self.weights and self.memory.storage(self.work.b).spm is not None:  # type: ignore[union-attr]
            return self._resident(of_b, col)
        if self.size.cols > self.work.n:
            return self._group(of_b)
        key = of_b, number
        if self.size.held and key in self._held:
            return self._held[key]
        if self.size.held and self.work.window is None and self._held_matrix != of_b:
            self._held, self._held_matrix = {}, of_b  # another matrix takes the ring
        place = self._load_weights(of_b, number) if self.weights else self._load_tile(of_b, col, cols)
        if self.size.held:
            self._held[key] = place
        return place

    def _group(self, group: int) -> LoadedTile:
        """The weights of a group; the weights of all groups are one tile."""
        if (0, 0) not in self._held:
            self._held[0, 0] = self._load_weights(0, 0) if self.weights else self._load_groups()
        place, waits = self._held[0, 0]
        return place + bytes_of(group * self.work.k * self.work.n, self.b_bits), waits

    def _load_groups(self) -> LoadedTile:
        """The filters of all groups from a tensor in DRAM that is not a weight."""
        work = self.work
        nbytes = bytes_of(work.groups * work.k * work.n, self.b_bits)
        return self.memory.read(work.b, 0, nbytes, "weights", **self.meta)

    def _resident(self, of_b: int, col: int) -> LoadedTile:
        """Part of a tensor in the scratchpad, which is read all over where its columns are not together."""
        k, n = self.work.k, self.work.n
        at = of_b * k * n * self.b_bits // 8
        base, waits = self.memory.read(self.work.b, at, k * n * self.b_bits // 8, **self.meta)
        return base + col * k * self.b_bits // 8, waits

    def _load_weights(self, of_b: int, number: int) -> LoadedTile:
        tile = self.memory.layout(self.work, self.size).tiles(of_b)[number]
        slot = self.memory.rings["weights"].take(tile.moved_bytes)
        span = Span(tile.dram_addr, 1, tile.elements, tile.nbytes)
        self.memory.load_weights(tile.bits, span, slot, tile_id=tile.index, **self.meta)
        return slot, (slot, tile.nbytes)

    def _load_tile(self, of_b: int, col: int, cols: int) -> LoadedTile:
        """Columns of a tensor in DRAM: together where it is swapped or they are all, else a piece of each row."""
        work, size = self.work, self.b_bits // 8
        first = of_b * work.k * work.n
        if work.swapped or cols == work.n:
            return self.memory.read(work.b, (first + col * work.k) * size, cols * work.k * size, "weights", **self.meta)
        storage = self.memory.storage(work.b)
        assert storage is not None and storage.dram is not None
        base, end = storage.dram + first * size, storage.dram + (first + work.k * work.n) * size
        span = Span(base + col * size, work.k, cols, work.n * size)
        moved = aligned_bytes(span.dram_addr, span.rows, cols * size, span.stride_bytes, self.memory.align)
        slot = self.memory.rings["weights"].take(moved)
        job = self.emit.load("activation", self.b_bits, span, slot, **self.meta)
        self.emit.after_dram(job, base, end)
        return slot, (slot, moved)

    def _windows(self, window: Window) -> None:
        """A convolution: for each block the inputs of the window side by side, then the products of all groups."""
        outputs = prod(window.out)
        for image in range(window.images):
            for first in range(0, outputs, self.size.rows):
                rows = min(self.size.rows, outputs - first)
                columns = self._side_by_side(window, image, first, rows)
                self._block(0, (image * outputs + first) * self.work.n * self.work.groups, rows, columns)

    def _side_by_side(self, window: Window, image: int, first: int, rows: int) -> list[int]:
        """The inputs of `rows` outputs side by side, group by group; the products of a group wait for its own copies alone."""
        groups, total = self.work.groups, rows * window.channels * self.a_bits // 8 * window.positions
        place = self.memory.rings["columns"].take(total)
        source, nbytes, waits = window_source(self.memory, self.work.a, window, image, first, rows, self.meta)
        group = total // groups
        for done, part in pieces(total, copied_at_once(group, groups, nbytes, self.memory.config.ve.engines)):
            fields = {"length": part * 8 // self.a_bits, "batch": 1, "qbits_activation": self.a_bits}
            job = self.emit.ve("copy", source, place + done, **fields, **self.meta)
            self.emit.after(job, *waits)
        if groups == 1:
            self.emit.join(place, total, **self.meta)
        return [place + number * group for number in range(groups)]


def widths(bits: int, result: int) -> dict[str, int]:
    """The fields of an entry with the bits of an element of its input and of its result."""
    return {"qbits_activation": bits} | ({"qbits_result": result} if result != bits else {})


def copied_at_once(group: int, groups: int, source: int, engines: int) -> int:
    """[byte] of windows that one job copies: whole groups where these fit, at most the bytes of the source.

    All vector engines share the copies of a block, and of many groups each makes several jobs, so that products can begin.
    """
    each = ceil_div(groups, COPIES * engines) * group if groups > 1 else ceil_div(group, engines)
    return min(each, source)


def window_source(
    memory: Memory, name: str, window: Window, image: int, first: int, rows: int, meta: dict[str, Any]
) -> tuple[int, int, tuple[int, int]]:
    """The input rows that outputs `[first, first + rows)` look at: address, bytes, and what to wait for."""
    low, high = window.rows_of(first // window.out[1], (first + rows - 1) // window.out[1])
    row = window.size[1] * window.channels * memory.lowered.tensors[name].bits // 8
    nbytes = (high - low) * row
    place, waits = memory.read(name, (image * window.size[0] + low) * row, nbytes, **meta)
    return place, nbytes, waits


def pieces(nbytes: int, most: int) -> list[tuple[int, int]]:
    """`(offset, bytes)` of pieces of at most `most` bytes."""
    return [(at, min(most, nbytes - at)) for at in range(0, nbytes, most)]
