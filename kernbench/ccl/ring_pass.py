"""The frame of the algorithms along one ring: their kernel of nine arguments, and a pass that runs a lane for each piece.

A lane (`lanes`) says who sends which chunk in which step; a pass says how many lanes there are, and how many run at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from kernbench.ccl.contract import Range, Shape, Table, cut, shape_of
from kernbench.ccl.over_rings import Memory, lanes_at_once
from kernbench.ccl.rings import Ring, flat_ring, table_of
from kernbench.ccl.turns import Slice, in_turn, run

RingPass = Callable[[Memory, Ring, int], None]  #: what a rank does along a ring, with `n_elem`


def along_ring(ring_pass: RingPass) -> Callable[..., None]:
    """The kernel of an algorithm that works along the flat ring of its ranks, with the nine arguments of the contract."""

    @wraps(ring_pass, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
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
        ring = flat_ring(sip_topo_kind, shape_of(sip_size, cube_size, tl))
        ring_pass(Memory(tl, in_ptr, out_ptr, dtype), ring, n_elem)

    kernel.__signature__ = inspect.signature(kernel, follow_wrapped=False)  # type: ignore[attr-defined]
    return kernel


def neighbours(kind: int, shape: Shape) -> Table:
    """Along the ring, both ways, on plane 0."""
    return table_of([flat_ring(kind, shape)])


def pieces_of(memory: Memory, count: int, far: bool = False, adds: bool = False) -> list[Range]:
    """A block of so many elements, message by message."""
    return [one for one in cut((0, count), memory.pieces(count, far, adds)) if one[1]]


def pass_pieces(
    memory: Memory, ring: Ring, count: int, lane: Callable[[Range], Slice], adds: bool = False, at_once: int | None = None
) -> None:
    """Run a lane for each piece of a block. `adds`: pieces are added to others on their way. `at_once`: lanes at a time."""
    lanes = (lane(piece) for piece in pieces_of(memory, count, ring.far, adds))
    run(memory.tl, in_turn(lanes, lanes_at_once(memory.tl) if at_once is None else at_once))
