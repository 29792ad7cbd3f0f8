"""All-to-all level by level: inside cubes, then across cubes, then across SIPs.

All blocks for the same cube or SIP travel there together.
"""

from kernbench.ccl.algorithm import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Schedule, Shape, kernel_args, parts_of, scheduled
from kernbench.ccl.patterns import all_to_all


@scheduled
def all_to_all_hierarchical(kind: int, shape: Shape) -> Schedule:
    """Afterwards, `out[s * n_elem : (s + 1) * n_elem]` of rank `r` holds `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    return all_to_all("hierarchical", shape, kind)


kernel = all_to_all_hierarchical
schedule, neighbours, reference = parts_of(kernel)
