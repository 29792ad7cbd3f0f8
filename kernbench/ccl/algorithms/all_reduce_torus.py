"""All-reduce over a grid: rows and columns at once, half of the elements along rows first, half along columns first.
If the ranks of each SIP are a row, all go along rows first.

`2 (rows - 1) + 2 (columns - 1)` steps. On a torus and a ring, rows and columns are rings; on a mesh they are lines, walked
to and fro so that no hop passes over more than one rank.
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
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    across, down = rings_with(memory.tl.rank, grid_rings, kind, shape)
    first, second = _halves(shape, n_elem)
    all_reduce(memory, [((across, down), first), ((down, across), second)])


def _halves(shape: Shape, count: int) -> tuple[Range, Range]:
    """The parts that go along rows first and along columns first; all go along rows first if only columns cross SIPs."""
    if 1 < shape.sips < shape.ranks:
        return (0, count), (count, 0)
    first, second = cut((0, count), 2)
    return first, second


kernel = all_reduce_torus


def neighbours(kind: int, shape: Shape) -> Table:
    """Along rows east and west, along columns south and north, on plane 0."""
    across, down = grid_rings(kind, shape)
    return table_of([*across, *down])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The first half along rows and then columns, the second along columns and then rows."""
    (across, down), ((_, count), _) = grid_rings(kind, shape), _halves(shape, inputs[0].size)
    first = segmented_sums([one[:count] for one in inputs], [across, down], slot_bytes)
    second = segmented_sums([one[count:] for one in inputs], [down, across], slot_bytes)
    return [np.concatenate(halves) for halves in zip(first, second, strict=True)]
