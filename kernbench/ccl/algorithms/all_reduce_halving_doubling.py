"""All-reduce by recursive halving and doubling: `2 log2(n)` steps, each between ranks whose numbers differ in one bit.

Halves of the elements go to the nearest partner, quarters to the next, and so on; the sums come back the same way. If the
number of ranks is not a power of two, some ranks first send their elements to a neighbour, and get the sums at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.halving_doubling import halving_doubling, paired_sums, partners
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_halving_doubling",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_reduce_halving_doubling(
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
    halving_doubling(Memory(tl, in_ptr, out_ptr, dtype), (0, n_elem))


kernel = all_reduce_halving_doubling


def neighbours(kind: int, shape: Shape) -> Table:
    """The partner of step `k` on plane `k // 4`, in direction E, W, S or N."""
    return partners(shape.ranks)


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """First pairs, then pairs of pairs; all ranks do the same."""
    return [paired_sums(inputs)] * len(inputs)
