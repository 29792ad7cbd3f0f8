"""`libdevice`: the functions of `tl.math`. Others say which there are."""

from __future__ import annotations

from typing import Any

from kernbench.triton.dtypes import refusal
from kernbench.triton.language import math


def __getattr__(name: str) -> Any:
    """A function of `tl.math`, for its name or the one with f behind it."""
    for one in (name, name.removesuffix("f")):
        if one in math.__all__:
            return getattr(math, one)
    if name.startswith("__"):
        raise AttributeError(name)
    raise refusal(f"libdevice.{name} is not supported; there are {', '.join(math.__all__)}")
