"""Routes of data and commands: shortest paths over the four adjacency graphs, and paths with their edges.

The user can give each end of a route as a node, as a PE (its DMA engine), or as an address (its memory).
"""

from __future__ import annotations

import re
from collections import deque
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.config.system.dimensions import DIMENSIONS
from kernbench.policy.routing.dimension_order import DimensionOrder
from kernbench.policy.routing.resolver import AddressResolver, HbmLocation, VirtualMap
from kernbench.policy.routing.search import Adjacency, Search
from kernbench.topology.builder import assemble, check_components
from kernbench.topology.graph import LEFT_OUT, Edge, Graph, Measure, Node, Topology
from kernbench.topology.mesh_gen import CubeMesh, mesh_of

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


class Route(msgspec.Struct, frozen=True, dict=True):
    """A path: its nodes from source to target, and the edges between them."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def along(cls, topology: Topology, path: tuple[str, ...]) -> Route:
        """The route along a path of nodes of `topology`. KeyError for an edge that does not exist."""
        return cls(path, tuple(topology.edge[pair] for pair in pairwise(path)))

    @cached_property
    def mm(self) -> Fraction:
        """Its length."""
        return sum((edge.mm for edge in self.edges), Fraction(0))

    @cached_property
    def cycles(self) -> int:
        """The sum of its edges' latencies."""
        return sum(edge.cycles for edge in self.edges)

    @cached_property
    def weight(self) -> Fraction:
        """The sum of its edges' routing weights."""
        return sum((edge.weight for edge in self.edges), Fraction(0))

    @cached_property
    def bottleneck(self) -> Edge | None:
        """The edge with the least bandwidth, and of equal edges the first; None if no edge has a limit."""
        limiting = [edge for edge in self.edges if edge.bytes_per_cycle is not None]
        return min(limiting, key=lambda edge: edge.bytes_per_cycle or Fraction(0), default=None)


Path = tuple[str, ...]  #: node ids from source to target, including both


class NoPath(InputError):
    """There is no path between two nodes in this graph."""


class PathRouter:
    """The paths of one topology; each is computed once.

    A path enters IO chiplets from cubes as few times as possible. Among such paths, the path is the shortest `by` weight or
    distance. Ties are broken by the other measure, then by the number of hops, and then by node names, compared one by one from
    the source on. A path is therefore unique and does not depend on the order of nodes and edges. A path and the path back have
    the same length. Names are compared as text.

    Every method raises InputError for an unknown node, and NoPath if there is no path.
    """

    def __init__(
        self, topology: Topology, resolver: AddressResolver | None = None, *, like: PathRouter | None = None
    ) -> None:
        """`like`: the router of a topology with the same nodes and edges; its paths are reused."""
        self.topology = topology
        self._resolver = resolver
        self._searches: dict[tuple[Graph, Measure], Search | DimensionOrder] = {} if like is None else like._searches
        self._ports: dict[tuple[str, int, bool], list[str]] = {} if like is None else like._ports

    @property
    def resolver(self) -> AddressResolver:
        """The resolver of the addresses in `find_memory_path`."""
        if self._resolver is None:
            self._resolver = AddressResolver(self.topology)
        return self._resolver

    def find_path(self, source: str, target: str, *, by: Measure = Measure.WEIGHT) -> Path:
        """The path of data: over all edges except command edges."""
        return self.find(source, target, Graph.DATA, by)

    def find_path_with_distance(self, source: str, target: str, *, by: Measure = Measure.WEIGHT) -> tuple[Path, Fraction]:
        """The path of data, and its length in millimetres."""
        path = self.find_path(source, target, by=by)
        return path, self.route(path).mm

    def find_mcpu_dma_path(self, source: str, target: str, *, by: Measure = Measure.WEIGHT) -> Path:
        """The path of a copy by an M_CPU; the path enters no PE."""
        return self.find(source, target, Graph.MCPU, by)

    def find_node_path(self, source: str, target: str, *, by: Measure = Measure.WEIGHT) -> Path:
        """The path over all edges, including command edges."""
        return self.find(source, target, Graph.ALL, by)

    def find_local_path(self, source: str, target: str, *, by: Measure = Measure.WEIGHT) -> Path:
        """The path of data that does not leave the cube."""
        return self.find(source, target, Graph.LOCAL, by)

    def find_memory_path(self, source: str, address: int, *, by: Measure = Measure.WEIGHT, read: bool = False,
                         through: VirtualMap | None = None, graph: Graph | None = None) -> Path:  # fmt: skip
        """The path from a node to the memory of an address; with `read`, the path from the memory to the node.

        A path enters and leaves HBM at a router to which the slice of the address is attached. Without `graph`, the path is a
        path of data, and a path to memory of the node's own cube stays in this cube.
        """
        memory, place = self.resolver.locate(address, through=through)
        graph = graph or self._graph_between(source, memory)
        if place is not None:
            return self._hbm_path(source, memory, place, graph, by, read)
        return self.find(memory, source, graph, by) if read else self.find(source, memory, graph, by)

    def memory_graph(self, source: str, address: int) -> Graph:
        """The graph for data between a node and the memory of an address."""
        return self._graph_between(source, self.resolver.resolve(address))

    def find(self, source: str, target: str, graph: Graph, by: Measure) -> Path:
        """The shortest path in any of the four graphs."""
        path = None
        try:
            path = self._search(graph, by).path(source, target)
        except KeyError:
            self._check(source)
            self._check(target)
        if path is None:
            raise self._no_path(source, target, graph)
        return path

    def route(self, path: Path) -> Route:
        """A path with its edges and their sums."""
        return Route.along(self.topology, path)

    def _search(self, graph: Graph, by: Measure) -> Search | DimensionOrder:
        if (graph, by) not in self._searches:
            found = Search(Adjacency(self.topology, graph, by))
            ordered = self.topology.config.system.kind == DIMENSIONS and self.topology.config.sip.io
            self._searches[graph, by] = DimensionOrder(self.topology, found) if ordered else found
        return self._searches[graph, by]

    def _graph_between(self, source: str, memory: str) -> Graph:
        here, there = self._check(source), self.topology.by_id[memory]
        return Graph.LOCAL if (here.sip, here.cube) == (there.sip, there.cube) else Graph.DATA

    def _hbm_path(self, source: str, memory: str, place: HbmLocation, graph: Graph, by: Measure, read: bool) -> Path:
        """The best path over the routers to which the slice is attached; usually there is one router."""
        if source == memory:
            return (memory,)
        found = []
        for router in self._routers_of(memory, place.slice, read):
            path = self._search(graph, by).path(router, source) if read else self._search(graph, by).path(source, router)
            if path is not None:
                found.append((memory, *path) if read else (*path, memory))
        if not found:
            raise self._no_path(*((memory, source) if read else (source, memory)), graph)
        return found[0] if len(found) == 1 else min(found, key=lambda path: self._length(path, by))

    def _length(self, path: Path, by: Measure) -> tuple[Fraction, Fraction, int, Path]:
        route = self.route(path)
        both = (route.weight, route.mm) if by is Measure.WEIGHT else (route.mm, route.weight)
        return (*both, len(path), path)

    def _routers_of(self, memory: str, number: int, read: bool) -> list[str]:
        """The nodes at which a slice of a stack is read or written."""
        if not self._ports:
            ports: dict[tuple[str, int, bool], list[str]] = {}
            for edge in self.topology.edges:
                for one in edge.slices:
                    ports.setdefault((edge.target, one, False), []).append(edge.source)
                    ports.setdefault((edge.source, one, True), []).append(edge.target)
            self._ports.update(ports)
        return self._ports.get((memory, number, read), [])

    def _check(self, name: str) -> Node:
        node = self.topology.by_id.get(name)
        if node is None:
            how = "nodes are called as in sip0.cube0.pe0; to see the parts of a system, use kbsim topology show"
            remedy = meant(name, self.topology.by_id) or how
            raise InputError(Problem(self.topology.config.source, f"there is no node {name}", remedy=remedy))
        return node

    def _no_path(self, source: str, target: str, graph: Graph) -> NoPath:
        left_out = ", ".join(sorted(LEFT_OUT[graph])) or "nothing"
        where = f"{self.topology.config.source}: {source} to {target}"
        return NoPath(Problem(where, f"there is no path in the graph {graph}, which leaves out {left_out}"))


MAX_KEPT = 4  #: a sweep seldom changes more from one point to the next; a system of 1,024 PEs takes about 20 MB

Sections = tuple[Any, ...]


class _Known(msgspec.Struct, frozen=True):
    sections: Sections
    mesh: CubeMesh
    router: PathRouter


_known: deque[_Known] = deque(maxlen=MAX_KEPT)
_lock = Lock()


def topology_and_router(config: SystemConfig) -> tuple[Topology, PathRouter]:
    """The graph of a system and its router; earlier results are reused. InputError for a system that cannot be built."""
    check_components(config)
    mesh, sections = mesh_of(config), _sections(config)
    with _lock:
        found = next((one for one in _known if one.sections == sections and one.mesh == mesh), None)
    if found is not None:
        topology = found.router.topology.under(config)
        return topology, PathRouter(topology, like=found.router)
    topology = assemble(config, mesh)
    router = PathRouter(topology)
    with _lock:
        _known.append(_Known(sections, mesh, router))
    return topology, router


def _sections(config: SystemConfig) -> Sections:
    """The parts of the configuration that determine nodes and edges."""
    return config.system, config.sip, config.cube, config.io, config.wires, config.pe.link


_ADDRESS = re.compile(r"0[xX][0-9a-fA-F_]+|[0-9][0-9_]*")


class End(msgspec.Struct, frozen=True):
    """One end of a route."""

    node: str
    address: int | None = None
    meaning: str = ""  #: the memory and the byte of an address


class Found(msgspec.Struct, frozen=True):
    """A path between two ends, with the ends as the user named them."""

    path: Path
    graph: Graph  #: the graph that was searched; for an address of the own cube, `local`
    meanings: tuple[str, ...]


def end_of(router: PathRouter, text: str) -> End:
    """The node of a name or address. InputError for an address that is in no memory; other names are treated as nodes."""
    if _ADDRESS.fullmatch(text):
        address = int(text, 0) if text[:2].lower() == "0x" else int(text)
        node, place = router.resolver.locate(address)
        inside = f"byte {address - router.resolver.base(node):,}"
        if place is not None:
            inside = f"byte {place.offset:,} of slice {place.slice}"
        return End(node, address, f"{text} is {inside} of {node}")
    try:
        return End(naming.pe_node(*naming.parse_pe(text), naming.PE_DMA))
    except ValueError:
        return End(text)


def find_between(
    router: PathRouter, source: str, target: str, graph: Graph = Graph.DATA, by: Measure = Measure.WEIGHT
) -> Found:
    """The path between two ends. A path enters and leaves HBM at a router to which the slice of the address is attached.

    InputError for an unknown node, for two addresses, and if there is no path.
    """
    ends = end_of(router, source), end_of(router, target)
    meanings = tuple(end.meaning for end in ends if end.meaning)
    here, there = ends
    if here.address is not None and there.address is not None:
        rule = "both ends are addresses, and bytes of a memory go to a node or come from one"
        raise InputError(Problem("route", rule, remedy="name the PE, M_CPU or endpoint that moves them"))
    if here.address is None and there.address is None:
        return Found(router.find(here.node, there.node, graph, by), graph, meanings)
    node, address = (here.node, there.address) if here.address is None else (there.node, here.address)
    assert address is not None
    searched = router.memory_graph(node, address) if graph is Graph.DATA else graph
    read = here.address is not None
    return Found(router.find_memory_path(node, address, by=by, read=read, graph=searched), searched, meanings)
