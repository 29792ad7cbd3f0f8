"""All-reduce along a ring in both directions: half of the elements go east, half of them west.

The same number of steps as the ring, with messages half as long: twice as fast if links limit it, because a ring uses them in
one direction only.
"""

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
    flat_ring,
    kernel_args,
    ring_neighbours,
)
from kernbench.ccl.contract import cut
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import all_reduce


@along_ring
def all_reduce_bidirectional(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    east, west = cut((0, n_elem), 2)
    all_reduce(memory, [((ring,), east), ((ring.turned(),), west)])


kernel = all_reduce_bidirectional
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The first half as along the ring, the second as along the ring turned round."""
    ring, (_, count) = flat_ring(kind, shape), cut((0, inputs[0].size), 2)[0]
    east = segmented_sums([one[:count] for one in inputs], [[ring]], slot_bytes)
    west = segmented_sums([one[count:] for one in inputs], [[ring.turned()]], slot_bytes)
    return [np.concatenate(halves) for halves in zip(east, west, strict=True)]
