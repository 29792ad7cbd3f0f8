"""Triton kernels on simulated machines: `import kernbench.triton as triton`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.triton import language, tools
from kernbench.triton.arguments import TensorPointers as pointers
from kernbench.triton.arguments import array_of
from kernbench.triton.dtypes import TritonError, dtype
from kernbench.triton.jit import JITFunction, jit
from kernbench.triton.names import REFUSED_ON_HOST
from kernbench.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics


def cdiv(x: int, y: int) -> int:
    """`x / y`, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << max(0, int(n) - 1).bit_length()


def reinterpret(tensor: Any, dtype: dtype) -> Array:
    """An array, or torch tensor, whose bits are taken as elements of another type of `tl`; it shares the memory."""
    array = array_of("triton.reinterpret", tensor)
    if array is None:
        raise TritonError(f"triton.reinterpret takes an array, and not a {type(tensor).__name__}")
    kind = np.dtype(np.uint64) if dtype == language.uint64 else dtype_of(dtype.own).numpy
    if kind.itemsize != array.itemsize:
        raise TritonError(f"triton.reinterpret of {array.dtype} as {dtype}: elements must be of one size")
    return array.view(kind)


def constexpr_function(fn: Any) -> Any:
    """A function of constants: the function itself."""
    return fn


def set_allocator(allocator: Any) -> None:
    """Memory for descriptors that kernels make: they need none here."""


def __getattr__(name: str) -> Any:
    """Names of Triton that exist only for GPUs raise an error with the replacement."""
    if name in REFUSED_ON_HOST:
        raise TritonError(f"triton.{name} is not supported: {REFUSED_ON_HOST[name]}")
    raise AttributeError(f"kernbench.triton has no {name}")


# fmt: off
__all__ = [
    "Autotuner", "Config", "Heuristics", "JITFunction", "TritonError", "autotune", "cdiv", "constexpr_function", "heuristics",
    "jit", "language", "next_power_of_2", "pointers", "reinterpret", "set_allocator", "tools",
]
# fmt: on
