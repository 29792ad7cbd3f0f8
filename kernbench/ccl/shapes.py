"""How the members of a group are arranged: kinds of topology, grids, and the rings that go through them."""

from __future__ import annotations

from math import isqrt

RING, TORUS, MESH = 0, 1, 2
TOPO_NAME_TO_KIND = {"ring": RING, "torus": TORUS, "mesh": MESH}
KIND_NAMES = {kind: name for name, kind in TOPO_NAME_TO_KIND.items()}


def grid_of(n: int) -> tuple[int, int]:
    """Rows and columns of the most nearly square grid of `n` members, no more rows than columns."""
    rows = next(rows for rows in range(isqrt(n), 0, -1) if n % rows == 0)
    return rows, n // rows


def ring_through(kind: int, n: int) -> tuple[int, ...]:
    """All members in an order in which each is near the next, and the last near the first: as they are counted, or through
    the most nearly square grid of them, counted row by row."""
    return tuple(range(n)) if kind == RING else circle(kind, *grid_of(n))


def circle(kind: int, rows: int, cols: int) -> tuple[int, ...]:
    """A way through all places of a torus or mesh and back to the first, each a neighbour of the one before.

    Row by row to and fro, and back over the wrap-around or, on a mesh, along the first column. Where no such circle exists (odd
    sides) the last hop is a long one; along one row of a mesh every hop passes over one place.
    """
    if rows == 1 or cols == 1:
        return ring_of(kind, rows * cols)
    if rows % 2 and not cols % 2:
        return tuple(row * cols + col for col, row in _circle(kind, cols, rows))
    return tuple(row * cols + col for row, col in _circle(kind, rows, cols))


def _circle(kind: int, rows: int, cols: int) -> list[tuple[int, int]]:
    """(row, column) of each place, of a mesh with the first column kept for the way back."""
    first = 1 if kind == MESH and rows % 2 == 0 else 0
    places = [(row, col) for row in range(rows) for col in _walk(row, first, cols)]
    return [*places, *((row, 0) for row in range(rows - 1, -1, -1))] if first else places


def _walk(row: int, first: int, cols: int) -> range:
    return range(cols - 1, first - 1, -1) if row % 2 else range(first, cols)


def line(n: int) -> tuple[int, ...]:
    """A ring on a line without wrap-around: there over the even members, back over the odd ones; no hop is longer than 2."""
    return (*range(0, n, 2), *range(n - 1 - n % 2, 0, -2))


def ring_of(kind: int, n: int) -> tuple[int, ...]:
    """A ring through the members of one row or column: of a mesh there is no wrap-around."""
    return line(n) if kind == MESH else tuple(range(n))
