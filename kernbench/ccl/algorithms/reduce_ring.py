"""Reduce to rank 0 along a ring from both sides: sums begin half round, and meet at rank 0."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.ring_collectives import chained_sums, reduce
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
    "reduce_ring",
    "reference",
]


@along_ring
def reduce_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    reduce(memory, ring, n_elem)


kernel = reduce_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """From the far ends of both chains; nothing is expected of other ranks."""
    ring = flat_ring(kind, shape)
    return [chained_sums(inputs, ring), *(one[:0] for one in inputs[1:])]
