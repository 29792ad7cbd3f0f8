"""`tl.standard`: the names of `tl`, and further names that kernels import from `tl.standard`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.triton.language.core import get_int_dtype as _get_int_dtype

__all__ = ["_get_int_dtype", "_is_power_of_two", "_log2"]


def _log2(i: Any) -> int:
    """Return the logarithm to base 2 of a power of two."""
    return int(i).bit_length() - 1


def _is_power_of_two(i: Any) -> bool:
    return int(i) > 0 and int(i) & (int(i) - 1) == 0


def __getattr__(name: str) -> Any:
    """Return the object with this name in `tl`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("kernbench.triton.language"), name)
