"""All-reduce over a grid. Half of the elements travel along rows first, and at the same time half along columns first.

If the ranks of each SIP form a row, all elements travel along rows first. The algorithm takes
`2 (rows - 1) + 2 (columns - 1)` steps. On a torus and on a ring, rows and columns are rings. On a mesh, they are lines; a
ring on a line visits every second rank on the way out and the others on the way back, so no hop passes more than one rank.
"""

import numpy as np

from kernbench.ccl.algorithm import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    TORUS,
    Array,
    Memory,
    Sequence,
    Shape,
    Table,
    kernel_args,
    kernel_of,
)
from kernbench.ccl.contract import Range, cut
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import all_reduce
from kernbench.ccl.rings import grid_rings, rings_with, table_of


@kernel_of
def all_reduce_torus(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """Afterwards, `out[:n_elem]` of each rank holds the sum of `in[:n_elem]` over all ranks."""
    across, down = rings_with(memory.tl.rank, grid_rings, kind, shape)
    first, second = _halves(shape, n_elem)
    all_reduce(memory, [((across, down), first), ((down, across), second)])


def _halves(shape: Shape, count: int) -> tuple[Range, Range]:
    """Return the parts that travel along rows first and along columns first.

    All elements travel along rows first if only the columns cross SIPs.
    """
    if 1 < shape.sips < shape.ranks:
        return (0, count), (count, 0)
    first, second = cut((0, count), 2)
    return first, second


kernel = all_reduce_torus


def neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues on plane 0: east and west along rows, south and north along columns."""
    across, down = grid_rings(kind, shape)
    return table_of([*across, *down])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Sum the first half along rows and then columns, and the second half along columns and then rows."""
    (across, down), ((_, count), _) = grid_rings(kind, shape), _halves(shape, inputs[0].size)
    first = segmented_sums([one[:count] for one in inputs], [across, down], slot_bytes)
    second = segmented_sums([one[count:] for one in inputs], [down, across], slot_bytes)
    return [np.concatenate(halves) for halves in zip(first, second, strict=True)]
