"""All-to-all by direct exchange: every rank sends each other rank the block for that rank."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import all_to_all


@scheduled
def all_to_all_direct(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[s * n_elem : (s + 1) * n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    return all_to_all("direct", shape)


kernel = all_to_all_direct
schedule, neighbours, reference = parts_of(kernel)
