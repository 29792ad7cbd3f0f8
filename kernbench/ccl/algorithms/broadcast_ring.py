"""Broadcast from rank 0 along a ring in both directions. The ranks opposite rank 0 receive the elements last."""

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
    kernel_args,
    ring_neighbours,
)
from kernbench.ccl.ring_collectives import broadcast


@along_ring
def broadcast_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of rank 0."""
    broadcast(memory, ring, n_elem)


kernel = broadcast_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Return the elements of rank 0, for every rank."""
    return [inputs[0]] * len(inputs)
