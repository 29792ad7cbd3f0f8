"""Broadcast level by level: across SIPs, then across cubes, then inside cubes, along a binomial tree at each level."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import from_root


@scheduled
def broadcast_hierarchical(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of rank 0."""
    return from_root("hierarchical", shape, kind)


kernel = broadcast_hierarchical
schedule, neighbours, reference = parts_of(kernel)
