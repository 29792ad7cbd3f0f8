"""All-gather by Bruck's algorithm: `log2(n)` steps for any number of ranks; blocks sent double from step to step."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_bruck(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    return gathered_blocks("bruck", shape)


kernel = all_gather_bruck
schedule, neighbours, reference = parts_of(kernel)
