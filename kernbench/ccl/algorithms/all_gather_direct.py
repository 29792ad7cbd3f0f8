"""All-gather by direct exchange: every rank sends its block to each other rank."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("direct", shape)


kernel = all_gather_direct
schedule, neighbours, reference = parts_of(kernel)
