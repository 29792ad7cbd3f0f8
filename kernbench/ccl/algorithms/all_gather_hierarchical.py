"""All-gather level by level: across SIPs, then across cubes, then in cubes.

A block crosses the border of a SIP once for each other SIP; ranks of one SIP share what came over it."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_hierarchical(kind: int, shape: Shape) -> Schedule:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    return gathered_blocks("hierarchical", shape)


kernel = all_gather_hierarchical
schedule, neighbours, reference = parts_of(kernel)
