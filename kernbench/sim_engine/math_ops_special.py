"""Functions of floats beyond those that kernels usually need, and rounding to narrower formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array


def tf32(x: Any) -> Array:
    """f32 rounded to the 10 bits of mantissa of tf32, ties to even; what is no number stays what it is."""
    given = np.asarray(x, np.float32)
    bits = given.view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(given), rounded.view(np.float32), given)


#: of one operand
SPECIAL: dict[str, Callable[[Any], Any]] = {
    "tf32": tf32,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log1p": np.log1p,
    "log10": np.log10,
    "expm1": np.expm1,
    "exp10": lambda x: np.power(np.float32(10), x),
    "cbrt": np.cbrt,
    "trunc": np.trunc,
    "rint": np.rint,
    "round_away": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    "isnan": np.isnan,
    "isinf": np.isinf,
}
#: of two
SPECIAL_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
}
