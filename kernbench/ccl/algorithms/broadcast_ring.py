"""Broadcast from rank 0 along a ring both ways: a chain of messages to each side, the ranks half round are the last."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.ring_collectives import broadcast
from kernbench.ccl.ring_schedule import Memory, along_ring, neighbours
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring
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


@along_ring
def broadcast_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is `in[:n_elem]` of rank 0."""
    broadcast(memory, ring, n_elem)


kernel = broadcast_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Rank 0's."""
    return [inputs[0]] * len(inputs)
