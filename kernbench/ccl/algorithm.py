"""Builds the module of an algorithm: the kernel with the nine arguments of the contract, and the parts that follow from a
schedule.

@scheduled
def broadcast_mine(kind: int, shape: Shape) -> Schedule:
    ...

kernel = broadcast_mine
schedule, neighbours, reference = parts_of(kernel)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args, shape_of
from kernbench.ccl.ring_schedule import Memory
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS, Ring, flat_ring, table_of
from kernbench.ccl.schedule import Schedule, replayed, run_schedule
from kernbench.common.dtypes import Array
from kernbench.components.builtin.switch_queue import SwitchQueueForm

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "Array",
    "Memory",
    "Ring",
    "Schedule",
    "Sequence",
    "Shape",
    "Table",
    "along_ring",
    "flat_ring",
    "kernel_args",
    "kernel_of",
    "no_elements",
    "parts_of",
    "ring_neighbours",
    "scheduled",
    "switch_queues_of",
]

Work = Callable[[Memory, Shape, int, int], None]  #: of a rank: its memory, the shape and kind of its group, and `n_elem`


def kernel_of(work: Work, named: Callable[..., Any] | None = None) -> Callable[..., None]:
    """Return a kernel with the nine arguments of the contract that does this work, with the name and docstring of `named`."""

    @wraps(named or work, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def kernel(
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
        work(Memory(tl, in_ptr, out_ptr, dtype), shape_of(sip_size, cube_size, tl), sip_topo_kind, n_elem)

    kernel.__signature__ = inspect.signature(kernel, follow_wrapped=False)  # type: ignore[attr-defined]
    return kernel


def along_ring(ring_pass: Callable[[Memory, Ring, int], None]) -> Callable[..., None]:
    """Return the kernel of an algorithm that works along the flat ring of its ranks."""
    return kernel_of(lambda memory, shape, kind, n_elem: ring_pass(memory, flat_ring(kind, shape), n_elem), ring_pass)


def ring_neighbours(kind: int, shape: Shape) -> Table:
    """Return the queues along the flat ring in both directions, on plane 0."""
    return table_of([flat_ring(kind, shape)])


ScheduleOf = Callable[[int, Shape], Schedule]  #: with the kind of topology


def scheduled(schedule: ScheduleOf) -> Callable[..., None]:
    """Return the kernel of an algorithm that is a schedule. The docstring of the schedule says what the ranks hold afterwards.
    """
    kernel = kernel_of(lambda memory, shape, kind, n_elem: run_schedule(memory, schedule(kind, shape), n_elem), schedule)
    kernel.schedule = schedule  # type: ignore[attr-defined]
    return kernel


Parts = tuple[ScheduleOf, Callable[[int, Shape], Table], Callable[[Sequence[Array], int, Shape, int], list[Array]]]


def parts_of(kernel: Callable[..., None]) -> Parts:
    """Return three parts of a kernel that `scheduled` made: the schedule, the table of neighbours, and the reference."""
    schedule: ScheduleOf = kernel.schedule  # type: ignore[attr-defined]

    def neighbours(kind: int, shape: Shape) -> Table:
        return schedule(kind, shape).table

    def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
        return replayed(schedule(kind, shape), inputs, slot_bytes)

    return schedule, neighbours, reference


def switch_queues_of(kernel: Callable[..., None]) -> Callable[[int, Shape], Sequence[SwitchQueueForm]]:
    """Return the function that lists the queues through switches of a kernel that `scheduled` made."""
    schedule: ScheduleOf = kernel.schedule  # type: ignore[attr-defined]

    def through_switches(kind: int, shape: Shape) -> Sequence[SwitchQueueForm]:
        return schedule(kind, shape).through_switches

    return through_switches


def no_elements(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """Return the reference of a barrier, which has no elements."""
    return [one[:0] for one in inputs]
