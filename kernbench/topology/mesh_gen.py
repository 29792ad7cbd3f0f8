"""The second stage: the layout of a cube, computed again or read from the `cube_mesh.yaml` beside the topology's file.

The `source_hash` of the file covers the five fields that determine the layout, and its `content_hash` covers the rest of its
own text. The file is used while its fields match; a manual change is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.files import write_whole
from kernbench.common.naming import router
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.document import MACHINE_BYTES, read_document

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig
    from kernbench.config.system.parts import Cube


MAX_SITES_SIDE = 128  # limits of the grid of candidate positions for PEs

PointMm = tuple[Fraction, Fraction]  #: (x, y) in mm, from the cube's north-west corner


class Attached(msgspec.Struct, frozen=True):
    """A component of a cube, and the router to which it is attached."""

    place: PointMm
    router: str


class CubeMesh(msgspec.Struct, frozen=True):
    """The layout of a cube; names are those inside the cube."""

    routers: Mapping[str, PointMm]
    links: tuple[tuple[str, str], ...]  #: each pair once, from the west or north
    parts: Mapping[str, Attached]  #: `pe0`, ..., `m_cpu`, `sram`, `ucie_n0`, ...


def distance(a: PointMm, b: PointMm) -> Fraction:
    """Millimetres of wire: along x, then along y."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def to_footprint(cube: Cube, place: PointMm) -> Fraction:
    """Millimetres of wire from a place to the nearest point of the HBM's footprint."""
    x = abs(place[0] - cube.width_mm / 2) - cube.hbm.width_mm / 2
    y = abs(place[1] - cube.height_mm / 2) - cube.hbm.height_mm / 2
    return max(x, Fraction(0)) + max(y, Fraction(0))


def lay_out(config: SystemConfig) -> CubeMesh:
    """The layout of the cubes of a system. Raises InputError if the HBM leaves no place for a router or a PE."""
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


def _grid(cube: Cube, rows: int, cols: int) -> dict[tuple[int, int], PointMm]:
    """The middles of `rows` x `cols` equal parts of a cube, row by row."""
    xs = [cube.width_mm * (2 * col + 1) / (2 * cols) for col in range(cols)]
    ys = [cube.height_mm * (2 * row + 1) / (2 * rows) for row in range(rows)]
    return {(row, col): (xs[col], ys[row]) for row in range(rows) for col in range(cols)}


def _in_footprint(cube: Cube, place: PointMm) -> bool:
    """Whether a position is inside the footprint of the HBM, at the centre of the cube; its border is outside."""
    return (
        abs(place[0] - cube.width_mm / 2) * 2 < cube.hbm.width_mm
        and abs(place[1] - cube.height_mm / 2) * 2 < cube.hbm.height_mm
    )


def port_names(cube: Cube) -> list[str]:
    """The UCIe ports of a cube, side by side."""
    return [naming.ucie(side, i) for side in naming.SIDES for i in range(cube.ucie.ports_per_side)]


def part_names(cube: Cube) -> list[str]:
    """Everything that is attached to a router, row by row over the cube, then the ports of each side.

    The processor and the SRAM are in the middle of the PEs, so that no PE is far from them.
    """
    half = (cube.pes + 1) // 2
    names = [naming.pe(i) for i in range(cube.pes)]
    names[half:half] = [naming.M_CPU, naming.SRAM]
    return names + port_names(cube)


def _inner_places(config: SystemConfig) -> dict[str, PointMm]:
    """Places of PEs, M_CPU and SRAM: spread row by row over the coarsest grid with room for them around the HBM."""
    cube = config.cube
    names = part_names(cube)[: cube.pes + 2]
    for side in range(1, MAX_SITES_SIDE + 1):
        if _free(cube, side) >= len(names):
            free = [place for place in _grid(cube, side, side).values() if not _in_footprint(cube, place)]
            return {name: free[(2 * i + 1) * len(free) // (2 * len(names))] for i, name in enumerate(names)}
    raise InputError(_too_big(config, f"the cube has no room for {cube.pes} PEs", "make the HBM smaller or the cube bigger"))


def _free(cube: Cube, side: int) -> int:
    """The number of positions of a `side` x `side` grid outside the footprint of the HBM."""
    shares = [abs(Fraction(2 * i + 1, side) - 1) for i in range(side)]
    cols = sum(share * cube.width_mm < cube.hbm.width_mm for share in shares)
    rows = sum(share * cube.height_mm < cube.hbm.height_mm for share in shares)
    return side * side - rows * cols


def _port_places(cube: Cube) -> dict[str, PointMm]:
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


def _links(cube: Cube, routers: Mapping[str, PointMm]) -> Iterable[tuple[str, str]]:
    """Each router with the next one in its row and in its column, across the HBM if it is between them."""
    for row in range(cube.mesh.rows):
        line = (naming.router(row, col) for col in range(cube.mesh.cols))
        yield from pairwise(name for name in line if name in routers)
    for col in range(cube.mesh.cols):
        line = (naming.router(row, col) for row in range(cube.mesh.rows))
        yield from pairwise(name for name in line if name in routers)


def _nearest(routers: Mapping[str, PointMm], places: Iterable[PointMm]) -> dict[PointMm, str]:
    """The nearest router of each position, the first by name among equally near ones; integers make it fast."""
    wanted = list(places)
    unit = lcm(*(coordinate.denominator for place in (*routers.values(), *wanted) for coordinate in place))
    scaled = [(int(x * unit), int(y * unit), name) for name, (x, y) in routers.items()]
    nearest = {}
    for place in wanted:
        x, y = int(place[0] * unit), int(place[1] * unit)
        nearest[place] = min((abs(x - rx) + abs(y - ry), name) for rx, ry, name in scaled)[1]
    return nearest


MESH_FILE = "cube_mesh.yaml"
SCHEMA = "kernbench/cube_mesh/1"
_HEAD = "# Layout of the cubes, written by kbsim topology compile. It is not edited: change the topology and compile it.\n"
_REMEDY = "kbsim topology compile --force writes it again, and what was edited is lost"
_CONTENT = re.compile(r"^content_hash: ([0-9a-f]{64})\n", re.MULTILINE)
_SOURCE = re.compile(r"^source_hash: ([0-9a-f]{64})$", re.MULTILINE)

Action = Literal["generated", "reused", "regenerated"]


class MeshFile(msgspec.Struct, frozen=True):
    """A layout and its file."""

    mesh: CubeMesh
    path: Path
    action: Action  #: what is done with the file
    source: str  #: hash of the fields

    def write(self) -> None:
        """Bring the file up to date; InputError if it cannot be written."""
        if self.action != "reused":
            write_whole(self.path, mesh_text(self.mesh, self.source).encode())


def source_fields(config: SystemConfig) -> dict[str, Any]:
    """The five fields that decide a cube's layout, as plain JSON."""
    cube = config.cube
    return {
        "geometry": [plain_number(cube.width_mm), plain_number(cube.height_mm)],
        "mesh": [cube.mesh.rows, cube.mesh.cols],
        "pes": cube.pes,
        "hbm": [plain_number(cube.hbm.width_mm), plain_number(cube.hbm.height_mm)],
        "ucie": cube.ucie.ports_per_side,
    }


def source_hash(config: SystemConfig) -> str:
    """SHA-256, in hex, of the five fields."""
    return _sha256(json.dumps(source_fields(config), sort_keys=True))


def mesh_of(config: SystemConfig) -> CubeMesh:
    """The layout for a run: that of the file beside the topology if it matches, else one made in memory.

    InputError if the file was edited by hand. Nothing is written.
    """
    path = mesh_path(config)
    found = _kept(path, config, source_hash(config)) if path is not None and path.exists() else None
    return found or lay_out(config)


def mesh_file(config: SystemConfig, *, force: bool = False) -> MeshFile:
    """The layout and the status of its file, which is written if it is missing or a field changed.

    With `force` it is written even if it was edited by hand; otherwise that is an InputError. A preset has none.
    """
    path, source = mesh_path(config), source_hash(config)
    if path is None:
        remedy = "copy the preset into a file of your own"
        rule = f"{MESH_FILE} is written beside a file, but this machine is from no file"
        raise InputError(Problem(config.source, rule, remedy=remedy))
    known = path.exists()
    found = _kept(path, config, source) if known and not force else None
    if found is not None:
        return MeshFile(found, path, "reused", source)
    return MeshFile(lay_out(config), path, "regenerated" if known else "generated", source)


def mesh_path(config: SystemConfig) -> Path | None:
    """The path of the layout of a topology that was read from a file."""
    return None if config.path is None else config.path.parent / MESH_FILE


def mesh_text(mesh: CubeMesh, source: str) -> str:
    """The file of a layout, whole."""
    lines = [f"schema: {SCHEMA}", f"source_hash: {source}", "routers:"]
    lines += [f"  {name}: {_place_text(place)}" for name, place in mesh.routers.items()]
    lines.append("links:")
    lines += [f"  - [{a}, {b}]" for a, b in mesh.links] or ["  []"]
    lines.append("parts:")
    lines += [f"  {name}: {{at: {_place_text(part.place)}, router: {part.router}}}" for name, part in mesh.parts.items()]
    body = "\n".join(lines) + "\n"
    first, rest = body.split("\n", 1)
    return f"{_HEAD}{first}\ncontent_hash: {_sha256(_HEAD + body)}\n{rest}"


def _place_text(place: PointMm) -> str:
    return f"[{_number(place[0])}, {_number(place[1])}]"


def _number(value: Fraction) -> str:
    """A length in YAML: a decimal if it is exact and short, else a ratio."""
    text = str(plain_number(value))
    return f"{value.numerator}/{value.denominator}" if "e" in text else text


def _kept(path: Path, config: SystemConfig, source: str) -> CubeMesh | None:
    """The layout in a file, or None if it was made from other fields. InputError if it was edited by hand."""
    try:
        document = read_document(path, MACHINE_BYTES)
    except InputError as error:
        raise InputError(msgspec.structs.replace(error.problems[0], remedy=_REMEDY)) from None
    text = document.text or ""
    content, made_from = _CONTENT.search(text), _SOURCE.search(text)
    if content is None or made_from is None:
        raise InputError(Problem(str(path), "it is not a file that kbsim topology compile wrote", remedy=_REMEDY))
    if _sha256(_CONTENT.sub("", text, count=1)) != content[1]:
        rule = "it was edited by hand: its text does not fit its content_hash"
        raise InputError(Problem(str(path), rule, remedy=_REMEDY))
    if made_from[1] != source:
        return None
    try:
        return _read(document.data, config)
    except ValueError as error:
        raise InputError(Problem(str(path), f"it is not a layout of this cube: {error}", remedy=_REMEDY)) from None


def _read(data: dict[str, Any], config: SystemConfig) -> CubeMesh:
    """The layout in the data of a file. Anyone can compute its hash, so ValueError reports invalid data."""
    rows, cols = config.cube.mesh.rows, config.cube.mesh.cols
    mesh = {router(row, col) for row in range(rows) for col in range(cols)}
    routers = {name: _place(config, name, place) for name, place in _mapping(data, "routers").items()}
    if not routers or not routers.keys() <= mesh:
        raise ValueError(f"routers must be some of those of a mesh of {rows} x {cols}")
    links = tuple(_link(routers, pair) for pair in _list(data, "links"))
    if len({frozenset(pair) for pair in links}) != len(links):
        raise ValueError("links must be there once")
    parts = {name: _attached(config, routers, name, part) for name, part in _mapping(data, "parts").items()}
    if parts.keys() != set(part_names(config.cube)):
        raise ValueError(f"parts must be {', '.join(part_names(config.cube))}")
    return CubeMesh(routers, links, parts)


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    if not isinstance(found, dict):
        raise ValueError(f"{key} must be a mapping")
    return found


def _list(data: dict[str, Any], key: str) -> list[Any]:
    found = data.get(key)
    if not isinstance(found, list):
        raise ValueError(f"{key} must be a list")
    return found


def _link(routers: dict[str, PointMm], pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) and name in routers for name in pair):
        raise ValueError(f"a link must be two of its routers, and one is {shown(pair)}")
    if pair[0] == pair[1]:
        raise ValueError(f"a link must be between two routers, but one is from {pair[0]} to itself")
    return pair[0], pair[1]


def _attached(config: SystemConfig, routers: dict[str, PointMm], name: str, part: Any) -> Attached:
    if not isinstance(part, dict) or not isinstance(part.get("router"), str) or part["router"] not in routers:
        raise ValueError(f"{shown(name)} must have one of its routers")
    return Attached(_place(config, name, part.get("at")), part["router"])


def _place(config: SystemConfig, name: str, pair: Any) -> PointMm:
    """A position inside the cube."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"{shown(name)} must have a place, [x, y] in mm")
    rule = f"the place of {shown(name)} is [{shown(pair[0])}, {shown(pair[1])}]"
    try:
        x, y = parse_rational(pair[0]), parse_rational(pair[1])
    except ValueError as error:
        raise ValueError(f"{rule}: {error}") from None
    if not (0 <= x <= config.cube.width_mm and 0 <= y <= config.cube.height_mm):
        raise ValueError(f"{rule}, outside of the cube")
    return x, y


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
