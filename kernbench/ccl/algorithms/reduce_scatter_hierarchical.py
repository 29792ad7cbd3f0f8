"""Reduce-scatter level by level: inside cubes, then across cubes, then across SIPs. Only sums leave a cube or a SIP."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_hierarchical(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    return scattered_sums("hierarchical", shape, kind)


kernel = reduce_scatter_hierarchical
schedule, neighbours, reference = parts_of(kernel)
