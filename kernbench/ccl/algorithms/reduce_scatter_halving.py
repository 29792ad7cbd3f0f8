"""Reduce-scatter by recursive halving, in `log2(n)` steps for any number of ranks.

The messages are the messages of Bruck's all-gather in the reverse order and direction.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_halving(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    return scattered_sums("bruck", shape)


kernel = reduce_scatter_halving
schedule, neighbours, reference = parts_of(kernel)
