"""All-to-all by direct exchange: every rank sends each other rank its block."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import all_to_all
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, by_schedule, replayed, run_schedule
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "all_to_all_direct",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
    "schedule",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return all_to_all("direct", shape)


@by_schedule
def all_to_all_direct(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[s * n_elem : (s + 1) * n_elem]` of rank `r` = `in[r * n_elem : (r + 1) * n_elem]` of rank `s`."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = all_to_all_direct


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
