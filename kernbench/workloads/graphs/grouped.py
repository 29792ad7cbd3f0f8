"""Convolutions of many groups as products: which groups, and which outputs, one product makes.

A product with zeros in its matrix multiplies more. A tile pays the first and last cycles of a job once, and the inputs of
neighbouring outputs overlap: a tile of 4 x 4 outputs of a 7 x 7 filter reads 100 inputs, while each single output reads 49.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import ceil_div
from kernbench.components.service import chained_body, te_body, ve_service
from kernbench.config.schema import NpuConfig
from kernbench.workloads.graphs.emit.products import COPIES
from kernbench.workloads.graphs.graph import Window

_GROUP_ROWS = 128  # rows of a block for which groups of a convolution are compared
_BLOCKS = (1, 2, 4, 8)  # numbers of rows for which tiles are compared
_LONGEST = 16  # rows or columns of a tile
_MAX_COLUMNS = 512  # most columns of a product of tiles
_SPM_SHARE = 64  # the inputs of a line of tiles take at most 1/64 of the scratchpad


class GroupCosts:
    """The time of the ways to multiply, on one machine."""

    def __init__(self, config: NpuConfig, weight_bits: int, activation_bits: int) -> None:
        self.config = config
        self.bits = weight_bits, activation_bits
        self._tiled: dict[Window, tuple[tuple[int, int], int]] = {}

    def together(self, groups: int, k: int, n: int) -> int:
        """How many groups of `[k, n]` are one product: as many as make all groups of a block take least."""

        def cycles(number: int) -> int:
            return groups // number * self._product(_GROUP_ROWS, n * number, k * number)

        return min(divisors(groups), key=lambda number: (cycles(number), number))

    def tiled(self, window: Window) -> tuple[tuple[int, int], int]:
        """Rows and columns of a tile, and the channels of one product, of a convolution with a filter for each channel."""
        if window not in self._tiled:
            self._tiled[window] = self._best(window)
        return self._tiled[window]

    def dense(self, window: Window, filters: int) -> tuple[int, int]:
        """Rows and columns of a tile of a convolution whose filters look at all channels.

        A larger tile has fewer copies for each output, and more zeros in the matrix. The vector engines also add the bias and
        compute a function.
        """
        found, ve, te = [], self.config.ve, self.config.te
        high, wide = (divisors(size) for size in window.out)
        for tile in product(high, wide):
            made = tiles_of(window, tile)
            depth, width = made.positions * made.channels, prod(tile) * filters
            if max(tile) > _LONGEST or width > _MAX_COLUMNS or not self._fits(window, tile):
                continue
            outputs = made.images * prod(made.out)
            after = 2 * ceil_div(outputs * width, ve.engines)
            copies = ve_service(ve, "copy", ceil_div(outputs * depth, ve.engines) + after, 1, self.bits[1]).body
            products = ceil_div(te_body(te, outputs, width, depth, *self.bits), te.engines)
            rate = self.config.dram.capacity * self.config.dram.channels
            weights = ceil_div(bytes_of(depth * width, self.bits[0]) * rate.denominator, rate.numerator)
            least, most = sorted((copies, products))  # half of the shorter does not overlap with the longer
            found.append((most + least // 2 + weights, prod(tile), tile))
        return min(found)[2] if found else (1, 1)

    def _best(self, window: Window) -> tuple[tuple[int, int], int]:
        found = []
        high, wide = (divisors(size) for size in window.out)
        for tile in product(high, wide):
            if max(tile) > _LONGEST or prod(tile) > _MAX_COLUMNS or not self._fits(window, tile):
                continue
            for channels in divisors(window.channels):
                if channels * prod(tile) <= _MAX_COLUMNS:
                    found.append((self._cycles(window, tile, channels), prod(tile), tile, channels))
        if not found:
            return (1, 1), self.together(window.channels, window.positions, 1)
        _, _, tile, channels = min(found)
        return tile, channels

    def _fits(self, window: Window, tile: tuple[int, int]) -> bool:
        made = tiles_of(window, tile)
        line = made.out[1] * made.positions * made.channels * self.bits[1] // 8
        return tile == (1, 1) or line <= self.config.spm.size_bytes // _SPM_SHARE

    def _cycles(self, window: Window, tile: tuple[int, int], channels: int) -> int:
        """The cycles of the copies and products of blocks, of the first copy before them, and of the weights."""
        made, config = tiles_of(window, tile), self.config
        depth, width, total = made.positions * channels, prod(tile) * channels, made.images * prod(made.out)
        ve, te = config.ve, config.te
        ways = []
        for blocks in _BLOCKS:
            rows = ceil_div(total, blocks)
            each = ceil_div(made.positions * rows * made.channels, COPIES * ve.engines)
            first = ve_service(ve, "copy", each, 1, self.bits[1]).total
            one = self._product(rows, width, depth)
            products = ceil_div(made.channels // channels * one, te.engines)
            ways.append(first + blocks * max(COPIES * first, products) + one)
        weights = made.channels // channels * bytes_of(depth * width, self.bits[0])
        rate = config.dram.capacity * config.dram.channels
        return min(ways) + ceil_div(weights * rate.denominator, rate.numerator)

    def _product(self, m: int, n: int, k: int) -> int:
        te = self.config.te
        return chained_body(te, m, n, k, *self.bits) + te.init_cycles + te.finalize_cycles


def divisors(number: int) -> list[int]:
    """Ascending."""
    return [one for one in range(1, number + 1) if number % one == 0]


def tiles_of(window: Window, tile: tuple[int, int]) -> Window:
    """The window whose outputs are tiles of those of `window`."""
    if tile == (1, 1):
        return window
    kernel = [(tile[i] - 1) * window.strides[i] + (window.kernel[i] - 1) * window.dilations[i] + 1 for i in (0, 1)]
    return replace(
        window,
        kernel=(kernel[0], kernel[1]),
        strides=(window.strides[0] * tile[0], window.strides[1] * tile[1]),
        dilations=(1, 1),
        out=(window.out[0] // tile[0], window.out[1] // tile[1]),
    )
