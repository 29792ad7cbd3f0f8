"""Reduce level by level: inside cubes, then across cubes, then across SIPs, along a binomial tree at each level."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_hierarchical(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank 0 holds the sum of `in[:n_elem]` over all ranks. Other ranks do not change `out`."""
    return to_root("hierarchical", shape, kind)


kernel = reduce_hierarchical
schedule, neighbours, reference = parts_of(kernel)
