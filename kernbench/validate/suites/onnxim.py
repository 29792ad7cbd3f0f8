"""Matrix products on ONNXim's machine, in the order of loads, products and stores of its mapping.

The result is divided into tiles, which the cores take in turn. A core loads the first block of weights of its tile, the blocks
of activations, and the other weights. It multiplies block by block, and stores each block of the result. The loads of the next
tile follow those of the current one, because the scratchpad holds two tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isqrt

from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

ALLOWED = 0.05
WHY = (
    "HBM2 by its standard, of several readings; left are the hash of its channels, its network, and one command a clock in "
    "its DRAM controller"
)
LIMITS = {  # what else than the array limits a product: such rows are reported
    "dram": "DRAM limits it: the array of the busiest core works for less than 60 % of ONNXim's time",
    "start": "it takes fewer than 5,000 cycles, and ONNXim loads the first weights of an idle array in 2R - 1 cycles, not R",
}
_PLACES = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
_AT = {"tensor_role": "activation", "qbits": 16, "spm_bank": 0, "spm_offset": 0}
_BITS = {"qbits_weight": 16, "qbits_activation": 16}


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Each product."""
    machine = load_config(data.fact("machine"))
    for case in data.cases:
        m, k, n = (int(case[name]) for name in "mkn")
        limit = case.get("limit")
        yield Row(
            case=f"{m}x{k}x{n} on four 128x128",
            source="onnxim",
            expected=int(case["cycles"]),
            ours=runner.cycles(product_program(m, k, n, data), machine),
            unit="cycles",
            allowed=ALLOWED if limit is None else None,
            why=WHY if limit is None else LIMITS[limit],
        )


def product_program(m: int, k: int, n: int, data: SuiteData) -> Program:
    """The product of `(m, k)` and `(k, n)`."""
    mapping = _Mapping(m, k, n, data)
    height, width = mapping.tile()
    program = Program("product")
    places = [(row, column) for row in range(0, m, height) for column in range(0, n, width)]
    ended: list[list[int]] = []  # ids of the last product of each tile
    for number, (row, column) in enumerate(places):
        free = number - 2 * mapping.cores  # the tile whose place in the scratchpad this one takes
        sizes = min(height, m - row), min(width, n - column)
        ended.append(mapping.add(program, number % mapping.cores, (row, column), sizes, ended[free] if free >= 0 else []))
    return program


class _Mapping:
    """How ONNXim divides a product, and where its matrices are: activations, weights, result."""

    def __init__(self, m: int, k: int, n: int, data: SuiteData) -> None:
        self.m, self.k, self.n = m, k, n
        self.cores, self.block, self.bytes = (int(data.fact(name)) for name in ("cores", "block", "bytes"))
        self.most = isqrt(int(data.fact("accumulators")))  # blocks on a side of a tile
        self.weights = m * k * self.bytes
        self.result = self.weights + k * n * self.bytes

    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile: as many blocks as fit the accumulators, and so many tiles that all cores have some."""
        sides = self.m, self.n
        counts = [ceil(side / (self.most * self.block)) for side in sides]
        longer = 0 if self.m > self.n else 1
        if self.m != self.n:
            if counts[0] * counts[1] < self.cores:
                counts[longer] *= ceil(self.cores / (counts[0] * counts[1]))
            counts[longer] += counts[0] * counts[1] % self.cores
        height, width = (
            ceil(ceil(side / self.block) * self.block / count) // self.block * self.block
            for side, count in zip(sides, counts, strict=True)
        )
        return height, width

    def add(self, program: Program, core: int, at: tuple[int, int], sizes: tuple[int, int], after: list[int]) -> list[int]:
        """Add a tile of a core: its rows of activations, its columns of weights; the id of its last product."""
        row, column = at

        def load(base: int, first: int, lines: int) -> int:
            addr = base + first * self.k * self.bytes
            return program.dma_load(dram_addr=addr, num_elements=lines * self.k, dma_id=core, deps_before=after, **_AT)

        blocks = [[(start, min(self.block, size - start)) for start in range(0, size, self.block)] for size in sizes]
        weights = [load(self.weights, column + blocks[1][0][0], blocks[1][0][1])]
        activations = [load(0, row + start, lines) for start, lines in blocks[0]]
        weights += [load(self.weights, column + start, lines) for start, lines in blocks[1][1:]]
        products = []
        for weight, (j, wide) in zip(weights, blocks[1], strict=True):
            for activation, (i, tall) in zip(activations, blocks[0], strict=True):
                product = program.te_gemm(
                    m=tall, n=wide, k=self.k, te_id=core, deps_before=[weight, activation], **_BITS, **_PLACES
                )
                products.append((product, row + i, column + j, tall, wide))
        for product, i, j, tall, wide in products:
            program.dma_store(
                dram_addr=self.result + (i * self.n + j) * self.bytes, rows=tall, row_elements=wide,
                stride_bytes=self.n * self.bytes, dma_id=core, deps_before=[product], **_AT,
            )  # fmt: skip
        return [products[-1][0]]
