"""`tl.core`: the names of `tl`, and further names that kernels import from `tl.core`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.triton.aggregates import aggregate as _aggregate
from kernbench.triton.constants import constexpr
from kernbench.triton.dtypes import TYPES, dtype, refuse

CONSTEXPR_0 = constexpr(0)

__all__ = ["CONSTEXPR_0", "_aggregate", "get_int_dtype"]


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """Return the integer type of this width [bit]."""
    name = f"{'int' if signed or bitwidth == 1 else 'uint'}{bitwidth}"
    found = next((one for one in TYPES if one.name == name), None)
    return (
        found
        if found is not None
        else refuse(f"there is no integer type of {bitwidth} bits; the widths are 1, 8, 16, 32 and 64")
    )


def __getattr__(name: str) -> Any:
    """Return the object with this name in `tl`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("kernbench.triton.language"), name)
