"""Plans of matrix products: tiles, waves over the cores and split k on a GPU; arrays; tile grids.

A GPU's library has kernels of a few tile shapes, and picks one by a model of its own: it expects tiles of few rows to be
slower than they are here, so it may run another wave of larger ones. One step of k of a block takes the longer of its
multiply-adds and of its operands from the cache. Blocks go to the cores in waves, so the last wave counts whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from kernbench.config.runtime import OpCost
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Product

SPLITS = (1, 2, 3, 4, 6, 8)  #: parts of k that are tried
LEAST_SPLIT = 256  #: k of a part, at least
STEP = 32  #: k is cut in multiples of this
FULL_TILE = 128  #: rows of a tile from which on a library expects the full rate
#: Exponent of the ratio of operands per multiply-add to those of 128 x 128: a library expects 64 x 128 to take 1.4 times as
#: long. Fitted on where products of Llama-3.1-8B on an RTX 4090 change their waves (LLMServingSim 5daddb21): the fused gate and
#: up has 7 waves of 128 x 64 for 256 rows and 11 for 272, where 9 waves of 64 x 128 would be faster.
SMALL_TILES = 0.85
SPLIT_WAVES = 5.1  #: waves of full tiles from which on k is not split (same source)
PARTIAL_BYTES = 4  #: of an element of a part's result


def plan_product(view: ChipView, op: Product, cost: OpCost | None = None) -> Kernel:
    """The kernel that the library takes: the fastest of those that it knows, by what it expects of them."""
    return min(product_plans(view, op, cost), key=lambda one: expected_cycles(view, one))


def expected_cycles(view: ChipView, kernel: Kernel) -> float:
    """What the library expects of a plan: it takes small tiles for slower than they are."""
    return replace(kernel, body=kernel.body * float(kernel.notes.get("expected", 1.0))).cycles(view.memory_rate)


def expected_factor(rows: int, cols: int, needed: int) -> float:
    """By how much a library expects a tile to be slower than it is, for a product of so many rows."""
    return 1.0 if rows >= min(FULL_TILE, needed) else max(1.0, ((rows + cols) / (rows * cols) / (2 / FULL_TILE)) ** SMALL_TILES)


def product_plans(view: ChipView, op: Product, cost: OpCost | None = None, *, every: bool = False) -> Iterator[Kernel]:
    """The plans that are compared: on a GPU the best tile of each split, or every tile of each."""
    kind = view.chip.kind
    if kind == "gpu":
        yield from _blocks(view, op, every=every)
    elif kind == "tensix":
        yield _tile_grid(view, op, (cost or OpCost()).one_core_elements)
    else:
        yield from _arrays(view, op)


def _kernel(op: Product, body: float, after: float = 0.0, **notes: float | int | str) -> Kernel:
    left, right, out = op.parts
    return Kernel(op.name, "te", body, left + right, out, after=after, notes=notes)


def _blocks(view: ChipView, op: Product, *, every: bool) -> Iterator[Kernel]:
    chip = view.chip
    rate, per_core = view.macs(op.bits), view.cache_rate / chip.cores
    splits = SPLITS if ceil(op.m / FULL_TILE) * ceil(op.n / FULL_TILE) * op.count <= SPLIT_WAVES * chip.cores else (1,)
    best: dict[tuple[int, ...], tuple[float, Kernel]] = {}
    for rows, cols in chip.tiles:
        slower = expected_factor(rows, cols, op.m)
        step = max(rows * cols / rate, (rows * op.left_bytes + cols * op.right_bytes) / per_core)
        tiles = ceil(op.m / rows) * ceil(op.n / cols) * op.count
        for split in splits:
            part = ceil(op.k / split / STEP) * STEP
            if split > 1 and op.k / split < LEAST_SPLIT:
                break
            waves = ceil(tiles * split / chip.cores)
            body = waves * (view.latency + part * step)
            after = 0.0
            if split > 1:
                partial = op.m * op.n * op.count * PARTIAL_BYTES * (split + 1)
                after = partial / view.cache_rate + view.cycles(float(chip.graph_start_ns))
            score = body * slower + after
            key = (rows, cols, split) if every else (split,)
            if key not in best or score < best[key][0]:
                kernel = _kernel(
                    op, body, after, tile=f"{rows}x{cols}", split=split, blocks=tiles * split, waves=waves,
                    expected=round(slower, 3),
                )  # fmt: skip
                best[key] = (score, kernel)
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


def _tile_grid(view: ChipView, op: Product, one_core: int) -> Kernel:
    """Tiles of 32 x 32 on a grid of cores: each core has a rectangle of the result.

    A tile product takes its passes and the unpacking of its operand. What lies in DRAM is multicast to the cores in turns, in
    which they hardly compute: loads, products and stores follow each other. A library may leave a small result to one core,
    which then unpacks both operands of each tile product.
    """
    chip = view.chip
    side = max(1, int(chip.cores**0.5)) if max(op.m, op.n) > one_core else 1
    rows, cols, deep = ceil(op.m / TILE), ceil(op.n / TILE), ceil(op.k / TILE)
    per_core = ceil(rows / side) * ceil(cols / side) * deep * op.count
    operand = TILE * TILE * (op.right_bytes if side > 1 else op.right_bytes + op.left_bytes)
    tile_cycles = STEP_CYCLES * op.passes + operand / float(chip.operand_bytes_per_cycle)
    body = per_core * tile_cycles / view.product_share
    kernel = _kernel(op, body, tiles_per_core=per_core, cycles_per_tile=round(tile_cycles, 2))
    return replace(kernel, serial=True)
