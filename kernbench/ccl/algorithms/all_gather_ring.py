"""All-gather along one ring: each rank's elements go round, `n - 1` steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench.ccl.arranged import flat_ring
from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.over_rings import Memory
from kernbench.ccl.rings import table_of
from kernbench.ccl.round_trips import all_gather
from kernbench.ccl.shapes import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_gather_ring",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_gather_ring(
    in_ptr: int,
    out_ptr: int,
    n_elem: int,
    dtype: str,
    sip_rank: int,
    sip_size: int,
    cube_rank: int,
    cube_size: int,
    sip_topo_kind: int,
    tl: Any,
) -> None:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    all_gather(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)


kernel = all_gather_ring


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """All of all, for each."""
    return [np.concatenate(inputs)] * len(inputs)
