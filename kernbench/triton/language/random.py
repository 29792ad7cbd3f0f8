"""`tl.random`: the names of `tl`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The name of `tl`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("kernbench.triton.language"), name)
