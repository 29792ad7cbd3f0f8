"""Reduce-scatter in switches: the ranks of each SIP add their parts, and the switches add the sums of the SIPs."""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Schedule,
    Shape,
    kernel_args,
    parts_of,
    scheduled,
    switch_queues_of,
)
from kernbench.ccl.patterns import scattered_sums


@scheduled
def reduce_scatter_switch(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of rank `r` holds the sum of `in[r * n_elem : (r + 1) * n_elem]` over all ranks."""
    return scattered_sums("switch", shape, kind)


kernel = reduce_scatter_switch
schedule, neighbours, reference = parts_of(kernel)
through_switches = switch_queues_of(kernel)
