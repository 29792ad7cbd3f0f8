"""Roundings that numpy does not have: the fused multiply-add, and f32 rounded to tf32."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array

_SPLIT = 2.0**27 + 1  # Dekker's factor: a product with it splits the 53 bits of an f64 into two halves


def fused(x: Any, y: Any, z: Any, odd: bool = False) -> Array:
    """`x * y + z`, rounded once. Integers are not rounded.

    `odd`: round to odd in f32. A later rounding to the nearest value of a narrower type then gives the same value as one
    rounding.
    """
    if np.asarray(x).dtype == np.float64:
        return _fused_f64(np.asarray(x), np.asarray(y), np.asarray(z))
    if np.asarray(x).dtype != np.float32:
        return np.asarray(x * y + z)
    product, third = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
    total = np.asarray(product + third)
    added = total - product
    # exact rounding error of the sum (Knuth's TwoSum); NaN with infinities
    lost = (product - (total - added)) + (third - added)
    total = _odd(total, lost, np.int64)
    near = total.astype(np.float32)
    return _odd(near, total - near, np.int32) if odd else near


def _fused_f64(x: Array, y: Array, z: Array) -> Array:
    """`fused` of f64: the rounding errors of the product (by Dekker's split) and of the sum are added at the end."""
    product = x * y
    total = product + z
    halves = [(one * _SPLIT) - (one * _SPLIT - one) for one in (x, y)]
    (a, b), (c, d) = ((half, one - half) for half, one in zip(halves, (x, y), strict=True))
    lost = ((a * c - product) + a * d + b * c) + b * d
    added = total - product
    lost = lost + ((product - (total - added)) + (z - added))
    return np.asarray(np.where(np.isfinite(lost), total + lost, total))


def _odd(near: Array, lost: Array, bits: type[np.signedinteger[Any]]) -> Array:
    """The result of rounding to odd, from the result of rounding to nearest and its rounding error."""
    even = (near.view(bits) & 1) == 0
    towards = np.where(lost > 0, near.dtype.type(np.inf), near.dtype.type(-np.inf))
    moves = even & (lost != 0) & ~np.isnan(lost) & ~np.isnan(near)
    return np.asarray(np.where(moves, np.nextafter(near, towards), near))


def tf32(x: Any) -> Array:
    """f32 rounded to the 10 mantissa bits of tf32, ties to even; NaN stays NaN."""
    given = np.asarray(x, np.float32)
    bits = given.view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(given), rounded.view(np.float32), given)
