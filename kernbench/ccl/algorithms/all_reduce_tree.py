"""All-reduce up and down two binary trees at once, half of the elements along each: `4 log2(n)` steps at most.

A rank is an inner node of one tree and a leaf of the other, so all ranks send about as much."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import tree_all_reduce


@scheduled
def all_reduce_tree(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    return tree_all_reduce(shape.ranks, shape.sips > 1)


kernel = all_reduce_tree
schedule, neighbours, reference = parts_of(kernel)
