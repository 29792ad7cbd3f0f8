"""The page about systems: its catalogue of edges, and its table of what a change of each field makes anew, walked."""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from kernbench.common import naming
from kernbench.config import SystemConfig, load_config
from kernbench.config.cache import Llc
from kernbench.config.codecs import Codec
from kernbench.config.dram_controller import DramController
from kernbench.config.dram_device import RowBuffer
from kernbench.config.routers import Routers
from kernbench.config.schema import MicroScheduler, Mmio
from kernbench.config.system.parts import PROTOCOLS, NicLink, Protocol, SipLink, Switches
from kernbench.topology.builder import Compiled, build_topology, compile_topology
from kernbench.topology.graph import WITHOUT_COMMAND, WITHOUT_PES, WITHOUT_UCIE, EdgeKind, Topology
from tests.docs.test_build import DOCS, YOUNGER, first_cells, part, paths_of

pytestmark = pytest.mark.skipif(not (DOCS / "conf.py").exists(), reason="the documentation is not in this source tree")
PAGE = DOCS / "reference" / "system.md"
Made = tuple[Compiled, tuple[object, object]]  #: with its shape


def section(title: str) -> list[list[str]]:
    """The rows of the tables of a section."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_kind_of_node_and_its_id() -> None:
    rows = section("Nodes")
    kinds = [kind for row in rows for kind in names(row[0])]
    assert sorted(kinds) == sorted(naming.KINDS)
    for row in rows:
        example = next(name for name in names(row[1]) if name.startswith(("sip", "host", "switch")))
        assert naming.parse_node(example).kind in names(row[0])


def test_the_catalogue_of_edges() -> None:
    said = {names(row[0])[0]: [cell == "yes" for cell in row[2:]] for row in section("Edges")}
    graphs = (frozenset[EdgeKind](), WITHOUT_COMMAND, WITHOUT_PES, WITHOUT_UCIE)
    assert said == {kind.value: [kind not in left_out for left_out in graphs] for kind in EdgeKind}


def test_every_key_is_in_the_reference() -> None:
    text = part("reference").system_tables()
    found = set()
    for piece in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name = piece.split("\n")[0].split(" ")[0]
        found |= {key if name == "Top" else f"{name}.{key}" for key in first_cells(piece)}
    systolic = {"timing": "systolic", "rows": 4, "cols": 4, "dataflow": "os"}
    plain = load_config({"schema": "kernbench/system/1", "pe": {"te": systolic}}).to_dict()
    wanted = {path for path in paths_of(plain) if not path.endswith("components")} | {"components"}
    wanted |= {"pe.spm.read_ports", "pe.spm.write_ports", "pe.spm.arbiter", "system.cols", "cube.hbm.slices"}
    wanted |= {f"pe.{path}" for path in YOUNGER}
    wanted |= {"cube.hbm.device", "cube.hbm.policy", "energy.by_cause", "cost.usd_per_hour", "cost.watts"}
    wanted |= {"pe.fetch_store.bytes_per_cycle"}
    wanted |= {f"pe.dma.codecs.{name}" for name in Codec.model_fields}
    wanted |= {f"control.mmio.{name}" for name in Mmio.model_fields}
    wanted |= {f"control.micro_scheduler.{name}" for name in MicroScheduler.model_fields}
    wanted |= {f"pe.ipcq.protocols.{one}.{name}" for one in PROTOCOLS for name in Protocol.model_fields}
    wanted |= {"system.failed", "system.slow", "pe.cores", "system.rails.nics"}
    wanted |= {f"system.switch.{name}" for name in Switches.model_fields}
    wanted |= {f"system.rails.link.{name}" for name in NicLink.model_fields}
    wanted |= {f"system.dimensions.{name}" for name in ("kind", "size")}
    wanted |= {f"system.dimensions.link.{name}" for name in SipLink.model_fields}
    wanted |= {f"system.dimensions.switch.{name}" for name in Switches.model_fields}
    wanted |= {f"cube.hbm.row_buffer.{name}" for name in RowBuffer.model_fields}
    wanted |= {f"cube.hbm.controller.{name}" for name in DramController.model_fields}
    wanted |= {f"cube.llc.{name}" for name in Llc.model_fields}
    wanted |= {"cube.mesh.model", *(f"cube.mesh.flit.{name}" for name in Routers.model_fields)}
    links = {path.removesuffix(".bytes_per_cycle") for path in wanted if re.search(r"(?:link|noc|router)\.by", path)}
    wanted |= {f"{link}.mm" for link in links}
    assert found == wanted


# The table of what is made anew -----------------------------------------------------------------------------------


Row = tuple[list[str], str, tuple[bool, ...]]  #: patterns of fields, example, (mesh file, nodes, edges) made anew


def table() -> list[Row]:
    """The rows of the table."""
    return [(names(row[0]), names(row[1])[0], tuple(cell == "yes" for cell in row[2:])) for row in section("cube_mesh.yaml")]


def write(file: Path, config: SystemConfig) -> Path:
    """A file of a system; JSON is YAML too."""
    file.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in config.to_dict().items()), encoding="utf-8")
    return file


def shape(topology: Topology) -> tuple[object, object]:
    return [(node.id, node.kind, node.x_mm, node.y_mm) for node in topology.nodes], topology.edges


def test_every_field_has_its_row() -> None:
    paths = {path for path, _, _ in load_config("two_sips").effective()}
    paths |= {"system.cols", "components.pe_gemm.depth", "cube.mesh.link.mm"}
    for path in sorted(paths):
        rows = [patterns for patterns, _, _ in table() if any(fnmatchcase(path, pattern) for pattern in patterns)]
        assert len(rows) == 1, (path, rows)


@pytest.fixture(scope="module")
def four_sips(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A compiled system, and its shape. It lies in a folder of its own, with its mesh file: each change is made in a copy."""
    file = tmp_path_factory.mktemp("before") / "four_sips.yaml"
    made = compile_topology(write(file, load_config("two_sips", ["system.sips=4"], kind=SystemConfig)))
    return made, shape(made.topology)


@pytest.mark.parametrize("row", table() if PAGE.exists() else [], ids=lambda row: row[1])
def test_a_change_of_a_field_makes_anew_what_the_table_says(tmp_path: Path, row: Row, four_sips: Made) -> None:
    before, (nodes_before, edges_before) = four_sips
    patterns, example, anew = row
    field = example.partition("=")[0]
    assert any(fnmatchcase(field, pattern) for pattern in patterns)
    folder = shutil.copytree(before.mesh_file.parent, tmp_path / "after")
    file = folder / "four_sips.yaml"
    changed = load_config(file, [example], kind=SystemConfig)
    assert changed != before.topology.config
    mesh_file = before.mesh_file.read_bytes()
    after = compile_topology(write(file, changed))
    nodes_after, edges_after = shape(after.topology)
    found = (after.action == "regenerated", nodes_before != nodes_after, edges_before != edges_after)
    assert found == anew
    assert after.action in ("reused", "regenerated") and (after.mesh_file.read_bytes() != mesh_file) == anew[0]
    assert shape(build_topology(changed)) == shape(after.topology)
