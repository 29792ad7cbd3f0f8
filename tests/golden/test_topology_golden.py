"""Node and edge counts, ids, lengths and latencies of the presets, worked out by hand in the comments."""

from __future__ import annotations

import functools
from collections import Counter
from fractions import Fraction

import pytest

from kernbench.config import load_config
from kernbench.topology.builder import build_topology
from kernbench.topology.graph import Topology

POD_TORUS = ("system.kind=torus", "system.rows=2")
POD_MESH = ("system.kind=mesh", "system.rows=2")


@functools.cache
def built(name: str, *overrides: str) -> Topology:
    return build_topology(load_config(name, list(overrides)))


# A cube has 4 x 4 - 4 = 12 routers, an M_CPU, an SRAM and an HBM controller, 8 PEs of 8 parts, and 4 sides of p ports:
# 12 + 3 + 64 + 4 p nodes, 83 with one port a side, 87 with two. A SIP adds 3 for each IO chiplet; the host is one more.
#   single_cube: 83 + 3 + 1                       sip_4x4: 16 x 87 + 2 x 3 + 1
#   two_sips: 2 x (4 x 87 + 2 x 3) + 1            pod_8sip: 8 x (16 x 87 + 2 x 3) + 1
# Directed edges of a cube: mesh 2 x 16, HBM 2 x 8, SRAM 2, M_CPU 2, ports 2 x 4 p, and of each of 8 PEs: 2 to the
# router, 2 x 5 for data, 2 x 6 for commands inside, 2 for commands from the M_CPU: 52 + 8 p + 8 x 26 = 260 + 8 p.
# An IO chiplet: 2 x 2 inside, 2 of PCIe, 2 for commands to each cube, 2 for each port at its side.
#   single_cube: 268 + 4 + 2 + 2 + 2
#   sip_4x4: 16 x 276 + 2 x (4 + 2 + 2 x 16 + 2 x 4 x 2) + UCIe 2 x 2 ports x (4 x 3 + 3 x 4) pairs
#   two_sips: 2 x (4 x 276 + 2 x (4 + 2 + 2 x 4 + 2 x 2 x 2) + 2 x 2 x 4) + 2 between the SIPs: a ring of two is one pair
#   pod_8sip: 8 x sip_4x4 + 2 x 8 pairs of the ring
#   torus of 2 x 4: two rings of four and four pairs: 12; mesh of 2 x 4: two lines of four and four pairs: 10
COUNTS = [
    (("single_cube",), 83 + 3 + 1, 268 + 10),
    (("sip_4x4",), 16 * 87 + 6 + 1, 16 * 276 + 2 * 54 + 96),
    (("two_sips",), 2 * (4 * 87 + 6) + 1, 2 * (4 * 276 + 2 * 22 + 16) + 2),
    (("pod_8sip",), 8 * (16 * 87 + 6) + 1, 8 * 4620 + 2 * 8),
    (("pod_8sip", *POD_TORUS), 8 * (16 * 87 + 6) + 1, 8 * 4620 + 2 * 12),
    (("pod_8sip", *POD_MESH), 8 * (16 * 87 + 6) + 1, 8 * 4620 + 2 * 10),
]


@pytest.mark.parametrize(("preset", "nodes", "edges"), COUNTS)
def test_presets_have_so_many_nodes_and_edges(preset: tuple[str, ...], nodes: int, edges: int) -> None:
    topology = built(*preset)
    assert (len(topology.nodes), len(topology.edges)) == (nodes, edges)


def test_the_numbers_themselves() -> None:
    """The same counts, added up: 87, 1,399, 709 and 11,185 nodes; 278, 4,620, 2,330 and 36,976 edges."""
    assert [row[1:] for row in COUNTS] == [
        (87, 278), (1399, 4620), (709, 2330), (11185, 36976), (11185, 36984), (11185, 36980),
    ]  # fmt: skip


# By kind, for one SIP of 16 cubes:
#   command: 16 x (8 x 2 + 8 x 12) + 2 x 2 x 16                          = 1,856
#   pe_internal 16 x 80, pe_router 16 x 16, mesh 16 x 32, hbm 16 x 16, sram and m_cpu 16 x 2, ucie_port 16 x 16
#   ucie: 24 pairs of cubes x 2 ports x 2 = 96; ucie_io: 2 chiplets x 4 cubes x 2 ports x 2 = 32
SIP_KINDS = {
    "command": 1856, "pe_internal": 1280, "pe_router": 256, "mesh": 512, "hbm": 256, "sram": 32, "m_cpu": 32,
    "ucie_port": 256, "ucie": 96, "ucie_io": 32, "io_internal": 8, "pcie": 4,
}  # fmt: skip


def test_edges_by_kind() -> None:
    assert Counter(str(edge.kind) for edge in built("sip_4x4").edges) == SIP_KINDS
    pod = {kind: 8 * count for kind, count in SIP_KINDS.items()} | {"sip": 16}
    assert Counter(str(edge.kind) for edge in built("pod_8sip").edges) == pod


PE_PARTS = ("pe_cpu", "pe_scheduler", "pe_dma", "pe_fetch_store", "pe_gemm", "pe_math", "pe_tcm", "pe_ipcq")


def ids_in_order(sips: int, cubes: int, chiplets: int, ports: int) -> list[str]:
    """Every id of a system of the presets' cubes, in the order in which they are made."""
    inside = ["m_cpu", "sram", "hbm_ctrl", "r0c0", "r0c1", "r0c2", "r0c3", "r1c0", "r1c3", "r2c0", "r2c3"]
    inside += ["r3c0", "r3c1", "r3c2", "r3c3", *(f"ucie_{side}{i}" for side in "nesw" for i in range(ports))]
    inside += [f"pe{p}.{part}" for p in range(8) for part in PE_PARTS]
    ids = ["host"]
    for s in range(sips):
        ids += [f"sip{s}.io{i}.{part}" for i in range(chiplets) for part in ("io_noc", "io_cpu", "pcie_ep")]
        ids += [f"sip{s}.cube{c}.{name}" for c in range(cubes) for name in inside]
    return ids


@pytest.mark.parametrize(
    ("name", "shape"),
    [("single_cube", (1, 1, 1, 1)), ("sip_4x4", (1, 16, 2, 2)), ("two_sips", (2, 4, 2, 2)), ("pod_8sip", (8, 16, 2, 2))],
)
def test_nodes_stand_in_the_order_of_their_ids(name: str, shape: tuple[int, int, int, int]) -> None:
    assert [node.id for node in built(name).nodes] == ids_in_order(*shape)


# source, target: mm, cycles, bytes per cycle. Wires of a SIP are 10 mm a cycle, of the board 150 mm a cycle; a router adds
# 2 cycles to what enters it. Routers of a cube are 5 mm apart, over the HBM 15 mm.
EDGES = [
    ("r0c0", "r0c1", 5, 0 + 1 + 2, 128),
    ("r1c0", "r1c3", 15, 0 + 2 + 2, 128),
    ("r0c0", "hbm_ctrl", 4, 0 + 1, 128),  # 2 mm along each way to the corner of the footprint, at 4.5 mm
    ("hbm_ctrl", "r0c0", 4, 0 + 1 + 2, 128),
    ("hbm_ctrl", "r0c1", 2, 0 + 1 + 2, 128),  # 7.5 mm is beside the footprint: 2 mm straight
    ("sram", "r2c0", 0, 8 + 0 + 2, 256),
    ("r2c0", "sram", 0, 8, 256),
    ("m_cpu", "r1c3", 0, 0 + 2, 64),
    ("pe4.pe_dma", "r2c3", 0, 0 + 2, 128),
    ("r2c3", "pe4.pe_dma", 0, 0, 128),
    ("r0c1", "ucie_n0", 5, 0 + 1, 256),  # 2.5 mm and 2.5 mm to the middle of the side
    ("ucie_n0", "r0c1", 5, 0 + 1 + 2, 256),
    ("m_cpu", "pe0.pe_cpu", 20, 0 + 2, None),  # from (17.5, 7.5) to (2.5, 2.5): 15 mm and 5 mm
    ("pe0.pe_cpu", "pe0.pe_scheduler", 0, 0, None),
    ("pe0.pe_tcm", "pe0.pe_dma", 0, 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "mm", "cycles", "rate"), EDGES)
def test_edges_inside_a_cube(source: str, target: str, mm: int, cycles: int, rate: int | None) -> None:
    edge = built("single_cube").edge[f"sip0.cube0.{source}", f"sip0.cube0.{target}"]
    assert (edge.mm, edge.cycles, edge.bytes_per_cycle, edge.weight) == (mm, cycles, rate, cycles + 1)


# The chiplet at the west stands 1 mm away and is 4 mm deep: its network is at x = -3, y = 10, the endpoint at x = -5, and the
# processor at y = 12. The port of the cube's west side is at (0, 10). In sip_4x4 the cubes are 84 - 1 = 83 mm high in
# all, so the networks are at y = 41.5 and the ports of the first cube's west side at y = 5 and y = 15.
OUTSIDE = [
    ("single_cube", "host", "sip0.io0.pcie_ep", 300, 150 + 2, 63),
    ("single_cube", "sip0.io0.pcie_ep", "sip0.io0.io_noc", 2, 2 + 1, 256),
    ("single_cube", "sip0.io0.io_cpu", "sip0.io0.io_noc", 2, 2 + 1, 256),
    ("single_cube", "sip0.io0.io_noc", "sip0.cube0.ucie_w0", 3, 4 + 1, 256),
    ("single_cube", "sip0.io0.io_cpu", "sip0.cube0.m_cpu", 25, 3, None),  # (-3, 12) to (17.5, 7.5): 20.5 mm and 4.5 mm
    ("sip_4x4", "sip0.io0.io_noc", "sip0.cube0.ucie_w0", Fraction(79, 2), 4 + 4, 256),  # 3 mm and 36.5 mm
    ("sip_4x4", "sip0.io1.io_noc", "sip0.cube15.ucie_e1", Fraction(79, 2), 4 + 4, 256),  # at y = 63 + 15 = 78
    ("sip_4x4", "sip0.cube0.ucie_e1", "sip0.cube1.ucie_w1", 1, 4 + 1, 256),
    ("sip_4x4", "sip0.cube3.ucie_s0", "sip0.cube7.ucie_n0", 1, 4 + 1, 256),
    ("two_sips", "sip0.io1.io_noc", "sip1.io0.io_noc", 150, 200 + 1, 100),
    ("pod_8sip", "sip6.io1.io_noc", "sip7.io0.io_noc", 150, 200 + 1, 100),
    ("pod_8sip", "sip7.io1.io_noc", "sip0.io0.io_noc", 1050, 200 + 7, 100),  # back along the row: 7 x 150 mm
]


@pytest.mark.parametrize(("name", "source", "target", "mm", "cycles", "rate"), OUTSIDE)
def test_edges_outside_cubes(name: str, source: str, target: str, mm: Fraction, cycles: int, rate: int | None) -> None:
    edges = built(name).edge
    for ends in ((source, target), (target, source)):
        edge = edges[ends]
        assert (edge.mm, edge.cycles, edge.bytes_per_cycle) == (mm, cycles, rate)


def sip_links(topology: Topology) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in topology.edges if edge.kind == "sip"}


def both(pairs: list[tuple[int, int]], east: int, west: int) -> set[tuple[str, str]]:
    """Links from the chiplet `east` of the first to `west` of the second, and back."""
    ends = [(f"sip{a}.io{east}.io_noc", f"sip{b}.io{west}.io_noc") for a, b in pairs]
    return {*ends, *((b, a) for a, b in ends)}


def test_sips_of_a_ring_a_torus_and_a_mesh() -> None:
    """East is the chiplet io1, west io0; there is none at the north and south, where the first one serves."""
    assert sip_links(built("pod_8sip")) == both([(k, (k + 1) % 8) for k in range(8)], 1, 0)
    rows = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
    columns = both([(k, k + 4) for k in range(4)], 0, 0)
    assert sip_links(built("pod_8sip", *POD_MESH)) == both(rows, 1, 0) | columns
    assert sip_links(built("pod_8sip", *POD_TORUS)) == both([*rows, (3, 0), (7, 4)], 1, 0) | columns
    torus = built("pod_8sip", *POD_TORUS).edge
    assert torus["sip3.io1.io_noc", "sip0.io0.io_noc"].mm == 3 * 150
    assert sip_links(built("single_cube")) == set()


def test_columns_of_a_torus_are_rings_too() -> None:
    """Three rows of two: rows 0-1, 2-3, 4-5; columns 0-2-4 and 1-3-5 with their ends connected, two pitches of 150 mm long."""
    torus = built("two_sips", "system.sips=6", "system.kind=torus", "system.rows=3")
    columns = [(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)]
    assert sip_links(torus) == both([(0, 1), (2, 3), (4, 5)], 1, 0) | both(columns, 0, 0)
    assert torus.edge["sip4.io0.io_noc", "sip0.io0.io_noc"].mm == 300
    assert torus.edge["sip2.io0.io_noc", "sip4.io0.io_noc"].mm == 150
