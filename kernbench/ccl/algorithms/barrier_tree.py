"""Barrier up and down a binomial tree: rank 0 hears of all ranks, and tells all: `2 log2(n)` steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.ccl.contract import Shape, Table, kernel_args
from kernbench.ccl.patterns import barrier_tree as schedule_of
from kernbench.ccl.rings import MESH, RING, TOPO_NAME_TO_KIND, TORUS
from kernbench.ccl.schedule import Schedule, run_signals
from kernbench.common.dtypes import Array

__all__ = [
    "MESH",
    "RING",
    "TOPO_NAME_TO_KIND",
    "TORUS",
    "barrier_tree",
    "kernel",
    "kernel_args",
    "neighbours",
    "reference",
    "schedule",
]


def barrier_tree(
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
    """No rank returns before every rank has begun. Pointers and counts are not used."""
    run_signals(tl, schedule_of(tl.world_size))


kernel = barrier_tree


def schedule(kind: int, shape: Shape) -> Schedule:
    """The messages of all ranks."""
    return schedule_of(shape.ranks)


def neighbours(kind: int, shape: Shape) -> Table:
    """The ranks that exchange messages."""
    return schedule(kind, shape).table


def reference(inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> list[Array]:
    """A barrier moves no elements."""
    return [one[:0] for one in inputs]
