"""All-reduce by recursive doubling: `log2(n)` steps, in each of which partners exchange all elements.

The fewest steps, and the most bytes: for short vectors."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import recursive_doubling
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, by_schedule, replayed, run_schedule
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_reduce_recursive_doubling",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
    "schedule",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return recursive_doubling(shape.ranks, shape.sips > 1)


@by_schedule
def all_reduce_recursive_doubling(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n_elem]` of each rank is the sum of `in[:n_elem]` over all ranks."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = all_reduce_recursive_doubling


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
