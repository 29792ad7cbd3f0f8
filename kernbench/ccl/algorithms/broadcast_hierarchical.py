"""Broadcast level by level: across SIPs, then across cubes, then in cubes; a binomial tree in each."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import from_root


@scheduled
def broadcast_hierarchical(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of each rank is `in[:n_elem]` of rank 0."""
    return from_root("hierarchical", shape)


kernel = broadcast_hierarchical
schedule, neighbours, reference = parts_of(kernel)
