"""A product of matrices, sharded over PEs: each has rows of `a` and of `c`, and all of `b`.

If the kernel loads its operands, `b` is stored as blocks of columns, as packed weights are: a block is contiguous, and on all
channels of its slice. If they are streamed, it is a plain matrix.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product as product_of
from typing import Any

import numpy as np

from kernbench.benches._blocks import blocks_in_flight, cuts
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, product, rounded, wide
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, DPPolicy, bench
from kernbench.runtime_api.bench import Param


def pinned(a: DevicePointer, b: DevicePointer, c: DevicePointer, block_m: int, width: int, tl: Any) -> None:
    """`c = a @ b` of this PE's rows, both operands loaded by the kernel, a block for each of `width` tensor engines at a time.

    A panel of `a` stays in the scratchpad while blocks of `b` pass by, one for each engine and one more in flight during
    products (of the first ones one less, so that they come sooner); a block of `c` leaves while the next are computed.
    """
    (rows, columns), (blocks, k, block_n) = c.shape, b.shape
    tiles = [(row, number) for row in cuts(rows, block_m) for number in range(blocks)]
    coming: deque[tuple[Any, Any]] = deque()
    done: deque[tuple[int, Any]] = deque()
    fetched, panel = 0, None

    def fetch(most: int) -> None:
        """Load the operands of this many tiles ahead."""
        nonlocal fetched, panel
        while len(coming) < most and fetched < len(tiles):
            (at, count), number = tiles[fetched]
            if number == 0:
                panel = tl.load(a + at * k * a.itemsize, (count, k), a.dtype, wait=False)
            coming.append((panel, tl.load(b + number * k * block_n * b.itemsize, (k, block_n), b.dtype, wait=False)))
            fetched += 1

    def leave(at: int, result: Any) -> None:
        tl.wait(result)
        tl.store(c + at * c.itemsize, result, strides=(columns * c.itemsize, c.itemsize))

    fetch(width)
    for (at, _), number in tiles:
        here = coming.popleft()
        tl.wait(*here)
        fetch(width + 1 if done else width)
        done.append((at * columns + number * block_n, tl.dot(*here, out_dtype=c.dtype)))
        if len(done) == max(width, 2):
            leave(*done.popleft())
    while done:
        leave(*done.popleft())


def b_streamed(a: DevicePointer, b: DevicePointer, c: DevicePointer, tile: tuple[int, int, int], tl: Any) -> None:
    """`c = a @ b` of this PE's rows: panels of `a` are loaded, `b` is streamed tile by tile past each."""
    (rows, columns), k = c.shape, a.shape[1]
    for at, count in cuts(rows, tile[0]):
        panel = tl.load(a + at * k * a.itemsize, (count, k), a.dtype)
        out = c + at * columns * c.itemsize
        tl.composite("gemm", panel, tl.ref(b, b.shape, b.dtype), out, out_dtype=c.dtype, tile=tile)


def streamed(a: DevicePointer, b: DevicePointer, c: DevicePointer, tile: tuple[int, int, int], tl: Any) -> None:
    """`c = a @ b` of this PE's rows: both operands are streamed tile by tile."""
    if a.shape[0]:
        operands = (tl.ref(one, one.shape, one.dtype) for one in (a, b))
        tl.composite("gemm", *operands, c, out_dtype=c.dtype, tile=tile)


#: Kernels by `mode`: which operands are streamed, and which the kernel itself loads.
KERNELS: dict[str, Callable[..., None]] = {"pinned": pinned, "b_streamed": b_streamed, "streamed": streamed}


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Pinned: a block of columns after the other, each over the whole of `k`. Streamed: tile by tile along `k`, in f32."""
    a, b, dtype = wide(inputs["a"]), wide(inputs["b"]), params["dtype"]
    if params["mode"] == "pinned":
        return {"c": np.hstack([product(a, block, dtype) for block in b])}
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for at, count in cuts(a.shape[1], params["block_k"]):
        total += product(a[:, at : at + count], b[at : at + count])
    return {"c": rounded(total, dtype)}


def rows_over(pes: int, ctx: Context) -> DPPolicy:
    """Rows over this many PEs (0: all): of the first cube, or whole cubes of every SIP that is needed."""
    per_cube, per_sip = ctx.machine.pes_per_cube, ctx.machine.pes_per_cube * ctx.machine.cubes
    pes = pes or ctx.machine.pes
    if pes <= per_cube:
        return DPPolicy(pe="row_wise", sips=1, cubes=1, pes=pes)
    sips = max(1, pes // per_sip)
    cubes = pes // sips // per_cube
    if sips * cubes * per_cube != pes:
        rule = f"it must be at most {per_cube}, a cube's, or a multiple of {per_cube}, and above {per_sip} one of {per_sip}"
        raise InputError(Problem("bench gemm", rule, "pes", pes))
    return DPPolicy("row_wise", "row_wise", "row_wise", sips=sips, cubes=cubes)


def pinned_block(ctx: Context, rows: int) -> tuple[int, int]:
    """Rows and columns of the blocks of `c` that fit into the scratchpad of a PE with this number of rows.

    The block has at most `block_m` rows and `block_n` columns, and its number of columns divides `n`. If no width fits,
    the number of rows is halved. If nothing fits, the block has the sizes of the parameters, and the run reports what does
    not fit.
    """
    params = ctx.params
    n, k, nbytes = params["n"], params["k"], dtype_of(params["dtype"]).numpy.itemsize
    widths = [width for width in range(min(params["block_n"], n), 0, -1) if n % width == 0]
    heights = [params["block_m"] >> times for times in range(params["block_m"].bit_length())]
    for height, width in product_of(heights, widths):
        needed = pinned_elements(cuts(rows, height), n // width, k, width, blocks_in_flight(ctx, "te"))
        if needed * nbytes <= ctx.machine.scratchpad_bytes:
            return height, width
    return heights[0], widths[0]


def pinned_elements(panels: Sequence[tuple[int, int]], blocks: int, k: int, width: int, engines: int) -> int:
    """The largest number of elements that `pinned` keeps: the panels of `a`, blocks of `b`, and blocks of `c`.

    Near the end of a panel, the next panel is already there. The more blocks of `c` there are, the fewer blocks of `b` are
    left to load. A panel that is freed leaves a gap between blocks, so a kernel with several panels needs more space.
    """
    products, rows = len(panels) * blocks, panels[0][1]
    most = 0
    for results in range(1, min(max(engines, 2), products) + 1):
        loaded = min(engines + (1 if results == 1 else 2), products - results + 1)
        most = max(most, loaded * k + results * rows)
    gaps = max(panels[0][1], 2 * width) * k if len(panels) > 1 else 0
    return sum(count for _, count in panels[:2]) * k + most * width + gaps


@bench(
    name="gemm",
    description="c = a @ b, with the rows divided among the PEs; the tensor engine limits it if k is large",
    params={
        "m": Param(1024, "rows of a and c", least=1),
        "n": Param(1024, "columns of b and c", least=1),
        "k": Param(1024, "columns of a, rows of b", least=1),
        "block_m": Param(128, "largest number of rows of a block of c; pinned uses fewer rows if they do not fit", least=1),
        "block_n": Param(128, "largest number of columns of a block of c; pinned uses a divisor of n that fits", least=1),
        "block_k": Param(256, "for the streamed modes: columns of a tile of a, which are the rows of a tile of b", least=1),
        "mode": Param("pinned", "pinned loads a and b, b_streamed streams b, streamed streams both", choices=tuple(KERNELS)),
        "pes": Param(0, "number of PEs: some of the first cube, or whole cubes; 0: all PEs", least=0),
        "in_flight": replace(IN_FLIGHT, doc="for pinned: blocks of c in work on a PE; 0: one for each tensor engine"),
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """One launch: rows of `a` and `c` by placement, and `b` beside each."""
    params = ctx.params
    m, n, k, dtype, seed = (params[name] for name in ("m", "n", "k", "dtype", "seed"))
    rows = rows_over(params["pes"], ctx)
    replicas = DPPolicy(sips=rows.sips, cubes=rows.cubes, pes=rows.pes)
    a = ctx.from_numpy(normal(seed, m, k, scale=1 / np.sqrt(k)), name="a", dtype=dtype, placement=rows)
    pinned_mode = params["mode"] == "pinned"
    block_m, block_n = pinned_block(ctx, a.parts[0].shape[0]) if pinned_mode else (params["block_m"], params["block_n"])
    shape = (n // block_n, k, block_n) if pinned_mode else (k, n)
    b = ctx.from_numpy(normal(seed + 1, *shape), name="b", dtype=dtype, placement=replicas)
    c = ctx.empty((m, n), dtype, name="c", placement=rows)
    tile = params["block_m"], params["block_n"], params["block_k"]
    blocks = (block_m, blocks_in_flight(ctx, "te")) if pinned_mode else (tile,)
    ctx.launch("gemm", KERNELS[params["mode"]], a, b, c, *blocks, pes=[part.pe for part in a.parts])
    ctx.output("c", c)
