"""Routes of the presets, added up by hand.

A router adds 2 cycles to each edge that enters it; wires of a SIP are 10 mm a cycle, of the board 150 mm a cycle, each
edge rounded up. Cubes are 20 mm wide, routers stand at 2.5, 7.5, 12.5 and 17.5 mm.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.policy.routing import PathRouter
from kernbench.topology.builder import build_topology

ROUTES = {
    # 0 + 2; from (2.5, 2.5) to the footprint, whose corner is at (4.5, 4.5): 4 mm, 1.
    ("single_cube", "sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl"): (
        ["pe0.pe_dma", "r0c0", "hbm_ctrl"],
        (Fraction(4), 3, 128),
    ),
    # Into the mesh 2; 5 mm 3; 15 mm over the HBM 4; 5 mm 3; to the port 5 mm 1; UCIe 4 + 1; 5 mm 3; 15 mm 4; 5 mm 3; out 0.
    ("sip_4x4", "sip0.cube5.pe0.pe_dma", "sip0.cube6.pe7.pe_dma"): (
        ["pe0.pe_dma", "r0c0", "r1c0", "r1c3", "r2c3", "ucie_e1", "ucie_w1", "r2c0", "r2c3", "r3c3", "pe7.pe_dma"],
        (Fraction(56), 28, 128),
    ),
    # Both cubes are at the west, where an IO chiplet has a port to each: 19 cycles over its network. But chiplets are ways out
    # of a SIP, not from cube to cube (ADR 20), so it goes down the column: 5 mm 3, 3; 15 mm 4; out 1; UCIe 5; in 3; 15 mm 4;
    # out 1; UCIe 5; in 3; 5 mm 3; 15 mm 4; 5 mm 3; out 1; UCIe 5; in 3.
    ("sip_4x4", "sip0.cube0.r0c0", "sip0.cube12.r0c0"): (
        ["r0c0", "r0c1", "r0c2", "r3c2", "ucie_s1", "ucie_n1", "r0c2", "r3c2", "ucie_s1", "ucie_n1", "r0c2", "r0c1", "r3c1",
         "r3c0", "ucie_s0", "ucie_n0", "r0c0"],
        (Fraction(98), 51, 128),
    ),
    # PCIe 150 + 2; 2 mm in the chiplet 2 + 1; UCIe 18.5 mm 4 + 2; 5 mm 3; 5 mm 3; into the PE 0 and 0.
    ("two_sips", "host", "sip1.cube3.pe7.pe_tcm"): (
        ["host", "pcie_ep", "io_noc", "ucie_e1", "r2c3", "r3c3", "pe7.pe_dma", "pe7.pe_tcm"],
        (Fraction("330.5"), 167, 63),
    ),
    # As to the neighbour, 2 + 3 + 4 + 3 + 1 + 5 + 3 + 4, and out by the other port 1: 26. UCIe 8.5 mm 4 + 1; 150 mm between
    # the SIPs 200 + 1; UCIe 18.5 mm 4 + 2; 5 mm 3; 4 mm 1. Lengths: 56 + 8.5 + 150 + 18.5 + 5 + 4.
    ("two_sips", "sip0.cube0.pe0.pe_dma", "sip1.cube0.hbm_ctrl"): (
        ["pe0.pe_dma", "r0c0", "r1c0", "r1c3", "r2c3", "ucie_e1", "ucie_w1", "r2c0", "r2c3", "ucie_e1", "io_noc", "io_noc",
         "ucie_w0", "r0c0", "hbm_ctrl"],
        (Fraction(242), 242, 100),
    ),
}  # fmt: skip


@pytest.mark.parametrize("asked", ROUTES, ids=" ".join)
def test_routes_of_the_presets(asked: tuple[str, str, str]) -> None:
    name, source, target = asked
    router = PathRouter(build_topology(load_config(name, kind=SystemConfig)))
    path, (mm, cycles, rate) = ROUTES[asked]
    route = router.route(router.find_path(source, target))
    assert [node.split(".", 2)[-1] for node in route.nodes] == path
    assert (route.mm, route.cycles) == (mm, cycles)
    assert route.bottleneck is not None and route.bottleneck.bytes_per_cycle == rate
    # What `find_path` adds up is the latency and one for each hop.
    assert route.weight == cycles + len(path) - 1
