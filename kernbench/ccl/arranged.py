"""The rings of the algorithms: over all ranks, over rows and columns of a grid, and level by level."""

from __future__ import annotations

from functools import cache

from kernbench.ccl.contract import Shape
from kernbench.ccl.rings import Ring
from kernbench.ccl.shapes import RING, grid_of, ring_of, ring_through


@cache
def flat_ring(kind: int, shape: Shape) -> Ring:
    """One ring through all ranks: SIP by SIP in the order of their arrangement, or, of one SIP, of the ranks' own."""
    if shape.sips == 1:
        return Ring(ring_through(kind, shape.ranks))
    each = shape.ranks // shape.sips
    return Ring(tuple(sip * each + one for sip in ring_through(kind, shape.sips) for one in range(each)), far=True)


@cache
def grid_rings(kind: int, shape: Shape) -> tuple[tuple[Ring, ...], tuple[Ring, ...]]:
    """The rings of all rows, east, and of all columns, south, of a grid of the ranks.

    With a rank a SIP, or one SIP, the grid is as square as it can be; else each SIP's ranks are a row.
    """
    rows, cols = grid_of(shape.ranks) if shape.ranks == shape.sips or shape.sips == 1 else (shape.sips, shape.cubes * shape.pes)
    across, down = ring_of(kind, cols), ring_of(kind, rows)
    return (
        tuple(Ring(tuple(row * cols + col for col in across)) for row in range(rows)),
        tuple(Ring(tuple(row * cols + col for row in down), out="S") for col in range(cols)),
    )


@cache
def level_rings(kind: int, shape: Shape) -> tuple[tuple[Ring, ...], ...]:
    """Level by level: the rings in each cube (plane 0), across cubes (1), across SIPs (2: one ring, or rows and columns)."""
    sips, cubes, pes = (range(count) for count in shape)
    in_cubes = tuple(Ring(tuple(shape.rank(sip, cube, pe) for pe in pes)) for sip in sips for cube in cubes)
    across = tuple(Ring(tuple(shape.rank(sip, cube, pe) for cube in cubes), 1) for sip in sips for pe in pes)
    places = [(cube, pe) for cube in cubes for pe in pes]
    if kind == RING:
        return in_cubes, across, tuple(Ring(tuple(shape.rank(sip, *at) for sip in sips), 2) for at in places)
    rows, cols = grid_of(shape.sips)
    order_across, order_down = ring_of(kind, cols), ring_of(kind, rows)
    return (
        in_cubes,
        across,
        tuple(Ring(tuple(shape.rank(r * cols + c, *at) for c in order_across), 2) for r in range(rows) for at in places),
        tuple(Ring(tuple(shape.rank(r * cols + c, *at) for r in order_down), 2, "S") for c in range(cols) for at in places),
    )


def rings_with(rank: int, levels: tuple[tuple[Ring, ...], ...]) -> tuple[Ring, ...]:
    """Of each level the ring that a rank is in."""
    return tuple(_of_rank(level)[rank] for level in levels)


@cache
def _of_rank(level: tuple[Ring, ...]) -> dict[int, Ring]:
    return {rank: ring for ring in level for rank in ring.members}
