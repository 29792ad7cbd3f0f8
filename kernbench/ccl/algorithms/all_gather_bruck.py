"""All-gather by Bruck's algorithm, in `log2(n)` steps for any number of ranks. Each step sends twice as many blocks as the step
before.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_bruck(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("bruck", shape)


kernel = all_gather_bruck
schedule, neighbours, reference = parts_of(kernel)
