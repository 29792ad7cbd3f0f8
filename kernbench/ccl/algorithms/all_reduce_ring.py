"""All-reduce along one ring: sums go round once, and then the sums of all chunks.

`2 (n - 1)` steps; each rank sends and receives `2 (n - 1) / n` of its elements, which is the least that can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import Memory, all_reduce, along_ring, neighbours
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring, flat_ring
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_ring",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


@along_ring
def all_reduce_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    all_reduce(memory, [((ring,), (0, n_elem))])


kernel = all_reduce_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The sum of a chunk begins at the rank after its owner and follows the ring."""
    return segmented_sums(inputs, [[flat_ring(kind, shape)]], slot_bytes)
