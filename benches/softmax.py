"""Softmax of rows: maximum, exponentials, sum and quotient, a block of rows at a time."""

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


def softmax(x: DevicePointer, out: DevicePointer, block: int, width: int, tl: Any) -> None:
    """`out = softmax(x)` over the last axis, of the rows of this PE's shard, `width` blocks at a time.

    Each step is rounded to the tensors' type.
    """
    rows, columns = x.shape

    def fetch(rows_of: tuple[int, int]) -> Any:
        at, count = rows_of
        return tl.load(x + at * columns * x.itemsize, (count, columns), x.dtype, wait=False)

    def work(rows_of: tuple[int, int], here: Any) -> Work:
        yield
        tl.wait(here)
        largest = tl.max(here, axis=1, keep_dims=True)
        yield
        tl.wait(largest)
        lowered = here - largest
        yield
        tl.wait(lowered)
        raised = tl.exp(lowered)
        yield
        tl.wait(raised)
        total = tl.sum(raised, axis=1, keep_dims=True)
        yield
        tl.wait(total)
        shares = raised / total
        yield
        tl.wait(shares)
        tl.store(out + rows_of[0] * columns * out.itemsize, shares)

    in_step(cuts(rows, block), width, fetch, work)


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """The same steps, each rounded."""
    dtype = params["dtype"]
    x = wide(inputs["x"])
    raised = rounded(np.exp(rounded(x - x.max(axis=1, keepdims=True), dtype)), dtype)
    total = rounded(np.sum(raised, axis=1, keepdims=True, dtype=np.float32), dtype)
    return {"out": rounded(raised / total, dtype)}


@bench(
    name="softmax",
    description="softmax of rows as single vector operations: the vector engine limits it",
    params={
        "rows": Param(512, "rows of the matrix", least=1),
        "columns": Param(1024, "elements of a row", least=1),
        "block": Param(8, "rows that are loaded at a time", least=1),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """One launch on all PEs, rows each."""
    shape = ctx.params["rows"], ctx.params["columns"]
    dtype = ctx.params["dtype"]
    x = ctx.from_numpy(normal(ctx.params["seed"], *shape), name="x", dtype=dtype, placement=spread())
    out = ctx.empty(shape, dtype, name="out", placement=spread())
    ctx.launch("softmax", softmax, x, out, ctx.params["block"], blocks_in_flight(ctx, "ve"))
    ctx.output("out", out)
