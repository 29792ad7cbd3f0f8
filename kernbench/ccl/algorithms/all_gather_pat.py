"""All-gather by parallel aggregated trees: `log2(n)` steps, the longest distance first, when a rank has one block to send."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_pat(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    return gathered_blocks("pat", shape)


kernel = all_gather_pat
schedule, neighbours, reference = parts_of(kernel)
