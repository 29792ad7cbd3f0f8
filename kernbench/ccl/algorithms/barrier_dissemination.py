"""Barrier by dissemination: in step `k` each rank tells the one `2 ** k` further on; `log2(n)` steps, rounded up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.ring_collectives import offsets, tell
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "barrier_dissemination",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def barrier_dissemination(
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
    """No rank returns before every rank has begun. Pointers and counts are not used."""
    tell(tl)


kernel = barrier_dissemination


def neighbours(kind: int, shape: Shape) -> Table:
    """East on plane `k` is the rank at distance `2 ** k` after this one, west the one at the same distance before it."""
    return offsets(shape.ranks)


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """A barrier moves no elements."""
    return [one[:0] for one in inputs]
