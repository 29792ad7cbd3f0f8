"""Reduce up a binomial tree: `log2(n)` steps, the shortest distance first."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import to_root


@scheduled
def reduce_binomial(kind: int, shape: Shape) -> Schedule:
    """`out[:n_elem]` of rank 0 = the sums of all ranks' `in[:n_elem]`; other ranks' `out` is left as it is."""
    return to_root("binomial", shape)


kernel = reduce_binomial
schedule, neighbours, reference = parts_of(kernel)
