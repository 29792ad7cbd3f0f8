"""Special functions, and ops that move elements, one by one against Python's and numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

from kernbench.sim_engine.replay.fused import tf32
from kernbench.sim_engine.replay.math_ops import MOVES, evaluate, reduce, run_math

ONE: dict[str, Any] = {
    name: getattr(math, name) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "log1p", "expm1")
} | {
    "log10": math.log10, "acosh": math.acosh, "exp10": lambda x: 10**x, "cbrt": math.cbrt,
    "trunc": math.trunc, "rint": round, "round_away": lambda x: math.floor(x + 0.5), "isnan": math.isnan, "isinf": math.isinf,
    "j0": scipy.special.j0, "j1": scipy.special.j1, "y0": scipy.special.y0, "y1": scipy.special.y1,
    "cyl_bessel_i0": scipy.special.i0, "cyl_bessel_i1": scipy.special.i1,
    "tf32": lambda x: float(tf32(np.float32(x))),
}  # fmt: skip
PAIRS = ("atan2", "hypot", "copysign")


@pytest.mark.parametrize("op", ONE)
def test_functions_of_one_operand(op: str) -> None:
    values = [1.0, 1.5, 8.0] if op == "acosh" else [0.125, 0.5, 0.75, 0.9921875]
    np.testing.assert_allclose(evaluate(op, [np.array(values, np.float32)]), [ONE[op](x) for x in values], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("op", PAIRS)
def test_functions_of_two(op: str) -> None:
    x, y = np.array([1, -2, 3], np.float32), np.array([-2, 5, 0.5], np.float32)
    wanted = [getattr(math, op)(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(evaluate(op, [x, y]), wanted, rtol=1e-6)


def test_tf32_keeps_ten_bits_and_goes_to_even() -> None:
    """Steps of 2^-10 above 1: half a step goes to the even neighbour, a little more goes up; what is not a number stays."""
    step = 2.0**-10
    near = [1 + step, 1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2.0**-23]
    given = np.array([*near, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(tf32(given), [1 + step, 1, 1 + 2 * step, 1 + step, np.inf, -np.inf, np.nan])


X = np.arange(12, dtype=np.float16).reshape(3, 4)
CASES: dict[str, tuple[list[Any], list[Any], Any]] = {
    "reshape": ([X], [], X.reshape(2, 6)),
    "permute": ([X], [1, 0], X.T),
    "slice": ([X], [1, 0, 4, 2], X[:, ::2]),
    "concat": ([X, X + 1], [0], np.concatenate([X, X + 1])),
    "flip": ([X], [0], X[::-1]),
    "gather": ([X, np.array([[3, 0], [1, 1], [2, 3]], np.int32)], [1], np.array([[3, 0], [5, 5], [10, 11]], np.float16)),
    "sort": ([X[:, [2, 0, 3, 1]]], [1, True], X[:, ::-1]),
    "histogram": ([np.array([1, 1, 3, 9, -1], np.int32), np.array([1, 0, 1, 1, 1], bool)], [], np.int32([0, 1, 0, 1])),
    "bitcast": ([X], [], X.view(np.int16)),
}


@pytest.mark.parametrize("op", MOVES)
def test_an_op_that_moves_elements_keeps_them(op: str) -> None:
    inputs, numbers, wanted = CASES[op]
    names = {"float16": "f16", "int32": "i32", "int16": "i16"}
    scalars = dict(enumerate(numbers, len(inputs)))
    params = {"op": op, "scalars": scalars, "shape_out": wanted.shape, "dtype": names[wanted.dtype.name]}
    found = run_math(params, op, inputs)
    assert found.dtype == wanted.dtype and found.flags.c_contiguous
    np.testing.assert_array_equal(found, wanted)


def test_reductions_that_leave_out_what_is_no_number() -> None:
    x = np.array([[np.nan, 2, 1], [np.nan] * 3], np.float32)
    np.testing.assert_array_equal(reduce("max_num", x, 1, False, None, None), [2, np.nan])
    np.testing.assert_array_equal(reduce("min_num", x, 1, False, None, None), [1, np.nan])
    assert reduce("argmax_num", x[:1], 1, False, None, None).tolist() == [1]
    assert reduce("argmin_num", x[:1], 1, False, None, None).tolist() == [2]
    assert reduce("xor_sum", np.array([5, 3, 1]), None, False, None, None) == 7
