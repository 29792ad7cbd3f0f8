"""The arithmetic of math ops: by numpy's and Python's own, and by hand where those differ from what a kernel means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kernbench.common.dtypes import Array, narrow
from kernbench.common.errors import InputError
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import MathCmd
from kernbench.common.vector_ops import ARITY, MOVES, REDUCTIONS, SCANS, VECTOR_OPS
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.replay import math_ops
from kernbench.sim_engine.replay.math_ops import plain_pair, run_math
from tests.unit.test_math_ops_special import ONE, PAIRS

A = np.array([[1, 2, 3], [4, 5, 6]], np.float16)


def computed(op: str, *operands: Any, out: str = "f32", shape: tuple[int, ...] | None = None, **more: Any) -> Array:
    """What one math op makes of arrays and scalars; arrays lie in memory with their own types."""
    names = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(np.int8): "i8", np.dtype(np.int32): "i32"}
    names[np.dtype(np.bool_)] = "bool"
    store, inputs = MemoryStore(), []
    arrays = [*operands, more["mask"]] if "mask" in more else [*operands]
    for i, one in enumerate(arrays):
        if isinstance(one, np.ndarray):
            store.write("tcm", 4096 * i, one)
            inputs.append(TensorHandle("", 4096 * i, one.shape, names[one.dtype]))
        else:
            inputs.append(one)
    if "mask" in more:
        more["mask"] = inputs.pop()
    wanted = shape if shape is not None else operands[0].shape
    msg = MathCmd(op, inputs, TensorHandle("", 1 << 20, wanted, out), **more)
    log = OpLogger(store)
    log.record_start(0.0, "pe", msg)
    log.record_end(1.0, "pe", msg)
    return DataExecutor(log).run().store.read("tcm", 1 << 20, wanted, out)


def test_an_op_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError) as caught:
        computed("frobnicate", A)
    start = "op 0 (frobnicate at pe): it cannot be computed: there is no math op frobnicate; there are exp, "
    assert str(caught.value).startswith(start)
    with pytest.raises(InputError, match=r"^op 0 \(add at pe\): it cannot be computed: add takes 2 operands, and not 1$"):
        computed("add", A)


def test_masked_lanes_are_other_and_no_part_of_a_sum() -> None:
    x, mask = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([True, False, True])
    assert computed("mul", x, 2.0, mask=mask, other=-1.0).tolist() == [[2, -1, 6], [8, -1, 12]]
    assert computed("sum", x, mask=mask, axis=1, shape=(2,)).tolist() == [4, 10]
    assert computed("mean", x, mask=mask, axis=1, shape=(2,)).tolist() == [2, 5]
    assert computed("max", -x, mask=~mask, axis=1, shape=(2, 1), keep_dims=True).tolist() == [[-2], [-5]]
    assert computed("argmin", x, mask=~mask, axis=1, shape=(2,), out="i32").tolist() == [1, 1]


def test_a_sum_is_rounded_where_its_accumulation_says_so() -> None:
    x = np.ones(4097, np.float16)
    assert computed("sum", x, shape=()).item() == 4097 and computed("sum", x, shape=(), dtype_acc="f16").item() == 2048
    two = np.ones((4097, 2), np.float16)
    assert computed("sum", two, axis=0, shape=(1, 2), keep_dims=True, dtype_acc="f16").tolist() == [[2048, 2048]]
    assert computed("sum", np.full(300, 127, np.int8), shape=(), out="i32").item() == 300 * 127


FLOATS = [-2.5, -0.5, 0.25, 1.0, 3.0]
#: what Python's own arithmetic makes of each of FLOATS (of those above 0 for the roots and logarithms)
UNARY: dict[str, Any] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "copy": lambda x: x,
    "cast": lambda x: x,
    "full": lambda x: x,
    "neg": lambda x: -x,
    "abs": abs,
    "relu": lambda x: max(x, 0),
    "floor": math.floor,
    "ceil": math.ceil,
}
BINARY: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mod": math.fmod,
    "pow": lambda a, b: a**b,
    "maximum": max,
    "minimum": min,
    "fmax": max,
    "fmin": min,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("op", UNARY)
def test_ops_of_one_operand(op: str) -> None:
    values = [x for x in FLOATS if x > 0 or op not in ("log", "log2", "sqrt", "rsqrt")]
    found = computed(op, np.array(values, np.float32))
    np.testing.assert_allclose(found, [UNARY[op](x) for x in values], rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize("op", BINARY)
def test_ops_of_two_operands(op: str) -> None:
    others = [2.0, -0.5, 3.0, 1.0, 2.0] if op != "pow" else [2.0, 3.0, -1.0, 0.0, 2.0]
    wanted = [BINARY[op](a, b) for a, b in zip(FLOATS, others, strict=True)]
    np.testing.assert_allclose(computed(op, np.array(FLOATS, np.float32), np.array(others, np.float32)), wanted, rtol=3e-7)
    scalar = [BINARY[op](a, 2.0) for a in FLOATS]
    np.testing.assert_allclose(computed(op, np.array(FLOATS, np.float32), 2.0), scalar, rtol=3e-7)


def test_every_op_is_tried_here() -> None:
    logic, three = {"and", "or", "xor", "not", "shl", "shr"}, {"where", "fma", "clamp"}
    assert set(VECTOR_OPS) == {*UNARY, *ONE, *BINARY, *PAIRS, *logic, *three, "transpose", *REDUCTIONS, *SCANS, *MOVES}
    assert set(ARITY) == set(VECTOR_OPS) - {*REDUCTIONS, *SCANS, *MOVES}


def test_every_name_has_values() -> None:
    """The names are in a table that machine files can use; the values are in the replay."""
    assert set(ARITY) == {*math_ops.FLOAT, *math_ops.ARITHMETIC, *math_ops.LOGIC, "where"}
    assert set(MOVES) == set(math_ops.MOVES) and len(VECTOR_OPS) == len(set(VECTOR_OPS))


def test_ops_of_three_operands() -> None:
    x = np.array([1, 5, -3], np.float32)
    assert computed("where", np.array([True, False, True]), x, 0.5).tolist() == [1, 0.5, -3]
    assert computed("where", np.array([True, False, True]), np.array([1, 2, 3], np.int8), 7, out="i8").tolist() == [1, 7, 3]
    assert computed("fma", x, 2.0, x).tolist() == [3, 15, -9] and computed("clamp", x, -1, 2.5).tolist() == [1, 2.5, -1]


def test_integers_divide_shift_and_wrap_as_in_c() -> None:
    a, b = np.array([7, -7, 7, -7, 5], np.int8), np.array([2, 2, -2, -2, 0], np.int8)
    assert computed("div", a, b, out="i8").tolist() == [3, -3, -3, 3, 0]
    assert computed("mod", a, b, out="i8").tolist() == [1, -1, 1, -1, 0]
    assert computed("add", a, 125, out="i8").tolist() == [-124, 118, -124, 118, -126]
    assert computed("shl", a, np.array([1, 1, 5, 6, 90], np.int8), out="i8").tolist() == [14, -14, -32, 64, 0]
    assert computed("shr", a, 1, out="i8").tolist() == [3, -4, 3, -4, 2]
    assert computed("div", a, 2.0, out="f32").tolist() == [3.5, -3.5, 3.5, -3.5, 2.5]


def test_truth_values_are_logic_and_become_numbers_in_arithmetic() -> None:
    p, q = np.array([True, True, False]), np.array([True, False, False])
    assert [computed(op, p, q, out="bool").tolist() for op in ("and", "or", "xor")] == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
    ]
    assert computed("not", q, out="bool").tolist() == [False, True, True]
    assert computed("not", np.array([5], np.int8), out="i8").tolist() == [-6]
    assert computed("add", p, q, out="i8").tolist() == [2, 1, 0] and computed("sum", p, out="i32", shape=()).item() == 2
    assert computed("neg", p, out="i8").tolist() == [-1, -1, 0] and computed("copy", p, out="f32").tolist() == [1, 1, 0]
    assert computed("cumsum", p, out="i8").tolist() == [1, 2, 2] and computed("and", A > 2, True, out="bool").sum() == 4


def test_operands_are_broadcast_and_of_types_of_their_own() -> None:
    row, column = np.array([1, 2, 3], np.float16), np.array([[10], [20]], np.int8)
    assert computed("add", row, column, shape=(2, 3)).tolist() == [[11, 12, 13], [21, 22, 23]]
    assert computed("copy", row, shape=(2, 3)).tolist() == [[1, 2, 3]] * 2
    assert computed("full", 1.5, shape=(2, 2)).tolist() == [[1.5, 1.5]] * 2
    assert computed("transpose", A, shape=(3, 2)).tolist() == A.T.tolist()
    text = r"^op 0 \(add at pe\): it cannot be computed: its result has the shape \(2, 3\), and not \(3,\)$"
    with pytest.raises(InputError, match=text):
        computed("add", row, column, shape=(3,))


def test_reductions_are_those_of_numpy_on_each_axis() -> None:
    x = np.array([[3, -1, 2], [0, 5, -4]], np.float32)
    for op in ("sum", "prod", "mean", "max", "min", "argmax", "argmin"):
        for axis in (0, 1):
            wanted = getattr(np, op)(x, axis).tolist()
            out = "i32" if op[:3] == "arg" else "f32"
            assert computed(op, x, axis=axis, shape=(x.shape[1 - axis],), out=out).tolist() == wanted
            kept = (1, 3) if axis == 0 else (2, 1)
            assert computed(op, x, axis=axis, keep_dims=True, shape=kept, out=out).ravel().tolist() == wanted
        assert computed(op, x, shape=()).item() == pytest.approx(getattr(np, op)(x))
    truth = x > 0
    assert computed("any", truth, axis=1, shape=(2,), out="bool").tolist() == [True, True]
    assert computed("all", truth, axis=0, shape=(3,), out="bool").tolist() == [False, False, False]


def test_scans_and_softmax_go_along_an_axis() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert computed("cumsum", x).tolist() == [[1, 3, 6], [4, 9, 15]]
    assert computed("cumsum", x, axis=0).tolist() == [[1, 2, 3], [5, 7, 9]]
    total = sum(math.exp(i) for i in range(3))
    np.testing.assert_allclose(computed("softmax", x), [[math.exp(i) / total for i in range(3)]] * 2, rtol=3e-7)
    assert computed("softmax", x + 1000, axis=0).sum(0).tolist() == [1, 1, 1]


def test_infinities_and_nan_are_values() -> None:
    x = np.array([1e30, -1.0, 0.0], np.float32)
    assert str(computed("mul", x, 1e30).tolist()) == "[inf, -1.0000000150474662e+30, 0.0]"
    assert str(computed("log", x[1:]).tolist()) == "[nan, -inf]"
    nan = np.array([np.nan], np.float32)
    assert str(computed("maximum", nan, 1.0).tolist()) == "[nan]" and computed("fmax", nan, 1.0).tolist() == [1]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum", "minimum"])
def test_pairs_of_one_type_are_computed_as_all_ops_are(op: str, dtype: str) -> None:
    """Overflows, infinities, NaN and zeros of both signs among them, in every bit."""
    random = np.random.default_rng(7)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, -65504.0, 3e38, 6e-8]
    with np.errstate(all="ignore"):
        x, y = (narrow(np.concatenate([random.permutation(odd), random.standard_normal(503) * 300]), dtype) for _ in range(2))
        params = {"op": op, "input_shapes": [(512,)] * 2, "input_dtypes": [dtype] * 2, "shape_out": (512,), "dtype": dtype}
        pair = plain_pair(params)
        assert pair is not None
        found, right = pair(x, y), run_math(params, op, [x, y])
    assert found.dtype == right.dtype and found.tobytes() == right.tobytes()


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": "f8e4m3"},
        {"dtype": "i32"},
        {"masked": True},
        {"op": "div"},
        {"shape_out": (2, 4)},
        {"input_dtypes": ["f32", "f16"]},
    ],
)
def test_other_ops_are_no_pairs(changed: dict[str, Any]) -> None:
    """What saturates, integers, masks, other arithmetic, broadcasting and mixed types take the way of all ops."""
    params = {"op": "add", "input_shapes": [(4,), (4,)], "input_dtypes": ["f32"] * 2, "shape_out": (4,), "dtype": "f32"}
    assert plain_pair(params) is not None
    dtypes = {"input_dtypes": [changed["dtype"]] * 2} if "dtype" in changed else {}
    assert plain_pair({**params, **dtypes, **changed}) is None
