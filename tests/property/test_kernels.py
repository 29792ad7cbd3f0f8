"""Random kernels: the same tensors as plain numpy in program order, and the same cycles however they are simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernbench.sim_engine.data_executor import DataExecutor
from tests.kernels import Run, easy

SIZE = 8  # of a tile's rows and columns
TILE = SIZE * SIZE * 4
SLOT = TILE // 2  # tiles begin at multiples of it, so that they overlap by halves
SLOTS = 10
MEMORY = (SLOTS + 1) * SLOT + SIZE * 2 * SIZE * 4  # and room for the longest strided tile
INDEX = 1 << 16  # where integers lie
STRIDE = 2 * SIZE * 4  # of rows that lie apart


@dataclass(frozen=True)
class Op:
    name: str
    i: int = 0
    j: int = 0
    flag: bool = False
    strided: bool = False


ops = st.one_of(
    st.builds(Op, st.just("load"), st.integers(0, SLOTS - 1), flag=st.booleans(), strided=st.booleans()),
    st.builds(Op, st.just("follow"), st.integers(0, 7), flag=st.booleans()),
    st.builds(Op, st.just("store"), st.integers(0, 5), st.integers(0, SLOTS - 1), st.booleans(), st.booleans()),
    st.builds(Op, st.just("dot"), st.integers(0, 5), st.integers(0, 5), st.booleans()),
    st.builds(Op, st.sampled_from(["add", "sub", "maximum", "relu", "sum"]), st.integers(0, 5), st.integers(0, 5)),
    st.builds(Op, st.just("composite"), st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1), st.booleans(), st.booleans()),
    st.builds(Op, st.sampled_from(["wait", "wait_all"]), st.integers(0, 5)),
)
programs = st.lists(ops, min_size=3, max_size=24)
machines = st.fixed_dictionaries(
    {
        "dma": st.fixed_dictionaries({"engines": st.integers(1, 2), "max_concurrent_transfers": st.integers(1, 4)}),
        "dram": st.fixed_dictionaries(
            {"t_setup_cycles": st.sampled_from([0, 7, 40]), "dram_burst_cycles": st.sampled_from([1, 8])}
        ),
        "te": st.fixed_dictionaries({"init_cycles": st.sampled_from([0, 90])}),
    }
)


def bytes_at(slot: int, strided: bool) -> tuple[int, int]:
    start = slot * SLOT
    return start, start + (STRIDE * (SIZE - 1) + SIZE * 4 if strided else TILE)


def kernel(base: int, ops: list[Op], seen: list[Any], tl: Any) -> None:
    """What the ops say. A store waits for loads in flight over its bytes: without that it races with them."""
    tiles = [tl.load(base, (SIZE, SIZE), "f32")]
    flying: list[tuple[int, int, Any]] = []

    def pick(i: int) -> Any:
        return tiles[-1 - i % len(tiles)]

    for op in ops:
        if op.name in ("load", "follow"):
            slot = op.i if op.name == "load" else int(tl.load(base + INDEX + 4 * op.i, (1,), "i32")[0] * 3 + 1) % SLOTS
            strides = (STRIDE, 4) if op.strided else None
            tile = tl.load(base + slot * SLOT, (SIZE, SIZE), "f32", strides=strides, wait=op.flag)
            flying.append((*bytes_at(slot, op.strided), tile))
            tiles.append(tile)
        elif op.name == "store":
            start, end = bytes_at(op.j, op.strided)
            tl.wait(*[tile for first, last, tile in flying if first < end and start < last], pick(op.i))
            tl.store(base + start, pick(op.i), strides=(STRIDE, 4) if op.strided else None, wait=op.flag)
        elif op.name == "composite":
            streamed(op, base, flying, pick(0), tl)
        elif op.name == "dot":
            product = tl.dot(pick(op.i), pick(op.j), pick(op.j) if op.flag else None)
            tiles.append(tl.maximum(tl.minimum(product, 4.0), -4.0))
        elif op.name == "wait":
            tl.wait(pick(op.i))
        elif op.name == "wait_all":
            tl.wait()
        elif op.name == "sum":
            tiles.append(tl.minimum(tl.sum(pick(op.i), axis=0, keep_dims=True) + tl.zeros((SIZE, SIZE), "f32"), 4.0))
        elif op.name == "relu":
            tiles.append(tl.relu(pick(op.i)))
        else:
            tiles.append(tl.minimum(getattr(tl, op.name)(pick(op.i), pick(op.j)), 4.0))
        tiles = tiles[-6:]
        seen += [np.array(one.data) for one in tiles[-1:] if one.flight is None and not one.pending]
    for k, tile in enumerate(tiles):
        tl.store(base + (2 << 16) + k * TILE, tile)


def streamed(op: Op, base: int, flying: list[tuple[int, int, Any]], tile: Any, tl: Any) -> None:
    """A composite op from one slot to another, unless they overlap; loads in flight over the result come first."""
    start, end = bytes_at(op.j, False)
    if abs(op.i - op.j) < 2:
        return
    tl.wait(*[one for first, last, one in flying if first < end and start < last])
    source = tl.ref(base + op.i * SLOT, (SIZE, SIZE), "f32")
    if op.flag:
        steps = [("maximum", -4.0), ("minimum", 4.0)]
        tl.composite("gemm", source, tile, base + start, epilogue=steps, tile=(4, 4, 4), wait=op.strided)
    else:
        tl.composite("math", source, 1.0, base + start, math_op="minimum", tile=(4, 8), wait=op.strided)


def oracle(memory: NDArray[np.uint8], ops: list[Op], index: NDArray[np.int32]) -> list[NDArray[np.float32]]:
    """The tiles that are left, and `memory` changed: numpy in the order of the program."""

    def view(slot: int, strided: bool) -> NDArray[np.float32]:
        start, end = bytes_at(slot, strided)
        data = memory[start:end].view(np.float32)
        if not strided:
            return data.reshape(SIZE, SIZE)
        return np.lib.stride_tricks.as_strided(data, (SIZE, SIZE), (STRIDE, 4))

    tiles = [view(0, False).copy()]

    def pick(i: int) -> NDArray[np.float32]:
        return tiles[-1 - i % len(tiles)]

    for op in ops:
        if op.name in ("load", "follow"):
            slot = op.i if op.name == "load" else int(index[op.i] * 3 + 1) % SLOTS
            tiles.append(view(slot, op.strided).copy())
        elif op.name == "store":
            view(op.j, op.strided)[:] = pick(op.i)
        elif op.name == "composite":
            if abs(op.i - op.j) >= 2:
                source = view(op.i, False).copy()
                view(op.j, False)[:] = np.clip(source @ pick(0), -4, 4) if op.flag else np.minimum(source, 1)
        elif op.name == "dot":
            product = pick(op.i) @ pick(op.j) + (pick(op.j) if op.flag else 0)
            tiles.append(np.clip(product, -4, 4))
        elif op.name == "sum":
            tiles.append(np.minimum(pick(op.i).sum(0, keepdims=True) + np.zeros((SIZE, SIZE), np.float32), 4))
        elif op.name == "relu":
            tiles.append(np.maximum(pick(op.i), 0))
        elif op.name not in ("wait", "wait_all"):
            function = {"add": np.add, "sub": np.subtract, "maximum": np.maximum}[op.name]
            tiles.append(np.minimum(function(pick(op.i), pick(op.j)), 4))
        del tiles[:-6]
    return tiles


def contents(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    random = np.random.default_rng(seed)
    values = random.integers(-2, 3, MEMORY // 4).astype(np.float32)
    return values.view(np.uint8), random.integers(0, 8, 8).astype(np.int32)


def started(ops: list[Op], machine: dict[str, Any], seed: int, **how: Any) -> tuple[Run, list[Any]]:
    memory, index = contents(seed)
    seen: list[Any] = []
    data = {0: memory.view(np.float32).copy(), INDEX: index}
    return Run(kernel, 0, ops, seen, memory=data, config=easy(**machine), **how), seen


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs, machines, st.integers(0, 3))
def test_random_kernels_give_what_numpy_gives(ops: list[Op], machine: dict[str, Any], seed: int) -> None:
    run, _ = started(ops, machine, seed)
    run.run()
    memory, index = contents(seed)
    memory = memory.copy()
    tiles = oracle(memory, ops, index)
    for batching, threads in ((True, 1), (False, 4)):
        store = DataExecutor(run.log, threads=threads, batching=batching).run().store  # type: ignore[arg-type]
        for k, tile in enumerate(tiles):
            np.testing.assert_array_equal(store.read("hbm", (2 << 16) + k * TILE, (SIZE, SIZE), "f32"), tile)
        np.testing.assert_array_equal(store.read("hbm", 0, (MEMORY // 4,), "f32"), memory.view(np.float32))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs, machines)
def test_cycles_do_not_depend_on_log_or_walk(ops: list[Op], machine: dict[str, Any]) -> None:
    found = []
    for logged, skip, walk in ((True, True, "fast"), (False, True, "fast"), (True, False, "fast"), (True, False, "plain")):
        run, seen = started(ops, machine, 1, logged=logged, walk=walk)
        run.run(skip=skip)
        times = [(r.t_start, r.t_end, r.op_name) for r in run.log] if run.log is not None else None
        found.append((run.machine.cycle, run.launch.per_pe, seen, times))
    for other in found[1:]:
        assert other[:2] == found[0][:2]
        assert all(np.array_equal(a, b) for a, b in zip(other[2], found[0][2], strict=True))
    assert found[2][3] == found[3][3] == found[0][3]
