"""All-gather along the rings of a grid: first along the columns, then along the rows.

With several SIPs, the axes of the grid are the levels of the machine.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_torus(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("torus", shape, kind)


kernel = all_gather_torus
schedule, neighbours, reference = parts_of(kernel)
