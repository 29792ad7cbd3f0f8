"""All-reduce in switches: the ranks of each SIP add their parts. The switches add the sums of the SIPs and copy the result to
all SIPs.
"""

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
from kernbench.ccl.patterns import switch_all_reduce


@scheduled
def all_reduce_switch(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    return switch_all_reduce(shape, kind)


kernel = all_reduce_switch
schedule, neighbours, reference = parts_of(kernel)
through_switches = switch_queues_of(kernel)
