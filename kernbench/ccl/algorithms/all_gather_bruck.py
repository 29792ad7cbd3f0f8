"""All-gather by Bruck's algorithm: `log2(n)` steps for any number of ranks; blocks sent double from step to step."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import gathered_blocks
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, by_schedule, replayed, run_schedule
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_gather_bruck",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
    "schedule",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return gathered_blocks("bruck", shape)


@by_schedule
def all_gather_bruck(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n * n_elem]` of each rank = all ranks' `in[:n_elem]`, rank by rank."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = all_gather_bruck


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
