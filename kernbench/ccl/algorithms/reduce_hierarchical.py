"""Reduce level by level: in cubes, then across cubes, then across SIPs; a binomial tree in each."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_hierarchical(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    return to_root("hierarchical", shape)


kernel = reduce_hierarchical
schedule, neighbours, reference = parts_of(kernel)
