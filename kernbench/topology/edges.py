"""The kinds of edges of a topology: a closed catalogue, and which of them each adjacency graph leaves out."""

from __future__ import annotations

from enum import StrEnum


class EdgeKind(StrEnum):
    """What a directed edge is. Its value is its name in files, tables and pictures."""

    COMMAND = "command"  # between processors and what they command; no data
    PE_INTERNAL = "pe_internal"  # between the parts of a PE; the scratchpad's banks judge, so without a bandwidth
    PE_ROUTER = "pe_router"  # a PE's DMA engine and its router
    MESH = "mesh"  # two routers of a cube
    HBM = "hbm"  # the HBM controller and the router of a slice
    SRAM = "sram"  # the shared SRAM and its router
    M_CPU = "m_cpu"  # the management processor and its router
    UCIE_PORT = "ucie_port"  # a UCIe port and its router
    UCIE = "ucie"  # ports of two neighbouring cubes
    UCIE_IO = "ucie_io"  # a cube's port and an IO chiplet
    IO_INTERNAL = "io_internal"  # the parts of an IO chiplet
    SIP = "sip"  # IO chiplets of two SIPs
    PCIE = "pcie"  # the host and a PCIe endpoint


#: Edges that carry no data.
WITHOUT_COMMAND = frozenset({EdgeKind.COMMAND})
#: What a copy by an M_CPU does not use: it enters no PE.
WITHOUT_PES = WITHOUT_COMMAND | {EdgeKind.PE_INTERNAL, EdgeKind.PE_ROUTER}
#: What leaves the cube.
WITHOUT_UCIE = WITHOUT_COMMAND | {EdgeKind.UCIE_PORT, EdgeKind.UCIE, EdgeKind.UCIE_IO}
