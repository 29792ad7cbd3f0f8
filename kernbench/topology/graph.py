"""A compiled system: nodes at places, and directed edges between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from kernbench.topology.edges import EdgeKind

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


@dataclass(frozen=True, slots=True)
class Node:
    """A component of the system."""

    id: str  #: made by `common/naming.py`
    kind: str  #: the component: `pe_dma`, `router`, `ucie`, `hbm_ctrl`, ...
    sip: int | None  #: None: the host
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
    cycles: int  #: latency: fixed part and distance
    bytes_per_cycle: Fraction | None  #: None: it limits nothing, and is no resource of the core
    weight: Fraction  #: what `find_path` adds up, where it does not go by distance
    slices: tuple[int, ...] = ()  #: HBM edges: the slices behind it


@dataclass(frozen=True)
class Topology:
    """Every node and edge, in the order of their making: SIP by SIP, cube by cube, PE by PE."""

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
        """The same nodes and edges as those of another machine, which it does not differ from in what decides them."""
        other = replace(self, config=config)
        vars(other).update(by_id=self.by_id, edge=self.edge)
        return other
