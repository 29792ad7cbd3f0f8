"""Broadcast from rank 0 along a ring both ways: a chain of messages to each side, the ranks half round are the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.arranged import flat_ring
from kernbench.ccl.chains import broadcast
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
    "broadcast_ring",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def broadcast_ring(
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
    """`out[:n_elem]` of each rank = `in[:n_elem]` of rank 0."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    broadcast(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)


kernel = broadcast_ring


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Rank 0's."""
    return [inputs[0]] * len(inputs)
