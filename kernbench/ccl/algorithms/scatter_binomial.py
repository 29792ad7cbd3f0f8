"""Scatter down a binomial tree from rank 0: `log2(n)` steps; a rank gets the blocks of all ranks behind it together."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def scatter_binomial(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank `r` = `in[r * n_elem : (r + 1) * n_elem]` of rank 0."""
    return rooted_blocks("binomial", shape, scatters=True)


kernel = scatter_binomial
schedule, neighbours, reference = parts_of(kernel)
