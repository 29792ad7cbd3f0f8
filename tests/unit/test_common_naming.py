"""Node ids: built and taken apart."""

from __future__ import annotations

import pytest

from kernbench.common import naming
from kernbench.common.naming import NodeName

IDS = {
    "host": NodeName("host", "host"),
    "sip3.io10.pcie_ep": NodeName("pcie_ep", "pcie_ep", 3, io=10),
    "sip0.io0.io_noc": NodeName("io_noc", "io_noc", 0, io=0),
    "sip0.cube15.m_cpu": NodeName("m_cpu", "m_cpu", 0, cube=15),
    "sip0.cube0.hbm_ctrl": NodeName("hbm_ctrl", "hbm_ctrl", 0, cube=0),
    "sip1.cube2.r3c12": NodeName("router", "r3c12", 1, cube=2),
    "sip1.cube2.ucie_w1": NodeName("ucie", "ucie_w1", 1, cube=2),
    "sip0.cube1.pe20.pe_fetch_store": NodeName("pe_fetch_store", "pe_fetch_store", 0, cube=1, pe=20),
}


def test_ids_are_built() -> None:
    assert list(IDS) == [
        naming.HOST,
        naming.in_io(3, 10, naming.PCIE_EP),
        naming.in_io(0, 0, naming.IO_NOC),
        naming.in_cube(0, 15, naming.M_CPU),
        naming.in_cube(0, 0, naming.HBM),
        naming.in_cube(1, 2, naming.router(3, 12)),
        naming.in_cube(1, 2, naming.ucie("w", 1)),
        naming.pe_node(0, 1, 20, naming.PE_FETCH_STORE),
    ]


@pytest.mark.parametrize("node", IDS)
def test_ids_are_taken_apart(node: str) -> None:
    assert naming.parse_node(node) == IDS[node]
    assert IDS[node].kind in naming.KINDS


@pytest.mark.parametrize(
    "text",
    [
        "", "sip0", "sip0.cube0", "sip0.cube0.pe0", "sip0.pcie_ep", "sip0.io0.m_cpu", "sip00.io0.io_cpu", "sip0.cube0.r0",
        "sip0.cube0.ucie_x0", "sip0.cube0.pe_dma", "sip0.cube0.pe0.sram", "sip0.cube0.pe01.pe_dma", "sip0.cube0.pe0.pe_dma ",
        "sip0.cube0.pe0.pe_dma.x", "sip-1.cube0.sram", "host.x", "sip0.cube\u0661.sram",
    ],
)  # fmt: skip
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(ValueError, match="is not a node id like sip0"):
        naming.parse_node(text)


def test_names_inside_a_cube_and_of_chiplets() -> None:
    assert naming.router_place("r3c12") == (3, 12)
    assert naming.io_index("io10") == 10
    for bad in ("r3", "c3r1", "r03c1", "r3c12x"):
        with pytest.raises(ValueError, match=f"{bad} is not a router's name like r0c1"):
            naming.router_place(bad)
    for bad in ("io", "io01", "xio1", "io1 "):
        with pytest.raises(ValueError, match=f"{bad} is not an IO chiplet's name like io0"):
            naming.io_index(bad)
