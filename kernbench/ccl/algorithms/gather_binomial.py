"""Gather up a binomial tree to rank 0, in `log2(n)` steps. A rank sends the blocks of its whole subtree together."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def gather_binomial(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of rank 0 holds `in[:n_elem]` of all ranks, in rank order. Other ranks do not change
    `out`.
    """
    return rooted_blocks("binomial", shape, scatters=False)


kernel = gather_binomial
schedule, neighbours, reference = parts_of(kernel)
