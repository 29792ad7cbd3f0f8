"""All-gather along one ring: the elements of each rank travel around the ring, in `n - 1` steps."""

import numpy as np

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
from kernbench.ccl.ring_collectives import all_gather


@along_ring
def all_gather_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    all_gather(memory, ring, n_elem)


kernel = all_gather_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Return the elements of all ranks, for every rank."""
    return [np.concatenate(inputs)] * len(inputs)
