"""Reduce-scatter in switches: in each SIP ranks add their parts, and switches add those of the SIPs."""

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
    """`out[:n_elem]` of rank `r` = the sums of all ranks' `in[r * n_elem : (r + 1) * n_elem]`."""
    return scattered_sums("switch", shape)


kernel = reduce_scatter_switch
schedule, neighbours, reference = parts_of(kernel)
through_switches = switch_queues_of(kernel)
