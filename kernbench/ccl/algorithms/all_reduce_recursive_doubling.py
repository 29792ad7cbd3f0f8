"""All-reduce by recursive doubling: `log2(n)` steps, in each of which partners exchange all elements.

This algorithm has the fewest steps and moves the most bytes, so it suits short vectors.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import recursive_doubling


@scheduled
def all_reduce_recursive_doubling(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    return recursive_doubling(shape.ranks, shape.sips > 1)


kernel = all_reduce_recursive_doubling
schedule, neighbours, reference = parts_of(kernel)
