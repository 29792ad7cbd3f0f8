"""The second stage: the layout of a cube, laid out anew or read from the `cube_mesh.yaml` beside the topology's file.

The file's `source_hash` is over the five fields that decide the layout, its `content_hash` over the rest of its own
text. As long as the fields are the same, the file is used as it is; a change by hand is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernbench.common.errors import InputError, Problem, shown
from kernbench.common.files import write_whole
from kernbench.common.naming import router
from kernbench.common.units import parse_rational, plain_number
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.topology.layout import Attached, CubeMesh, Place, lay_out, part_names

if TYPE_CHECKING:
    from fractions import Fraction

    from kernbench.config.system import SystemConfig

MESH_FILE = "cube_mesh.yaml"
SCHEMA = "kernbench/cube_mesh/1"
_HEAD = "# Layout of the cubes, written by kbsim topology compile. It is not edited: change the topology and compile it.\n"
_REMEDY = "kbsim topology compile --force writes it anew, and what was edited is lost"
_CONTENT = re.compile(r"^content_hash: ([0-9a-f]{64})\n", re.MULTILINE)
_SOURCE = re.compile(r"^source_hash: ([0-9a-f]{64})$", re.MULTILINE)

Action = Literal["generated", "reused", "regenerated"]


@dataclass(frozen=True, slots=True)
class MeshFile:
    """A layout and its file."""

    mesh: CubeMesh
    path: Path
    action: Action  #: what becomes of the file
    source: str  #: hash of the fields

    def write(self) -> None:
        """Bring the file up to date; InputError where it cannot be written."""
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
    """The layout for a run: that of the file beside the topology where it fits, else made in memory.

    Raises InputError where the file was edited by hand. Nothing is written.
    """
    path = mesh_path(config)
    found = _kept(path, config, source_hash(config)) if path is not None and path.exists() else None
    return found or lay_out(config)


def mesh_file(config: SystemConfig, *, force: bool = False) -> MeshFile:
    """The layout and what becomes of its file: made where there is none or where a field changed, else left as it is.

    With `force` it is made anew even where it was edited by hand, which is an InputError otherwise. A preset has none.
    """
    path, source = mesh_path(config), source_hash(config)
    if path is None:
        remedy = "copy the preset into a file of your own"
        raise InputError(Problem(config.source, f"{MESH_FILE} is written beside a file, and this is none", remedy=remedy))
    known = path.exists()
    found = _kept(path, config, source) if known and not force else None
    if found is not None:
        return MeshFile(found, path, "reused", source)
    return MeshFile(lay_out(config), path, "regenerated" if known else "generated", source)


def mesh_path(config: SystemConfig) -> Path | None:
    """Where the layout of a topology that was read from a file is kept."""
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


def _place_text(place: Place) -> str:
    return f"[{_number(place[0])}, {_number(place[1])}]"


def _number(value: Fraction) -> str:
    """A length as YAML: a decimal where that is exact and short, else a ratio."""
    text = str(plain_number(value))
    return f"{value.numerator}/{value.denominator}" if "e" in text else text


def _kept(path: Path, config: SystemConfig, source: str) -> CubeMesh | None:
    """The layout in a file, or None where it is that of other fields; InputError where it was edited by hand."""
    try:
        document = read_document(path, MACHINE_BYTES)
    except InputError as error:
        raise InputError(replace(error.problems[0], remedy=_REMEDY)) from None
    text = document.text or ""
    content, made_from = _CONTENT.search(text), _SOURCE.search(text)
    if content is None or made_from is None:
        raise InputError(Problem(str(path), "it is no file that kbsim topology compile wrote", remedy=_REMEDY))
    if _sha256(_CONTENT.sub("", text, count=1)) != content[1]:
        rule = "it was edited by hand: its text does not fit its content_hash"
        raise InputError(Problem(str(path), rule, remedy=_REMEDY))
    if made_from[1] != source:
        return None
    try:
        return _read(document.data, config)
    except ValueError as error:
        raise InputError(Problem(str(path), f"it is no layout of this cube: {error}", remedy=_REMEDY)) from None


def _read(data: dict[str, Any], config: SystemConfig) -> CubeMesh:
    """The layout in the data of a file, whose hash anybody can compute; ValueError says what is wrong with it."""
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


def _link(routers: dict[str, Place], pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) and name in routers for name in pair):
        raise ValueError(f"a link must be two of its routers, and one is {shown(pair)}")
    if pair[0] == pair[1]:
        raise ValueError(f"a link must be between two routers, and one leads from {pair[0]} to itself")
    return pair[0], pair[1]


def _attached(config: SystemConfig, routers: dict[str, Place], name: str, part: Any) -> Attached:
    if not isinstance(part, dict) or not isinstance(part.get("router"), str) or part["router"] not in routers:
        raise ValueError(f"{shown(name)} must have one of its routers")
    return Attached(_place(config, name, part.get("at")), part["router"])


def _place(config: SystemConfig, name: str, pair: Any) -> Place:
    """A place inside the cube."""
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"{shown(name)} must have a place, [x, y] in mm")
    told = f"the place of {shown(name)} is [{shown(pair[0])}, {shown(pair[1])}]"
    try:
        x, y = parse_rational(pair[0]), parse_rational(pair[1])
    except ValueError as error:
        raise ValueError(f"{told}: {error}") from None
    if not (0 <= x <= config.cube.width_mm and 0 <= y <= config.cube.height_mm):
        raise ValueError(f"{told}, outside of the cube")
    return x, y


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
