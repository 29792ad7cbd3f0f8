"""A product of matrices, sharded over PEs: each has rows of `a` and of `c`, and all of `b`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from kernbench.benches._reference import DTYPE, SEED, cuts, normal, product, wide

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, DPPolicy, bench
from kernbench.runtime_api.parameters import Param


def pinned(a: DevicePointer, b: DevicePointer, c: DevicePointer, block_m: int, block_n: int, tl: Any) -> None:
    """`c = a @ b` of this PE's rows, both operands loaded by the kernel.

    A panel of `a` stays in the scratchpad while blocks of `b` pass by; the next block is on its way during a product, and
    a block of `c` leaves while the next is computed.
    """
    (rows, k), columns = a.shape, b.shape[1]
    done: tuple[int, Any] | None = None

    def panel(at: int, count: int) -> Any:
        return tl.load(a + at * k * a.itemsize, (count, k), a.dtype, wait=False)

    def block(at: int, count: int) -> Any:
        return tl.load(b + at * b.itemsize, (k, count), b.dtype, strides=(columns * b.itemsize, b.itemsize), wait=False)

    def leave(at: int, result: Any) -> None:
        tl.wait(result)
        tl.store(c + at * c.itemsize, result, strides=(columns * c.itemsize, c.itemsize))

    tiles = [(row, column) for row in cuts(rows, block_m) for column in cuts(columns, block_n)]
    left, right = (panel(*tiles[0][0]), block(*tiles[0][1])) if tiles else (None, None)
    for (row, column), after in zip(tiles, [*tiles[1:], None], strict=True):
        here = left, right
        if after:
            left = left if after[0] == row else panel(*after[0])
            right = block(*after[1])
        tl.wait(*here)
        result = tl.dot(*here, out_dtype=c.dtype)
        if done is not None:
            leave(*done)
        done = row[0] * columns + column[0], result
    if done is not None:
        leave(*done)


#: Kernels by `mode`: which operands the kernel itself loads.
KERNELS: dict[str, Callable[..., None]] = {"pinned": pinned}


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """One product over the whole of `k`, added in f32 and rounded once."""
    return {"c": product(wide(inputs["a"]), wide(inputs["b"]), params["dtype"])}


def rows_over(pes: int, ctx: Context) -> DPPolicy:
    """Rows over so many PEs (0: all): of the first cube, or whole cubes of every SIP that is needed."""
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


@bench(
    name="gemm",
    description="c = a @ b, rows over the PEs: bound by the tensor engine where k is large",
    params={
        "m": Param(1024, "rows of a and c", least=1),
        "n": Param(1024, "columns of b and c", least=1),
        "k": Param(1024, "columns of a, rows of b", least=1),
        "block_m": Param(128, "rows of a block of c", least=1),
        "block_n": Param(128, "columns of a block of c", least=1),
        "mode": Param("pinned", "which operands the kernel loads itself", choices=tuple(KERNELS)),
        "pes": Param(0, "how many PEs take part: some of the first cube, or whole cubes; 0: all", least=0),
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
    b = ctx.from_numpy(normal(seed + 1, k, n), name="b", dtype=dtype, placement=replicas)
    c = ctx.empty((m, n), dtype, name="c", placement=rows)
    kernel = KERNELS[params["mode"]]
    ctx.launch("gemm", kernel, a, b, c, params["block_m"], params["block_n"], pes=[part.pe for part in a.parts])
    ctx.output("c", c)
