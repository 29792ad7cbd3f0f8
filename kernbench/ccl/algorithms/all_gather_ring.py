"""All-gather along one ring: each rank's elements go round, `n - 1` steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernbench.ccl.contract import Shape, kernel_args
from kernbench.ccl.ring_collectives import all_gather
from kernbench.ccl.ring_schedule import Memory, along_ring, neighbours
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_gather_ring",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
]


@along_ring
def all_gather_ring(memory: Memory, ring: Ring, n_elem: int) -> None:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    all_gather(memory, ring, n_elem)


kernel = all_gather_ring


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Every rank gets the elements of all ranks."""
    return [np.concatenate(inputs)] * len(inputs)
