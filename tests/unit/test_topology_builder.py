"""The graph of a system: what holds for every one, refusals, time and memory."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common import naming
from kernbench.common.errors import InputError
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.topology.builder import build_topology, read_system
from kernbench.topology.graph import Edge, EdgeKind, Topology

SCHEMA = {"schema": "kernbench/system/1"}


def system(**sections: Any) -> SystemConfig:
    return load_config({**SCHEMA, **sections}, kind=SystemConfig)


def refused(config: SystemConfig) -> str:
    with pytest.raises(InputError) as caught:
        build_topology(config)
    return str(caught.value)


# What holds for every system --------------------------------------------------------------------------------------

SHAPES = st.one_of(
    st.builds(lambda n: {"sips": n}, st.integers(1, 5)),
    st.builds(
        lambda kind, rows, cols: {"kind": kind, "sips": rows * cols, "rows": rows},
        st.sampled_from(["torus", "mesh"]), st.integers(1, 4), st.integers(1, 4),
    ),
)  # fmt: skip
SIPS = st.builds(
    lambda rows, cols, sides: {"rows": rows, "cols": cols, "io": [{"name": f"io{3 * i}", "side": s} for i, s in enumerate(sides)]},
    st.integers(1, 3), st.integers(1, 3), st.lists(st.sampled_from("nesw"), min_size=1, max_size=4, unique=True),
)  # fmt: skip
CUBES = st.builds(
    lambda pes, slices, rows, cols, ports: {
        "pes": pes, "mesh": {"rows": rows, "cols": cols}, "hbm": {"slices": slices}, "ucie": {"ports_per_side": ports}
    },
    st.integers(1, 5), st.sampled_from([1, 2, 4, 8]), st.integers(3, 5), st.integers(4, 5), st.integers(1, 3),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(SHAPES, SIPS, CUBES)
def test_every_system(shape: dict[str, Any], sip: dict[str, Any], cube: dict[str, Any]) -> None:
    topology = build_topology(system(system=shape, sip=sip, cube=cube))
    check_ids(topology)
    check_both_ways(topology)
    check_slices(topology)
    check_sips(topology, shape)


def check_ids(topology: Topology) -> None:
    """Ids are unique and say what the node says."""
    assert len(topology.by_id) == len(topology.nodes)
    for node in topology.nodes:
        name = naming.parse_node(node.id)
        assert (name.kind, name.sip, name.cube, name.pe) == (node.kind, node.sip, node.cube, node.pe)


def check_both_ways(topology: Topology) -> None:
    """Every edge stands once, and once the other way, of the same length, kind and bandwidth."""
    assert len(topology.edge) == len(topology.edges)
    for edge in topology.edges:
        back = topology.edge[edge.target, edge.source]
        assert (back.kind, back.mm, back.bytes_per_cycle, back.slices) == (edge.kind, edge.mm, edge.bytes_per_cycle, edge.slices)
        assert edge.weight == edge.cycles + 1
        assert (edge.bytes_per_cycle is None) == (edge.kind in (EdgeKind.COMMAND, EdgeKind.PE_INTERNAL))
        # A router has its latency in what enters it, and in nothing else.
        into, out_of = (naming.parse_node(node).kind == naming.ROUTER for node in (edge.target, edge.source))
        assert edge.cycles - back.cycles == into - out_of


def check_slices(topology: Topology) -> None:
    """Each slice enters by one router, that of its PE; the edge carries as much as its slices together."""
    config = topology.config
    at = {edge.source: edge.target for edge in topology.edges if edge.kind == EdgeKind.PE_ROUTER}
    seen: Counter[tuple[str, int]] = Counter()
    for edge in topology.edges:
        if edge.kind != EdgeKind.HBM or edge.source not in topology.by_id or naming.parse_node(edge.source).kind != naming.HBM:
            continue
        hbm = naming.parse_node(edge.source)
        assert hbm.sip is not None and hbm.cube is not None
        assert edge.bytes_per_cycle == config.cube.hbm.link.bytes_per_cycle * len(edge.slices)
        for index in edge.slices:
            assert at[naming.pe_node(hbm.sip, hbm.cube, config.slice_pe(index), naming.PE_DMA)] == edge.target
            seen[edge.source, index] += 1
    assert set(seen.values()) == {1}
    assert len(seen) == config.system.sips * config.cubes * config.slices


def check_sips(topology: Topology, shape: dict[str, Any]) -> None:
    """Neighbours by a sum: SIPs whose row or column differs by one, around the end where there is a way around."""
    config = topology.config
    rows, cols = config.system.rows, config.sip_cols
    around = shape.get("kind", "ring") != "mesh"
    wanted = set()
    for a in range(config.system.sips):
        for b in range(config.system.sips):
            down, right = abs(a // cols - b // cols), abs(a % cols - b % cols)
            near = (down, right) in ((0, 1), (1, 0))
            wraps = around and (down, right) in ((0, cols - 1), (rows - 1, 0)) and a != b
            if near or wraps:
                wanted.add((a, b))
    found = [(naming.parse_node(e.source).sip, naming.parse_node(e.target).sip) for e in topology.edges if e.kind == EdgeKind.SIP]
    assert len(found) == len(set(found)) and set(found) == wanted


# Places and lengths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "noc", "cpu", "endpoint"),
    [("n", (21, -4), (23, -4), (21, -6)), ("e", (46, 10), (46, 12), (48, 10)), ("s", (21, 24), (23, 24), (21, 26)), ("w", (-4, 10), (-4, 12), (-6, 10))],
)  # fmt: skip
def test_where_an_io_chiplet_stands(side: str, noc: Any, cpu: Any, endpoint: Any) -> None:
    """Two cubes of 20 mm with a gap of 2 mm are 42 mm x 20 mm; the chiplet is 2 mm away and 4 mm deep."""
    topology = build_topology(system(sip={"cols": 2, "gap_mm": 2, "io": [{"name": "io5", "side": side}]}))
    found = [topology.by_id[f"sip0.io5.{part}"] for part in ("io_noc", "io_cpu", "pcie_ep")]
    assert [(node.x_mm, node.y_mm) for node in found] == [noc, cpu, endpoint]
    ports = {e.target for e in topology.edges if e.kind == EdgeKind.UCIE_IO and e.target.endswith("0") and "ucie" in e.target}
    cubes = {"n": (0, 1), "s": (0, 1), "e": (1,), "w": (0,)}[side]
    assert ports == {f"sip0.cube{cube}.ucie_{side}0" for cube in cubes}


def test_chiplets_serve_the_cubes_of_their_side() -> None:
    """Two rows of three cubes: 0 1 2 in the north, 3 4 5 in the south."""
    io = [{"name": f"io{i}", "side": side} for i, side in enumerate("nesw")]
    topology = build_topology(system(sip={"rows": 2, "cols": 3, "io": io}))
    served: dict[int, list[int]] = {}
    for edge in topology.edges:
        io_node, port = naming.parse_node(edge.source), naming.parse_node(edge.target)
        if edge.kind == EdgeKind.UCIE_IO and io_node.io is not None and port.cube is not None:
            assert port.part == f"ucie_{'nesw'[io_node.io]}0"
            served.setdefault(io_node.io, []).append(port.cube)
    assert served == {0: [0, 1, 2], 1: [2, 5], 2: [3, 4, 5], 3: [0, 3]}


def test_a_chiplet_serves_the_side_where_the_neighbour_is() -> None:
    """Of two SIPs in a column, the south of the first and the north of the second."""
    io = [{"name": "io0", "side": "w"}, {"name": "io1", "side": "s"}, {"name": "io2", "side": "n"}]
    topology = build_topology(system(system={"sips": 2, "kind": "mesh", "rows": 2}, sip={"io": io}))
    links = {(e.source, e.target) for e in topology.edges if e.kind == EdgeKind.SIP}
    assert links == {("sip0.io1.io_noc", "sip1.io2.io_noc"), ("sip1.io2.io_noc", "sip0.io1.io_noc")}


@pytest.mark.parametrize(
    ("wires", "link", "mm", "cycles"),
    [
        # 5 mm between the routers of the presets; exact thirds: 5 / (5/3) is 3, and 5 / (4/3) is 15/4, which is 4
        ("5/3", {}, 5, 3), ("4/3", {}, 5, 4), (5, {"cycles": 7}, 5, 8), (5, {"mm": 0}, 0, 0), (5, {"mm": "10.1", "cycles": 1}, Fraction(101, 10), 4),
    ],
)  # fmt: skip
def test_latency_is_of_length_and_fixed_part(wires: Any, link: dict[str, Any], mm: Fraction, cycles: int) -> None:
    config = system(wires={"mm_per_cycle": wires}, cube={"mesh": {"router_cycles": 0, "link": link}})
    edge = build_topology(config).edge["sip0.cube0.r0c0", "sip0.cube0.r0c1"]
    assert (edge.mm, edge.cycles) == (mm, cycles)


def test_slices_at_one_router_share_an_edge() -> None:
    """One column of routers at 5 mm and 15 mm, beside an HBM that is 0 mm high: four PEs of six places are at two routers."""
    config = system(cube={"pes": 4, "mesh": {"rows": 2, "cols": 1}, "hbm": {"slices": 4, "height_mm": 0}})
    edges = [e for e in build_topology(config).edges if e.kind == EdgeKind.HBM and e.source.endswith("hbm_ctrl")]
    assert sorted((e.target, e.slices, e.bytes_per_cycle) for e in edges) == [
        ("sip0.cube0.r0c0", (0, 1), 256), ("sip0.cube0.r1c0", (2, 3), 256),
    ]  # fmt: skip


def test_edges_say_what_passes_them() -> None:
    kinds = {(edge.kind, naming.parse_node(edge.source).kind, naming.parse_node(edge.target).kind) for edge in _edges("two_sips")}
    one_way = {(kind, *sorted(ends)) for kind, *ends in kinds}
    assert {(str(kind), a, b) for kind, a, b in one_way} == {
        ("command", "io_cpu", "m_cpu"), ("command", "m_cpu", "pe_cpu"), ("command", "pe_cpu", "pe_scheduler"),
        ("command", "pe_dma", "pe_scheduler"), ("command", "pe_gemm", "pe_scheduler"), ("command", "pe_math", "pe_scheduler"),
        ("command", "pe_fetch_store", "pe_scheduler"), ("command", "pe_ipcq", "pe_scheduler"),
        ("pe_internal", "pe_dma", "pe_tcm"), ("pe_internal", "pe_fetch_store", "pe_tcm"), ("pe_internal", "pe_fetch_store", "pe_gemm"),
        ("pe_internal", "pe_fetch_store", "pe_math"), ("pe_internal", "pe_dma", "pe_ipcq"),
        ("pe_router", "pe_dma", "router"), ("mesh", "router", "router"), ("hbm", "hbm_ctrl", "router"), ("sram", "router", "sram"),
        ("m_cpu", "m_cpu", "router"), ("ucie_port", "router", "ucie"), ("ucie", "ucie", "ucie"), ("ucie_io", "io_noc", "ucie"),
        ("io_internal", "io_cpu", "io_noc"), ("io_internal", "io_noc", "pcie_ep"), ("sip", "io_noc", "io_noc"), ("pcie", "host", "pcie_ep"),
    }  # fmt: skip


def _edges(name: str) -> tuple[Edge, ...]:
    return build_topology(load_config(name)).edges


# Refusals ---------------------------------------------------------------------------------------------------------


def from_text(tmp_path: Path, text: str) -> SystemConfig:
    file = tmp_path / "s.yaml"
    file.write_text(f"schema: kernbench/system/1\n{text}\n")
    return load_config(file, kind=SystemConfig, allow_code=tmp_path)


REFUSALS = [
    ("sip: {io: []}", "s.yaml:2:11: sip.io = [], but there is no route from the host to sip0.cube0.pe0.pe_dma; "
     "give the SIP an IO chiplet: [{name: io0, side: w}]"),
    ("cube: {ucie: {ports_per_side: 0}}", "s.yaml:2:31: cube.ucie.ports_per_side = 0, but there is no route from the host to sip0.cube0.pe0.pe_dma; "
     "give the cubes ports"),
    ("cube: {mesh: {rows: 1, cols: 1}}", "s.yaml:2:21: cube.hbm: the HBM covers 11 mm x 11 mm: all 1 x 1 routers of the mesh would stand inside it: "
     "none is left for PE 0; make the HBM smaller or the mesh finer"),
    ("components: {pe_gemm: {impl: 'no_such_module:Gemm'}}", 's.yaml:2:30: components.pe_gemm.impl = "no_such_module:Gemm", but the module no_such_module is '
     "not installed, and no path of --allow-code contains it; give --allow-code PATH (allow_code= in Python), "
     "or list the path under allow_code in CONFIG/kernbench/settings.yaml"),
    ("components: {router: {impl: 'own_parts:Gemm'}}", 's.yaml:2:29: components.router.impl = "own_parts:Gemm", but '
     "own_parts has no Gemm; name a class"),
    ("components: {pe_gemm: {impl: 'own_parts:json'}}", 's.yaml:2:30: components.pe_gemm.impl = "own_parts:json", but it is a module; name a class'),
    ("components: {pe_gemm: {impl: 'raises_at_import:X'}, pe_math: {impl: 'own_parts:__name__'}}",
     's.yaml:2:30: components.pe_gemm.impl = "raises_at_import:X", but the file cannot be imported: RuntimeError: not today, '
     "in raises_at_import.py:1\n"
     's.yaml:2:69: components.pe_math.impl = "own_parts:__name__", but it is a str; name a class'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), REFUSALS)
def test_a_wrong_topology_is_refused_with_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: str) -> None:
    (tmp_path / "raises_at_import.py").write_text("raise RuntimeError('not today')\n")
    (tmp_path / "own_parts.py").write_text("import json\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/CONFIG")
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    assert refused(from_text(tmp_path, text)).replace(f"{tmp_path}/", "").replace("/CONFIG", "CONFIG") == lines


def test_a_component_of_the_users_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_gemm.py").write_text("class Outer:\n    class Gemm:\n        pass\n")
    monkeypatch.delitem(sys.modules, "own_gemm", raising=False)
    config = from_text(tmp_path, "components: {pe_gemm: {impl: 'own_gemm:Outer.Gemm'}}")
    assert len(build_topology(config).nodes) == len(build_topology(system()).nodes)


def test_one_npu_is_no_system() -> None:
    with pytest.raises(InputError) as caught:
        read_system("npu_mobile")
    assert str(caught.value) == (
        "npu_mobile.yaml: this is a single NPU, but a system of several PEs is expected; "
        "use one of these machines: pod_8sip, single_cube, sip_4x4, two_sips"
    )
    assert isinstance(load_config("npu_mobile"), NpuConfig)


# Memory -----------------------------------------------------------------------------------------------------------

MEASURE = """
import re
from kernbench.topology.builder import build_topology
from kernbench.topology.builder import read_system
topology = build_topology(read_system("pod_8sip"))
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+([0-9]+) kB", status)[1]) / 1024, len(topology.nodes))
"""


def test_a_pod_of_1024_pes_is_built_in_little_memory() -> None:
    """The interpreter and its imports are among the 500 MB; how long it takes is in `make bench`."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the most memory that a process had is read from /proc/self/status, which is not here")
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=60, check=True)
    megabytes, nodes = map(float, done.stdout.split())
    assert nodes == 11185
    assert megabytes < 500
