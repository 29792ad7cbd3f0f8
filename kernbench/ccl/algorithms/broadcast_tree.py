"""Broadcast down two binary trees at once, with half of the elements on each tree. A leaf of one tree is an inner node of the
other.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import from_root


@scheduled
def broadcast_tree(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of rank 0."""
    return from_root("tree", shape)


kernel = broadcast_tree
schedule, neighbours, reference = parts_of(kernel)
