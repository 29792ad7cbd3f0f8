"""Send and receive along a ring: each rank sends its elements to the next rank."""

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Array,
    Memory,
    Ring,
    Sequence,
    Shape,
    along_ring,
    flat_ring,
    kernel_args,
    ring_neighbours,
)
from kernbench.ccl.ring_collectives import shift


@along_ring
def send_recv_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds `in[:n_elem]` of the preceding rank."""
    shift(memory, ring, n_elem)


kernel = send_recv_ring
neighbours = ring_neighbours


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Return the elements of the preceding rank, for every rank."""
    members = flat_ring(kind, shape).members
    before = {rank: members[at - 1] for at, rank in enumerate(members)}
    return [inputs[before[rank]] for rank in range(len(inputs))]
