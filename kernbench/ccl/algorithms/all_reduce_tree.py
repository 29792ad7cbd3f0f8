"""All-reduce up and down two binary trees at once, with half of the elements on each tree: at most `4 log2(n)` steps.

Each rank is an inner node of one tree and a leaf of the other, so all ranks send about the same number of bytes.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import tree_all_reduce


@scheduled
def all_reduce_tree(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    return tree_all_reduce(shape.ranks, shape.sips > 1)


kernel = all_reduce_tree
schedule, neighbours, reference = parts_of(kernel)
