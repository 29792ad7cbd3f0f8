"""All-gather by direct exchange: every rank sends its block to each other rank."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_direct(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    return gathered_blocks("direct", shape)


kernel = all_gather_direct
schedule, neighbours, reference = parts_of(kernel)
