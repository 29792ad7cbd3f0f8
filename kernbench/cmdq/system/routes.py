"""The memories and routes of transfers, numbered as in the core. Each memory and route gets its number on first use. The
routes of a program's entries are determined before the run. On a whole system, routes of jobs that components submit are
found at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kernbench.cmdq.columns import column
from kernbench.cmdq.lower import cache_table, interleave_of
from kernbench.cmdq.system.nodes import PeCoordinates, SystemNodes
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.components.parts import nodes_along
from kernbench.config.fields import WIDE_LIMIT
from kernbench.noc.machine import RouterMesh, between_routers, cube_meshes, route_tables, segments_of
from kernbench.topology.graph import Edge

#: The placeholder memory of transfers between scratchpads.
BETWEEN = {"first": -1, "channels": 1, "interleave": 1 << 40, "align": 1, "setup": 0}


@dataclass
class Memory:
    """One slice of a stack, or one SRAM, or the placeholder for transfers between scratchpads."""

    node: str
    channels: tuple[str, ...]  #: names of its DRAM channels; empty if only links limit it
    table: dict[str, Any] = field(default_factory=dict)

    @property
    def flows(self) -> int:
        """The largest number of flows of a transfer: one for each channel, and one that goes only over a last-level cache."""
        return max(1, len(self.channels)) + bool(self.table.get("cache", -1) >= 0)


@dataclass(frozen=True)
class Route:
    """The edges of a route, in the direction of the data, and the cycles of the components on the route (`extra`)."""

    edges: tuple[Edge, ...]
    extra: int = 0

    @property
    def latency(self) -> int:
        """[cycle] From a transfer's start until its first byte may move, without the time of the memory."""
        return sum(edge.cycles for edge in self.edges) + self.extra

    def head(self, mesh: RouterMesh[str] | None) -> int:
        """[cycle] The same without links between routers, which the flits cross after the head latency."""
        return self.latency - sum(edge.cycles for edge in self.edges if mesh is not None and between_routers(mesh, edge))

    def links(self, number: Mapping[tuple[str, str], int], mesh: RouterMesh[str] | None) -> tuple[list[int], int]:
        """The resources of its edges, and the number of them of which flows are members; links between routers follow these."""
        limiting = [edge for edge in self.edges if edge.bytes_per_cycle is not None]
        shared = [edge for edge in limiting if mesh is None or not between_routers(mesh, edge)]
        moved = [edge for edge in limiting if mesh is not None and between_routers(mesh, edge)]
        return [number[edge.source, edge.target] for edge in shared + moved], len(shared)


class RouteTable:
    """The memories and routes that a program uses, numbered in the order of their first use."""

    def __init__(self, places: SystemNodes) -> None:
        self.places = places
        self.memories: list[Memory] = []
        self.caches: dict[str, int] = {}  #: last-level caches by name
        self._memory: dict[Any, int] = {}
        self.routes: list[tuple[int, Route]] = []  #: memory and route
        self.mesh = mesh_of_routers(places)
        self.extra: dict[int, int] = {}  #: by the number of a route: cycles of the components on it
        self._route: dict[Any, int] = {}

    def memory_at(self, address: int) -> int:
        """The memory of a DRAM address."""
        places, config = self.places, self.places.config
        node = places.resolver.resolve(address)
        own = {"align": config.pe.dma.alignment_bytes, "setup": places.parts.setup_cycles(node)}
        if places.topology.by_id[node].kind != naming.HBM:
            return self._add(node, Memory(node, (), BETWEEN | own))
        place = places.resolver.slice_of(address)
        first = place.slice * config.slice_channels
        names = tuple(naming.hbm_channel(node, first + k) for k in range(config.slice_channels))
        given = config.cube.hbm.interleave_bytes
        interleave = interleave_of(config.source, "cube.hbm.interleave_bytes", given, len(names), WIDE_LIMIT)
        table = own | {"interleave": interleave, "channels": len(names), "cache": self._cache_at(node)}
        return self._add((node, place.slice), Memory(node, names, table))

    def _cache_at(self, stack: str) -> int:
        """The number of the last-level cache in front of a stack; -1 if the stack has none."""
        if self.places.config.cube.llc is None:
            return -1
        return self.caches.setdefault(naming.cube_cache(stack), len(self.caches))

    def between(self) -> int:
        """The memory of transfers between scratchpads."""
        return self._add("between", Memory("", (), dict(BETWEEN)))

    def _add(self, key: Any, memory: Memory) -> int:
        if key not in self._memory:
            self._memory[key] = len(self.memories)
            self.memories.append(memory)
        return self._memory[key]

    def to_memory(self, dma: str, address: int, write: bool) -> tuple[int, int]:
        """(memory, route) of a transfer of a PE's DMA engine."""
        memory = self.memory_at(address)
        key = (dma, memory, write)
        if key not in self._route:
            self._route_of(key, memory, memory_route(self.places, dma, address, write))
        return memory, self._route[key]

    def to_host(self, endpoint: str, address: int, to_device: bool) -> tuple[int, int]:
        """(memory, route) of a copy between the host and DRAM by an endpoint."""
        memory = self.memory_at(address)
        key = (endpoint, memory, to_device)
        if key not in self._route:
            self._route_of(key, memory, host_route(self.places, endpoint, address, to_device))
        return memory, self._route[key]

    def to_peer(self, source: PeCoordinates, target: PeCoordinates) -> tuple[int, int]:
        """(memory, route) of a tile from one PE's scratchpad to another's."""
        memory = self.between()
        key = (source, target)
        if key not in self._route:
            self._route_of(key, memory, peer_route(self.places, source, target))
        return memory, self._route[key]

    def _route_of(self, key: Any, memory: int, route: Route) -> None:
        self._route[key] = sum(self.memories[m].flows for m, _ in self.routes)
        self.extra[self._route[key]] = route.extra
        self.routes.append((memory, route))

    def add_all_memories(self) -> None:
        """Every slice of every stack, then every SRAM, in the order of their addresses."""
        resolver = self.places.resolver
        hbm, sram, slice_bytes = resolver.map.hbm, resolver.map.sram, resolver.map.slice_bytes
        for stack in range(hbm.count):
            for number in range(self.places.config.slices):
                self.memory_at(hbm.address(stack, number * slice_bytes))
        for window in range(sram.count):
            self.memory_at(sram.address(window, 0))


def mesh_of_routers(places: SystemNodes) -> RouterMesh[str] | None:
    """The routers of all cubes; None if links are fluid."""
    if places.config.cube.mesh.model != "flit":
        return None
    return cube_meshes(places.topology, places.parts.rate)


def memory_route(places: SystemNodes, dma: str, address: int, write: bool) -> Route:
    """The route between a PE's DMA engine, which serves the PE's scratchpad, and the memory that holds `address`."""
    edges = places.router.route(places.router.find_memory_path(dma, address, read=not write)).edges
    pe = places.topology.by_id[dma]
    assert pe.sip is not None and pe.cube is not None and pe.pe is not None
    scratchpad = naming.pe_node(pe.sip, pe.cube, pe.pe, naming.PE_TCM)
    nodes = [scratchpad, *nodes_along(edges)] if write else [*nodes_along(edges), scratchpad]
    return Route(edges, places.parts.cycles("memory", nodes))


def peer_route(places: SystemNodes, source: PeCoordinates, target: PeCoordinates) -> Route:
    """The route from one PE's scratchpad to another's."""
    router = places.router
    edges = router.route(router.find_path(source.part(naming.PE_DMA), target.part(naming.PE_DMA))).edges
    nodes = [source.part(naming.PE_TCM), *nodes_along(edges), target.part(naming.PE_TCM)]
    return Route(edges, places.parts.cycles("peer", nodes))


def host_route(places: SystemNodes, endpoint: str, address: int, to_device: bool) -> Route:
    """The route between the host and the memory of an address, through an endpoint."""
    router, edge = places.router, places.topology.edge
    inside = router.route(router.find_memory_path(endpoint, address, read=not to_device)).edges
    outside = edge[(naming.HOST, endpoint) if to_device else (endpoint, naming.HOST)]
    edges = (outside, *inside) if to_device else (*inside, outside)
    return Route(edges, places.parts.cycles("host", nodes_along(edges)))


def launch_cycles(places: SystemNodes, m_cpu: str) -> int:
    """[cycle] From the host over PCIe and the IO CPU to the M_CPU of a cube, which has then accepted the launch."""
    node = places.topology.by_id[m_cpu]
    assert node.sip is not None
    endpoint, io_cpu = places.resolver.find_pcie_ep(node.sip), places.resolver.find_io_cpu(node.sip)
    hops = ((naming.HOST, endpoint), (endpoint, io_cpu), (io_cpu, m_cpu))
    edges = [edge for hop in hops for edge in places.router.route(places.router.find_node_path(*hop)).edges]
    return sum(edge.cycles for edge in edges) + places.parts.cycles("launch", nodes_along(edges))


@dataclass(frozen=True)
class Resources:
    """The core's resources: the channels of every memory in use, and then the edges in use, in the order of the topology."""

    names: tuple[str, ...]
    capacities: tuple[Fraction, ...]
    channels: int
    first: tuple[int, ...]  #: by memory, the resource of its first channel; -1 without channels
    number: dict[tuple[str, str], int]  #: of the edges, by (source, target)
    tables: dict[str, Any]  #: of the routes
    caches: list[dict[str, Any]]  #: tables of last-level caches, whose resources come last


def resources_of(table: RouteTable, more: Iterable[Edge] = ()) -> Resources:
    """Number the resources and build the routes over them. `more`: further edges that become resources."""
    edges: dict[tuple[str, str], Edge] = {}
    for route in (*(route.edges for _, route in table.routes), more):
        edges.update({(edge.source, edge.target): edge for edge in route if edge.bytes_per_cycle is not None})
    order = table.places.order
    used = sorted(edges, key=lambda pair: (order[pair[0]], order[pair[1]]))
    names: list[str] = []
    first = []
    for memory in table.memories:
        first.append(len(names) if memory.channels else -1)
        names += memory.channels
    channels = len(names)
    number = {pair: channels + k for k, pair in enumerate(used)}
    capacities = _channel_capacities(table) + [table.places.parts.rate(edges[pair]) for pair in used]
    llc, cache = table.places.config.cube.llc, channels + len(used)
    capacities += [llc.bw_bytes_per_cycle for _ in table.caches] if llc is not None else []
    return Resources(
        (*names, *(naming.directed(*pair) for pair in used), *table.caches),
        tuple(capacities),
        channels,
        tuple(first),
        number,
        _route_tables(table, first, number, cache),
        [] if llc is None else [cache_table(llc, cache + k) for k in range(len(table.caches))],
    )


def _channel_capacities(table: RouteTable) -> list[Fraction]:
    """[byte/cycle] of the channels of all memories."""
    rates = [(table.places.parts.channel_rate(memory.node), memory) for memory in table.memories if memory.channels]
    return [rate for rate, memory in rates for _ in memory.channels]


def _route_tables(table: RouteTable, first: Sequence[int], number: dict[tuple[str, str], int], cache: int) -> dict[str, Any]:
    """`cache`: the resource of the first last-level cache."""
    start, path, latency = [0], [], []
    through = []
    for memory, route in table.routes:
        links, shared = route.links(number, table.mesh)
        channels, behind = len(table.memories[memory].channels), table.memories[memory].table.get("cache", -1)
        for channel in range(table.memories[memory].flows):
            path += [first[memory] + channel] if channel < channels else []
            path += [cache + behind] if behind >= 0 else []
            path += links
            start.append(len(path))
            latency.append(route.head(table.mesh))
            if table.mesh is not None:
                through.append((shared + (channel < channels), segments_of(table.mesh, route.edges)))
    tables: dict[str, Any] = {"route_start": column(start), "route_path": column(path), "route_latency": column(latency)}
    if table.mesh is not None:
        tables["network"] = table.mesh.tables(number) | route_tables(through) | {"names": table.mesh.names}
    return tables


#: Adds a route to the core, between a memory and an engine, over links (resources), with a latency [cycle], and through
#: routers; returns its number.
AddRoute = Callable[[int, list[int], int, Any], int]


class RuntimeRoutes:
    """The memory and the route of an address for DMA jobs of components on a whole system; each is computed once.

    PEs, endpoints and M_CPUs are identified by their positions in the topology. Memories are in the order of their addresses:
    every slice of every stack, then every SRAM, and then the placeholder for transfers between scratchpads. Methods raise
    InputError for bytes that are not in one memory.
    """

    def __init__(
        self,
        places: SystemNodes,
        pes: Sequence[PeCoordinates],
        endpoints: Sequence[str],
        links: Mapping[tuple[str, str], int],
        mesh: RouterMesh[str] | None = None,
    ) -> None:
        """`links`: the resources of edges, by (source, target). `mesh`: the routers, if flits move."""
        self.places = places
        self.pes = tuple(pe.name for pe in pes)
        self.endpoints = tuple(endpoints)
        self._pes = tuple(pes)
        self._dma = [pe.part(naming.PE_DMA) for pe in pes]
        self._links = links
        self._mesh = mesh
        self._add: AddRoute | None = None
        self._route: dict[tuple[int, int, bool], int] = {}
        self._host_route: dict[tuple[int, int, bool], int] = {}
        self._peer_route: dict[tuple[int, int], int] = {}
        self._pe_routes: dict[tuple[int, int], Route] = {}
        self._switch_route: dict[tuple[int, tuple[int, ...], bool], int] = {}
        found = places.resolver.map
        self._hbm, self._sram, self._slice_bytes = found.hbm, found.sram, found.slice_bytes
        self._slices = places.config.slices
        self._between = self._hbm.count * self._slices + self._sram.count
        self._align = places.pe.dma.alignment_bytes

    def open(self, add_route: AddRoute) -> None:
        """The core exists: it accepts routes from now on."""
        self._add = add_route

    def memory_of(self, address: int, nbytes: int = 1) -> int:
        """The number of the memory of some bytes, and the alignment of a transfer of them."""
        start, end = address // self._align * self._align, -(-(address + nbytes) // self._align) * self._align
        for region, size, first, parts in (
            (self._hbm, self._slice_bytes, 0, self._slices),
            (self._sram, self._sram.nbytes, self._hbm.count * self._slices, 1),
        ):
            if region.base <= start < region.end:
                window, offset = divmod(start - region.base, region.window)
                part, inside = divmod(offset, size)
                if part < parts and start < end <= start - inside + size:
                    return first + window * parts + part
        problem = next(self.places.memory_problem("address", address, start, end))
        raise InputError(Problem(self.places.config.source, problem.rule, "address", address, problem.remedy))

    def route_to(self, pe: int, address: int, write: bool, nbytes: int = 1) -> tuple[int, int]:
        """(memory, route) of a transfer between a PE's DMA engine and DRAM or SRAM bytes; `write`: to the memory."""
        memory = self.memory_of(address, nbytes)
        key = (pe, memory, write)
        if key not in self._route:
            self._route[key] = self._new(memory, memory_route(self.places, self._dma[pe], address, write))
        return memory, self._route[key]

    def host_route(self, endpoint: int, address: int, to_device: bool, nbytes: int = 1) -> tuple[int, int]:
        """(memory, route) of a copy between the host and DRAM or SRAM bytes, by a PCIe endpoint's DMA engine."""
        memory = self.memory_of(address, nbytes)
        key = (endpoint, memory, to_device)
        if key not in self._host_route:
            route = host_route(self.places, self.endpoints[endpoint], address, to_device)
            self._host_route[key] = self._new(memory, route)
        return memory, self._host_route[key]

    def peer_route(self, source: int, target: int) -> tuple[int, int]:
        """(memory, route) of a transfer from one PE's scratchpad to another's, whichever of the two submits it."""
        key = (source, target)
        if key not in self._peer_route:
            self._peer_route[key] = self._new(self._between, self._route_between(source, target))
        return self._between, self._peer_route[key]

    def switch_route(self, root: int, members: Sequence[int], to_root: bool) -> tuple[int, int]:
        """(memory, route) of a transfer that switches combine on the route from all members to one of them, or copy on the
        route from that member to all others. Each link carries the transfer once. InputError for a machine whose routers move
        flits, and if no switch is on the routes of all members.
        """
        if self._mesh is not None:
            rule = "queues through switches need a mesh without flits"
            raise InputError(Problem(self.places.config.source, rule, "cube.mesh.model"))
        key = (root, tuple(members), to_root)
        if key not in self._switch_route:
            others = [one for one in members if one != root]
            routes = [self._route_between(one, root) if to_root else self._route_between(root, one) for one in others]
            edges = [edge for route in routes for edge in route.edges]
            out = self._route_between(root, others[0]).edges
            common = set.intersection(*({edge.target for edge in route.edges} for route in routes))
            switches = {node for node in common if node.startswith(naming.SWITCH)}
            up = next((k for k, edge in enumerate(out) if edge.target in switches), None)
            if up is None:
                names = ", ".join(self.pes[one] for one in members)
                rule = f"no switch is on the routes between {self.pes[root]} and all other members of {names}"
                remedy = "take members of one node, or on one rail"
                raise InputError(Problem("queues through switches", rule, remedy=remedy))
            if to_root:  # the data of the root itself go up to its switch
                edges += out[: up + 1]
            whole = Route(tuple(dict.fromkeys(edges)))
            links, _ = whole.links(self._links, None)
            assert self._add is not None, "a machine opens it"
            self._switch_route[key] = self._add(self._between, links, max(route.latency for route in routes), None)
        return self._between, self._switch_route[key]

    def peer_cycles(self, source: int, target: int) -> int:
        """The latency from one PE to another."""
        return self._route_between(source, target).latency

    def _route_between(self, source: int, target: int) -> Route:
        """The edges from one PE to another: messages of a queue and the credits of the opposite queue take the same route."""
        route = self._pe_routes.get((source, target))
        if route is None:
            route = self._pe_routes[source, target] = peer_route(self.places, self._pes[source], self._pes[target])
        return route

    def launch_cycles(self, m_cpu: str) -> int:
        """[cycle] From the launch by the host until the M_CPU has accepted it: the duration of its job."""
        return max(1, launch_cycles(self.places, m_cpu))

    def _new(self, memory: int, route: Route) -> int:
        assert self._add is not None, "a machine opens it"
        links, shared = route.links(self._links, self._mesh)
        through = None if self._mesh is None else (shared, segments_of(self._mesh, route.edges))
        return self._add(memory, links, route.head(self._mesh), through)
