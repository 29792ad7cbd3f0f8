"""Collectives through which torch computes gradients, as `torch.distributed.nn`."""

from __future__ import annotations

import importlib
from typing import Any

from kernbench.ccl.dist.nn import functional
from kernbench.ccl.dist.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def __getattr__(name: str) -> Any:
    """Return the module `parallel`, which needs torch, when it is used for the first time."""
    if name == "parallel":
        return importlib.import_module(f"{__name__}.parallel")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
