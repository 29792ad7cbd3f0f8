"""Plans of matrix products: tiles, waves over the cores and split k on a GPU; arrays; tile grids.

A GPU's library has kernels of a few tile shapes, and picks one by a model of its own. The planner takes the fastest of those
that the chip lists. One step of k of a block takes the longer of its multiply-adds and of its operands from the cache. Blocks
go to the cores in waves, so the last wave counts whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Product

SPLITS = (1, 2, 3, 4, 6, 8)  #: parts of k that are tried
LEAST_SPLIT = 256  #: k of a part, at least
STEP = 32  #: k is cut in multiples of this
PARTIAL_BYTES = 4  #: of an element of a part's result


def plan_product(view: ChipView, op: Product) -> Kernel:
    """The kernel of the fastest plan."""
    return min(product_plans(view, op), key=lambda one: one.cycles(view.memory_rate))


def product_plans(view: ChipView, op: Product) -> Iterator[Kernel]:
    """Every plan that is tried."""
    kind = view.chip.kind
    if kind == "gpu":
        yield from _blocks(view, op)
    elif kind == "tensix":
        yield _tile_grid(view, op)
    else:
        yield from _arrays(view, op)


def _kernel(op: Product, body: float, after: float = 0.0, **notes: float | int | str) -> Kernel:
    left, right, out = op.parts
    return Kernel(op.name, "te", body, left + right, out, after=after, notes=notes)


def _blocks(view: ChipView, op: Product) -> Iterator[Kernel]:
    chip = view.chip
    rate, per_core = view.macs(op.bits), view.cache_rate / chip.cores
    best: dict[int, tuple[float, Kernel]] = {}
    for rows, cols in chip.tiles:
        step = max(rows * cols / rate, (rows * op.left_bytes + cols * op.right_bytes) / per_core)
        tiles = ceil(op.m / rows) * ceil(op.n / cols) * op.count
        for split in SPLITS:
            part = ceil(op.k / split / STEP) * STEP
            if split > 1 and op.k / split < LEAST_SPLIT:
                break
            waves = ceil(tiles * split / chip.cores)
            body = waves * (chip.product_fill_cycles + part * step)
            after = 0.0
            if split > 1:
                partial = op.m * op.n * op.count * PARTIAL_BYTES * (split + 1)
                after = partial / view.cache_rate + view.cycles(float(chip.graph_start_ns))
            score = body + after
            if split not in best or score < best[split][0]:
                kernel = _kernel(op, body, after, tile=f"{rows}x{cols}", split=split, blocks=tiles * split, waves=waves)
                best[split] = (score, kernel)
    for _, kernel in best.values():
        yield kernel


def _arrays(view: ChipView, op: Product) -> Iterator[Kernel]:
    """Weight-stationary arrays, filled while the last fold is computed; arrays share the columns or the rows."""
    chip = view.chip
    side = chip.array
    folds = ceil(op.k / side) * ceil(op.n / side) * op.count
    pace = float(chip.macs(op.bits)) / (side * side) * view.product_share
    streamed = max(op.m, side)
    for cut in ("columns", "rows"):
        if cut == "columns":
            body = ceil(folds / chip.cores) * streamed + 3 * side
        else:
            body = folds * max(ceil(op.m / chip.cores), side) + 3 * side
        yield _kernel(op, body / pace, arrays=cut, folds=folds)


TILE = 32  #: rows and columns of a tile of a Tensix
STEP_CYCLES = 16  #: of one tile product and pass


def _tile_grid(view: ChipView, op: Product) -> Kernel:
    """Tiles of 32 x 32 on a grid of cores: each core has a rectangle of the result.

    A tile product takes its passes and the unpacking of its operand. What lies in DRAM is multicast to the cores in turns, in
    which they hardly compute: loads, products and stores follow each other.
    """
    chip = view.chip
    side = max(1, int(chip.cores**0.5))
    rows, cols, deep = ceil(op.m / TILE), ceil(op.n / TILE), ceil(op.k / TILE)
    per_core = ceil(rows / side) * ceil(cols / side) * deep * op.count
    operand = TILE * TILE * op.right_bytes
    tile_cycles = STEP_CYCLES * op.passes + operand / float(chip.operand_bytes_per_cycle)
    body = per_core * tile_cycles / view.product_share
    kernel = _kernel(op, body, tiles_per_core=per_core, cycles_per_tile=round(tile_cycles, 2))
    return replace(kernel, serial=True)
