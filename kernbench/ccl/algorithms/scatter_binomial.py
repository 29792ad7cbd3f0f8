"""Scatter from rank 0 down a binomial tree, in `log2(n)` steps. A rank receives the blocks of its whole subtree together."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def scatter_binomial(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank 0."""
    return rooted_blocks("binomial", shape, scatters=True)


kernel = scatter_binomial
schedule, neighbours, reference = parts_of(kernel)
