"""Send and receive in two steps: first the even ranks send, then the odd ranks. No rank sends and receives at the same time."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import alternating_shift


@scheduled
def send_recv_alternating(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of the preceding rank."""
    return alternating_shift(shape)


kernel = send_recv_alternating
schedule, neighbours, reference = parts_of(kernel)
