"""Reduce up two binary trees at once, half of the elements along each; a leaf of one is an inner node of the other."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_tree(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    return to_root("tree", shape)


kernel = reduce_tree
schedule, neighbours, reference = parts_of(kernel)
