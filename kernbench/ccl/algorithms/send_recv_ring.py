"""Pairs of send and receive: each rank's elements go to the next rank of a ring."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.ring_collectives import shift
from kernbench.ccl.ring_schedule import Memory, along_ring, neighbours
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring, flat_ring
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


@along_ring
def send_recv_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of each rank = `in[:n_elem]` of the rank before it."""
    shift(memory, ring, n_elem)


kernel = send_recv_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The elements of the rank before."""
    members = flat_ring(kind, shape).members
    before = {rank: members[at - 1] for at, rank in enumerate(members)}
    return [inputs[before[rank]] for rank in range(len(inputs))]
