"""Reduce-scatter by direct exchange: every rank sends each other rank the block that belongs to that rank."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    return scattered_sums("direct", shape)


kernel = reduce_scatter_direct
schedule, neighbours, reference = parts_of(kernel)
