"""Pairs of send and receive: each rank's elements go to the next rank of a ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.arranged import flat_ring
from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.over_rings import Memory
from kernbench.ccl.rings import table_of
from kernbench.ccl.round_trips import shift
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
    "reference",
    "send_recv_ring",
]


def send_recv_ring(
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
    """`out[:n_elem]` of each rank = `in[:n_elem]` of the rank before it."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    shift(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)


kernel = send_recv_ring


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Those of the rank before."""
    members = flat_ring(kind, shape).members
    before = {rank: members[at - 1] for at, rank in enumerate(members)}
    return [inputs[before[rank]] for rank in range(len(inputs))]
