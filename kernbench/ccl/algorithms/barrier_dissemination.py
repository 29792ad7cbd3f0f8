"""Barrier by dissemination: in step `k` each rank tells the one `2 ** k` further on; `log2(n)` steps, rounded up."""

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
    """No rank returns before every rank has begun. Pointers and counts are not used."""
    tell(memory.tl)


kernel = barrier_dissemination
reference = no_elements


def neighbours(kind: int, shape: Shape) -> Table:
    """East on plane `k` is the rank at distance `2 ** k` after this one, west the one at the same distance before it."""
    return offsets(shape.ranks)
