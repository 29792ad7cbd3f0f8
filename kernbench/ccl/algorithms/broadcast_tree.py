"""Broadcast down two binary trees at once, half of the elements along each; a leaf of one is an inner node of the other."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import from_root
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, by_schedule, replayed, run_schedule
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "broadcast_tree",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
    "schedule",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return from_root("tree", shape)


@by_schedule
def broadcast_tree(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is `in[:n_elem]` of rank 0."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = broadcast_tree


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
