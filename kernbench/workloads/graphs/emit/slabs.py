"""Products whose dimension k is cut, as jobs: block by block of the result, and for each block slab by slab of k."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.footprint import bytes_of
from kernbench.workloads.graphs.emit.products import widths
from kernbench.workloads.graphs.graph import Product
from kernbench.workloads.graphs.memory import Memory
from kernbench.workloads.graphs.sizes import Size
from kernbench.workloads.graphs.split import Cut
from kernbench.workloads.layer.dram import Span

Tile = tuple[int, int, int]  # number of a column tile in the matrix, its first column, and its columns


class SlabJobs:
    """The jobs of one product."""

    def __init__(self, memory: Memory, work: Product, cut: Cut, size: Size, meta: dict[str, Any]) -> None:
        self.memory, self.work, self.cut, self.size, self.meta = memory, work, cut, size, meta
        self.emit = memory.emit
        tensors = memory.lowered.tensors
        self.a_bits, self.b_bits, self.out_bits = (tensors[name].bits for name in (work.a, work.b, work.out))
        self.weights = tensors[work.b].source == "weight"
        self.slabs = [(first, min(cut.depth, work.k - first)) for first in range(0, work.k, cut.depth)]
        step = cut.cols
        self._loaded = 0  # slabs of the right operand that were loaded at once
        self.tiles = [(number, col, min(step, work.n - col)) for number, col in enumerate(range(0, work.n, step))]

    def run(self) -> None:
        """All of them."""
        work, cut, element = self.work, self.cut, self.out_bits // 8
        self.memory.use_cut(cut)
        for matrix in work.matrices:
            for first in range(0, work.m, cut.rows):
                rows = min(cut.rows, work.m - first)
                begin = start = (matrix[2] * work.m + first) * work.n * element
                for number in range(0, len(self.tiles), cut.tiles):
                    start += self._block(matrix, first, rows, self.tiles[number : number + cut.tiles], start)
                self.memory.block_written(work.out, begin, start - begin, self.meta)

    def _block(self, matrix: tuple[int, int, int], first: int, rows: int, tiles: list[Tile], start: int) -> int:
        """Some rows and columns of a result, whose bytes begin at `start` in its tensor; how many bytes it has."""
        sizes = [rows * cols * self.out_bits // 8 for _, _, cols in tiles]
        place = self.memory.place(self.work.out, start, sum(sizes), "sums")
        for slab, (deep, depth) in enumerate(self.slabs):
            left = self._left(matrix[0], first, rows, deep, depth)
            rights = self._right_at_once(matrix[1], slab, depth, tiles) if self.cut.at_once else {}
            at, places = place, {}
            for tile, nbytes in zip(tiles, sizes, strict=True):
                places[tile] = at
                at += nbytes
            for tile in rights or tiles:
                right = rights[tile] if rights else self._right(matrix[1], slab, depth, tile)
                self._product(left, right, places[tile], (rows, tile[2], depth), slab, tile[0])
        at = start
        for nbytes in sizes:
            self.memory.written(self.work.out, at, nbytes, place + at - start, **self.meta)
            at += nbytes
        return at - start

    def _product(self, left: int, right: int, at: int, shape: tuple[int, int, int], slab: int, number: int) -> None:
        """The product of a slab: to its place if it is the first one, else to a slot, from which it is added."""
        m, n, k = shape
        target = self.memory.rings["partials"].take(m * n * self.out_bits // 8) if slab else at
        fields = {"m": m, "n": n, "k": k, "tile_id": number}
        bits = {"qbits_weight": self.b_bits, **widths(self.a_bits, self.out_bits)}
        self.emit.te(self.work.op, left, right, target, **fields, **bits, **self.meta)
        if slab:
            adds = {"length": m * n, "batch": 1, "qbits_activation": self.out_bits}
            self.emit.ve("add", at, at, target, **adds, **self.meta)

    def _left(self, of_a: int, first: int, rows: int, deep: int, depth: int) -> int:
        """The scratchpad address of `depth` elements of some rows of the left operand."""
        work, row = self.work, self.work.k * self.a_bits // 8
        at = self.memory.dram_at(work.a) + (of_a * work.m + first) * row + deep * self.a_bits // 8
        return self.memory.load_part(work.a, Span(at, rows, depth, row), "slabs", **self.meta)

    def _right_at_once(self, of_b: int, slab: int, depth: int, tiles: list[Tile]) -> dict[Tile, int]:
        """The scratchpad addresses of all tiles, loaded at once, in the order in which they are multiplied.

        Two consecutive slabs are at the two ends of the ring and overlap. Their common part is multiplied first.
        """
        cut, odd = self.cut, self._loaded % 2
        self._loaded += 1
        own = cut.tiles - cut.shared
        begin = self.memory.rings["tiles"].buffer.start + odd * own * cut.tile
        stored = self.memory.layout(self.work, self.size).tiles(of_b * len(self.slabs) + slab)
        sizes = [stored[number].moved_bytes for number, _, _ in tiles]
        elements = sum(sizes) * 8 // self.b_bits
        span = Span(stored[tiles[0][0]].dram_addr, 1, elements, sum(sizes))
        self.memory.load_weights(self.b_bits, span, begin, tile_id=tiles[0][0], **self.meta)
        places = {}
        for tile, nbytes in zip(tiles, sizes, strict=True):
            places[tile] = begin
            begin += nbytes
        order = tiles if odd else [*tiles[own:], *tiles[:own]]
        return {tile: places[tile] for tile in order}

    def _right(self, of_b: int, slab: int, depth: int, tile: Tile) -> int:
        """The scratchpad address of `depth` rows of a tile of the right operand."""
        number, col, cols = tile
        work = self.work
        if self.weights:
            stored = self.memory.layout(work, self.size).tiles(of_b * len(self.slabs) + slab)[number]
            nbytes = bytes_of(depth * cols, self.b_bits)
            slot = self.memory.rings["tiles"].take(nbytes)
            span = Span(stored.dram_addr, 1, depth * cols, nbytes)
            self.memory.load_weights(self.b_bits, span, slot, tile_id=number, **self.meta)
            return slot
        element, deep = self.b_bits // 8, self.slabs[slab][0]
        base = self.memory.dram_at(work.b) + of_b * work.k * work.n * element
        if work.swapped:
            span = Span(base + (col * work.k + deep) * element, cols, depth, work.k * element)
        else:
            span = Span(base + (deep * work.n + col) * element, depth, cols, work.n * element)
        return self.memory.load_part(work.b, span, "tiles", **self.meta)
