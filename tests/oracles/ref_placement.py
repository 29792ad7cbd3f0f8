"""Placement by dealing out indices one at a time: slow, and without a formula for where a part begins."""

from __future__ import annotations

from itertools import product

Indices = list[list[int]]  # of each axis


def dealt(shape: tuple[int, ...], levels: list[tuple[str, int]]) -> list[list[tuple[int, ...]]]:
    """The elements of each unit of the last level, sorted, from (way, units) of each level."""
    blocks: list[Indices] = [[list(range(length)) for length in shape]]
    for way, units in levels:
        blocks = [part for block in blocks for part in parts(block, way, units)]
    return [sorted(product(*block)) for block in blocks]


def parts(block: Indices, way: str, units: int) -> list[Indices]:
    """A block for each unit."""
    if way == "replicate":
        return [block] * units
    rows, columns = {"row_wise": (units, 1), "column_wise": (1, units), "tiled": square(units)}[way]
    made = []
    for row in hands(block[0], rows) if rows > 1 else [block[0]]:
        inner = [row, *block[1:]]
        made += [[*inner[:-1], column] for column in (hands(inner[-1], columns) if columns > 1 else [inner[-1]])]
    return made


def hands(cards: list[int], players: int) -> list[list[int]]:
    """How many each player gets is found by dealing round after round; which ones, by handing out the pack from the top."""
    sizes = [0] * players
    for i in range(len(cards)):
        sizes[i % players] += 1
    pack = iter(cards)
    return [[next(pack) for _ in range(size)] for size in sizes]


def square(units: int) -> tuple[int, int]:
    """Of all grids the one whose sides differ least, the shorter side first."""
    grids = [(rows, units // rows) for rows in range(1, units + 1) if units % rows == 0 and rows <= units // rows]
    return min(grids, key=lambda grid: grid[1] - grid[0])
