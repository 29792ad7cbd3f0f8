"""The stages of composite ops begin and end as in a reference written from docs/model/kernels.md, cycle by cycle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.config import load_config
from tests.kernels import Run
from tests.machine_strategies import Draw, machines
from tests.oracles.ref_kernels import NpuKernels
from tests.oracles.ref_machine import completed
from tests.oracles.ref_pe import BITS
from tests.oracles.ref_tl import Launch
from tests.property.test_kernel_times import stages_of

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
SIDE = 1 << 14  # [B] of the memory that each operand has
MOST = 4000  # [cycle]


class Op(NamedTuple):
    """What a kernel does: `load`, `gemm`, `math` or `wait`."""

    kind: str
    shape: tuple[int, ...] = ()  # (m, n, k), or the shape of a load or math op
    operands: tuple[int, ...] = ()  # addresses; of a load one; -1 - i: the tile of load i
    dtypes: tuple[str, ...] = ()  # of the operands, then of the result
    out: int = 0  # address of the result
    name: str = ""  # of a math op
    tile: tuple[int, ...] | None = None
    buffers: int = 2
    epilogue: tuple[str, ...] = ()
    of: int = 0  # the op that a `wait` waits for


System = tuple[dict[str, Any], list[Op]]


@st.composite
def gemms(draw: Draw, loads: list[Op]) -> Op:
    kind = draw(st.sampled_from(["f32", "f16", "i8"]))
    result = draw(st.sampled_from(["i8", "f32"] if kind == "i8" else ["f16", "f32"]))
    shapes: list[tuple[int, ...]] = []
    operands = []
    for side in range(2):
        fitting = [i for i, load in enumerate(loads) if load.dtypes[0] == kind and (side == 0 or load.shape[0] == shapes[0][1])]
        pinned = draw(st.sampled_from([None, *fitting, *fitting]))
        size = draw(st.integers(1, 14)) if side == 0 else shapes[0][1]
        shapes.append((size, draw(st.integers(1, 14))) if pinned is None else loads[pinned].shape)
        operands.append(_address(draw, side, kind) if pinned is None else -1 - pinned)
    shape = shapes[0][0], shapes[1][1], shapes[0][1]
    tile = draw(st.none() | st.tuples(*(st.integers(1, size) for size in shape)))
    epilogue = () if result == "i8" else tuple(draw(st.lists(st.sampled_from(["exp", "tanh"]), max_size=2)))
    out, buffers = _address(draw, 2, result), draw(st.sampled_from([1, 1, 2, 2, 3, 3, 50]))
    return Op("gemm", shape, tuple(operands), (kind, kind, result), out, "", tile, buffers, epilogue)


@st.composite
def maths(draw: Draw) -> Op:
    name = draw(st.sampled_from(["add", "exp", "softmax", "mul", "rmsnorm"]))
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 20))
    if name in ("add", "mul", "exp"):
        shape = 1, shape[0] * shape[1]
    kind = draw(st.sampled_from(["f32", "f16"]))
    count = 2 if name in ("add", "mul") else 1
    tile = draw(st.none() | st.tuples(st.integers(1, shape[0]), st.integers(1, shape[1])))
    if tile is not None and name in ("softmax", "rmsnorm"):
        tile = tile[0], shape[1]
    operands = tuple(_address(draw, side, kind) for side in range(count))
    return Op("math", shape, operands, (kind,) * (count + 1), _address(draw, 2, kind), name, tile, draw(st.integers(1, 3)))


def _address(draw: Draw, side: int, dtype: str) -> int:
    size = BITS[dtype] // 8
    return side * SIDE + size * draw(st.integers(0, 100))


@st.composite
def kernels(draw: Draw) -> System:
    """A machine with room for the buffers, and what its kernel does: composite ops, some of which run at the same time."""
    machine = draw(machines().filter(lambda one: one.get("allocation") not in ("row_buffer_v1", "row_buffer_v2")))
    machine["max_cycles"] = MOST
    machine.pop("llc", None)
    machine.get("dma", {}).pop("codecs", None)
    machine["control"] = {}
    machine["dram"] = machine.get("dram", {}) | {"capacity_bytes": 1 << 20}
    spm = machine["spm"] = machine.get("spm", {}) | {"check_overlap": "none"}
    width, banks = spm.get("bank_width_bytes", 16), spm.get("num_banks", 16)
    spm["bank_size_bytes"] = -(-(1 << 17) // width // banks) * width
    ops: list[Op] = []
    loads: list[Op] = []
    done = 0
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["load", "gemm", "gemm", "math", "wait"]))
        if kind == "load":
            dtype = draw(st.sampled_from(["f32", "f16", "i8"]))
            shape = draw(st.integers(1, 12)), draw(st.integers(1, 12))
            loads.append(Op("load", shape, (_address(draw, 0, dtype),), (dtype,)))
            ops.append(loads[-1])
        elif kind == "wait" and done:
            ops.append(Op("wait", of=draw(st.integers(0, done - 1))))
        else:
            ops.append(draw(gemms(loads) if kind == "gemm" else maths()))
        done += ops[-1].kind != "wait"
    return machine, ops


def kernel(ops: list[Op], tl: Any) -> None:
    """What the ops say, with every tile kept."""
    done: list[Any] = []
    tiles: list[Any] = []
    for op in ops:
        if op.kind == "wait":
            tl.wait(done[op.of])
            continue
        if op.kind == "load":
            tiles.append(tl.load(op.operands[0], op.shape, op.dtypes[0]))
            done.append(tiles[-1])
            continue
        how = {"out_dtype": op.dtypes[-1], "tile": op.tile, "buffers": op.buffers}
        if op.kind == "math":
            a, *b = (tl.ref(at, op.shape, dtype) for at, dtype in zip(op.operands, op.dtypes, strict=False))
            done.append(tl.composite("math", a, *b, out_ptr=op.out, math_op=op.name, **how))
            continue
        (m, n, k), pair = op.shape, []
        for at, shape, dtype in zip(op.operands, ((m, k), (k, n)), op.dtypes, strict=False):
            pair.append(tl.ref(at, shape, dtype) if at >= 0 else tiles[-1 - at])
        done.append(tl.composite("gemm", *pair, op.out, epilogue=list(op.epilogue), **how))


def check(system: System) -> None:
    machine, ops = system
    want = NpuKernels(completed(machine), [Launch((0,), lambda tl: kernel(ops, tl))]).run()
    config = load_config(machine)
    ran = Run(kernel, ops, memory={0: np.zeros(4 * SIDE, np.int8)}, config=config)
    ran.machine.run()
    result = ran.machine.result()
    assert result.status == want["status"], ran.machine.failure()
    assert result.cycles == want["cycles"]
    assert ran.log is not None
    times = [(name, start, end) for _, name, start, end in stages_of(ran.log, config)]
    assert times == [(name, start, end) for _, name, start, end in want["stages"]]
    for name, counts in want["counters"].items():
        assert result.counters[name] == counts, name


@settings(RELAXED, max_examples=40)
@given(kernels())
def test_stages_are_those_of_the_reference(system: System) -> None:
    check(system)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(kernels())
def test_stages_are_those_of_the_reference_for_long(system: System) -> None:
    check(system)


def test_more_transfers_at_once_than_a_pe_has_places() -> None:
    """60 steps of K start at once and need 120 transfers, so the first products wait for places in the engines."""
    op = Op("gemm", (1, 1, 60), (0, SIDE), ("f32",) * 3, 2 * SIDE, "", (1, 1, 1), 60)
    check(({"max_cycles": MOST}, [op]))
