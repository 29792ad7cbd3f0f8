"""The routes between the ranks of a group for estimates: their latencies, and the links between SIPs that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from heapq import heappop, heappush
from math import ceil
from typing import Any

import msgspec

from kernbench.ccl import dimension_routes
from kernbench.ccl.dimension_routes import DimensionCost
from kernbench.ccl.group import Group, cubes_of
from kernbench.common import naming
from kernbench.config import SystemConfig
from kernbench.config.system.links import WITH_SWITCHES, dragonfly_pairs, rail_of
from kernbench.policy.routing.router import PathRouter, topology_and_router
from kernbench.topology.graph import Edge

Link = tuple[Any, ...]  #: its two ends


class SipRoute(msgspec.Struct, frozen=True):
    """The route of a machine from one SIP to another."""

    cycles: int  #: beyond those to a neighbour in a cube
    links: tuple[tuple[Link, float], ...]  #: between SIPs and switches, and their cycles of a byte, in `system.link`'s
    ports: tuple[tuple[Link, float], ...] = ()  #: the same of links between a cube and an IO chiplet


@dataclass(frozen=True)
class Latencies:
    """The latencies [cycle] of three routes: between PEs of a cube, between neighbouring cubes, and between neighbouring SIPs.
    """

    pe: int
    cube: int
    sip: int
    link: float  #: [B/cycle] of the link of a PE
    far_link: float = 0.0  #: [B/cycle] of a link between SIPs; 0 without any
    network: str = "ring"  #: `system.kind`
    rows: int = 1  #: of SIPs
    at_once: int = 4  #: messages of a PE that are on their way at a time
    cols: int = 0  #: SIPs in a row, if a row is a node, a leaf or a group of several; else 0
    row: int = 0  #: between SIPs of two rows: over a rail, a core switch, or the link of two groups
    hop: int = 0  #: of the links between two SIPs of a row alone
    rail_slower: int = 1  #: how much longer a byte takes on the link of a NIC than on a link between SIPs, rounded up
    rails: tuple[int, ...] = ()  #: of each column of SIPs
    uplink_slower: float = 0.0  #: the time of a byte on the uplink of a leaf, relative to a link between SIPs
    sides: tuple[str, ...] = ()  #: of a dragonfly: the sides of the IO chiplets of a SIP, the first one for other sides
    dimensions: tuple[DimensionCost, ...] = ()  #: of SIPs in dimensions
    sip_routes: Mapping[tuple[int, int], SipRoute] = field(
        default_factory=dict
    )  #: by pair of SIPs; empty for a machine with very many

    @property
    def shared(self) -> float:
        """The cycles of a byte on a link between SIPs, divided by the cycles of a byte on the link of a PE."""
        return self.link / self.far_link if self.far_link else 0.0

    @property
    def in_flight(self) -> float:
        """[B] The bandwidth of a link between SIPs, multiplied by twice the latency."""
        return 2 * self.sip * self.far_link


RankPosition = tuple[int, int, int]  #: the SIP of a rank, and the row and the column of its cube
Port = tuple[int, str]  #: an IO chiplet: its SIP and its side
OPPOSITE = {"n": "s", "s": "n", "e": "w", "w": "e"}


@dataclass(frozen=True)
class Routes:
    """The routes between the ranks of a group."""

    times: Latencies
    places: Sequence[RankPosition]  #: by rank
    sips: int  #: of the machine, or of a group that no machine has
    _found: dict[int, Mapping[int, list[tuple[Link, float]]]] = field(default_factory=dict, init=False, compare=False)

    def between(self, a: int, b: int) -> int:
        """Return the latency [cycle] from one rank to another. A route over n cubes or SIPs takes n times the latency of one.
        """
        (s, row, col), (t, end, last) = self.places[a], self.places[b]
        if s != t and self.measured:
            return self.times.pe + self.times.sip_routes[s, t].cycles
        if s != t and self._rows_apart(s, t):
            return self.times.pe + self.times.row + self.times.hop * self._detours(s, t)
        if s != t and self._dimensions:
            inside = self.times.sip - dimension_routes.latency(self._dimensions, 0, 1)  # from a PE out of its SIP, and in
            return self.times.pe + inside + dimension_routes.latency(self._dimensions, s, t)
        if s != t:
            return self.times.pe + self.times.sip * self._hops(s, t)
        return self.times.pe + self.times.cube * (abs(row - end) + abs(col - last))

    @cached_property
    def _dimensions(self) -> Sequence[DimensionCost]:
        return dimension_routes.longer(self.times.dimensions, self.sips) if self.times.dimensions else ()

    def _rows_apart(self, a: int, b: int) -> bool:
        """Return whether two SIPs are in different rows, and a row is a node, a leaf or a group."""
        cols = self.times.cols
        return cols > 0 and a // cols != b // cols

    @cached_property
    def _onward(self) -> Mapping[Port, Sequence[tuple[Port, int]]]:
        """Return the links of a dragonfly from each IO chiplet, with their latencies [cycle]."""
        times = self.times
        found: dict[Port, list[tuple[Port, int]]] = {}
        for one in dragonfly_pairs(self.sips // times.cols, times.cols):
            near, far = (one.side, one.first), (OPPOSITE[one.side], one.second)
            ends = [(sip, side if side in times.sides else times.sides[0]) for side, sip in (near, far)]
            for here, there in (ends, ends[::-1]):
                found.setdefault(here, []).append((there, times.sip if one.side == "e" else times.row))
        return found

    def _searched(self, a: int) -> Mapping[int, list[tuple[Link, float]]]:
        """Return the links from a SIP of a dragonfly to all other SIPs: first of all through few cubes, then fast."""
        if a in self._found:
            return self._found[a]
        links: dict[int, list[tuple[Link, float]]] = {}
        heap: list[tuple[int, int, int, Port, Port | None]] = [(0, 0, 0, (a, side), None) for side in self.times.sides]
        via: dict[Port, Port | None] = {}
        while heap:
            through, cycles, hops, port, before = heappop(heap)
            if port in via:
                continue
            via[port] = before
            if port[0] not in links:
                links[port[0]] = [] if before is None or before[0] == port[0] else self._back(via, port)
            for side in self.times.sides:
                heappush(heap, (through + 1, cycles, hops, (port[0], side), port))
            for there, latency in self._onward.get(port, ()):
                heappush(heap, (through, cycles + latency, hops + 1, there, port))
        return self._found.setdefault(a, links)

    @staticmethod
    def _back(via: Mapping[Port, Port | None], port: Port) -> list[tuple[Link, float]]:
        found: list[tuple[Link, float]] = []
        before = via[port]
        while before is not None:
            if before[0] != port[0]:
                found.insert(0, ((before[0], port[0]), 1.0))
            port, before = before, via[before]
        return found

    def _rail(self, sip: int) -> int:
        return self.times.rails[sip % len(self.times.rails)]

    def _detours(self, a: int, b: int) -> int:
        """Return the number of hops inside rows on the route between SIPs of two rows."""
        if self.times.network == "rails":
            return int(self._rail(a) != self._rail(b))
        return len(self._through_groups(a, b)) - 1 if self.times.network == "dragonfly" else 0

    def _through_groups(self, a: int, b: int) -> list[tuple[Link, float]]:
        """Return the links between SIPs of two groups of a dragonfly: at most one inside each group, and the link of the groups
        between them.

        With several IO chiplets, routes take more links rather than pass through cubes.
        """
        if len(self.times.sides) > 1 and self.sips <= SEARCHED_SIPS:
            return self._searched(a)[b]
        cols = self.times.cols
        here, there = a // cols, b // cols
        near = here * cols + (there - (there > here)) % cols
        far = there * cols + (here - (here > there)) % cols
        return [((one, other), 1.0) for one, other in ((a, near), (near, far), (far, b)) if one != other]

    def _hops(self, a: int, b: int) -> int:
        if self.times.network not in GRIDS:
            return 1
        cols = self.sips // self._rows
        found = 0
        for size, far in ((cols, abs(a % cols - b % cols)), (self._rows, abs(a // cols - b // cols))):
            found += far if self.times.network == "mesh" else min(far, size - far)
        return found

    @property
    def _rows(self) -> int:
        """The number of rows in the grid of SIPs. A ring counts as a torus with one row."""
        return self.times.rows if self.times.network != "ring" and self.sips % self.times.rows == 0 else 1

    @cached_property
    def measured(self) -> bool:
        """Whether the routes between all SIPs of the group are known."""
        sips = {sip for sip, *_ in self.places}
        return bool(self.times.sip_routes) and all((a, b) in self.times.sip_routes for a in sips for b in sips if a != b)

    def links(self, a: int, b: int) -> Sequence[tuple[Link, float]]:
        """Return the links on the route between two SIPs, with the time of a byte on each, relative to `system.link`.

        If the routes are not measured, a switch has the number -1.
        """
        if self.measured:
            return self.times.sip_routes[a, b].links
        if self._dimensions:
            return list(dimension_routes.links(self._dimensions, a, b))
        if self._rows_apart(a, b) and self.times.network == "dragonfly":
            return self._through_groups(a, b)
        if self._rows_apart(a, b) and self.times.network == "fat_tree":
            leaves = (("leaf", a // self.times.cols, "up"), ("leaf", b // self.times.cols, "down"))
            return ((a, -1), 1.0), *((leaf, self.times.uplink_slower) for leaf in leaves), ((-1, b), 1.0)
        if self._rows_apart(a, b):
            cols, here, there = len(self.times.rails), self._rail(a), self._rail(b)
            nics = ((-2 - there, a // cols, 0), (-2 - there, b // cols, 1))  # on the rail of the receiver
            return [*((nic, float(self.times.rail_slower)) for nic in nics), *(() if here == there else (((a, -1), 1.0),))]
        if self.times.network in WITH_SWITCHES:
            return ((a, -1), 1.0), ((-1, b), 1.0)
        if self.times.network not in GRIDS:
            return (((a, b), 1.0),)
        return [(one, 1.0) for one in _links(self._rows, self.sips // self._rows, self.times.network != "mesh", a, b)]

    def shared_links(self, a: int, b: int) -> Sequence[tuple[Link, float]]:
        """Return all links on the route between two SIPs that the ranks of a SIP share: those outside SIPs, and the ports of
        both SIPs, if the routes are measured. Messages to several SIPs use several links, but the same port.
        """
        return (*self.links(a, b), *self.times.sip_routes[a, b].ports) if self.measured else self.links(a, b)

    def switch_links(self, root: int, members: Sequence[int], to_root: bool) -> dict[Link, float]:
        """Return the links that a message through switches uses, each once, in the form of `links`."""
        own = self.places[root][0]
        sips = {self.places[rank][0] for rank in members} - {own}
        found = {link: slower for sip in sips for link, slower in (self.links(sip, own) if to_root else self.links(own, sip))}
        if to_root and sips:  # the root's own message goes to its first switch
            found |= dict(self.links(own, min(sips))[:1])
        return found

    def loads(self, hops: Iterable[tuple[int, int]], *others: tuple[Iterable[tuple[int, int]], float]) -> float:
        """Return how many of these hops the busiest link between SIPs, or the busiest port, carries. A hop over a slower link
        counts as more than one. `others` are further hops at the same time, each with a factor for its bytes.
        """
        sip_routes: dict[tuple[int, int], float] = {}
        for some, factor in ((hops, 1.0), *others):
            for (a, b), many in Counter((self.places[a][0], self.places[b][0]) for a, b in some).items():
                sip_routes[a, b] = sip_routes.get((a, b), 0.0) + factor * many
        if self.sips > FEW_SIPS and self.times.network in GRIDS:
            return self._even_loads(sip_routes)
        found: dict[Link, float] = {}
        for (a, b), much in sip_routes.items():
            if a != b:
                for link, slower in self.shared_links(a, b):
                    found[link] = found.get(link, 0.0) + much * slower
        return max(found.values(), default=0.0)

    def _even_loads(self, sip_routes: Mapping[tuple[int, int], float]) -> float:
        """Return the same for a grid of very many SIPs, assuming that all of their links carry about the same load.

        Each SIP then has two links each way on a grid of several rows, and one on a ring.
        """
        most = max((many for (a, b), many in sip_routes.items() if a != b), default=0.0)
        far = sum(many * self._hops(a, b) for (a, b), many in sip_routes.items() if a != b)
        return max(most, ceil(far / (self.sips * (2 if self._rows == 1 else 4))))


GRIDS = ("ring", "torus", "mesh")
SEARCHED_SIPS = 256  #: most SIPs of a dragonfly whose routes are searched; with more SIPs, routes have at most three links
FEW_SIPS = 64  #: whose links are counted one by one


@cache
def _links(rows: int, cols: int, wraps: bool, a: int, b: int) -> Sequence[tuple[int, ...]]:
    """Return the links on the route between two SIPs: along a row and a column of the grid, wrapping around where that is
    shorter.
    """
    row, col = divmod(a, cols)
    found: list[tuple[int, ...]] = []
    for size, here, there, along in ((cols, col, b % cols, True), (rows, row, b // cols, False)):
        forward = (there - here) % size
        step = 1 if (forward * 2 <= size if wraps else there > here) else -1
        while here != there:
            after = (here + step) % size
            ends = here, after
            found.append(tuple(row * cols + one if along else one * cols + b % cols for one in ends))
            here = after
    return tuple(found)


def routes_of(config: SystemConfig, group: Group, times: Latencies) -> Routes:
    """Return the routes of a group. If no machine has the group, its cubes are numbered along a path of neighbouring cubes."""
    cols = config.sip.cols
    if group.pes:
        found = (naming.parse_pe(pe)[:2] for pe in group.pes)
        return Routes(times, [(sip, *divmod(cube, cols)) for sip, cube in found], config.shape[0])
    shape = group.placed or group.shape
    cubes = cubes_of(config, shape.cubes) if shape.cubes <= config.cubes else range(shape.cubes)
    there = [divmod(cube, cols) for cube in cubes for _ in range(shape.pes)]
    return Routes(times, [(sip, row, col) for sip in range(shape.sips) for row, col in there], shape.sips)


def latencies(config: SystemConfig) -> Latencies:
    """Return the latencies of a machine, from three of its routes, and from the routes between SIPs unless there are very many.
    """
    _, router = topology_and_router(config)

    def cycles(a: str, b: str) -> int:
        return router.route(router.find_path(f"{a}.{naming.PE_DMA}", f"{b}.{naming.PE_TCM}")).cycles

    sips, cubes, pes = config.shape
    here = naming.place(0, cube=0, pe=0)
    near = cycles(here, naming.place(0, cube=0, pe=1)) if pes > 1 else 1
    across = cycles(here, naming.place(0, cube=1, pe=0)) - near if cubes > 1 else 0
    far = cycles(here, naming.place(1, cube=0, pe=0)) - near if sips > 1 else 0
    far_link = float(config.system.link.bytes_per_cycle) if sips > 1 else 0.0
    cols, row, hop, slower, uplink = 0, 0, 0, 1, 0.0
    rails: tuple[int, ...] = ()
    network, rows = config.system.kind, config.system.rows
    if network in ROWS_OF_SIPS and rows > 1:
        cols = config.sip_cols
        row = max(0, cycles(here, naming.place(cols, cube=0, pe=0)) - near)  # they have a link, or the same rail
        ends = here, naming.place(min(1, cols - 1), cube=0, pe=0)
        edges = router.route(router.find_path(f"{ends[0]}.{naming.PE_DMA}", f"{ends[1]}.{naming.PE_TCM}")).edges
        hop = sum(edge.cycles for edge in edges if outside(edge))
        uplink = float(config.system.switch.oversubscription / cols)
    if network == "rails" and rows > 1:
        rails = tuple(rail_of(config, column) for column in range(cols))
        slower = max(1, ceil(config.system.link.bytes_per_cycle / config.system.rails.link.bytes_per_cycle))
    return Latencies(
        near,
        max(0, across),
        max(0, far),
        float(config.pe.link.bytes_per_cycle),
        far_link,
        network,
        rows,
        at_once=config.pe.ipcq.max_concurrent,
        cols=cols,
        row=row,
        hop=hop,
        rail_slower=slower,
        rails=rails,
        uplink_slower=uplink,
        dimensions=dimension_routes.costs_of(config),
        sides=tuple(one.side for one in config.sip.io) if network == "dragonfly" else (),
        sip_routes=_sip_routes(config, router, near) if sips <= MEASURED_SIPS else {},
    )


_LATENCIES: dict[str, Latencies] = {}  #: the latencies of machines, by the digest of the machine


def latencies_of(config: SystemConfig) -> Latencies:
    """Return the latencies of a machine. Equal machines share one object."""
    digest = config.digest()
    if digest not in _LATENCIES:
        _LATENCIES[digest] = latencies(config)
    return _LATENCIES[digest]


ROWS_OF_SIPS = ("rails", "fat_tree", "dragonfly")  #: arrangements in which a row of SIPs is a node, a leaf or a group
MEASURED_SIPS = 16  #: whose routes are looked up one by one: those of 64 take seconds


def outside(edge: Edge) -> bool:
    """Return whether a link is not inside a SIP."""
    here, there = naming.parse_node(edge.source).sip, naming.parse_node(edge.target).sip
    return here is None or here != there


def at_port(edge: Edge) -> bool:
    """Return whether a link joins a cube and an IO chiplet."""
    here, there = naming.parse_node(edge.source), naming.parse_node(edge.target)
    return here.sip == there.sip and (here.io is None) != (there.io is None)


def _sip_routes(config: SystemConfig, router: PathRouter, near: int) -> dict[tuple[int, int], SipRoute]:
    """Return the routes between all SIPs."""
    found, sips = {}, range(config.shape[0])
    for a, b in ((a, b) for a in sips for b in sips if a != b):
        ends = naming.place(a, cube=0, pe=0), naming.place(b, cube=0, pe=0)
        route = router.route(router.find_path(f"{ends[0]}.{naming.PE_DMA}", f"{ends[1]}.{naming.PE_TCM}"))
        links, ports = [], []
        for edge in route.edges:
            if edge.bytes_per_cycle is None:
                continue
            slower = float(config.system.link.bytes_per_cycle / edge.bytes_per_cycle)
            if outside(edge):
                links.append(((edge.source, edge.target), slower))
            elif at_port(edge):
                ports.append(((edge.source, edge.target), slower))
        found[a, b] = SipRoute(max(0, route.cycles - near), tuple(links), tuple(ports))
    return found
