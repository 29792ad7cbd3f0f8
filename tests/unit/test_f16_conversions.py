"""Arithmetic on f16 with vector instructions gives the bits of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.common import halves
from kernbench.common.dtypes import narrow, widen

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)  #: every f16, with NaNs and infinities
NUMBERS = ALL[~np.isnan(ALL)]
BITS = np.random.default_rng(5).integers(0, 1 << 32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.fixture(params=["fast", "numpy"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(halves, "_FAST", False)


def bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.view(f"u{values.itemsize}")


@pytest.mark.parametrize("values", [ALL, NUMBERS, NUMBERS[:5], NUMBERS[::3], NUMBERS[:12].reshape(3, 4).T, NUMBERS[:0]])
def test_widening_every_f16(values: np.ndarray[Any, Any]) -> None:
    assert np.array_equal(bits(widen(values)), bits(values.astype(np.float32)))


@pytest.mark.parametrize("values", [BITS, BITS[~np.isnan(BITS)], BITS[:7], BITS[:0], BITS[:12].reshape(3, 4).T])
def test_rounding_to_f16(values: np.ndarray[Any, Any]) -> None:
    with np.errstate(all="ignore"):
        right = values.astype(np.float16)
    assert np.array_equal(bits(narrow(values, "f16")), bits(right))


def test_ties_round_to_even() -> None:
    values = np.array([2049, 2051, -2049, 65519.99, 65520, 2.0**-25, 3 * 2.0**-25], np.float32)
    right = [2048, 2052, -2048, 65504, np.inf, 0, 2.0**-23]
    assert narrow(values, "f16").tolist() == right


@pytest.mark.parametrize("op", [np.add, np.subtract, np.multiply, np.maximum])
@pytest.mark.parametrize("x", [ALL, NUMBERS, NUMBERS[:3], NUMBERS[100:110].reshape(2, 5)])
def test_ops_on_two_arrays(op: Any, x: np.ndarray[Any, Any]) -> None:
    y = np.ascontiguousarray(np.flip(x))
    with np.errstate(all="ignore"):
        right = op(x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    found = halves.combined(op, x, y)
    assert found.shape == x.shape and np.array_equal(bits(found), bits(right))


def test_arrays_of_another_shape_or_order() -> None:
    x, y = NUMBERS[:12].reshape(3, 4), NUMBERS[12:16]
    right = (x.astype(np.float32) + y.astype(np.float32)).astype(np.float16)
    assert np.array_equal(halves.combined(np.add, x, y), right)
    assert np.array_equal(halves.combined(np.add, x.T, x.T), halves.combined(np.add, x, x).T)


def test_results_do_not_change_the_operands() -> None:
    x, y = NUMBERS[:64].copy(), NUMBERS[64:128].copy()
    halves.combined(np.add, x, y)
    assert np.array_equal(x, NUMBERS[:64]) and np.array_equal(y, NUMBERS[64:128])
