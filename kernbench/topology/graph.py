"""A compiled system: nodes with positions, and directed edges between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


class EdgeKind(StrEnum):
    """The kind of a directed edge. Its value is its name in files, tables and pictures."""

    COMMAND = "command"  # between processors and the components that they command; no data
    # between the components of a PE; without a bandwidth, because the scratchpad's banks limit the traffic
    PE_INTERNAL = "pe_internal"
    PE_ROUTER = "pe_router"  # a PE's DMA engine and its router
    MESH = "mesh"  # two routers of a cube
    HBM = "hbm"  # the HBM controller and the router of a slice
    SRAM = "sram"  # the shared SRAM and its router
    M_CPU = "m_cpu"  # the management processor and its router
    UCIE_PORT = "ucie_port"  # a UCIe port and its router
    UCIE = "ucie"  # ports of two neighbouring cubes
    UCIE_IO = "ucie_io"  # a cube's port and an IO chiplet
    IO_INTERNAL = "io_internal"  # components of an IO chiplet
    SIP = "sip"  # IO chiplets of two SIPs, or of one SIP and a switch; two switches
    PCIE = "pcie"  # the host and a PCIe endpoint


#: Edges that carry no data.
WITHOUT_COMMAND = frozenset({EdgeKind.COMMAND})
#: Edges that a copy by an M_CPU does not use, because such a copy enters no PE.
WITHOUT_PES = WITHOUT_COMMAND | {EdgeKind.PE_INTERNAL, EdgeKind.PE_ROUTER}
#: Edges that leave the cube.
WITHOUT_UCIE = WITHOUT_COMMAND | {EdgeKind.UCIE_PORT, EdgeKind.UCIE, EdgeKind.UCIE_IO}


class Node(msgspec.Struct, frozen=True):
    """A component of the system."""

    id: str  #: made by `common/naming.py`
    kind: str  #: the component: `pe_dma`, `router`, `ucie`, `hbm_ctrl`, ...
    sip: int | None  #: None: the host and switches between SIPs
    cube: int | None
    pe: int | None
    x_mm: Fraction  #: of the SIP's plane, from its west edge
    y_mm: Fraction  #: from its north edge


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction of a connection."""

    source: str  #: node id
    target: str
    kind: EdgeKind
    mm: Fraction  #: length
    cycles: int  #: latency: a constant and the distance
    bytes_per_cycle: Fraction | None  #: None if it has no limit and is not a resource of the core
    weight: Fraction  #: weight for `find_path`, if it is not the distance
    slices: tuple[int, ...] = ()  #: slices of an HBM edge


@dataclass(frozen=True)
class Topology:
    """All nodes and edges, in the order of their creation: by SIP, cube and PE."""

    config: SystemConfig
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @cached_property
    def by_id(self) -> dict[str, Node]:
        """Nodes by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def edge(self) -> dict[tuple[str, str], Edge]:
        """Edges by (source, target)."""
        return {(edge.source, edge.target): edge for edge in self.edges}

    def under(self, config: SystemConfig) -> Topology:
        """A topology with the nodes and edges of another machine, for which all values that determine nodes and edges are
        equal."""
        other = replace(self, config=config)
        vars(other).update(by_id=self.by_id, edge=self.edge)
        return other


class Graph(StrEnum):
    """The edges that a path may use."""

    ALL = "all"
    DATA = "data"
    MCPU = "mcpu"
    LOCAL = "local"


class Measure(StrEnum):
    """The measure of a path's length."""

    WEIGHT = "weight"
    DISTANCE = "distance"


#: The kinds of edges that each graph excludes.
LEFT_OUT: dict[Graph, frozenset[EdgeKind]] = {
    Graph.ALL: frozenset(),
    Graph.DATA: WITHOUT_COMMAND,
    Graph.MCPU: WITHOUT_PES,
    Graph.LOCAL: WITHOUT_UCIE,
}
