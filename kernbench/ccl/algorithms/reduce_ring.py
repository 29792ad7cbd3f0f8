"""Reduce to rank 0 along a ring from both sides: sums begin half round, and meet at rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.arranged import flat_ring
from kernbench.ccl.chains import chained_sums, reduce
from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.over_rings import Memory
from kernbench.ccl.rings import table_of
from kernbench.ccl.shapes import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "kernel",
    "kernel_args",
    "neighbours",
    "reduce_ring",
    "reference",
]


def reduce_ring(
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
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    reduce(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)


kernel = reduce_ring


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """From the far ends of both chains; nothing is expected of other ranks."""
    ring = flat_ring(kind, shape)
    return [chained_sums(inputs, ring), *(one[:0] for one in inputs[1:])]
