"""All-reduce level by level: inside each cube, across cubes, across SIPs, and back.

Only the sums of a cube leave the cube, and only the sums of a SIP leave the SIP. Longer distances therefore carry less data.
The SIPs form a ring, or the rows and columns of a torus or mesh, as `sip_topo_kind` says.
"""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Array,
    Memory,
    Sequence,
    Shape,
    Table,
    kernel_args,
    kernel_of,
)
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import all_reduce
from kernbench.ccl.rings import level_rings, rings_with, table_of


@kernel_of
def all_reduce_hierarchical(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    all_reduce(memory, [(rings_with(memory.tl.rank, level_rings, kind, shape), (0, n_elem))])


kernel = all_reduce_hierarchical


def neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues: plane 0 inside cubes, plane 1 across cubes, and plane 2 across SIPs."""
    return table_of(ring for level in level_rings(kind, shape) for ring in level)


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum inside cubes, then across cubes, then across SIPs."""
    return segmented_sums(inputs, level_rings(kind, shape), slot_bytes)
