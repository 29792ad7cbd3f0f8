"""All-reduce by recursive halving and doubling: `2 log2(n)` steps, each between ranks whose numbers differ in one bit.

A rank sends half of the elements to the nearest partner, a quarter to the next partner, and so on. The sums return in the
opposite order. If the number of ranks is not a power of two, some ranks first send their elements to a neighbour, and get
the sums at the end.
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
from kernbench.ccl.halving_doubling import halving_doubling, paired_sums, partners


@kernel_of
def all_reduce_halving_doubling(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    halving_doubling(memory, (0, n_elem))


kernel = all_reduce_halving_doubling


def neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues: the partner of step `k` is on plane `k // 4`, in direction E, W, S or N."""
    return partners(shape.ranks)


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum pairs first, and then pairs of pairs. All ranks have the same result."""
    return [paired_sums(inputs)] * len(inputs)
