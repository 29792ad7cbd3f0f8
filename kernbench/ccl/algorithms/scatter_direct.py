"""Scatter from rank 0: rank 0 sends every rank its block."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def scatter_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank 0."""
    return rooted_blocks("direct", shape, scatters=True)


kernel = scatter_direct
schedule, neighbours, reference = parts_of(kernel)
