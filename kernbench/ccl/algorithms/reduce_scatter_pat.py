"""Reduce-scatter by parallel aggregated trees: `log2(n)` steps, the shortest distance first, the longest with one block."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import scattered_sums
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, by_schedule, replayed, run_schedule
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "kernel",
    "kernel_args",
    "neighbours",
    "reduce_scatter_pat",
    "reference",
    "schedule",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return scattered_sums("pat", shape)


@by_schedule
def reduce_scatter_pat(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n_elem]` of rank `r` = the sums of all ranks' `in[r * n_elem : (r + 1) * n_elem]`."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = reduce_scatter_pat


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
