"""Rings of ranks, and the tables of neighbours for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import isqrt

import msgspec

from kernbench.ccl.contract import QueueKey, Shape, Table
from kernbench.config.system.dimensions import lines

OPPOSITE = {"E": "W", "W": "E", "S": "N", "N": "S"}


class Ring(msgspec.Struct, frozen=True):
    """Ranks in a circle. Each rank sends to the next rank in direction `out`, and receives from the rank before it."""

    members: tuple[int, ...]
    plane: int = 0
    out: str = "E"
    far: bool = False  #: the ring crosses several SIPs

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def back(self) -> str:
        """The direction of the preceding rank."""
        return OPPOSITE[self.out]

    def turned(self) -> Ring:
        """Return the same ring in the opposite direction."""
        return Ring(self.members[::-1], self.plane, self.back, self.far)


def table_of(rings: Iterable[Ring]) -> Table:
    """Return the neighbours along these rings, in both directions."""
    table: dict[int, dict[QueueKey, tuple[int, str]]] = {}
    for ring in rings:
        if ring.size < 2:
            continue
        for at, rank in enumerate(ring.members):
            after = ring.members[(at + 1) % ring.size]
            table.setdefault(rank, {})[ring.plane, ring.out] = after, ring.back
            table.setdefault(after, {})[ring.plane, ring.back] = rank, ring.out
    return table


RING, TORUS, MESH = 0, 1, 2
TOPO_NAME_TO_KIND = {"ring": RING, "torus": TORUS, "mesh": MESH}
KIND_NAMES = {kind: name for name, kind in TOPO_NAME_TO_KIND.items()}
#: The kind of SIPs in several dimensions has MARK in its lowest bits. Above them, each dimension has its size, and a bit that
#: says whether its switches combine and copy messages.
MARK, MARK_BITS, SIZE_BITS = 3, 2, 11


def kind_of_dimensions(sizes: Sequence[int], combining: int | None = None) -> int:
    """Return the kind of SIPs in dimensions of these sizes. The switches of dimension `combining` combine and copy messages."""
    kind = MARK
    for number, size in enumerate(sizes):
        kind |= (size << 1 | (number == combining)) << MARK_BITS + number * (SIZE_BITS + 1)
    return kind


def _fields(kind: int) -> list[int]:
    """Return the fields of the dimensions of a kind. Other kinds have none."""
    found, rest = [], kind >> MARK_BITS if kind & MARK == MARK else 0
    while rest:
        found.append(rest & (1 << SIZE_BITS + 1) - 1)
        rest >>= SIZE_BITS + 1
    return found


def sizes_of_kind(kind: int) -> tuple[int, ...]:
    """Return the sizes of the dimensions of a kind, the first dimension first. Other kinds have no dimensions."""
    return tuple(field >> 1 for field in _fields(kind))


def combining_of_kind(kind: int) -> int | None:
    """Return the dimension whose switches combine and copy messages, or None without such a dimension."""
    return next((number for number, field in enumerate(_fields(kind)) if field & 1), None)


def name_of_kind(kind: int) -> str:
    """Return the name of an arrangement. Algorithms that know no dimensions see SIPs in dimensions as a ring."""
    return KIND_NAMES.get(kind, "ring")


def grid_of(n: int) -> tuple[int, int]:
    """Return the rows and columns of the grid of `n` members that is as square as possible, with at most as many rows as
    columns.
    """
    rows = next(rows for rows in range(isqrt(n), 0, -1) if n % rows == 0)
    return rows, n // rows


def ring_through(kind: int, n: int) -> tuple[int, ...]:
    """Return all members in an order with short hops, including the hop from the last to the first.

    The order is numeric, or follows a cycle through a grid that is as square as possible and is numbered row by row. In
    dimensions, each member differs from the next one by one position of one dimension.
    """
    if sizes := sizes_of_kind(kind):
        return _snake(sizes)
    return tuple(range(n)) if kind == RING else circle(kind, *grid_of(n))


def _snake(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return all numbers in a mixed radix, in an order in which the next number differs by one step in one digit."""
    order, step = [0], 1
    for size in sizes:
        order = [digit * step + one for digit in range(size) for one in (order[::-1] if digit % 2 else order)]
        step *= size
    return tuple(order)


def circle(kind: int, rows: int, cols: int) -> tuple[int, ...]:
    """Return a path through all positions of a torus or mesh and back to the first, from neighbour to neighbour.

    The path traverses the rows in alternating directions. It returns over the wrap-around link or, on a mesh, along the first
    column. If there is no such cycle (odd sides), the last hop is long. On a mesh with one row, every hop skips one position.
    """
    if rows == 1 or cols == 1:
        return ring_of(kind, rows * cols)
    if rows % 2 and not cols % 2:
        return tuple(row * cols + col for col, row in _circle(kind, cols, rows))
    return tuple(row * cols + col for row, col in _circle(kind, rows, cols))


def _circle(kind: int, rows: int, cols: int) -> list[tuple[int, int]]:
    """Return (row, column) of each position in a mesh whose first column is reserved for the return path."""
    first = 1 if kind == MESH and rows % 2 == 0 else 0
    places = [(row, col) for row in range(rows) for col in _walk(row, first, cols)]
    return [*places, *((row, 0) for row in range(rows - 1, -1, -1))] if first else places


def _walk(row: int, first: int, cols: int) -> range:
    return range(cols - 1, first - 1, -1) if row % 2 else range(first, cols)


def line(n: int) -> tuple[int, ...]:
    """Return a ring on a line without wrap-around: first the even members, then the odd members backwards. No hop is longer
    than 2.
    """
    return (*range(0, n, 2), *range(n - 1 - n % 2, 0, -2))


def ring_of(kind: int, n: int) -> tuple[int, ...]:
    """Return a ring through the members of one row or column of a mesh without wrap-around."""
    return line(n) if kind == MESH else tuple(range(n))


@cache
def flat_ring(kind: int, shape: Shape) -> Ring:
    """Return one ring through all ranks: SIP by SIP in the order of their arrangement, or through the ranks of a single SIP."""
    if shape.sips == 1:
        return Ring(ring_through(kind, shape.ranks))
    each = shape.ranks // shape.sips
    return Ring(tuple(sip * each + one for sip in ring_through(kind, shape.sips) for one in range(each)), far=True)


@cache
def grid_rings(kind: int, shape: Shape) -> tuple[tuple[Ring, ...], tuple[Ring, ...]]:
    """Return the rings of all rows (east) and of all columns (south) of a grid of the ranks.

    With one rank per SIP, or with one SIP, the grid is as square as possible. Otherwise the ranks of each SIP form a row. With
    one rank per SIP in several dimensions, the lines of the first dimension are rows.
    """
    sizes = sizes_of_kind(kind)
    if len(sizes) > 1 and shape.ranks == shape.sips:
        rows, cols = shape.ranks // sizes[0], sizes[0]
    else:
        rows, cols = _sides(shape)
    across, down = ring_of(kind, cols), ring_of(kind, rows)
    if len(sizes) > 2 and shape.ranks == shape.sips:
        down = _snake(sizes[1:])
    return (
        tuple(Ring(tuple(row * cols + col for col in across)) for row in range(rows)),
        tuple(Ring(tuple(row * cols + col for row in down), out="S") for col in range(cols)),
    )


def _sides(shape: Shape) -> tuple[int, int]:
    """Return the rows and columns of a grid of ranks."""
    square = shape.ranks == shape.sips or shape.sips == 1
    return grid_of(shape.ranks) if square else (shape.sips, shape.cubes * shape.pes)


@cache
def level_rings(kind: int, shape: Shape) -> tuple[tuple[Ring, ...], ...]:
    """Return the rings level by level: in each cube (plane 0), across cubes (plane 1), and across SIPs (plane 2).

    Across SIPs there is one ring, or rings of rows and columns, or a level for each dimension (from plane 2 on).
    """
    sips, cubes, pes = (range(count) for count in shape)
    in_cubes = tuple(Ring(tuple(shape.rank(sip, cube, pe) for pe in pes)) for sip in sips for cube in cubes)
    across = tuple(Ring(tuple(shape.rank(sip, cube, pe) for cube in cubes), 1) for sip in sips for pe in pes)
    places = [(cube, pe) for cube in cubes for pe in pes]
    if sizes := sizes_of_kind(kind):
        return in_cubes, across, *(
            tuple(
                Ring(tuple(shape.rank(sip, *at) for sip in line), 2 + number) for line in lines(sizes, number) for at in places
            )
            for number in range(len(sizes))
        )
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


Levels = Callable[[int, Shape], tuple[tuple[Ring, ...], ...]]  #: `level_rings` or `grid_rings`


def rings_with(rank: int, levels_of: Levels, kind: int, shape: Shape) -> tuple[Ring, ...]:
    """Return the ring of a rank at each level."""
    return _rings_of_ranks(levels_of, kind, shape)[rank]


@cache
def _rings_of_ranks(levels_of: Levels, kind: int, shape: Shape) -> Sequence[tuple[Ring, ...]]:
    """Return the rings by rank. The cache key is the shape, because a hash of all rings per rank would take quadratic time."""
    levels = [{rank: ring for ring in level for rank in ring.members} for level in levels_of(kind, shape)]
    return [tuple(level[rank] for level in levels) for rank in range(shape.ranks)]
