"""Reduce-scatter along rings of a grid: along the rows, then the sums of a row down the columns. With several SIPs the axes are
the levels of the machine."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_torus(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank `r` = the sums of all ranks' `in[r * n_elem : (r + 1) * n_elem]`."""
    return scattered_sums("torus", shape)


kernel = reduce_scatter_torus
schedule, neighbours, reference = parts_of(kernel)
