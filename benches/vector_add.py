"""Adds two vectors: each PE streams its shard through the scratchpad, the next block in flight while one is added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.benches._blocks import Work, blocks_in_flight, cuts, in_step
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, rounded, spread, wide
from kernbench.common.dtypes import Array
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param


def vector_add(x: DevicePointer, y: DevicePointer, out: DevicePointer, block: int, width: int, tl: Any) -> None:
    """`out = x + y` of this PE's shard, `width` blocks at a time."""

    def fetch(part: tuple[int, int]) -> tuple[Any, ...]:
        at, n = part
        return tuple(tl.load(one + at * one.itemsize, (n,), one.dtype, wait=False) for one in (x, y))

    def work(part: tuple[int, int], operands: tuple[Any, ...]) -> Work:
        yield
        a, b = operands
        tl.wait(a, b)
        total = a + b
        yield
        tl.wait(total)
        tl.store(out + part[0] * out.itemsize, total)

    in_step(cuts(x.shape[0], block), width, fetch, work)


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """One addition an element, rounded once."""
    return {"out": rounded(wide(inputs["x"]) + wide(inputs["y"]), params["dtype"])}


@bench(
    name="vector_add",
    description="out = x + y, streamed in blocks: DRAM bandwidth limits it",
    params={
        "n": Param(1 << 20, "elements of each vector", least=1),
        "block": Param(8192, "elements that are loaded at a time", least=1),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """One launch on all PEs, a shard each."""
    n, dtype, seed = ctx.params["n"], ctx.params["dtype"], ctx.params["seed"]
    x = ctx.from_numpy(normal(seed, n), name="x", dtype=dtype, placement=spread())
    y = ctx.from_numpy(normal(seed + 1, n), name="y", dtype=dtype, placement=spread())
    out = ctx.empty((n,), dtype, name="out", placement=spread())
    ctx.launch("vector_add", vector_add, x, y, out, ctx.params["block"], blocks_in_flight(ctx, "ve"))
    ctx.output("out", out)
