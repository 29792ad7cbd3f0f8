"""`cube_mesh.yaml`: generated, reused byte for byte, regenerated when a field changed, refused when edited by hand."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config
from kernbench.topology.builder import build_topology, compile_topology
from kernbench.topology.mesh_gen import CubeMesh, lay_out, mesh_file, mesh_of, source_fields, source_hash

SMALL = "schema: kernbench/system/1\ncube: {width_mm: 10/3, height_mm: 7, mesh: {rows: 2, cols: 2}, pes: 2, hbm: {width_mm: 1, height_mm: 0.5}}\n"
SOURCE = '{"geometry": ["10/3", 7], "hbm": [1, 0.5], "mesh": [2, 2], "pes": 2, "ucie": 1}'
#: A die of 10/3 mm x 7 mm; routers at a quarter and three quarters. Four parts on the same four places.
LAYOUT = """\
routers:
  r0c0: [5/6, 1.75]
  r0c1: [2.5, 1.75]
  r1c0: [5/6, 5.25]
  r1c1: [2.5, 5.25]
links:
  - [r0c0, r0c1]
  - [r1c0, r1c1]
  - [r0c0, r1c0]
  - [r0c1, r1c1]
parts:
  pe0: {at: [5/6, 1.75], router: r0c0}
  m_cpu: {at: [2.5, 1.75], router: r0c1}
  sram: {at: [5/6, 5.25], router: r1c0}
  pe1: {at: [2.5, 5.25], router: r1c1}
  ucie_n0: {at: [5/3, 0], router: r0c0}
  ucie_e0: {at: [10/3, 3.5], router: r0c1}
  ucie_s0: {at: [5/3, 7], router: r1c0}
  ucie_w0: {at: [0, 3.5], router: r0c0}
"""
REMEDY = "kbsim topology compile --force writes it again, and what was edited is lost"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def refused(file: Path) -> str:
    """What both ways of using the file say, which is the same."""
    with pytest.raises(InputError) as compiled:
        compile_topology(file)
    with pytest.raises(InputError) as built:
        build_topology(load_config(file))
    assert str(built.value) == str(compiled.value)
    return str(built.value).replace(f"{file.parent}/", "")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_file_by_hand(small: Path) -> None:
    """The layout and both hashes, worked out beside the code: of the five fields, and of the text without its own line."""
    compiled = compile_topology(small)
    assert (compiled.action, compiled.mesh_file) == ("generated", small.parent / "cube_mesh.yaml")
    text = compiled.mesh_file.read_text()
    comment, rest = text.split("\n", 1)
    assert comment == "# Layout of the cubes, written by kbsim topology compile. It is not edited: change the topology and compile it."
    content = sha256(f"{comment}\nschema: kernbench/cube_mesh/1\nsource_hash: {sha256(SOURCE)}\n{LAYOUT}")
    assert rest == f"schema: kernbench/cube_mesh/1\ncontent_hash: {content}\nsource_hash: {sha256(SOURCE)}\n{LAYOUT}"


def test_the_five_fields_of_a_preset() -> None:
    config = load_config("single_cube", kind=SystemConfig)
    fields = {"geometry": [20, 20], "mesh": [4, 4], "pes": 8, "hbm": [11, 11], "ucie": 1}
    assert source_fields(config) == fields
    assert source_hash(config) == sha256(json.dumps(fields, sort_keys=True))


def test_it_is_reused_byte_for_byte(small: Path) -> None:
    made = compile_topology(small)
    before, time = made.mesh_file.read_bytes(), made.mesh_file.stat().st_mtime_ns
    small.write_text(SMALL + "freq_ghz: 2\nsip: {rows: 2}\n")  # fields that decide no layout
    again = compile_topology(small)
    assert again.action == "reused"
    assert (made.mesh_file.read_bytes(), made.mesh_file.stat().st_mtime_ns) == (before, time)
    assert len(again.topology.nodes) > len(made.topology.nodes)


@pytest.mark.parametrize("name", ["small", "single_cube"])
def test_what_is_read_is_what_was_laid_out(name: str, small: Path) -> None:
    if name != "small":
        plain = load_config(name).to_dict()
        small.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in plain.items()))
    config = load_config(small, kind=SystemConfig)
    compile_topology(small)
    read, made = mesh_of(config), lay_out(config)
    assert read is not made and (dict(read.routers), read.links, dict(read.parts)) == (made.routers, made.links, made.parts)
    assert build_topology(config).edges == build_topology(load_config(config.to_dict())).edges


def test_a_mesh_of_one_router(small: Path) -> None:
    """No links at all are a list of none."""
    small.write_text("schema: kernbench/system/1\ncube: {mesh: {rows: 1, cols: 1}, hbm: {width_mm: 0, height_mm: 0}}\n")
    assert compile_topology(small).action == "generated"
    again = compile_topology(small)
    assert again.action == "reused" and sum(edge.kind == "mesh" for edge in again.topology.edges) == 0


def test_a_changed_field_makes_it_anew(small: Path) -> None:
    made = compile_topology(small)
    before = made.mesh_file.read_bytes()
    small.write_text(SMALL.replace("pes: 2", "pes: 4"))
    assert compile_topology(small).action == "regenerated"
    assert made.mesh_file.read_bytes() != before
    small.write_text(SMALL)
    assert compile_topology(small).action == "regenerated"
    assert made.mesh_file.read_bytes() == before  # the same fields, the same bytes


def test_a_run_uses_it_and_writes_nothing(small: Path) -> None:
    build_topology(load_config(small))
    assert sorted(path.name for path in small.parent.iterdir()) == ["small.yaml"]
    compiled = compile_topology(small)
    before = compiled.mesh_file.read_bytes()
    other = load_config(small, ["cube.pes=4"], kind=SystemConfig)  # the file does not fit this one: laid out in memory
    assert len(mesh_of(other).parts) == 4 + 2 + 4
    assert compiled.mesh_file.read_bytes() == before


def test_a_run_takes_the_layout_from_the_file(small: Path) -> None:
    """A layout of another version of kernbench, whose hashes fit, holds: routes do not change under a user."""
    path = compile_topology(small).mesh_file
    text = path.read_text().replace("ucie_n0: {at: [5/3, 0], router: r0c0}", "ucie_n0: {at: [5/3, 0], router: r0c1}")
    lines = text.splitlines(keepends=True)
    content = sha256("".join(line for line in lines if not line.startswith("content_hash")))
    path.write_text("".join(f"content_hash: {content}\n" if line.startswith("content_hash") else line for line in lines))
    for topology in (build_topology(load_config(small)), compile_topology(small).topology):
        assert ("sip0.cube0.ucie_n0", "sip0.cube0.r0c1") in topology.edge
        assert topology.edge["sip0.cube0.ucie_n0", "sip0.cube0.r0c1"].mm == Fraction(5, 2) - Fraction(5, 3) + Fraction(7, 4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  pe0: {at: [5/6, 1.75], router: r0c0}", "  pe0: {at: [5/6, 1.75], router: r0c1}"),
        ("links:", "links: # of the mesh"),
        ("  r0c0: [5/6, 1.75]", "  r0c0: [5/6, 1.75] "),
        ("# Layout", "# My layout"),
        ("source_hash: ", "source_hash: 0"),
    ],
)
def test_an_edit_by_hand_is_refused_and_kept(small: Path, old: str, new: str) -> None:
    path = compile_topology(small).mesh_file
    edited = path.read_text().replace(old, new, 1)
    if new.endswith("0"):  # a hash has 64 digits
        line = next(line for line in edited.splitlines() if line.startswith(new))
        edited = edited.replace(line, line[:-1], 1)
    path.write_text(edited)
    assert refused(small) == f"cube_mesh.yaml: it was edited by hand: its text does not fit its content_hash; {REMEDY}"
    small.write_text(SMALL.replace("pes: 2", "pes: 4"))  # a changed field does not hide the edit
    assert refused(small) == f"cube_mesh.yaml: it was edited by hand: its text does not fit its content_hash; {REMEDY}"
    assert path.read_text() == edited
    assert compile_topology(small, force=True).action == "regenerated"
    assert compile_topology(small).action == "reused"


def test_another_file_of_that_name_is_refused_and_kept(small: Path) -> None:
    path = small.parent / "cube_mesh.yaml"
    path.write_text("routers: {}\n")
    assert refused(small) == f"cube_mesh.yaml: it is not a file that kbsim topology compile wrote; {REMEDY}"
    assert path.read_text() == "routers: {}\n"
    compile_topology(small, force=True)
    assert compile_topology(small).action == "reused"


NAMES = "pe0, m_cpu, sram, pe1, ucie_n0, ucie_e0, ucie_s0, ucie_w0"


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("routers:\n", "routers: 7\nx:\n", "routers must be a mapping"),
        ("  r0c0: [5/6, 1.75]", "  r0c0: [5/6]", '"r0c0" must have a place, [x, y] in mm'),
        ("  r0c0: [5/6, 1.75]", "  r0c0: [wide, 1.75]", 'the place of "r0c0" is ["wide", 1.75]: it must be a decimal number'),
        ("  r0c0: [5/6, 1.75]", "  r0c0: [-1, 2]", 'the place of "r0c0" is [-1, 2], outside of the cube'),
        ("  r0c0: [5/6, 1.75]", "  r9c0: [1, 2]", "routers must be some of those of a mesh of 2 x 2"),
        ("  - [r0c0, r0c1]", "  - [r0c0, r0c7]", 'a link must be two of its routers, and one is ["r0c0", "r0c7"]'),
        ("  - [r0c0, r0c1]", "  - [r0c0]", 'a link must be two of its routers, and one is ["r0c0"]'),
        ("  - [r0c0, r0c1]", "  - [r0c0, r0c0]", "a link must be between two routers, but one is from r0c0 to itself"),
        ("  - [r0c0, r0c1]", "  - [r1c0, r0c0]", "links must be there once"),
        ("links:\n", "links: {}\nx:\n", "links must be a list"),
        ("at: [5/6, 1.75], router: r0c0", "at: [5/6, 1.75], router: [r0c0]", '"pe0" must have one of its routers'),
        ("at: [5/6, 1.75], router: r0c0", "router: r0c0", '"pe0" must have a place, [x, y] in mm'),
        ("  pe0: {at", "  pe2: {at", f"parts must be {NAMES}"),
    ],
)
def test_a_file_whose_hash_fits_and_that_holds_no_layout_is_refused(small: Path, old: str, new: str, rule: str) -> None:
    path = compile_topology(small).mesh_file
    bare = "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("content_hash"))
    assert old in bare
    bare = bare.replace(old, new, 1)
    schema, rest = bare.split("source_hash", 1)
    path.write_text(f"{schema}content_hash: {hashlib.sha256(bare.encode()).hexdigest()}\nsource_hash{rest}")
    assert refused(small) == f"cube_mesh.yaml: it is not a layout of this cube: {rule}; {REMEDY}"
    with pytest.raises(InputError, match="it is not a layout of this cube"):
        build_topology(load_config(small, kind=SystemConfig))


def test_an_edit_that_cannot_be_read_is_refused(small: Path) -> None:
    path = compile_topology(small).mesh_file
    lines = len(path.read_text().splitlines())
    path.write_text(path.read_text() + "links: []\n")
    assert refused(small) == f"cube_mesh.yaml:{lines + 1}:1: links: the key occurs twice at the same level; write the key once, with all its values below it; {REMEDY}"


def test_a_topology_that_is_refused_writes_nothing(small: Path) -> None:
    small.write_text(SMALL + "sip: {io: []}\n")
    with pytest.raises(InputError):
        compile_topology(small)
    assert sorted(path.name for path in small.parent.iterdir()) == ["small.yaml"]


def test_a_preset_has_no_file() -> None:
    with pytest.raises(InputError) as caught:
        compile_topology("single_cube")
    line = "single_cube.yaml: cube_mesh.yaml is written beside a file, but this machine is from no file; copy the preset into a file of your own"
    assert str(caught.value) == line


def test_a_file_in_the_working_directory_is_not_a_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cube_mesh.yaml").write_text("not of kernbench: true\n")
    monkeypatch.chdir(tmp_path)
    assert isinstance(mesh_of(load_config("single_cube", kind=SystemConfig)), CubeMesh)


def test_force_on_a_file_that_was_not_edited_writes_the_same(small: Path) -> None:
    compiled = compile_topology(small)
    before = compiled.mesh_file.read_bytes()
    assert mesh_file(load_config(small, kind=SystemConfig), force=True).action == "regenerated"
    assert compile_topology(small, force=True).mesh_file.read_bytes() == before
