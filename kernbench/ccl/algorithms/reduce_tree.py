"""Reduce up two binary trees at once, with half of the elements on each tree. A leaf of one tree is an inner node of the other.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_tree(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank 0 holds the sum of `in[:n_elem]` over all ranks. Other ranks do not change `out`."""
    return to_root("tree", shape)


kernel = reduce_tree
schedule, neighbours, reference = parts_of(kernel)
