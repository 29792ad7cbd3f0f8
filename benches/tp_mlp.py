"""A feed-forward network in tensor parallel, as Megatron cuts it: columns of the first weights, rows of the second, and an
all-reduce of what the ranks have; the next layer's product needs the sums. Three kernels follow each other in the scratchpad.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernbench.benches._reference import DTYPE, SEED, normal, product, rounded, wide
from kernbench.ccl.call import Call, Launcher
from kernbench.ccl.contract import Shape
from kernbench.ccl.group import Group, group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.registry import read_registry
from kernbench.common.dtypes import Array, narrow, widen
from kernbench.common.errors import InputError, Problem
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, DPPolicy, bench
from kernbench.runtime_api.bench import Param


def mlp(x: DevicePointer, w1: DevicePointer, w2: DevicePointer, part: DevicePointer, tl: Any) -> None:
    """This rank's part of `relu(x @ w1) @ w2`: its columns of `w1`, and the rows of `w2` that they meet."""
    hidden, columns = w1.shape[1:]
    rows = tl.load(x, x.shape, x.dtype, wait=False)
    first = tl.load(w1, (hidden, columns), w1.dtype, wait=False)
    second = tl.load(w2, (columns, hidden), w2.dtype, wait=False)
    tl.wait(rows, first)
    inner = tl.dot(rows, first, out_dtype=x.dtype)
    tl.wait(inner)
    active = tl.relu(inner)
    tl.wait(active, second)
    result = tl.dot(active, second, out_dtype=x.dtype)
    tl.wait(result)
    tl.store(part, result)


def project(y: DevicePointer, w3: DevicePointer, out: DevicePointer, tl: Any) -> None:
    """This rank's columns of `y @ w3`."""
    tokens, columns = out.shape[1:]
    hidden = w3.shape[1]
    rows = tl.load(y, (tokens, hidden), y.dtype, wait=False)
    weights = tl.load(w3, (hidden, columns), w3.dtype, wait=False)
    tl.wait(rows, weights)
    result = tl.dot(rows, weights, out_dtype=y.dtype)
    tl.wait(result)
    tl.store(out, result)


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Rank by rank, then the sums in the order in which the algorithm adds, then the next product."""
    dtype, x, ranks = params["dtype"], wide(inputs["x"]), params["ranks"]
    order = inputs["rows"].tolist()
    parts = []
    for row in order:
        inner = rounded(np.maximum(product(x, wide(inputs["w1"][row]), dtype), 0), dtype)
        parts.append(narrow(product(inner, wide(inputs["w2"][row]), dtype), dtype).reshape(-1))
    registry = read_registry()
    entry = registry.find("all_reduce", params["algo"])
    kind, *shape = inputs["group"].tolist()
    slot_bytes = queues_of(registry, entry).slot_bytes
    assert slot_bytes is not None
    sums = entry.load().reference(parts, kind, Shape(*shape), slot_bytes)
    y = np.empty((ranks, *x.shape), parts[0].dtype)
    for rank, row in enumerate(order):
        y[row] = sums[rank].reshape(x.shape)
    out = np.stack([product(wide(y[row]), wide(inputs["w3"][row]), dtype) for row in range(ranks)])
    return {"y": widen(y), "out": out}


@bench(
    name="tp_mlp",
    description="feed-forward network on several ranks: two products, an all-reduce and another product",
    machine="single_cube",
    params={
        "tokens": Param(32, "rows of x", least=1),
        "hidden": Param(256, "columns of x and of the result", least=1),
        "ffn": Param(1024, "columns of the first weight matrix, over all ranks", least=1),
        "ranks": Param(8, "number of PEs that share the weights", least=1),
        "algo": Param(
            "ring", "of the all-reduce", choices=("ring", "bidirectional", "halving_doubling", "torus", "hierarchical")
        ),
        "tier": Param("tcm", "memory with the slots of the queues", choices=("tcm", "sram", "hbm")),
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """Three launches in sequence on each PE; only the all-reduce itself waits for all ranks."""
    params = ctx.params
    tokens, hidden, ffn, ranks, dtype, seed = (params[one] for one in ("tokens", "hidden", "ffn", "ranks", "dtype", "seed"))
    if ffn % ranks or hidden % ranks:
        raise InputError(Problem("bench tp_mlp", f"it must divide ffn, {ffn}, and hidden, {hidden}", "ranks", ranks))
    group = group_of(ctx.config, shape_for(ctx.config, ranks))
    shards = DPPolicy("row_wise", "row_wise", "row_wise", *group.shape)
    copies = DPPolicy(sips=group.shape.sips, cubes=group.shape.cubes, pes=group.shape.pes)
    x = ctx.from_numpy(normal(seed, tokens, hidden), name="x", dtype=dtype, placement=copies)
    columns = ffn // ranks
    w1 = ctx.from_numpy(normal(seed + 1, ranks, hidden, columns, scale=hidden**-0.5), name="w1", dtype=dtype, placement=shards)
    w2 = ctx.from_numpy(normal(seed + 2, ranks, columns, hidden, scale=ffn**-0.5), name="w2", dtype=dtype, placement=shards)
    last = hidden // ranks
    w3 = ctx.from_numpy(normal(seed + 3, ranks, hidden, last, scale=hidden**-0.5), name="w3", dtype=dtype, placement=shards)
    part, y = (ctx.empty((ranks, tokens, hidden), dtype, name=name, placement=shards) for name in ("part", "y"))
    out = ctx.empty((ranks, tokens, last), dtype, name="out", placement=shards)
    ctx.from_numpy(np.asarray(group.rows, np.int32), name="rows")
    ctx.from_numpy(np.asarray([group.kind, *group.shape], np.int32), name="group")
    reduce, launch = _all_reduce(ctx, group, tokens * hidden)
    launch.install(reduce)
    ctx.deploy_tensor(w3)  # before the first launch: what is deployed later waits for all that run
    ctx.launch("mlp", mlp, x, w1, w2, part, pes=group.pes)
    launch(reduce, part, y)
    ctx.launch("project", project, y, w3, out, pes=group.pes)
    ctx.output("y", y)
    ctx.output("out", out)


def _all_reduce(ctx: Context, group: Group, count: int) -> tuple[Call, Launcher]:
    registry = read_registry()
    entry = registry.find("all_reduce", ctx.params["algo"])
    queues = queues_of(registry, entry, tier=ctx.params["tier"])
    assert queues.slot_bytes is not None
    return Call(entry.full_name, entry.load(), group, count, ctx.params["dtype"], queues.slot_bytes), Launcher(ctx, queues)
