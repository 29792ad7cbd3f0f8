"""Reduce-scatter level by level: in cubes, then across cubes, then across SIPs; only sums cross the border of a cube or SIP."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_hierarchical(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank `r` = the sums of all ranks' `in[r * n_elem : (r + 1) * n_elem]`."""
    return scattered_sums("hierarchical", shape)


kernel = reduce_scatter_hierarchical
schedule, neighbours, reference = parts_of(kernel)
