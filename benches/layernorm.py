"""Layer normalisation of rows, in f32: mean, variance, scale and shift, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from kernbench.benches._blocks import Work, blocks_in_flight, cuts, followed, groups, together
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, everywhere, normal, rounded, spread, wide
from kernbench.common.dtypes import Array
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param

EPSILON = 1e-5


def layernorm(
    x: DevicePointer, gain: DevicePointer, shift: DevicePointer, out: DevicePointer, block: int, width: int, tl: Any
) -> None:
    """`out = (x - mean) / sqrt(variance + eps) * gain + shift` over the last axis, of the rows of this PE's shard.

    `width` blocks of rows are worked on at a time.
    """
    rows, columns = x.shape

    def done(handle: Any) -> Any:
        tl.wait(handle)
        return handle

    def step(handle: Any) -> Generator[None, None, Any]:
        yield
        tl.wait(handle)
        return handle

    def fetched(some: Sequence[tuple[int, int]]) -> list[Any]:
        return [tl.load(x + at * columns * x.itemsize, (count, columns), x.dtype, wait=False) for at, count in some]

    def work(at: int, here: Any) -> Work:
        values = yield from step(tl.cast(here, "f32"))
        mean = yield from step((yield from step(tl.sum(values, axis=1, keep_dims=True))) * (1 / columns))
        centred = yield from step(values - mean)
        squares = yield from step(tl.sum((yield from step(centred * centred)), axis=1, keep_dims=True))
        variance = yield from step(squares * (1 / columns))
        inverse = yield from step(tl.rsqrt((yield from step(variance + EPSILON))))
        scaled = yield from step((yield from step(centred * inverse)) * scale)
        shifted = yield from step(scaled + offset)
        tl.store(out + at * columns * out.itemsize, (yield from step(tl.cast(shifted, out.dtype))))

    parts = groups(cuts(rows, block), width)
    if not parts:
        return
    coming = fetched(parts[0])
    scale = done(tl.cast(tl.load(gain, gain.shape, gain.dtype), "f32"))
    offset = done(tl.cast(tl.load(shift, shift.shape, shift.dtype), "f32"))
    for group, after in followed(parts):
        here = [done(one) for one in coming]
        coming = fetched(after or ())
        together([work(at, one) for (at, _), one in zip(group, here, strict=True)])


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """The same steps in f32."""
    x = wide(inputs["x"])
    share = np.float32(1 / x.shape[1])
    centred = x - np.sum(x, axis=1, keepdims=True, dtype=np.float32) * share
    variance = np.sum(centred * centred, axis=1, keepdims=True, dtype=np.float32) * share
    scaled = centred * (1 / np.sqrt(variance + np.float32(EPSILON))) * wide(inputs["gain"])
    return {"out": rounded(scaled + wide(inputs["shift"]), params["dtype"])}


@bench(
    name="layernorm",
    description="layer normalisation of rows in f32, as single vector operations",
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
    """One launch on all PEs, rows each; every PE has its own gain and shift."""
    rows, columns = ctx.params["rows"], ctx.params["columns"]
    dtype, seed = ctx.params["dtype"], ctx.params["seed"]
    x = ctx.from_numpy(normal(seed, rows, columns), name="x", dtype=dtype, placement=spread())
    gain = ctx.from_numpy(1 + normal(seed + 1, columns, scale=0.1), name="gain", dtype=dtype, placement=everywhere())
    shift = ctx.from_numpy(normal(seed + 2, columns, scale=0.1), name="shift", dtype=dtype, placement=everywhere())
    out = ctx.empty((rows, columns), dtype, name="out", placement=spread())
    ctx.launch("layernorm", layernorm, x, gain, shift, out, ctx.params["block"], blocks_in_flight(ctx, "ve"))
    ctx.output("out", out)
