"""Collectives through which torch computes gradients, as `torch.distributed.nn`."""

from __future__ import annotations

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
