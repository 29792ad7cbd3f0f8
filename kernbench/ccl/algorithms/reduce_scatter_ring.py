"""Reduce-scatter along one ring: the sums travel around the ring once, in `n - 1` steps, and end at the ranks that keep them.
"""

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
from kernbench.ccl.reference_sums import ring_sums
from kernbench.ccl.ring_collectives import reduce_scatter


@along_ring
def reduce_scatter_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    reduce_scatter(memory, ring, n_elem)


kernel = reduce_scatter_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum the block of each rank in ring order, starting at the next rank."""
    ring, count = flat_ring(kind, shape), inputs[0].size // len(inputs)
    chunks = [(rank * count, count) for rank in ring.members]
    sums = dict(zip(ring.members, ring_sums([inputs[rank] for rank in ring.members], ring, chunks), strict=True))
    return [sums[rank] for rank in range(len(inputs))]
