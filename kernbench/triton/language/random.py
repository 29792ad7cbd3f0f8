"""`tl.random`: the names of `tl`, under Triton's module path."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return the object with this name in `tl`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("kernbench.triton.language"), name)
