"""Pairs of send and receive in two steps: first even ranks send, then odd ones, so that no rank sends and receives at once."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import alternating_shift
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
    "reference",
    "schedule",
    "send_recv_alternating",
]


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return alternating_shift(shape)


@by_schedule
def send_recv_alternating(memory: Memory, shape: Shape, kind: int, n_elem: int) -> None:
    """`out[:n_elem]` of each rank = `in[:n_elem]` of the rank before it."""
    run_schedule(memory, schedule(kind, shape), n_elem)


kernel = send_recv_alternating


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """The same steps on arrays."""
    return replayed(schedule(kind, shape), inputs, slot_bytes)
