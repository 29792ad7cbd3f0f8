"""A mixture of experts: each expert loads the routing, finds its tokens, and computes only on those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernbench.benches._blocks import Work, blocks_in_flight, cuts, followed, groups, together
from kernbench.benches._reference import DTYPE, IN_FLIGHT, SEED, normal, product, rounded, wide
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.pointers import DevicePointer
from kernbench.runtime_api import Context, bench
from kernbench.runtime_api.bench import Param


def runs_of(routed: Array, expert: int, most: int) -> list[tuple[int, int, int]]:
    """(slot, first token, tokens) of neighbouring tokens that are routed to an expert in one slot, at most `most` each."""
    runs: list[tuple[int, int, int]] = []
    for slot in range(routed.shape[1]):
        for token in np.flatnonzero(routed[:, slot] == expert).tolist():
            last = runs[-1] if runs else None
            if last is not None and last[0] == slot and last[1] + last[2] == token and last[2] < most:
                runs[-1] = slot, last[1], last[2] + 1
            else:
                runs.append((slot, token, 1))
    return runs


def dispatch(
    x: DevicePointer,
    weights: DevicePointer,
    routed: DevicePointer,
    gates: DevicePointer,
    staged: DevicePointer,
    block: int,
    width: int,
    tl: Any,
) -> None:
    """One program an expert: `staged[slot, token] = gate * (x[token] @ weights[expert])` of the tokens routed to it.

    `width` runs of tokens are worked on at a time.
    """
    expert = tl.program_id()
    (tokens, wide_in), wide_out = x.shape, weights.shape[2]
    table = tl.load(routed, routed.shape, routed.dtype)
    runs = runs_of(table.data, expert, block)
    if not runs:
        return

    def fetch(run: tuple[int, int, int]) -> tuple[Any, Any]:
        slot, first, count = run
        rows = tl.load(x + first * wide_in * x.itemsize, (count, wide_in), x.dtype, wait=False)
        gate = tl.load(gates + (slot * tokens + first) * gates.itemsize, (count, 1), gates.dtype, wait=False)
        return rows, gate

    matrix = tl.load(
        weights + expert * wide_in * wide_out * weights.itemsize, (wide_in, wide_out), weights.dtype, wait=False
    )
    def work(run: tuple[int, int, int], operands: tuple[Any, Any]) -> Work:
        slot, first, _ = run
        yield
        rows, gate = operands
        tl.wait(rows, gate)
        result = tl.dot(rows, matrix, out_dtype=staged.dtype)
        yield
        tl.wait(result)
        scaled = result * gate
        yield
        tl.wait(scaled)
        tl.store(staged + (slot * tokens + first) * wide_out * staged.itemsize, scaled)

    parts = groups(runs, width)
    coming = [fetch(run) for run in parts[0]]
    tl.wait(matrix)
    for group, after in followed(parts):
        here = coming
        coming = [fetch(run) for run in after or ()]
        together([work(run, operands) for run, operands in zip(group, here, strict=True)])


def combine(staged: DevicePointer, out: DevicePointer, block: int, tl: Any) -> None:
    """`out[token]` is the sum over slots, a block of tokens a program."""
    slots, tokens, columns = staged.shape
    first = tl.program_id() * block
    count = min(block, tokens - first)

    def fetch(slot: int) -> Any:
        return tl.load(
            staged + (slot * tokens + first) * columns * staged.itemsize, (count, columns), staged.dtype, wait=False
        )

    parts = [fetch(slot) for slot in range(slots)]
    tl.wait(*parts)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        tl.wait(total)
    tl.store(out + first * columns * out.itemsize, total)


def reference(inputs: dict[str, Array], params: Mapping[str, Any]) -> dict[str, Array]:
    """Expert by expert in the kernel's runs, then slot by slot."""
    x, weights, gates = (wide(inputs[name]) for name in ("x", "weights", "gates"))
    dtype, routed = params["dtype"], inputs["routed"]
    staged = np.zeros((routed.shape[1], len(x), weights.shape[2]), np.float32)
    for expert in range(params["experts"]):
        for slot, first, count in runs_of(routed, expert, params["block"]):
            result = product(x[first : first + count], weights[expert], dtype)
            staged[slot, first : first + count] = rounded(result * gates[slot, first : first + count, None], dtype)
    total = staged[0]
    for part in staged[1:]:
        total = rounded(total + part, dtype)
    return {"out": total}


def routing(params: Mapping[str, Any]) -> tuple[Array, Array]:
    """For each token its experts, all different, by falling score, and the gates of each slot. Neighbouring tokens choose the
    same experts, as in one text, and some experts are chosen more often than others.
    """
    random = np.random.default_rng(params["seed"] + 2)
    groups = cuts(params["tokens"], 4)
    liked = -np.log(1.0 + np.arange(params["experts"]))
    rows: list[Sequence[int]] = []
    for _, count in groups:
        scores = liked + random.gumbel(size=params["experts"])
        rows += [np.argsort(-scores, kind="stable")[: params["slots"]].tolist()] * count
    gates = np.full((params["slots"], params["tokens"]), 1 / params["slots"], np.float32)
    return np.array(rows, np.int32), gates


@bench(
    name="moe_dispatch",
    description="mixture of experts: each expert loads the routing and processes only its own tokens",
    params={
        "tokens": Param(256, "tokens of a batch", least=1),
        "experts": Param(16, "number of experts, which are divided among the PEs", least=2),
        "slots": Param(2, "number of experts that process a token", least=1),
        "wide_in": Param(256, "elements of a token", least=1),
        "wide_out": Param(256, "elements of a result", least=1),
        "block": Param(32, "number of tokens that an expert processes at a time", least=1),
        "in_flight": IN_FLIGHT,
        "dtype": DTYPE,
        "seed": SEED,
    },
    reference=reference,
)
def run(ctx: Context) -> None:
    """A program an expert, then sums over slots."""
    params = ctx.params
    tokens, experts, slots, block, dtype = (params[name] for name in ("tokens", "experts", "slots", "block", "dtype"))
    wide_in, wide_out = params["wide_in"], params["wide_out"]
    if slots > experts:
        raise InputError(Problem("bench moe_dispatch", f"it must be at most experts, {experts}", "slots", slots))
    routed, gates = routing(params)
    width = blocks_in_flight(ctx, "te", "ve")
    x = ctx.from_numpy(normal(params["seed"], tokens, wide_in), name="x", dtype=dtype)
    matrices = normal(params["seed"] + 1, experts, wide_in, wide_out, scale=wide_in**-0.5)
    weights = ctx.from_numpy(matrices, name="weights", dtype=dtype)
    table = ctx.from_numpy(routed, name="routed")
    shares = ctx.from_numpy(gates, name="gates", dtype=dtype)
    staged = ctx.empty((slots, tokens, wide_out), dtype, name="staged")
    out = ctx.empty((tokens, wide_out), dtype, name="out")
    ctx.launch("dispatch", dispatch, x, weights, table, shares, staged, block, width, grid=experts)
    ctx.synchronize()
    ctx.launch("combine", combine, staged, out, block, grid=-(-tokens // block))
    ctx.output("out", out)
