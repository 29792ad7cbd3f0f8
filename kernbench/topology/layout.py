"""Where the parts of a cube are: routers in rows and columns around the HBM, everything else at its nearest router.

It is decided by five fields of the topology and nothing else: the cube's geometry, the rows and columns of its mesh,
the number of its PEs, the HBM's footprint and the number of UCIe ports a side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig
    from kernbench.config.system.parts import Cube

MAX_SITES_SIDE = 128  # rows, and columns, of places for PEs that are tried

Place = tuple[Fraction, Fraction]  #: (x, y) in mm, from the cube's north-west corner


@dataclass(frozen=True, slots=True)
class Attached:
    """A part of a cube and the router that it is attached to."""

    place: Place
    router: str


@dataclass(frozen=True, slots=True)
class CubeMesh:
    """The layout of a cube; names are those inside the cube."""

    routers: Mapping[str, Place]
    links: tuple[tuple[str, str], ...]  #: once a pair, from the west or north
    parts: Mapping[str, Attached]  #: `pe0`, ..., `m_cpu`, `sram`, `ucie_n0`, ...


def distance(a: Place, b: Place) -> Fraction:
    """Millimetres of wire: along x, then along y."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def to_footprint(cube: Cube, place: Place) -> Fraction:
    """Millimetres of wire from a place to the nearest point of the HBM's footprint."""
    x = abs(place[0] - cube.width_mm / 2) - cube.hbm.width_mm / 2
    y = abs(place[1] - cube.height_mm / 2) - cube.hbm.height_mm / 2
    return max(x, Fraction(0)) + max(y, Fraction(0))


def lay_out(config: SystemConfig) -> CubeMesh:
    """The layout of the cubes of a system. Raises InputError where the HBM leaves no place for a router or a PE."""
    cube = config.cube
    routers = {
        naming.router(row, col): place
        for (row, col), place in _grid(cube, cube.mesh.rows, cube.mesh.cols).items()
        if not _in_footprint(cube, place)
    }
    if not routers:
        rule = f"all {cube.mesh.rows} x {cube.mesh.cols} routers of the mesh would stand inside it: none is left for PE 0"
        raise InputError(_too_big(config, rule, "make the HBM smaller or the mesh finer"))
    places = {**_inner_places(config), **_port_places(cube)}
    nearest = _nearest(routers, places.values())
    parts = {name: Attached(place, nearest[place]) for name, place in places.items()}
    return CubeMesh(routers, tuple(_links(cube, routers)), parts)


def _too_big(config: SystemConfig, rule: str, remedy: str) -> Problem:
    width, height = config.cube.hbm.width_mm, config.cube.hbm.height_mm
    value = f"{float(width):g} mm x {float(height):g} mm"
    fields = ("cube.hbm.width_mm", "cube.hbm.height_mm", "cube.mesh.rows", "cube.mesh.cols", "cube.width_mm", "cube.height_mm")
    return Problem(config.where(*fields), f"the HBM covers {value}: {rule}", "cube.hbm", remedy=remedy)


def _grid(cube: Cube, rows: int, cols: int) -> dict[tuple[int, int], Place]:
    """The middles of `rows` x `cols` equal parts of a cube, row by row."""
    xs = [cube.width_mm * (2 * col + 1) / (2 * cols) for col in range(cols)]
    ys = [cube.height_mm * (2 * row + 1) / (2 * rows) for row in range(rows)]
    return {(row, col): (xs[col], ys[row]) for row in range(rows) for col in range(cols)}


def _in_footprint(cube: Cube, place: Place) -> bool:
    """Whether a place is inside the HBM's footprint, in the middle of the cube; its edge is outside."""
    return (
        abs(place[0] - cube.width_mm / 2) * 2 < cube.hbm.width_mm
        and abs(place[1] - cube.height_mm / 2) * 2 < cube.hbm.height_mm
    )


def port_names(cube: Cube) -> list[str]:
    """The UCIe ports of a cube, side by side."""
    return [naming.ucie(side, i) for side in naming.SIDES for i in range(cube.ucie.ports_per_side)]


def part_names(cube: Cube) -> list[str]:
    """Everything that is attached to a router, row by row over the cube, then the ports of each side.

    The processor and the SRAM stand in the middle of the PEs, so that no PE is far from them.
    """
    half = (cube.pes + 1) // 2
    names = [naming.pe(i) for i in range(cube.pes)]
    names[half:half] = [naming.M_CPU, naming.SRAM]
    return names + port_names(cube)


def _inner_places(config: SystemConfig) -> dict[str, Place]:
    """Places of PEs, M_CPU and SRAM: spread row by row over the coarsest grid with room for them around the HBM."""
    cube = config.cube
    names = part_names(cube)[: cube.pes + 2]
    for side in range(1, MAX_SITES_SIDE + 1):
        if _free(cube, side) >= len(names):
            free = [place for place in _grid(cube, side, side).values() if not _in_footprint(cube, place)]
            return {name: free[(2 * i + 1) * len(free) // (2 * len(names))] for i, name in enumerate(names)}
    raise InputError(_too_big(config, f"the cube has no room for {cube.pes} PEs", "make the HBM smaller or the cube bigger"))


def _free(cube: Cube, side: int) -> int:
    """How many of a grid's `side` x `side` places are outside the HBM's footprint."""
    shares = [abs(Fraction(2 * i + 1, side) - 1) for i in range(side)]
    cols = sum(share * cube.width_mm < cube.hbm.width_mm for share in shares)
    rows = sum(share * cube.height_mm < cube.hbm.height_mm for share in shares)
    return side * side - rows * cols


def _port_places(cube: Cube) -> dict[str, Place]:
    """Places of UCIe ports, spread evenly over each side."""
    count = cube.ucie.ports_per_side
    width, height, zero = cube.width_mm, cube.height_mm, Fraction(0)
    places = {}
    for side in naming.SIDES:
        for i in range(count):
            along = Fraction(2 * i + 1, 2 * count)
            places[naming.ucie(side, i)] = {
                "n": (width * along, zero),
                "e": (width, height * along),
                "s": (width * along, height),
                "w": (zero, height * along),
            }[side]
    return places


def _links(cube: Cube, routers: Mapping[str, Place]) -> Iterable[tuple[str, str]]:
    """Each router and the next one in its row and in its column, over the HBM where that lies between."""
    for row in range(cube.mesh.rows):
        line = (naming.router(row, col) for col in range(cube.mesh.cols))
        yield from pairwise(name for name in line if name in routers)
    for col in range(cube.mesh.cols):
        line = (naming.router(row, col) for row in range(cube.mesh.rows))
        yield from pairwise(name for name in line if name in routers)


def _nearest(routers: Mapping[str, Place], places: Iterable[Place]) -> dict[Place, str]:
    """The nearest router of each place, the first by name among equally near ones; in whole numbers, which are fast."""
    wanted = list(places)
    unit = lcm(*(coordinate.denominator for place in (*routers.values(), *wanted) for coordinate in place))
    scaled = [(int(x * unit), int(y * unit), name) for name, (x, y) in routers.items()]
    nearest = {}
    for place in wanted:
        x, y = int(place[0] * unit), int(place[1] * unit)
        nearest[place] = min((abs(x - rx) + abs(y - ry), name) for rx, ry, name in scaled)[1]
    return nearest
