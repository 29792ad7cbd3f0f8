"""Reduce up a binomial tree: `log2(n)` steps, the shortest distance first."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_binomial(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank 0 holds the sum of `in[:n_elem]` over all ranks. Other ranks do not change `out`."""
    return to_root("binomial", shape)


kernel = reduce_binomial
schedule, neighbours, reference = parts_of(kernel)
