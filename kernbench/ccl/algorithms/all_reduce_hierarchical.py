"""All-reduce level by level: in each cube, across cubes, across SIPs, and back.

Only the sums of a cube cross its border, and only the sums of a SIP cross its border: longer distances carry less data. SIPs
are a ring, or rows and columns of a torus or mesh, as `sip_topo_kind` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import Memory, all_reduce
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, level_rings, rings_with, table_of
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_hierarchical",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_reduce_hierarchical(
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
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    rings = rings_with(tl.rank, level_rings, sip_topo_kind, shape_of(sip_size, cube_size, tl))
    all_reduce(Memory(tl, in_ptr, out_ptr, dtype), [(rings, (0, n_elem))])


kernel = all_reduce_hierarchical


def neighbours(kind: int, shape: Shape) -> Table:
    """In cubes on plane 0, across cubes on plane 1, across SIPs on plane 2."""
    return table_of(ring for level in level_rings(kind, shape) for ring in level)


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """In cubes, then across cubes, then across SIPs."""
    return segmented_sums(inputs, level_rings(kind, shape), slot_bytes)
