"""A user's algorithm with the nine arguments written out, as docs/reference/ccl.md says: tests change copies of its text.

All-reduce along one ring, in the lines in which the first version had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import Memory, all_reduce
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, flat_ring, table_of
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_own",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_reduce_own(
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
    """`out[:n_elem]` of each rank = the sums of all ranks' `in[:n_elem]`."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    all_reduce(Memory(tl, in_ptr, out_ptr, dtype), [((ring,), (0, n_elem))])


kernel = all_reduce_own


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """A chunk's sum begins at the rank behind its owner, and goes round."""
    return segmented_sums(inputs, [[flat_ring(kind, shape)]], slot_bytes)
