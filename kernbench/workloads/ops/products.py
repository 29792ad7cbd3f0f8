"""Plans of matrix products: tiles, waves over the cores and split k on a GPU; arrays; tile grids.

A GPU's library has kernels of a few tile shapes, and picks one by a model of its own: it expects tiles of few rows to be
slower than they are here, so it may run another wave of larger ones. One step of k of a block takes the longer of two times:
the time of its multiply-adds, and the time to read its operands from the cache. Blocks go to the cores in waves, so the last
wave counts whole.
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
CHOSEN = ("tile", "split", "arrays")  #: notes of a plan that a library chooses
PARTIAL_BYTES = 4  #: bytes of an element of a partial result
#: Share of the time of the loads that cores and DRAM lose to each other where both would be busy for equally long, and how fast
#: the share falls with the ratio of the shorter to the longer time, if the loads take longer, and if the cores do. Chosen on
#: products of Llama-2-7B and Llama-3.1-8B (Vidur 7d47513, LLMServingSim 5daddb21). Products on an MI210 (LLMCompass 2e015fd2)
#: agree.
HINDERED, LOADS_LONGER, CORES_LONGER = 0.19, 4, 24


def plan_product(view: ChipView, op: Product, cost: OpCost | None = None, pause_ns: float = 0.0) -> Kernel:
    """The kernel that the library chooses: the kernel with the shortest expected time.

    `pause_ns`: the cores are idle for so long before the next kernel.
    """
    if cost is not None and cost.share != 1:
        view = _scaled(view, float(cost.share))
    kernel = min(product_plans(view, op, cost), key=lambda one: expected_cycles(view, one))
    clock = _clock_beside_pauses(view, kernel, pause_ns) if pause_ns else 1.0
    if clock == 1.0:
        return kernel
    faster = product_plans(_scaled(view, clock), op, cost, every=True)  # the library's choice does not depend on the clock
    return next(one for one in faster if all(one.notes.get(key) == kernel.notes.get(key) for key in CHOSEN))


def _scaled(view: ChipView, factor: float) -> ChipView:
    """The chip with another sustained rate of products."""
    return replace(view, product_share=view.product_share * factor)


def _clock_beside_pauses(view: ChipView, kernel: Kernel, pause_ns: float) -> float:
    """By how much the clock exceeds the one that the power limit allows for products without a pause.

    The limit holds for the mean power, and power is proportional to the cube of the clock (`Chip.power_share`). If cores are
    busy for a share of the time, the cube may be larger by the inverse of this share, up to the rated clock.
    """
    busy = kernel.body / (kernel.cycles(view.memory_rate) + view.cycles(pause_ns))
    return max(1.0, min(1.0 / float(view.chip.power_share), busy ** (-1 / 3))) if busy else 1.0


def expected_cycles(view: ChipView, kernel: Kernel) -> float:
    """The time of a plan that the library expects. It overestimates the time of small tiles."""
    return kernel.cycles(view.memory_rate, float(kernel.notes.get("expected", 1.0)))


def expected_factor(rows: int, cols: int, needed: int) -> float:
    """The factor by which a library overestimates the time of a tile, for a product of this number of rows."""
    return 1.0 if rows >= min(FULL_TILE, needed) else max(1.0, ((rows + cols) / (rows * cols) / (2 / FULL_TILE)) ** SMALL_TILES)


def product_plans(view: ChipView, op: Product, cost: OpCost | None = None, *, every: bool = False) -> Iterator[Kernel]:
    """The plans that are compared: on a GPU the best tile of each split, or every tile of each."""
    kind = view.chip.kind
    if kind == "gpu":
        yield from _blocks(view, op, every=every)
    elif kind == "tensix":
        yield _tile_grid(view, op, (cost or OpCost()).block_elements)
    else:
        yield from _arrays(view, op)


def _kernel(op: Product, body: float, after: float = 0.0, **notes: float | int | str) -> Kernel:
    left, right, out = op.parts
    return Kernel(op.name, "te", body, left + right, out, after=after, notes=notes)


def _blocks(view: ChipView, op: Product, *, every: bool) -> Iterator[Kernel]:
    chip = view.chip
    rate, per_core = view.macs(chip.multiplied_bits(op.bits, floats=op.floats)), view.cache_rate / chip.cores
    splits = SPLITS if ceil(op.m / FULL_TILE) * ceil(op.n / FULL_TILE) * op.count <= SPLIT_WAVES * chip.cores else (1,)
    best: dict[tuple[int, ...], tuple[float, float, float, dict[str, float | int | str]]] = {}  # score, body, after, notes
    loads = sum(op.parts[:2]) / view.memory_rate
    cache_rate, begin = view.cache_rate, view.cycles(float(chip.graph_start_ns))
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
                after = partial / cache_rate + begin
            score = body * slower + after
            key = (rows, cols, split) if every else (split,)
            if key not in best or score < best[key][0]:
                notes: dict[str, float | int | str] = {
                    "tile": f"{rows}x{cols}", "split": split, "blocks": tiles * split, "waves": waves,
                }  # fmt: skip
                best[key] = score, body, after, {**notes, "expected": round(slower, 3)}
    for _, body, after, told in best.values():
        yield _kernel(op, body, after + hindered_cycles(body, loads), **told)


def hindered_cycles(body: float, loads: float) -> float:
    """[cycle] of a product beyond the longer of its work and its loads: blocks wait for loads, and loads for room in blocks.

    The two slow each other down most if they would take equally long.
    """
    if not body or not loads:
        return 0.0
    ratio = body / loads
    return HINDERED * loads * (ratio**LOADS_LONGER if ratio < 1 else ratio**-CORES_LONGER)


def _arrays(view: ChipView, op: Product) -> Iterator[Kernel]:
    """Weight-stationary arrays, filled while the last fold is computed; arrays share the columns or the rows.

    Products of one column are a depthwise convolution: an NPU gives each of them a column of its array, which takes the
    elements of the window one after the other. Feature maps on the chip move through the memory that the cores share.
    """
    chip = view.chip
    side = chip.array
    pace = float(chip.macs(op.bits)) / (side * side) * view.product_share
    shared = _near_bytes(op) / view.cache_rate if chip.cache_bytes else 0.0
    if chip.kind == "npu" and op.n == 1 < op.count:
        body = ceil(op.count / chip.cores / side) * op.m * op.k
        yield _kernel(op, max(body / pace, shared), arrays="channels", folds=ceil(op.count / side))
        return
    folds = ceil(op.k / side) * ceil(op.n / side) * op.count
    streamed = max(op.m, side)
    for cut in ("columns", "rows"):
        if cut == "columns":
            body = ceil(folds / chip.cores) * streamed + 3 * side
        else:
            body = folds * max(ceil(op.m / chip.cores), side) + 3 * side
        yield _kernel(op, max(body / pace, shared), arrays=cut, folds=folds)


def _near_bytes(op: Product) -> float:
    """Bytes of the operands and the result that do not lie in DRAM."""
    return replace(op, near=(False, False, False)).nbytes - op.nbytes


TILE = 32  #: rows and columns of a tile of a Tensix
STEP_CYCLES = 16  #: cycles of one tile product and pass
PARTIAL_TILE = TILE * TILE * 2  #: [byte] of a tile of partial sums
PARTIAL_DEPTH = 2  #: tiles of k that a core adds up before it puts a partial sum aside (tt-metal 14eb2fbc)
PORT = 28.1  #: [byte/cycle] between a core and its network (tt-npe's model of Wormhole)
HAND_OVER = 68  #: [cycle] a multicast of a tile waits for its receivers. Fitted: tt-metal 14eb2fbc, default configuration


def _tile_grid(view: ChipView, op: Product, block: int) -> Kernel:
    """Tiles of 32 x 32 on a grid of cores: each core has a rectangle of the result.

    A tile product takes its passes and the unpacking of its operand. Operands in DRAM are multicast to the cores in turns. The
    cores hardly compute meanwhile, so loads, products and stores follow each other. Where the left operand is one row of
    tiles, each core streams its part of the right one while it computes.

    A library that cuts results into blocks of so many rows and columns gives one core a result of one block. That core puts
    its partial sums aside and reads them again, which takes longer than it unpacks operands. A row of blocks is shared by all
    cores, which all need the whole left operand: one core reads it and multicasts it, tile by tile. A column of blocks is the
    same with the right operand.
    """
    chip = view.chip
    blocks = (ceil(op.m / block), ceil(op.n / block)) if block else (0, 0)
    side = 1 if blocks == (1, 1) else max(1, int(chip.cores**0.5))
    rows, cols, deep = ceil(op.m / TILE), ceil(op.n / TILE), ceil(op.k / TILE)
    per_core = ceil(rows / side) * ceil(cols / side) * deep * op.count
    tile_cycles = STEP_CYCLES * op.passes + TILE * TILE * op.right_bytes / float(chip.operand_bytes_per_cycle)
    body = per_core * tile_cycles / view.product_share
    notes = {"tiles_per_core": per_core, "cycles_per_tile": round(tile_cycles, 2)}
    kernel = _kernel(op, body, **notes)
    if blocks == (1, 1):
        sums = rows * cols * ceil(deep / PARTIAL_DEPTH) * 2 * PARTIAL_TILE / PORT
        body = op.count * (per_core / op.count * STEP_CYCLES * op.passes / view.product_share + sums)
    elif 1 in blocks and rows > 1:
        tiles, size = (rows, op.left_bytes) if blocks[0] == 1 else (cols, op.right_bytes)
        body = max(body, tiles * deep * op.count * (HAND_OVER + 2 * TILE * TILE * size / PORT))
    return replace(kernel, body=body, serial=rows > 1)
