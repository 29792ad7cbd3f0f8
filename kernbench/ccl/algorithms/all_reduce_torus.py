"""All-reduce over a grid: rows and columns at once, half of the elements along rows first, half along columns first.
If the ranks of each SIP are a row, all go along rows first.

`2 (rows - 1) + 2 (columns - 1)` steps. On a torus and a ring, rows and columns are rings; on a mesh they are lines, walked
to and fro so that no hop passes over more than one rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench.ccl.contract import Range, Shape, Table, cut, kernel_args, shape_of
from kernbench.ccl.reference_sums import segmented_sums
from kernbench.ccl.ring_schedule import Memory, all_reduce
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, grid_rings, rings_with, table_of
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_torus",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_reduce_torus(
    in_ptr: int,
    out_ptr: int,
    n_elem: int,
    dtype: str,
    sip_rank: int,
    sip_size: int,
    cube_rank: int,
    cube_size: int,
    sip_topo_kind: int,
    tl: Any,
) -> None:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    shape = shape_of(sip_size, cube_size, tl)
    across, down = rings_with(tl.rank, grid_rings, sip_topo_kind, shape)
    first, second = _halves(shape, n_elem)
    all_reduce(Memory(tl, in_ptr, out_ptr, dtype), [((across, down), first), ((down, across), second)])


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
