"""All-reduce along a ring in both directions: half of the elements travel east, and half of them west.

The number of steps is the same as in `all_reduce_ring`, but messages are half as long. If the links limit the speed, this
algorithm is twice as fast, because a ring uses the links in only one direction.
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
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    east, west = cut((0, n_elem), 2)
    all_reduce(memory, [((ring,), east), ((ring.turned(),), west)])


kernel = all_reduce_bidirectional
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum the first half in ring order, and the second half in the reversed ring order."""
    ring, (_, count) = flat_ring(kind, shape), cut((0, inputs[0].size), 2)[0]
    east = segmented_sums([one[:count] for one in inputs], [[ring]], slot_bytes)
    west = segmented_sums([one[count:] for one in inputs], [[ring.turned()]], slot_bytes)
    return [np.concatenate(halves) for halves in zip(east, west, strict=True)]
