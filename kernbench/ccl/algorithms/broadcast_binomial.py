"""Broadcast down a binomial tree: `log2(n)` steps, the longest distance first."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import from_root


@scheduled
def broadcast_binomial(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of rank 0."""
    return from_root("binomial", shape)


kernel = broadcast_binomial
schedule, neighbours, reference = parts_of(kernel)
