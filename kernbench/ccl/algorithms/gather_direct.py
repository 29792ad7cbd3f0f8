"""Gather to rank 0: every rank sends it its block."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import rooted_blocks


@scheduled
def gather_direct(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of rank 0 = all ranks' `in[:n_elem]`, rank by rank; other ranks' `out` is left as it is."""
    return rooted_blocks("direct", shape, scatters=False)


kernel = gather_direct
schedule, neighbours, reference = parts_of(kernel)
