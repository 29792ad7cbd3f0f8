"""Which SIPs, and which cubes of a SIP, are neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig

OPPOSITE = {"n": "s", "e": "w", "s": "n", "w": "e"}


class Pair(NamedTuple):
    """Two neighbours, and the side of the first at which the second is."""

    first: int
    second: int
    side: str
    steps: int  #: pitches from the one to the other


def cube_pairs(rows: int, cols: int) -> Iterator[Pair]:
    """The neighbouring cubes of a grid, each pair once."""
    return _grid_pairs(rows, cols, wrap=False)


def sip_pairs(config: SystemConfig) -> list[Pair]:
    """The neighbouring SIPs, each pair once.

    A ring and a torus also connect the ends of a row or column of three or more; of two, the ends are neighbours as it is.
    """
    return list(_grid_pairs(config.system.rows, config.sip_cols, wrap=config.system.kind != "mesh"))


def _grid_pairs(rows: int, cols: int, *, wrap: bool) -> Iterator[Pair]:
    for row in range(rows):
        for col in range(cols):
            here = row * cols + col
            if col + 1 < cols:
                yield Pair(here, here + 1, "e", 1)
            elif wrap and cols > 2:
                yield Pair(here, row * cols, "e", cols - 1)
            if row + 1 < rows:
                yield Pair(here, here + cols, "s", 1)
            elif wrap and rows > 2:
                yield Pair(here, col, "s", rows - 1)
