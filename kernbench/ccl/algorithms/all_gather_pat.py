"""All-gather by parallel aggregated trees, in `log2(n)` steps.

The first step has the longest distance, because a rank then has only one block to send.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_pat(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("pat", shape)


kernel = all_gather_pat
schedule, neighbours, reference = parts_of(kernel)
