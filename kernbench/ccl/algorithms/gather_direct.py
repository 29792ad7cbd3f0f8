"""Gather to rank 0: every rank sends its block to rank 0."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def gather_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of rank 0 holds `in[:n_elem]` of all ranks, in rank order. Other ranks do not change
    `out`.
    """
    return rooted_blocks("direct", shape, scatters=False)


kernel = gather_direct
schedule, neighbours, reference = parts_of(kernel)
