"""Barrier by dissemination: in step `k`, each rank sends a message to the rank `2 ** k` further on. There are `log2(n)` steps,
rounded up.
"""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Memory,
    Shape,
    Table,
    kernel_args,
    kernel_of,
    no_elements,
)
from kernbench.ccl.ring_collectives import offsets, tell


@kernel_of
def barrier_dissemination(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """No rank returns before every rank has begun. The kernel ignores pointers and counts."""
    tell(memory.tl)


kernel = barrier_dissemination
reference = no_elements


def neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues on plane `k`: east is the rank at distance `2 ** k` after this rank, and west the rank at that distance
    before it.
    """
    return offsets(shape.ranks)
