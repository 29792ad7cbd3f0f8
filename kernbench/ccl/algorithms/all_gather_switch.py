"""All-gather through switches: each block leaves its SIP once, and the switches copy it to all other SIPs."""

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
from kernbench.ccl.patterns import gathered_blocks


@scheduled
def all_gather_switch(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n * n_elem]` of each rank holds `in[:n_elem]` of all ranks, in rank order."""
    return gathered_blocks("switch", shape, kind)


kernel = all_gather_switch
schedule, neighbours, reference = parts_of(kernel)
through_switches = switch_queues_of(kernel)
