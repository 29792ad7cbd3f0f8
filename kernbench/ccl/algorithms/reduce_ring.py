"""Reduce to rank 0 along a ring from both sides: the sums begin at the ranks opposite rank 0 and meet at rank 0."""

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
    """Afterwards, `out[:n_elem]` of rank 0 holds the sum of `in[:n_elem]` over all ranks. Other ranks do not change `out`."""
    reduce(memory, ring, n_elem)


kernel = reduce_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum from the far ends of both chains to rank 0. The reference expects nothing of other ranks."""
    ring = flat_ring(kind, shape)
    return [chained_sums(inputs, ring), *(one[:0] for one in inputs[1:])]
