"""Adds up all elements of a matrix: each PE the rows of its shard, then the first PE the rows' sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernbench.benches._blocks import Work, blocks_in_flight, cuts, in_step
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, rounded, spread, wide
from kernbench.common.dtypes import Array
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param


def row_sums(x: DevicePointer, sums: DevicePointer, block: int, width: int, tl: Any) -> None:
    """The sum of each row of this PE's shard, in f32, `width` blocks at a time; `sums` is one vector for all PEs."""
    rows, columns = x.shape

    def fetch(rows_of: tuple[int, int]) -> Any:
        at, count = rows_of
        return tl.load(x + at * columns * x.itemsize, (count, columns), x.dtype, wait=False)

    def work(rows_of: tuple[int, int], here: Any) -> Work:
        yield
        tl.wait(here)
        wide_rows = tl.cast(here, "f32")
        yield
        tl.wait(wide_rows)
        found = tl.sum(wide_rows, axis=1)
        yield
        tl.wait(found)
        tl.store(sums + (x.shard.offset[0] + rows_of[0]) * sums.itemsize, found)

    in_step(cuts(rows, block), width, fetch, work)


def total_sum(sums: DevicePointer, out: DevicePointer, tl: Any) -> None:
    """The sum of the rows' sums, rounded once."""
    found = tl.load(sums, sums.shape, sums.dtype)
    total = tl.sum(found, axis=0, keep_dims=True)
    tl.wait(total)
    result = tl.cast(total, out.dtype)
    tl.wait(result)
    tl.store(out, result)


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Rows first, then their sums."""
    sums = np.sum(wide(inputs["x"]), axis=1, dtype=np.float32)
    return {"out": rounded(np.sum(sums, keepdims=True, dtype=np.float32), params["dtype"])}


@bench(
    name="reduce",
    description="sum of a matrix: every PE computes partial sums, and one PE adds them up",
    params={
        "rows": Param(1024, "rows of the matrix", least=1),
        "columns": Param(1024, "elements of a row", least=1),
        "block": Param(8, "rows that are loaded at a time", least=1),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """Two launches; the second needs what the first has stored."""
    rows, columns = ctx.params["rows"], ctx.params["columns"]
    scale = 1 / (rows * columns) ** 0.5  # the sum is about 1, also in f16
    values = normal(ctx.params["seed"], rows, columns, scale=scale)
    x = ctx.from_numpy(values, name="x", dtype=ctx.params["dtype"], placement=spread())
    sums = ctx.empty((rows,), "f32", name="sums")
    out = ctx.empty((1,), ctx.params["dtype"], name="out")
    ctx.launch("row_sums", row_sums, x, sums, ctx.params["block"], blocks_in_flight(ctx, "ve"))
    ctx.synchronize()
    ctx.launch("total_sum", total_sum, sums, out, pes=1)
    ctx.output("out", out)
