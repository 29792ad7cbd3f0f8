"""All-to-all by Bruck's algorithm: `log2(n)` steps, in each of which a rank sends half of its blocks."""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import all_to_all


@scheduled
def all_to_all_bruck(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[s * n_elem : (s + 1) * n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    return all_to_all("bruck", shape)


kernel = all_to_all_bruck
schedule, neighbours, reference = parts_of(kernel)
