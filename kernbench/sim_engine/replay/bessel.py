"""Bessel functions of orders 0 and 1, in f64: computed by integrals of periodic functions near 0, and by Hankel's expansion
beyond.

The trapezoidal rule converges exponentially for these integrals (Trefethen and Weideman, SIAM Review 56, 2014). Expansions:
NIST Digital Library of Mathematical Functions, 10.17 and 10.40; sums for Y: 10.23(iii).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array

NEAR = 25.0  #: limit of the integrals; beyond it the expansion is exact to the last bits of f64
_POINTS = 96  #: points of an integral
_TERMS = 22
_GAMMA = 0.57721566490153286
_ANGLES = np.arange(_POINTS) * (np.pi / _POINTS) + np.pi / (2 * _POINTS)


def _j_near(order: int, x: Array) -> Array:
    return np.asarray(np.cos(order * _ANGLES - x[..., None] * np.sin(_ANGLES)).mean(-1))


def _i_near(order: int, x: Array) -> Array:
    return np.asarray((np.exp(x[..., None] * np.cos(_ANGLES)) * np.cos(order * _ANGLES)).mean(-1))


def _y_near(order: int, x: Array) -> Array:
    """For x > 0."""
    if order == 0:
        total = (np.log(x / 2) + _GAMMA) * _j_near(0, x)
        for k in range(1, 36):
            total = total - 2 * (-1) ** k * _j_near(2 * k, x) / k
        return np.asarray(2 / np.pi * total)
    total = (np.log(x / 2) + _GAMMA) * _j_near(1, x) - _j_near(0, x) / x  # the derivative of Y0, negative
    for k in range(1, 36):
        total = total + (-1) ** k * (_j_near(2 * k - 1, x) - _j_near(2 * k + 1, x)) / k
    return np.asarray(2 / np.pi * total)


def _terms(order: int, x: Array) -> list[Array]:
    """The terms of the expansions, without their signs: a_k / x^k."""
    found, last = [np.ones_like(x)], np.ones_like(x)
    for k in range(1, _TERMS):
        last = last * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        found.append(last)
    return found


def _far(order: int, x: Array) -> tuple[Array, Array]:
    """J and Y of x > NEAR."""
    terms = _terms(order, x)
    p = sum(((-1) ** (k // 2)) * terms[k] for k in range(0, _TERMS, 2))
    q = sum(((-1) ** (k // 2)) * terms[k] for k in range(1, _TERMS, 2))
    turned = x - (2 * order + 1) * np.pi / 4
    size = np.sqrt(2 / (np.pi * x))
    return size * (p * np.cos(turned) - q * np.sin(turned)), size * (p * np.sin(turned) + q * np.cos(turned))


def _i_far(order: int, x: Array) -> Array:
    found: Any = sum(((-1) ** k) * one for k, one in enumerate(_terms(order, x)))
    return np.asarray(np.exp(x / 2) / np.sqrt(2 * np.pi * x) * found * np.exp(x / 2))


def _made(near: Callable[[Array], Array], far: Callable[[Array], Array], odd: bool, positive: bool) -> Callable[[Any], Array]:
    def function(values: Any) -> Array:
        given = np.asarray(values)
        x = np.abs(given.astype(np.float64))
        with np.errstate(all="ignore"):
            low = near(np.where(x <= NEAR, x, 1.0))
            found = np.where(x <= NEAR, low, far(np.where(x > NEAR, x, NEAR + 1)))
            if positive:
                found = np.where(x == 0, -np.inf, np.where(given < 0, np.nan, found))
            elif odd:
                found = np.where(given < 0, -found, found)
        return np.asarray(np.where(np.isnan(x), np.nan, found).astype(given.dtype))

    return function


BESSEL: dict[str, Callable[[Any], Array]] = {
    "j0": _made(lambda x: _j_near(0, x), lambda x: _far(0, x)[0], False, False),
    "j1": _made(lambda x: _j_near(1, x), lambda x: _far(1, x)[0], True, False),
    "y0": _made(lambda x: _y_near(0, x), lambda x: _far(0, x)[1], False, True),
    "y1": _made(lambda x: _y_near(1, x), lambda x: _far(1, x)[1], False, True),
    "cyl_bessel_i0": _made(lambda x: _i_near(0, x), lambda x: _i_far(0, x), False, False),
    "cyl_bessel_i1": _made(lambda x: _i_near(1, x), lambda x: _i_far(1, x), True, False),
}
