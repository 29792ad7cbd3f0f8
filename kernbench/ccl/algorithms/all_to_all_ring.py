"""All-to-all along one ring: elements for the rank at distance `d` take `d` hops, in the shorter direction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.ring_collectives import all_to_all
from kernbench.ccl.ring_schedule import Memory, along_ring, neighbours
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring
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


@along_ring
def all_to_all_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[s * n_elem : (s + 1) * n_elem]` of rank `r` = `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    all_to_all(memory, ring, n_elem)


kernel = all_to_all_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """A row of blocks becomes a column of blocks."""
    blocks = np.stack(inputs).reshape(len(inputs), len(inputs), -1)
    return [blocks[:, rank].reshape(-1) for rank in range(len(inputs))]
