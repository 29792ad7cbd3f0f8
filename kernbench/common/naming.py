"""Names: the engines and resources of one NPU (`kernbench/npu/1`), and the node ids of a system (`kernbench/system/1`).

Results, traces, errors and topologies use these names. No other module builds or parses a node id.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache

import msgspec

SPM = "spm"  #: the scratchpad
CONTROL = "control"  #: the executor of the command queue

HOST = "host"
PE_CPU, PE_SCHEDULER, PE_DMA, PE_FETCH_STORE = "pe_cpu", "pe_scheduler", "pe_dma", "pe_fetch_store"
PE_GEMM, PE_MATH, PE_TCM, PE_IPCQ = "pe_gemm", "pe_math", "pe_tcm", "pe_ipcq"
#: The components of a PE, in the order of their nodes.
PE_PARTS = (PE_CPU, PE_SCHEDULER, PE_DMA, PE_FETCH_STORE, PE_GEMM, PE_MATH, PE_TCM, PE_IPCQ)
M_CPU, SRAM, HBM = "m_cpu", "sram", "hbm_ctrl"
IO_NOC, IO_CPU, PCIE_EP = "io_noc", "io_cpu", "pcie_ep"
ROUTER, UCIE, SWITCH = "router", "ucie", "switch"
IO_PARTS = (IO_NOC, IO_CPU, PCIE_EP)
CUBE_PARTS = (M_CPU, SRAM, HBM)
#: Every kind of node that `components` of a system may name.
KINDS = (HOST, SWITCH, *IO_PARTS, *CUBE_PARTS, ROUTER, UCIE, *PE_PARTS)
SIDES = ("n", "e", "s", "w")

_NUMBER = "(?:0|[1-9][0-9]*)"
_PE_PART = rf"pe{_NUMBER}\.(?:{'|'.join(PE_PARTS)})"
_IN_CUBE = "|".join((*CUBE_PARTS, f"r{_NUMBER}c{_NUMBER}", f"ucie_[nesw]{_NUMBER}", _PE_PART))
_IN_IO = "|".join(IO_PARTS)
_NODE = (
    rf"sip(?P<sip>{_NUMBER})\.(?:io(?P<io>{_NUMBER})\.(?P<io_part>{_IN_IO})|cube(?P<cube>{_NUMBER})\.(?P<rest>{_IN_CUBE}))"
)
_PART = rf"(?:pe(?P<pe>{_NUMBER})\.)?(?P<part>.*)"
_ROUTER = rf"r({_NUMBER})c({_NUMBER})"
_PORT = rf"ucie_([nesw])({_NUMBER})"
_IO_NAME = rf"io({_NUMBER})"
_CODEC = rf"dma{_NUMBER}\.codec{_NUMBER}"
_SWITCH = rf"{SWITCH}{_NUMBER}"


def engine(kind: str, index: int) -> str:
    """The name of an engine, `dma0`, `te1` or `ve0`, from its kind and id."""
    return f"{kind}{index}"


def dram_channel(index: int) -> str:
    """The name of the DRAM channel of this number: `dram.ch0`."""
    return f"dram.ch{index}"


#: The resource of the last-level cache of one NPU.
LLC = "llc"


def cube_cache(stack: str) -> str:
    """The name of the last-level cache before an HBM stack: `sip0.cube0.llc`."""
    return f"{stack.rpartition('.')[0]}.{LLC}"


def cache_of(channel: str, names: Container[str]) -> str | None:
    """The last-level cache in front of a DRAM channel, from the names of resources: the cache of the cube, or of the single
    NPU."""
    place = channel.rpartition(".")[0].rpartition(".")[0]
    name = f"{place}.{LLC}" if place else LLC
    return name if name in names else None


def codec(engine: str, index: int) -> str:
    """The resource of a codec of a DMA engine: `dma0.codec1`."""
    return f"{engine}.codec{index}"


def is_link(resource: str) -> bool:
    """Whether a resource other than a DRAM channel is a link, and not a codec of a DMA engine or a last-level cache."""
    return re.fullmatch(_CODEC, resource) is None and resource.rpartition(".")[2] != LLC


def mesh_link(source: tuple[int, int], target: tuple[int, int]) -> str:
    """The name of a directed mesh link between two neighbouring (row, column) positions: `noc.r1c0-r0c0`."""
    return f"noc.r{source[0]}c{source[1]}-r{target[0]}c{target[1]}"


# Systems ----------------------------------------------------------------------------------------------------------


class NodeName(msgspec.Struct, frozen=True):
    """The components of a node id; None for a level that it does not have."""

    kind: str  #: one of `KINDS`
    part: str  #: last component of the id: `pe_dma`, `r0c1`, `ucie_n0`, `host`, `switch0`
    sip: int | None = None
    io: int | None = None
    cube: int | None = None
    pe: int | None = None


def switch(index: int) -> str:
    """The id of a switch between SIPs: `switch0`."""
    return f"{SWITCH}{index}"


def router(row: int, col: int) -> str:
    """The name of a router in its cube: `r0c1`."""
    return f"r{row}c{col}"


def router_place(name: str) -> tuple[int, int]:
    """(row, column) of the name of a router in its cube; ValueError for any other text."""
    match = re.fullmatch(_ROUTER, name)
    if match is None:
        raise ValueError(f"{name} is not a router's name like r0c1")
    return int(match[1]), int(match[2])


def ucie(side: str, index: int) -> str:
    """The name of a UCIe port in its cube, from its side `n`, `e`, `s` or `w`: `ucie_n0`."""
    return f"ucie_{side}{index}"


def pe(index: int) -> str:
    """The name of a PE in its cube: `pe3`."""
    return f"pe{index}"


def pe_part(index: int, part: str) -> str:
    """The name of a component of a PE in its cube: `pe3.pe_dma`."""
    return f"{pe(index)}.{part}"


def io_index(name: str) -> int:
    """The number of an IO chiplet from its name: 0 for `io0`; ValueError for any other text."""
    match = re.fullmatch(_IO_NAME, name)
    if match is None:
        raise ValueError(f"{name} is not an IO chiplet's name like io0")
    return int(match[1])


def in_cube(sip: int, cube: int, name: str) -> str:
    """The id of the node `name` in a cube: `sip0.cube3.m_cpu`, `sip0.cube3.pe1.pe_dma`."""
    return f"sip{sip}.cube{cube}.{name}"


def in_io(sip: int, io: int, part: str) -> str:
    """The id of a component of an IO chiplet: `sip0.io0.pcie_ep`."""
    return f"sip{sip}.io{io}.{part}"


def pe_node(sip: int, cube: int, index: int, part: str) -> str:
    """The id of a component of a PE: `sip0.cube3.pe1.pe_dma`."""
    return in_cube(sip, cube, pe_part(index, part))


def parse_node(node: str) -> NodeName:
    """Parse a node id. ValueError for any other text."""
    if node == HOST:
        return NodeName(HOST, HOST)
    if re.fullmatch(_SWITCH, node):
        return NodeName(SWITCH, node)
    match = re.fullmatch(_NODE, node)
    if match is None:
        raise ValueError(f"{node} is not a node id like sip0.cube3.pe1.pe_dma")
    sip = int(match["sip"])
    if match["io"] is not None:
        return NodeName(match["io_part"], match["io_part"], sip, io=int(match["io"]))
    inner = re.fullmatch(_PART, match["rest"])
    assert inner is not None
    part = inner["part"]
    kind = "router" if re.fullmatch(_ROUTER, part) else "ucie" if part.startswith("ucie_") else part
    pe = None if inner["pe"] is None else int(inner["pe"])
    return NodeName(kind, part, sip, cube=int(match["cube"]), pe=pe)


def place(sip: int, *, io: int | None = None, cube: int | None = None, pe: int | None = None) -> str:
    """The name of a SIP, of an IO chiplet, of a cube or of a PE: `sip0`, `sip0.io0`, `sip0.cube3`, `sip0.cube3.pe1`. No node
    has this id."""
    parts = (("sip", sip), ("io", io), ("cube", cube), ("pe", pe))
    return ".".join(f"{name}{number}" for name, number in parts if number is not None)


def ucie_place(name: str) -> tuple[str, int]:
    """(side, number) of the name of a UCIe port in its cube; ValueError for any other text."""
    match = re.fullmatch(_PORT, name)
    if match is None:
        raise ValueError(f"{name} is not a UCIe port's name like ucie_n0")
    return match[1], int(match[2])


def short(name: str) -> str:
    """The last component of a node id: `pe_dma`, `pe1`, `cube3`."""
    return name.rpartition(".")[2]


_PE = rf"sip(?P<sip>{_NUMBER})\.cube(?P<cube>{_NUMBER})\.pe(?P<pe>{_NUMBER})"


def parse_pe(name: str) -> tuple[int, int, int]:
    """(sip, cube, pe) of a PE's name `sip0.cube3.pe1`; ValueError for any other text."""
    match = re.fullmatch(_PE, name)
    if match is None:
        raise ValueError(f"{name} is not a PE's name like sip0.cube3.pe1")
    return int(match["sip"]), int(match["cube"]), int(match["pe"])


def numbered(name: str, index: int, count: int) -> str:
    """The id of one of `count` engines of a node: the id of the node if the engine is the only one, otherwise the id with a
    number, `[1]`."""
    return name if count == 1 else f"{name}[{index}]"


def directed(source: str, target: str) -> str:
    """The name of a directed edge between two nodes: `sip0.cube0.r0c0-sip0.cube0.r0c1`."""
    return f"{source}-{target}"


def source_of(link: str) -> str:
    """The node at which a directed edge begins."""
    return link.partition("-")[0]


_ROUTER_LINK = rf"(?:.*\.)?r{_NUMBER}c{_NUMBER}-(?:.*\.)?r{_NUMBER}c{_NUMBER}"


def joins_routers(link: str) -> bool:
    """Whether a link connects two routers of a mesh, by its name."""
    return re.fullmatch(_ROUTER_LINK, link) is not None


def hbm_channel(hbm: str, index: int) -> str:
    """The name of a channel of an HBM stack, numbered over all its slices: `sip0.cube0.hbm_ctrl.ch3`."""
    return f"{hbm}.ch{index}"


#: The kinds of nodes that run jobs, with the corresponding engine type of an NPU.
ENGINES = {PE_DMA: "dma", "pcie_ep": "dma", PE_GEMM: "te", PE_MATH: "ve", "m_cpu": "cpu"}


def kind_of_engine(name: str) -> str:
    """The kind of node of an engine of a system: `pe_gemm` for `sip0.cube0.pe3.pe_gemm[1]`."""
    return name.rpartition(".")[2].partition("[")[0]


@lru_cache(1 << 14)
def counted(name: str) -> str:
    """The kind of a counter from its name: dram, noc, llc, dma, te, ve, cpu or spm; any other name is its own kind."""
    if name.startswith("dram.") or ".hbm_ctrl.ch" in name:
        return "dram"
    if name.startswith("noc.") or "-" in name:
        return "noc"
    last = kind_of_engine(name)
    return "spm" if last == PE_TCM else ENGINES.get(last, last.rstrip("0123456789"))


def parent(name: str) -> str:
    """The parent of a track: `sip0.cube0.pe0` for `sip0.cube0.pe0.pe_dma`; empty for one NPU and for links."""
    node, dot, _ = name.rpartition(".")
    return node if dot and name.startswith("sip") and "-" not in name else ""
