"""All-reduce in two phases: each rank receives one part from every other rank, adds the parts, and sends the sum to all ranks.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import direct_all_reduce


@scheduled
def all_reduce_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    return direct_all_reduce(shape.ranks, shape.sips > 1)


kernel = all_reduce_direct
schedule, neighbours, reference = parts_of(kernel)
