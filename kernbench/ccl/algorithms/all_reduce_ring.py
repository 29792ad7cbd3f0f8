"""All-reduce along one ring: partial sums travel around the ring once, and then the complete sums of all chunks.

The algorithm takes `2 (n - 1)` steps. Each rank sends and receives `2 (n - 1) / n` of its elements, which is the minimum.
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
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import all_reduce


@along_ring
def all_reduce_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    all_reduce(memory, [((ring,), (0, n_elem))])


kernel = all_reduce_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum each chunk in ring order, starting at the rank after the owner of the chunk."""
    return segmented_sums(inputs, [[flat_ring(kind, shape)]], slot_bytes)
