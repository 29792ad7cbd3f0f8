"""Arithmetic on arrays of f16. numpy converts f16 in software, element by element, unless it was built for one processor.

The compiled module uses the instructions of AVX and F16C if the processor has AVX2. The results are those of numpy in every
bit: where a result is NaN, numpy computes all results again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)
_WIDEN, _NARROW = 0, 1
_OPS: dict[Any, int] = {np.add: 2, np.subtract: 3, np.multiply: 4}


def _supported() -> bool:
    """Whether this module is compiled, and the processor has the instructions. KERNBENCH_ISA=plain selects numpy."""
    if __file__.endswith(".py") or os.environ.get("KERNBENCH_ISA") == "plain":
        return False
    return bool(kb_halves_supported())  # type: ignore[name-defined]  # noqa: F821  # of halves.h


_FAST = _supported()


def widened(values: NDArray[np.float16]) -> NDArray[np.float32]:
    """Convert an array of f16 to f32."""
    if _FAST and values.flags.c_contiguous:
        made = np.empty(values.shape, F32)
        if not kb_halves(_WIDEN, values, values, made):  # type: ignore[name-defined]  # noqa: F821
            return made
    return values.astype(F32)


def narrowed(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round an array of f32 to f16. Values beyond the finite values become infinite."""
    if _FAST and values.flags.c_contiguous:
        made = np.empty(values.shape, F16)
        if not kb_halves(_NARROW, values, values, made):  # type: ignore[name-defined]  # noqa: F821
            return made
    with np.errstate(all="ignore"):
        return values.astype(F16)


def combined(op: Callable[[Any, Any], Any], x: NDArray[np.float16], y: NDArray[np.float16]) -> NDArray[np.float16]:
    """Compute an op of numpy on two arrays of f16 of one shape in f32, and round the results to f16."""
    number = _OPS.get(op)
    if number is not None and _FAST and x.flags.c_contiguous and y.flags.c_contiguous and x.shape == y.shape:
        made = np.empty(x.shape, F16)
        if not kb_halves(number, x, y, made):  # type: ignore[name-defined]  # noqa: F821
            return made
    with np.errstate(all="ignore"):
        return narrowed(op(widened(x), widened(y)))
