"""The pairs of SIPs that have a link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kernbench.config.system.dimensions import DIMENSIONS, dimension_links

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


class Pair(NamedTuple):
    """Two neighbours, and the side of the first on which the second is."""

    first: int
    second: int
    side: str
    steps: int  #: distance between the two in pitches


SWITCHED = ("switch", "fat_tree")  #: kinds in which SIPs are linked only with switches
WITH_SWITCHES = (*SWITCHED, "rails")  #: kinds that have switches


def rail_of(config: SystemConfig, column: int) -> int:
    """The rail whose NIC the SIPs of a column use."""
    nics = config.system.rails.nics
    return nics[column] if nics else column


def rails_of(config: SystemConfig) -> int:
    """The number of rails."""
    return 1 + max(rail_of(config, column) for column in range(config.sip_cols))


def broken_nics(config: SystemConfig) -> set[tuple[int, int]]:
    """(row, rail) of NICs that are broken, or whose rail is broken."""
    found: set[tuple[int, int]] = set()
    for name in config.system.failed:
        if name.startswith("nic"):
            row, _, rail = name.removeprefix("nic").partition(".")
            found.add((int(row), int(rail)))
        elif name.startswith("rail"):
            found |= {(row, int(name.removeprefix("rail"))) for row in range(config.system.rows)}
    return found


def all_sip_pairs(config: SystemConfig) -> list[Pair]:
    """The pairs of SIPs with a link, each pair once.

    A ring and a torus also connect the ends of a row or column of three or more SIPs; in a row of two, the ends are already
    neighbours. In `all_to_all` every two SIPs have a link. In a dragonfly a row is a group: every two SIPs of a group have a
    link, and every two groups have one link. With switches, no two SIPs have a link. The pairs of `dimensions` are those of
    all dimensions without switches.
    """
    rows, cols = config.system.rows, config.sip_cols
    if config.system.kind in WITH_SWITCHES:
        return []
    if config.system.kind == DIMENSIONS:
        return [Pair(one.first, one.second, "e", one.steps) for one in dimension_links(config)]
    if config.system.kind == "all_to_all":
        return list(_row_pairs(0, cols))
    if config.system.kind == "dragonfly":
        return dragonfly_pairs(rows, cols)
    return list(grid_pairs(rows, cols, wrap=config.system.kind != "mesh"))


def dragonfly_pairs(groups: int, cols: int) -> list[Pair]:
    """The pairs of a dragonfly with `cols` SIPs in each group."""
    return [*(pair for group in range(groups) for pair in _row_pairs(group * cols, cols)), *_group_pairs(groups, cols)]


def _row_pairs(first: int, count: int) -> Iterator[Pair]:
    """Every two SIPs of a row."""
    for one in range(count):
        for other in range(one + 1, count):
            yield Pair(first + one, first + other, "e", other - one)


def _group_pairs(groups: int, count: int) -> Iterator[Pair]:
    """A link between every two groups; the links of a group are assigned to its SIPs in turn: link n belongs to SIP `n %
    count`.
    """
    for one in range(groups):
        for other in range(one + 1, groups):
            near, far = (other - 1) % count, one % count
            yield Pair(one * count + near, other * count + far, "s", other - one + abs(near - far))


def grid_pairs(rows: int, cols: int, *, wrap: bool) -> Iterator[Pair]:
    """The neighbours of a grid, and with `wrap` the ends of each row and column of three or more."""
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
