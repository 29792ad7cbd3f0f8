"""Attention of whole sequences without their score matrix: blocks of queries against blocks of keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernbench.benches._attention import Running, blockwise
from kernbench.benches._blocks import Work, blocks_in_flight, cuts, groups, together
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, spread, wide
from kernbench.common.dtypes import Array
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param


def flash_attention(
    q: DevicePointer,
    k: DevicePointer,
    v: DevicePointer,
    out: DevicePointer,
    block_q: int,
    block_kv: int,
    causal: bool,
    width: int,
    tl: Any,
) -> None:
    """`out = softmax(q @ k.T / sqrt(d)) @ v` of each head of this shard; `causal`: over blocks up to a query's.

    `width` blocks of queries are worked on at a time.
    """
    heads, tokens, depth = q.shape
    row = depth * q.itemsize

    def fetch(one: DevicePointer, head: int, at: int, count: int) -> Any:
        return tl.load(one + (head * tokens + at) * row, (count, depth), one.dtype, wait=False)

    def work(head: int, first: int, rows: int) -> Work:
        queries = fetch(q, head, first, rows)
        blocks = [one for one in cuts(tokens, block_kv) if not causal or one[0] < first + rows]
        coming = fetch(k, head, *blocks[0]), fetch(v, head, *blocks[0])
        yield
        tl.wait(queries)
        seen = Running(queries, depth**-0.5, tl)
        for after in [*blocks[1:], None]:
            here = coming
            coming = (fetch(k, head, *after), fetch(v, head, *after)) if after else ()
            yield
            tl.wait(*here)
            yield from seen.add(*here)
        result = yield from seen.result(out.dtype)
        tl.store(out + (head * tokens + first) * row, result)

    for group in groups([(head, *queries) for head in range(heads) for queries in cuts(tokens, block_q)], width):
        together([work(*one) for one in group])


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Head by head, in the kernel's blocks."""
    q, k, v = (wide(inputs[name]) for name in ("q", "k", "v"))
    heads, tokens, depth = q.shape
    out = np.empty(q.shape, np.float32)
    for head in range(heads):
        for first, rows in cuts(tokens, params["block_q"]):
            spans = [one for one in cuts(tokens, params["block_kv"]) if not params["causal"] or one[0] < first + rows]
            blocks = [(k[head, at : at + n], v[head, at : at + n]) for at, n in spans]
            out[head, first : first + rows] = blockwise(q[head, first : first + rows], blocks, depth**-0.5, params["dtype"])
    return {"out": out}


@bench(
    name="flash_attention",
    description="attention with a running softmax: products and exponentials take turns",
    params={
        "heads": Param(8, "number of heads, which are divided among the PEs", least=1),
        "tokens": Param(512, "number of queries, keys and values of a head", least=1),
        "depth": Param(64, "elements of a query", least=1),
        "block_q": Param(128, "queries of a block", least=1),
        "block_kv": Param(128, "keys of a block", least=1),
        "causal": Param(False, "leave out the keys that come after the queries of a block"),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """One launch on all PEs, heads each."""
    params = ctx.params
    shape, dtype = (params["heads"], params["tokens"], params["depth"]), params["dtype"]
    q, k, v = (
        ctx.from_numpy(normal(params["seed"] + i, *shape), name=name, dtype=dtype, placement=spread())
        for i, name in enumerate(("q", "k", "v"))
    )
    out = ctx.empty(shape, dtype, name="out", placement=spread())
    blocks = params["block_q"], params["block_kv"], params["causal"], blocks_in_flight(ctx, "te", "ve")
    ctx.launch("flash_attention", flash_attention, q, k, v, out, *blocks)
    ctx.output("out", out)
