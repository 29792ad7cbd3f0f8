"""All-to-all along one ring: elements for the rank at distance `d` take `d` hops, in the shorter direction."""

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
from kernbench.ccl.ring_collectives import all_to_all


@along_ring
def all_to_all_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[s * n_elem : (s + 1) * n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    all_to_all(memory, ring, n_elem)


kernel = all_to_all_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Return the blocks transposed: block `r` of rank `s` becomes block `s` of rank `r`."""
    blocks = np.stack(inputs).reshape(len(inputs), len(inputs), -1)
    return [blocks[:, rank].reshape(-1) for rank in range(len(inputs))]
