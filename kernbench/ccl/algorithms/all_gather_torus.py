"""All-gather along rings of a grid: down the columns, then along the rows with what came down. With several SIPs the axes are
the levels of the machine."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_torus(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    return gathered_blocks("torus", shape)


kernel = all_gather_torus
schedule, neighbours, reference = parts_of(kernel)
