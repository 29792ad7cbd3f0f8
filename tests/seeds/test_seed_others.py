"""Seed ADR-0050, seed ADR-0051 and seed ADR-0053, as far as the seed documents say what they fix: a test an item."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench.ccl.registry import read_registry
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing.resolver import AddressResolver
from kernbench.policy.routing.router import NoPath, PathRouter
from kernbench.topology.builder import build_topology, compile_topology
from kernbench.topology.graph import Topology
from kernbench.topology.views import Level, view


@pytest.fixture(scope="module")
def topology() -> Topology:
    config = load_config({"schema": "kernbench/system/1", "system": {"sips": 2}}, kind=SystemConfig)
    return build_topology(config)


@pytest.mark.parametrize("entry", read_registry().entries, ids=lambda entry: entry.full_name)
def test_seed_0050_module(entry: Any) -> None:
    """The public symbols: `kernel`, its alias by the algorithm's name, `kernel_args`, and the kinds of topologies."""
    module = entry.load()
    assert callable(module.kernel) and callable(module.kernel_args)
    assert set(module.TOPO_NAME_TO_KIND) == {"ring", "torus", "mesh"}
    assert len(set(module.TOPO_NAME_TO_KIND.values())) == 3
    name = entry.module.rpartition(".")[2] if isinstance(entry.module, str) else entry.full_name
    assert getattr(module, name) is module.kernel


@pytest.mark.parametrize("entry", read_registry().entries, ids=lambda entry: entry.full_name)
def test_seed_0050_signature(entry: Any) -> None:
    """Nine arguments and `tl`; `kernel_args` returns the nine as a tuple, in their order."""
    module = entry.load()
    names = ["in_ptr", "out_ptr", "n_elem", "dtype", "sip_rank", "sip_size", "cube_rank", "cube_size", "sip_topo_kind"]
    assert list(inspect.signature(module.kernel).parameters) == [*names, "tl"]
    given = (1, 2, 3, "f16", 0, 2, 1, 4, module.TOPO_NAME_TO_KIND["ring"])
    args = module.kernel_args(*given)
    assert isinstance(args, tuple) and tuple(args) == given


def test_seed_0050_entry(tmp_path: Path) -> None:
    """An algorithm is one by its entry in ccl.yaml; a file of the user's own adds entries."""
    import configs

    text = yaml.safe_load((Path(configs.__file__).parent / "ccl.yaml").read_text(encoding="utf-8"))
    listed = {f"{kind}_{name}" for kind, names in text["algorithms"].items() for name in names}
    assert {entry.full_name for entry in read_registry().entries} == listed
    mine = tmp_path / "mine.yaml"
    module = "kernbench.ccl.algorithms.all_reduce_ring"
    keys = f"{{module: {module}, topologies: [ring]}}"
    mine.write_text(f"schema: kernbench/ccl/1\nalgorithms:\n  all_reduce:\n    mine: {keys}\n")
    (entry,) = [one for one in read_registry(mine).entries if one.name == "mine"]
    assert entry.collective == "all_reduce"


def test_seed_0050_topology_kinds() -> None:
    """The same kernel runs with each kind: its result is the sum on a ring, a torus and a mesh."""
    from kernbench.ccl.contract import Shape
    from tests.unit.test_ccl_algorithms import check

    entry = read_registry().find("all_reduce", "ring")
    for kind in entry.load().TOPO_NAME_TO_KIND.values():
        check(entry, Shape(4, 1, 1), kind, 64)


def test_seed_0051_address_resolver(topology: Topology) -> None:
    """`resolve` says which node has an address; the finders say which node is which."""
    resolver = AddressResolver(topology)
    address = resolver.address(1, 0, 0)
    assert resolver.resolve(address) == "sip1.cube0.hbm_ctrl"
    assert resolver.find_m_cpu(1, 0) == "sip1.cube0.m_cpu"
    ids = {node.id for node in topology.nodes}
    for sip in (0, 1):
        assert {resolver.find_pcie_ep(sip), resolver.find_io_cpu(sip)} <= ids
    assert [one.rpartition(".")[2] for one in resolver.find_all_pcie_eps()] == ["pcie_ep"] * len(resolver.find_all_pcie_eps())
    assert {resolver.find_pcie_ep(0), resolver.find_pcie_ep(1)} <= set(resolver.find_all_pcie_eps())


@pytest.mark.parametrize(
    "find",
    [
        lambda router, a, b: router.find_path(a, b),
        lambda router, a, b: router.find_path_with_distance(a, b)[0],
        lambda router, a, b: router.find_node_path(a, b),
    ],
    ids=["find_path", "find_path_with_distance", "find_node_path"],
)
def test_seed_0051_path_router(topology: Topology, find: Callable[[PathRouter, str, str], Any]) -> None:
    """Paths between nodes begin and end at them, and go along edges."""
    router = PathRouter(topology)
    path = find(router, "sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl")
    assert path[0] == "sip0.cube0.pe0.pe_dma" and path[-1] == "sip0.cube0.hbm_ctrl"
    edges = {(edge.source, edge.target) for edge in topology.edges}
    assert all(pair in edges for pair in itertools.pairwise(path))


def test_seed_0051_memory_and_m_cpu_paths(topology: Topology) -> None:
    """`find_memory_path` goes to who has the address; `find_mcpu_dma_path` is of the processor of a cube."""
    router = PathRouter(topology)
    address = AddressResolver(topology).address(1, 0, 0)
    far = router.find_memory_path("sip0.cube0.pe0.pe_dma", address)
    assert far[0] == "sip0.cube0.pe0.pe_dma" and far[-1] == "sip1.cube0.hbm_ctrl" and any("ucie" in node for node in far)
    near = router.find_mcpu_dma_path("sip0.cube0.m_cpu", "sip0.cube0.hbm_ctrl")
    assert near[0] == "sip0.cube0.m_cpu" and near[-1] == "sip0.cube0.hbm_ctrl"


def test_seed_0051_graphs(topology: Topology) -> None:
    """Four graphs, each without the edges that its traffic may not use: no data crosses the processors of commands."""
    router = PathRouter(topology)
    path = router.find_memory_path("sip0.cube0.pe0.pe_dma", AddressResolver(topology).address(0, 0, 0))
    assert not any(node.endswith(("m_cpu", "io_cpu", "pcie_ep")) for node in path)
    with pytest.raises(Exception, match="path"):
        router.find_local_path("sip0.cube0.pe0.pe_dma", "sip1.cube0.hbm_ctrl")
    command = "sip0.cube0.m_cpu", "sip0.cube0.pe0.pe_cpu"  # over edges of commands, which only the graph of all edges has
    assert router.find_node_path(*command) == command
    copy = "sip0.cube0.m_cpu", "sip0.cube0.pe0.pe_tcm"  # into a PE, which a copy by the processor of a cube does not enter
    assert router.find_path(*copy)[0] == copy[0]
    for find, ends in ((router.find_path, command), (router.find_local_path, command), (router.find_mcpu_dma_path, copy)):
        with pytest.raises(NoPath):
            find(*ends)


def test_seed_0053_stages(tmp_path: Path) -> None:
    """A machine file is read and checked; then six stages compile it."""
    path = tmp_path / "machine.yaml"
    path.write_text("schema: kernbench/system/1\n")
    compiled = compile_topology(path)
    read, *stages = [stage.name for stage in compiled.stages]
    assert read == "read and validate" and len(set(stages)) == len(stages) == 6


def test_seed_0053_source_hash(tmp_path: Path) -> None:
    """The layout of a cube is kept beside its machine, and made again when, and only when, one of its fields changed."""
    from kernbench.topology.mesh_gen import source_fields, source_hash

    base: dict[str, Any] = {"schema": "kernbench/system/1"}
    config = load_config(base, kind=SystemConfig)
    assert len(source_fields(config)) == 5
    same = load_config({**base, "freq_ghz": 2}, kind=SystemConfig)
    other = load_config({**base, "cube": {"pes": 4}}, kind=SystemConfig)
    assert source_hash(same) == source_hash(config) != source_hash(other)
    path = tmp_path / "machine.yaml"
    path.write_text("schema: kernbench/system/1\n")
    compile_topology(path)
    (kept,) = [one for one in tmp_path.iterdir() if "mesh" in one.name]
    assert yaml.safe_load(kept.read_text())["source_hash"] == source_hash(config)
    first = kept.stat().st_mtime_ns, kept.read_text()
    path.write_text("schema: kernbench/system/1\nfreq_ghz: 2\n")
    compile_topology(path)
    assert (kept.stat().st_mtime_ns, kept.read_text()) == first  # no field of the layout has changed
    path.write_text("schema: kernbench/system/1\ncube: {pes: 4}\n")
    compile_topology(path)
    assert yaml.safe_load(kept.read_text())["source_hash"] == source_hash(other)


def test_seed_0053_layout(topology: Topology) -> None:
    """Routers are on a grid and never below the HBM; each part is at the nearest one; ports are on the four sides."""
    routers = [node for node in topology.nodes if node.kind == "router" and node.id.startswith("sip0.cube0.")]
    assert routers and all(re.fullmatch(r"sip0\.cube0\.r\d+c\d+", node.id) for node in routers)
    ids = {node.id for node in topology.nodes}
    for side in "nsew":
        assert any(f"sip0.cube0.ucie_{side}" in one for one in ids)
    for part in ("m_cpu", "sram", "hbm_ctrl"):
        near = {edge.target for edge in topology.edges if edge.source == f"sip0.cube0.{part}"}
        assert near & {node.id for node in routers}
    assert isinstance(topology.config, SystemConfig)
    cube = topology.config.cube
    for node in routers:  # a place in the grid without a router is one under the HBM
        beside = abs(node.x_mm - cube.width_mm / 2), abs(node.y_mm - cube.height_mm / 2)
        assert beside[0] >= cube.hbm.width_mm / 2 or beside[1] >= cube.hbm.height_mm / 2
    assert 0 < len(routers) < cube.mesh.rows * cube.mesh.cols
    at = {node.id: node for node in topology.nodes}
    inside = ("pe_dma", "m_cpu", "sram")
    attached = [edge for edge in topology.edges if edge.target in {node.id for node in routers}]
    attached = [edge for edge in attached if edge.source.rpartition(".")[2] in inside]
    assert len(attached) >= cube.pes + 2
    for edge in attached:
        part = at[edge.source]
        way = {node.id: abs(node.x_mm - part.x_mm) + abs(node.y_mm - part.y_mm) for node in routers}
        assert way[edge.target] == min(way.values())


def test_seed_0053_names(topology: Topology) -> None:
    """One module builds and takes apart the ids of nodes, and every id is what it makes."""
    from kernbench.common import naming

    assert naming.pe_node(1, 0, 0, "pe_dma") == "sip1.cube0.pe0.pe_dma"
    assert naming.pe_node(1, 0, 0, "pe_dma") in {node.id for node in topology.nodes}
    for node in topology.nodes:
        name = naming.parse_node(node.id)
        assert (name.kind, name.sip, name.cube, name.pe) == (node.kind, node.sip, node.cube, node.pe)
        if name.sip is None:
            assert node.id == name.part
        elif name.pe is not None and name.cube is not None:
            assert node.id == naming.pe_node(name.sip, name.cube, name.pe, name.part)
        elif name.cube is not None:
            assert node.id == naming.in_cube(name.sip, name.cube, name.part)
        elif name.io is not None:
            assert node.id == naming.in_io(name.sip, name.io, name.part)


def test_seed_0053_edges_and_views(topology: Topology) -> None:
    """Every edge has a kind, and there are four views, each a projection of the one graph."""
    assert all(edge.kind for edge in topology.edges)
    assert len(Level) == 4
    for level in Level:
        made = view(topology, level)
        names = {node.id for node in made.nodes}
        assert made.nodes and all({edge.source, edge.target} <= names for edge in made.edges)
        box = {node.id: one.id for one in made.nodes for node in one.nodes}
        shown = [edge for one in made.edges for edge in one.edges]
        assert set(box) <= {node.id for node in topology.nodes} and set(shown) <= set(topology.edges)
        for one in made.edges:  # a line is made of the edges between its two boxes
            assert one.edges and {(box[edge.source], box[edge.target]) for edge in one.edges} == {(one.source, one.target)}
