"""`fma` against exact rationals: rounded once, for every type."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernbench.common.dtypes import dtype_of
from kernbench.sim_engine.replay.math_ops import run_math

# Bits, exponents of the least and past the most.
MANTISSA = {"f32": (24, -149, 128), "f16": (11, -24, 16), "bf16": (8, -133, 128)}


def nearest(value: Fraction, dtype: str) -> float:
    """The nearest float of a type, ties to even, straight from the rational."""
    bits, least, most = MANTISSA[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = 0
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    rounded = round(size / unit) * unit  # of a Fraction: ties to even
    found = float("inf") if rounded >= Fraction(2) ** most else float(rounded)
    return -found if value < 0 else found


def elements(dtype: str) -> st.SearchStrategy[float]:
    kind: Any = dtype_of(dtype).numpy
    bits = st.integers(0, (1 << dtype_of(dtype).bits) - 1)
    values = bits.map(lambda one: float(np.array(one, f"u{dtype_of(dtype).bits // 8}").view(kind)))
    return values.filter(np.isfinite) | st.integers(-9, 9).map(lambda k: 1 + k * 2.0 ** (1 - MANTISSA[dtype][0]))


def fma(dtype: str, *values: float) -> float:
    kind: Any = dtype_of(dtype).numpy
    with np.errstate(over="ignore"):
        return float(run_math({"shape_out": (1,), "dtype": dtype}, "fma", [np.array([one], kind) for one in values])[0])


@pytest.mark.parametrize("dtype", MANTISSA)
@given(data=st.data())
def test_fma_rounds_once(dtype: str, data: st.DataObject) -> None:
    x, y, z = (data.draw(elements(dtype)) for _ in range(3))
    assert fma(dtype, x, y, z) == nearest(Fraction(x) * Fraction(y) + Fraction(z), dtype)


@given(st.integers(1, 2**24 - 1), st.integers(1, 2**24 - 1), st.integers(-90, 10), st.booleans())
@example(2**23 + 1, 2**23 + 1, -60, False)
def test_fma_rounds_once_where_the_sum_in_f64_is_a_tie(a: int, b: int, down: int, minus: bool) -> None:
    """A third operand that is far smaller decides which way a tie goes; rounding twice loses it."""
    x, y, z = float(a), float(b), (-1.0 if minus else 1.0) * 2.0**down
    assert fma("f32", x, y, z) == nearest(Fraction(x) * Fraction(y) + Fraction(z), "f32")


def test_rounding_the_product_first_is_another_number() -> None:
    x = float(np.float32(1 + 2.0**-12))
    assert fma("f32", x, x, -1.0) == 2.0**-11 + 2.0**-24
    assert float(np.float32(x) * np.float32(x) - np.float32(1)) == 2.0**-11


def test_fma_of_infinities_and_of_nothing() -> None:
    inf = float("inf")
    assert fma("f32", inf, 1, 5) == inf and fma("f32", 3e38, 3e38, 0) == inf and fma("bf16", 3e38, 2, 0) == inf
    assert np.isnan(fma("f32", inf, 1, -inf)) and np.isnan(fma("f16", inf, 0, 1))
