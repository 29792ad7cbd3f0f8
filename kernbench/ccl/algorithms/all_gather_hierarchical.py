"""All-gather level by level: across SIPs, then across cubes, then inside cubes.

A block enters each other SIP only once; the ranks of that SIP then pass the block on among themselves.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_hierarchical(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("hierarchical", shape, kind)


kernel = all_gather_hierarchical
schedule, neighbours, reference = parts_of(kernel)
