"""Reduce to rank 0 along a ring from both sides: sums begin half round, and meet at rank 0."""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Array,
    Memory,
    Ring,
    Sequence,
    Shape,
    along_ring,
    flat_ring,
    kernel_args,
    ring_neighbours,
)
from kernbench.ccl.ring_collectives import chained_sums, reduce


@along_ring
def reduce_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    reduce(memory, ring, n_elem)


kernel = reduce_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """From the far ends of both chains; nothing is expected of other ranks."""
    ring = flat_ring(kind, shape)
    return [chained_sums(inputs, ring), *(one[:0] for one in inputs[1:])]
