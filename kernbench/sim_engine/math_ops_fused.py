"""`x * y + z` rounded once, as the hardware's fused multiply-add does.

The product of two f32 is exact in f64. Its sum with the third is rounded to odd there: of the two f64 beside the exact sum
the one whose last bit is 1. It has more than two bits more than f32, so rounding it once more to nearest gives what rounding
the exact sum would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
odd", 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array


def fused(x: Any, y: Any, z: Any, odd: bool = False) -> Array:
    """On f32 (of integers: as they are); `odd`: rounded to odd in f32 too, for who rounds it to a narrower type to nearest."""
    if np.asarray(x).dtype != np.float32:
        return np.asarray(x * y + z)
    product, third = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
    total = np.asarray(product + third)
    added = total - product
    lost = (product - (total - added)) + (third - added)  # exactly what the sum lost (Knuth's TwoSum); NaN beside infinities
    total = _odd(total, lost, np.int64)
    near = total.astype(np.float32)
    return _odd(near, total - near, np.int32) if odd else near


def _odd(near: Array, lost: Array, bits: type[np.signedinteger[Any]]) -> Array:
    """The neighbour with the odd last bit, of what was rounded to nearest and lost so much."""
    even = (near.view(bits) & 1) == 0
    towards = np.where(lost > 0, near.dtype.type(np.inf), near.dtype.type(-np.inf))
    moves = even & (lost != 0) & ~np.isnan(lost) & ~np.isnan(near)
    return np.asarray(np.where(moves, np.nextafter(near, towards), near))
