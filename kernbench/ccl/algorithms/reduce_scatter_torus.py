"""Reduce-scatter along the rings of a grid: first along the rows, then the sums of each row along the columns.

With several SIPs, the axes of the grid are the levels of the machine.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_torus(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    return scattered_sums("torus", shape, kind)


kernel = reduce_scatter_torus
schedule, neighbours, reference = parts_of(kernel)
