"""Square matrix products on ONNXim's machine, in the order of loads, products and stores of its mapping.

A core has a tile of the result. It loads the first block of weights, the blocks of activations, and the other weights. The
products with the first weights start one after the other, as activations arrive. Those with the other weights are one job.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from kernbench.cmdq import Program
from kernbench.config import load_config
from kernbench.validate.run import Runner
from kernbench.validate.suite import Row, SuiteData

ALLOWED = 0.05
WHY = (
    "HBM2 by its standard, of several readings; left are the hash of its channels, its network, and one command a clock in "
    "its DRAM controller"
)
_PLACES = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
_AT = {"tensor_role": "activation", "qbits": 16, "spm_bank": 0, "spm_offset": 0}
_BITS = {"qbits_weight": 16, "qbits_activation": 16}


def rows(data: SuiteData, runner: Runner) -> Iterator[Row]:
    """Each size."""
    machine = load_config(data.fact("machine"))
    for case in data.cases:
        size = int(case["size"])
        ours = runner.cycles(product_program(size, data), machine)
        yield Row(
            case=f"{size}x{size}x{size} on four 128x128",
            source="onnxim",
            expected=int(case["cycles"]),
            ours=ours,
            unit="cycles",
            allowed=ALLOWED,
            why=WHY,
        )


def product_program(size: int, data: SuiteData) -> Program:
    """The product of two matrices of this size: tiles of at most `tile` rows and columns, one a core."""
    side = size // ceil(size / int(data.fact("tile")))
    program = Program("product")
    for core in range((size // side) ** 2):
        _tile(program, core, size, side, data)
    return program


def _tile(program: Program, core: int, size: int, side: int, data: SuiteData) -> None:
    """The tile of a core: its row of tiles has the activations, its column the weights."""
    block, width = int(data.fact("block")), int(data.fact("bytes"))
    row, column = divmod(core, size // side)
    blocks, elements, matrix = side // block, block * size, size * size * width

    def load(base: int, number: int) -> int:
        return program.dma_load(dram_addr=base + number * elements * width, num_elements=elements, dma_id=core, **_AT)

    def product(rows: int, columns: int, after: list[int]) -> int:
        return program.te_gemm(m=rows, n=columns, k=size, te_id=core, deps_before=after, **_BITS, **_PLACES)

    first = load(matrix, column * blocks)
    activations = [load(0, row * blocks + number) for number in range(blocks)]
    others = [load(matrix, column * blocks + number) for number in range(1, blocks)]
    done = [product(block, block, [first, one]) for one in activations]
    if others:
        done = [product(side, side - block, [others[0], *done])]
    at = 2 * matrix + core * side * side * width
    program.dma_store(dram_addr=at, num_elements=block * block, dma_id=core, deps_before=done, **_AT)
