"""All-to-all along one ring: what is for a rank `d` places further on goes there in `d` hops, the shorter way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench.ccl.arranged import flat_ring
from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.over_rings import Memory
from kernbench.ccl.rings import table_of
from kernbench.ccl.round_trips import all_to_all
from kernbench.ccl.shapes import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_to_all_ring",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


def all_to_all_ring(
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
    """`out[s * n_elem : (s + 1) * n_elem]` of rank `r` = `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
    all_to_all(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)


kernel = all_to_all_ring


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """A row of blocks becomes a column of blocks."""
    blocks = np.stack(inputs).reshape(len(inputs), len(inputs), -1)
    return [blocks[:, rank].reshape(-1) for rank in range(len(inputs))]
