"""Estimates the time of a collective without a simulation, from route latencies, messages and bytes of each step.

The model is linear in features of a call: a constant for loads and stores, the latencies of the steps, the messages, and the
time of the bytes. The bytes count on the link of a PE, or on a link between SIPs if that takes longer; all ranks of a SIP share
such a link. A lane that follows another lane costs only the work of the busiest rank or link for the lane. The weights of the
features (`weights`) were fitted to simulations of the presets, for each algorithm. They do not depend on ranks or sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from heapq import heappop, heappush, heapreplace
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

from kernbench.ccl.contract import WIDTH, Shape, pieces
from kernbench.ccl.group import Group, cubes_of
from kernbench.ccl.halving_doubling import ACTIVE, steps_of
from kernbench.ccl.ring_schedule import MOST
from kernbench.ccl.rings import Levels, Ring, flat_ring, grid_rings, level_rings
from kernbench.ccl.schedule import MOST_LANE_BYTES, Message, Program, Schedule, SwitchMessage
from kernbench.common import naming
from kernbench.components.builtin.ipcq_ring import PLAIN, Protocol
from kernbench.config import SystemConfig
from kernbench.config.system.links import WITH_SWITCHES, dragonfly_pairs, rail_of
from kernbench.policy.routing.router import PathRouter, topology_and_router
from kernbench.topology.graph import Edge

Link = tuple[Any, ...]  #: its two ends


@dataclass(frozen=True)
class Way:
    """The route of a machine from one SIP to another."""

    cycles: int  #: beyond those to a neighbour in a cube
    links: tuple[tuple[Link, float], ...]  #: between SIPs and switches, and their cycles of a byte, in `system.link`'s


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
    ways: Mapping[tuple[int, int], Way] = field(default_factory=dict)  #: by pair of SIPs; empty for a machine with very many

    @property
    def shared(self) -> float:
        """The cycles of a byte on a link between SIPs, divided by the cycles of a byte on the link of a PE."""
        return self.link / self.far_link if self.far_link else 0.0


Place = tuple[int, int, int]  #: the SIP of a rank, and the row and the column of its cube
Port = tuple[int, str]  #: an IO chiplet: its SIP and its side
OPPOSITE = {"n": "s", "s": "n", "e": "w", "w": "e"}


@dataclass(frozen=True)
class Routes:
    """The routes between the ranks of a group."""

    times: Latencies
    places: Sequence[Place]  #: by rank
    sips: int  #: of the machine, or of a group that no machine has
    _found: dict[int, Mapping[int, list[tuple[Link, float]]]] = field(default_factory=dict, init=False, compare=False)

    def between(self, a: int, b: int) -> int:
        """Return the latency [cycle] from one rank to another. A route over n cubes or SIPs takes n times the latency of one.
        """
        (s, row, col), (t, end, last) = self.places[a], self.places[b]
        if s != t and self.measured:
            return self.times.pe + self.times.ways[s, t].cycles
        if s != t and self._rows_apart(s, t):
            return self.times.pe + self.times.row + self.times.hop * self._detours(s, t)
        if s != t:
            return self.times.pe + self.times.sip * self._hops(s, t)
        return self.times.pe + self.times.cube * (abs(row - end) + abs(col - last))

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
        return bool(self.times.ways) and all((a, b) in self.times.ways for a in sips for b in sips if a != b)

    def links(self, a: int, b: int) -> Sequence[tuple[Link, float]]:
        """Return the links on the route between two SIPs, with the time of a byte on each, relative to `system.link`.

        If the routes are not measured, a switch has the number -1.
        """
        if self.measured:
            return self.times.ways[a, b].links
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

    def switch_links(self, root: int, members: Sequence[int], to_root: bool) -> dict[Link, float]:
        """Return the links that a message through switches uses, each once, in the form of `links`."""
        own = self.places[root][0]
        sips = {self.places[rank][0] for rank in members} - {own}
        found = {link: slower for sip in sips for link, slower in (self.links(sip, own) if to_root else self.links(own, sip))}
        if to_root and sips:  # the root's own message goes to its first switch
            found |= dict(self.links(own, min(sips))[:1])
        return found

    def loads(self, hops: Iterable[tuple[int, int]]) -> float:
        """Return how many of these hops the busiest link between SIPs carries. A hop over a slower link counts as more than
        one.
        """
        ways = Counter((self.places[a][0], self.places[b][0]) for a, b in hops)
        if self.sips > FEW_SIPS and self.times.network in GRIDS:
            return self._even_loads(ways)
        found: dict[Link, float] = {}
        for (a, b), many in ways.items():
            if a != b:
                for link, slower in self.links(a, b):
                    found[link] = found.get(link, 0.0) + many * slower
        return max(found.values(), default=0.0)

    def _even_loads(self, ways: Mapping[tuple[int, int], int]) -> float:
        """Return the same for a grid of very many SIPs, assuming that all of their links carry about the same load.

        Each SIP then has two links each way on a grid of several rows, and one on a ring.
        """
        most = max((many for (a, b), many in ways.items() if a != b), default=0)
        far = sum(many * self._hops(a, b) for (a, b), many in ways.items() if a != b)
        return max(most, ceil(far / (self.sips * (2 if self._rows == 1 else 4))))


GRIDS = ("ring", "torus", "mesh")
SEARCHED_SIPS = 256  #: of a dragonfly, whose routes are searched; with more SIPs, routes have at most three links
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
        sides=tuple(one.side for one in config.sip.io) if network == "dragonfly" else (),
        ways=_ways(config, router, near) if sips <= MEASURED_SIPS else {},
    )


_LATENCIES: dict[str, Latencies] = {}  #: by the digest of a machine


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


def _ways(config: SystemConfig, router: PathRouter, near: int) -> dict[tuple[int, int], Way]:
    """Return the routes between all SIPs."""
    found, sips = {}, range(config.shape[0])
    for a, b in ((a, b) for a in sips for b in sips if a != b):
        ends = naming.place(a, cube=0, pe=0), naming.place(b, cube=0, pe=0)
        route = router.route(router.find_path(f"{ends[0]}.{naming.PE_DMA}", f"{ends[1]}.{naming.PE_TCM}"))
        links = []
        for edge in route.edges:
            if outside(edge) and edge.bytes_per_cycle is not None:
                links.append(((edge.source, edge.target), float(config.system.link.bytes_per_cycle / edge.bytes_per_cycle)))
        found[a, b] = Way(max(0, route.cycles - near), tuple(links))
    return found


@dataclass(frozen=True)
class Step:
    """One step of the slowest rank: its latency, its messages sent or received, and its share of the bytes of `n_elem`
    elements.

    If a rank may have only a few messages in flight, the latency includes all messages that it sends one after another.
    """

    latency: float
    messages: int
    share: float  #: as often as they pass a PE's link; more if a link between SIPs takes longer for all that goes over it


@dataclass(frozen=True, eq=False)
class Outline:
    """The steps of an algorithm, and how its elements are cut into lanes and messages."""

    steps: Sequence[Step]
    messages: int  #: of the busiest rank in a lane
    share: float  #: of the bytes of `n_elem` that the busiest rank sends and receives, plus those it loads and stores
    widest: float  #: share of the longest message
    far: bool
    adds: bool
    sending: float = 0.0  #: [cycle] of a lane in which the busiest rank has as many messages on their way as it can
    #: Loads, copies, sums and stores of a rank in a schedule: of the only lane, and of one of several.
    operations: tuple[int, int] = (0, 0)
    full: bool = False  #: as few lanes as the slots allow
    window: int = MOST  #: lanes at a time, if their messages have slots
    abreast: int = 0  #: lanes in lockstep whose messages are on their way at a time; 0: lanes follow each other closely
    turns: float = 0.0  #: [cycle] of a lane by its latencies, if a rank's messages wait for those that are on their way
    buffer: int = 0  #: `n_elem` in the buffer of a schedule, which is cut into lanes that are not too long
    form: str = ""  #: which of its forms an algorithm has in this group, if each form has weights of its own
    worked: float = 0.0  #: share of the bytes of `n_elem` that the vector engines of the busiest rank add or copy
    chained: float = 0.0  #: the same, of all sums and copies of a lane that wait for each other, also on several ranks

    def features(
        self, nbytes: int, itemsize: int, slots: int, slot_bytes: int, link: float, protocol: Protocol = PLAIN
    ) -> tuple[float, ...]:
        """Return the features of `n_elem` elements with this number of bytes.

        The features are: 1; the cycles of latency; the messages sent one after another; the cycles of the link for the first
        lane;
        and those for the other lanes. For messages whose bytes and commands take about equally long, there is also the
        geometric
        mean of messages and link. The last feature is the number of operations.
        """
        lanes = self.lanes(nbytes, itemsize, slot_bytes)
        lane = nbytes / lanes / link * protocol.line_bytes / protocol.data_bytes
        flags = protocol.cycles * len(self.steps)
        messages = self.once[1] + (lanes - 1) * self.messages
        first, others = self.once[2] * lane, (lanes - 1) * self.share * lane
        busy = first + others
        window = min(self.window, slots)
        # There and back: a slot is free when its credit has come. The first lanes have free slots.
        waits = (2 * self.once[0] + flags) * lanes / window - self.once[0] if lanes > window else 0.0
        sending = max(waits, lanes * self.sending, self.turns) - MESSAGE * messages - busy
        done = float(lanes * self.operations[lanes > 1])
        latency = max((self.once[0] + flags) * self._rounds(lanes, window), sending)
        return 1.0, latency, messages, first, others, sqrt(messages * busy), done

    def _rounds(self, lanes: int, window: int) -> int:
        """Return how often the latencies of all steps count.

        Lanes in lockstep send the messages of a step together, so some lanes wait if there are more messages than can be in
        flight. Lanes that run at the same time end together.
        """
        if not self.abreast:
            return 1
        whole, rest = divmod(lanes, window)
        return whole * ceil(window / self.abreast) + ceil(rest / self.abreast)

    def lanes(self, nbytes: int, itemsize: int, slot_bytes: int) -> int:
        """Return the number of lanes into which `n_elem` elements with this number of bytes are cut."""
        longest = max(1, ceil(self.widest * nbytes / itemsize))
        if self.full:
            return ceil(longest / max(1, slot_bytes // itemsize))
        lanes = pieces(longest, itemsize, slot_bytes, self.far, self.adds)
        return max(lanes, min(ceil(self.buffer * nbytes / MOST_LANE_BYTES), nbytes // itemsize))

    def cycles(
        self,
        weights: Sequence[float],
        nbytes: int,
        itemsize: int,
        slots: int,
        slot_bytes: int,
        link: float,
        protocol: Protocol = PLAIN,
    ) -> float:
        """Return the estimated time [cycle] of `n_elem` elements with this number of bytes."""
        features = self.features(nbytes, itemsize, slots, slot_bytes, link, protocol)
        return sum(weight * one for weight, one in zip(weights, features, strict=True))

    def slowed(self, nbytes: int, itemsize: int, slot_bytes: int, bytes_a_cycle: float, factor: float) -> float:
        """Return by how many cycles a call is longer if its sums and copies take `factor` times as long as usual.

        `bytes_a_cycle` are the bytes that the vector engines of a PE usually add or copy in a cycle. Messages wait for the sums
        of the first lane. Of the further lanes, the time of the busiest rank counts.
        """
        lanes = self.lanes(nbytes, itemsize, slot_bytes)
        first = max(self.chained, self.worked)
        return (factor - 1) * (first + (lanes - 1) * self.worked) * nbytes / lanes / bytes_a_cycle

    @cached_property
    def once(self) -> tuple[float, int, float]:
        """The latencies, the messages and the share of bytes, summed over all steps of a lane."""
        steps = self.steps
        return sum(one.latency for one in steps), sum(one.messages for one in steps), sum(one.share for one in steps)


#: [cycle] of a message beside those of its bytes, in which messages that are on their way do not delay the next ones; and how
#: often a byte passes the link of a PE, about: it is loaded and sent, or received and stored.
MESSAGE, PASSES = 16, 2


def outline_of(schedule: Schedule, routes: Routes) -> Outline:
    """Return the outline of a schedule."""
    times, places = routes.times, routes.places
    steps: list[Step] = []
    unit = 1 / schedule.positions if schedule.vector else 1.0
    work = [[0, 0] for _ in range(schedule.ranks)]
    sending = [0.0] * schedule.ranks
    carried: dict[Link, float] = {}  # positions, by link between SIPs; more of a slower one
    first, turns = _Clock(schedule.ranks, schedule.ranks), _Clock(schedule.ranks, times.at_once)
    for step in schedule.steps:
        busy: dict[int, list[int]] = {}
        sent: dict[int, list[tuple[int, Sequence[int]]]] = {}  # by sender: the latencies of its messages, and who gets them
        loads: dict[Link, float] = {}
        for one in step:
            if isinstance(one, SwitchMessage):
                size = len(one.sent)
                for link, slower in routes.switch_links(one.root, one.members, one.combines).items():
                    loads[link] = loads.get(link, 0.0) + size * slower
                latency = max(routes.between(one.root, rank) for rank in one.members if rank != one.root)
                for rank, way in (*((rank, 0) for rank in one.sources), *((rank, 1) for rank in one.targets)):
                    row = busy.setdefault(rank, [0, 0, 0, 0])
                    row[way] += 1
                    row[2 + way] += size
                    work[rank][0] += 1
                    work[rank][1] += size
                after = one.members[(one.members.index(one.root) + 1) % len(one.members)]
                carrier = after if one.combines else one.root
                sent.setdefault(carrier, []).append((latency, one.targets))
                continue
            a, b = places[one.source][0], places[one.target][0]
            if a != b:
                for link, slower in routes.links(a, b):
                    loads[link] = loads.get(link, 0.0) + len(one.sent) * slower
            sent.setdefault(one.source, []).append((routes.between(one.source, one.target), (one.target,)))
            for rank, way in ((one.source, 0), (one.target, 1)):
                row = busy.setdefault(rank, [0, 0, 0, 0])
                row[way] += 1
                row[2 + way] += len(one.sent)
                work[rank][0] += 1
                work[rank][1] += len(one.sent)
        if busy:
            messages = max(max(row[0], row[1]) for row in busy.values())
            most = max(max(row[2], row[3]) for row in busy.values())
            for link, load in loads.items():
                carried[link] = carried.get(link, 0.0) + load
            latency = first.step(sent)
            turns.step(sent)
            steps.append(Step(latency, messages, max(PASSES * most, max(loads.values(), default=0) * times.shared) * unit))
            for rank, some in sent.items():
                sending[rank] += sum(one for one, _ in some) / times.at_once
    each = max(work, key=lambda row: row[1], default=[0, 0])
    moved = (len(schedule.loads[0]) + len(schedule.stores[0])) * unit
    share = max(PASSES * (each[1] * unit + moved) / 2, max(carried.values(), default=0) * times.shared * unit)
    widest = schedule.widest * unit
    ranks = range(0, schedule.ranks, max(1, schedule.ranks // SAMPLE))
    done = max(_operations(schedule.programs[rank], apart=False) for rank in ranks)
    cut = done if schedule.vector else max(_operations(schedule.programs[rank], apart=True) for rank in ranks)
    buffer = 1 if schedule.vector else schedule.positions
    far, adds = schedule.far, schedule.adds
    busiest = max(sending, default=0.0)
    # Where only the root gets results, the other ranks go on with the next lane as soon as they have sent.
    abreast = times.at_once if all(schedule.stores) else 0
    worked = max(_worked(schedule.programs[rank]) for rank in ranks) * unit
    chained = sum(_most_added(step) for step in schedule.steps) * unit
    how: dict[str, Any] = {"operations": (done, cut), "window": WIDTH, "buffer": buffer, "worked": worked, "chained": chained}
    return Outline(steps, each[0] // 2, share, widest, far, adds, busiest, abreast=abreast, turns=turns.latest, **how)


class _Clock:
    """Computes when each rank has its messages, if only latencies take time and the number of messages in flight is limited.

    A rank sends the messages of a step in order, when it has all messages of the step before. The longest routes of several
    steps therefore add up only if they follow each other from rank to rank.
    """

    def __init__(self, ranks: int, at_once: int) -> None:
        self.ready = [0] * ranks
        self.at_once = at_once

    @property
    def latest(self) -> int:
        """The cycle at which the last rank has all of its messages."""
        return max(self.ready)

    def step(self, sent: Mapping[int, Sequence[tuple[int, Sequence[int]]]]) -> int:
        """Advance by one step, and return by how many cycles the last rank is later.

        `sent` has, for each sender, the latency and the receivers of each message.
        """
        before, ready = self.latest, list(self.ready)
        for rank, messages in sent.items():
            ends = [self.ready[rank]] * min(self.at_once, len(messages))
            for latency, targets in messages:
                end = ends[0] + latency
                heapreplace(ends, end)
                for one in targets:
                    ready[one] = max(ready[one], end)
        self.ready = ready
        return self.latest - before


SAMPLE = 16  #: ranks whose operations are counted


def _operations(program: Program, *, apart: bool) -> int:
    """Return the number of loads, copies, sums and stores of a rank in a lane, if each message fits into a slot.

    With `apart`, the parts that a lane has of two blocks are not neighbours in memory.
    """
    step = 2 if apart else 1  # from a block to the next
    at: dict[int, tuple[int, int]] = {}  # by position: its tile, and where it begins there
    home = {one: (-1, number) for number, one in enumerate(program.home)}
    tiles, last, found = 0, -2, len(program.moved)
    for position, block in sorted(program.loads.items()):
        if step * block != last + 1:
            tiles, found = tiles + 1, found + 1
        at[position], last = (tiles, block), step * block
    at |= {one: home[one] for one in program.moved}
    stored: set[int] = set()
    for sends, receives in program.steps:
        for _, positions in sends:
            runs = _runs(at[one] for one in positions)
            found += runs if runs > 1 else 0
        for _, positions, adds, latest, final in receives:
            if final:
                found += _runs((0, step * program.stores[one]) for one in positions)
                stored.update(positions)
                continue
            into = [home[one] for one in positions] if latest and all(one in home for one in positions) else []
            tiles += 1
            found += max(_runs(at[one] for one in positions) if adds else 1, _runs(into))
            at |= zip(positions, into or [(tiles, number) for number in range(len(positions))], strict=True)
    end = (-2, 0, 0)
    for one, block in sorted(program.stores.items()):
        if one not in stored:
            tile, first = at[one]
            found += end != (tile, first - 1, step * block - 1)
            end = tile, first, step * block
    return found


def _most_added(step: Sequence[Message | SwitchMessage]) -> int:
    """Return the positions that the busiest receiver of a step adds."""
    found: Counter[int] = Counter()
    for one in step:
        if isinstance(one, Message) and one.adds:
            found[one.target] += len(one.sent)
    return max(found.values(), default=0)


def _worked(program: Program) -> int:
    """Return the positions of all messages that a rank adds to its own or copies."""
    return sum(len(positions) for _, receives in program.steps for _, positions, _, _, final in receives if not final)


def _runs(places: Iterable[tuple[int, int]]) -> int:
    """Return the number of runs of neighbouring locations."""
    found, end = 0, (-2, 0)
    for tile, first in places:
        found += end != (tile, first - 1)
        end = tile, first
    return found


Form = Callable[[Shape, int, Routes], Outline]


def _hops_of(rings: Sequence[Ring]) -> Iterator[tuple[int, int]]:
    """Return all ranks of the rings, each with the next rank in its ring."""
    return ((a, b) for ring in rings for a, b in pairwise((*ring.members, ring.members[0])))


def _crossing(rings: Sequence[Ring], routes: Routes) -> float:
    """Return the cycles of a byte on the busiest link between SIPs, relative to the link of a PE, for each hop of the rings.

    The rings are used at the same time. The result is at least the share of the link of a PE, which each byte uses more than
    once.
    """
    return max(float(PASSES), routes.times.shared * routes.loads(_hops_of(rings)))


def _latency(ring: Ring, routes: Routes) -> tuple[float, float]:
    """Return the latency [cycle] of a step, and the cycles in which the rank with the longest hop has its limit of messages in
    flight.

    No rank waits for the longest hop in each step, because a chunk crosses that hop once per round.
    """
    hops = [routes.between(a, b) for a, b in _hops_of([ring])]
    return sum(hops) / len(hops), max(hops) / routes.times.at_once


def _ring(turns: int, share: Callable[[int], float], adds: bool = True) -> Form:
    """Return the outline of `turns` rounds of `n - 1` steps along the flat ring; `share` gives the elements of each step.

    With `adds`, the messages of the first round are added.
    """

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        n, ring = shape.ranks, flat_ring(kind, shape)
        moved = share(n) * _crossing([ring], routes)
        (latency, sending), count = _latency(ring, routes), turns * (n - 1)
        steps = [Step(latency, 1, moved)] * count
        worked = (n - 1) * share(n) if adds else 0.0
        return Outline(steps, count, count * moved, share(n), shape.sips > 1, adds, count * sending, worked=worked)

    return made


def _levels(levels_of: Levels, form: str = "") -> Form:
    """Return the outline of an all-reduce over several rings in sequence."""

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        return _outline_of_levels([_in_sequence(levels_of(kind, shape), 1.0, routes)], form)

    return made


@dataclass(frozen=True)
class _Level:
    """A reduce-scatter over rings of the same size, and later an all-gather over the same rings."""

    steps: Sequence[Step]  #: of the reduce-scatter; the all-gather has the same
    share: float  #: of `n_elem` in each message
    sending: float  #: [cycle] of a step in which the rank with the longest hop has its limit of messages in flight


def _in_sequence(levels: Sequence[Sequence[Ring]], share: float, routes: Routes) -> list[_Level]:
    """Return the levels of a part of the elements that travels over several rings in sequence, without rings of one rank."""
    found = []
    for rings in levels:
        size = rings[0].size
        if size > 1:
            share /= size  # what is left of the elements goes to the next level
            latency, sending = _latency(rings[0], routes)
            step = Step(latency, 1, share * _crossing(rings, routes))
            found.append(_Level([step] * (size - 1), share, sending))
    return found


def _outline_of_levels(parts: Sequence[Sequence[_Level]], form: str) -> Outline:
    """Return the outline of parts of the elements that travel at the same time. All parts have the same number of steps."""
    halfway = [[step for level in part for step in level.steps] for part in parts]
    steps = [
        Step(sum(one.latency for one in some) / len(some), len(some), sum(one.share for one in some))
        for some in zip(*([*there, *reversed(there)] for there in halfway), strict=True)
    ]
    share, messages = sum(one.share for one in steps), sum(one.messages for one in steps)
    widest = max((level.share for part in parts for level in part), default=1.0)
    sending = sum(2 * len(level.steps) * level.sending for level in parts[0])
    turns = 2 if len(parts[0]) > 1 else 1  # over several rings, messages of the all-gather are copied
    worked = sum(turns * len(level.steps) * level.share for part in parts for level in part)
    return Outline(steps, messages, share, widest, False, True, sending, form=form, worked=worked)


def _grid(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of an all-reduce over a grid.

    Two halves of the elements travel along rows and along columns at the same time, unless only the columns cross SIPs. The two
    forms contend for the links of PEs in different ways, so each form has weights of its own.
    """
    if 1 < shape.sips < shape.ranks:
        return _levels(grid_rings, ROWS_FIRST)(shape, kind, routes)
    across, down = grid_rings(kind, shape)
    return _outline_of_levels([_in_sequence(order, 0.5, routes) for order in ((across, down), (down, across))], "")


ROWS_FIRST = " (rows first)"  #: the form of an all-reduce over a grid in which all elements travel along rows first


SOME_PAIRS = 4096  #: of ranks whose latencies are compared; more than machines have


def _halves(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of halving and doubling. Each step exchanges elements over twice the distance of the step before."""
    n, steps, sending = shape.ranks, [], 0.0
    spare = n - (1 << steps_of(n))
    ranks = [*range(0, 2 * spare, 2), *range(2 * spare, n)]
    for k in range(steps_of(n)):
        pairs = [(rank, ranks[number ^ (1 << k)]) for number, rank in enumerate(ranks)]
        latency = max(routes.between(a, b) for a, b in pairs[:: max(1, n // SOME_PAIRS)])
        moved = max(float(PASSES), routes.times.shared * routes.loads(pairs)) / (2 << k)
        steps += [Step(latency, 1, moved)] * 2
        sending += 2 * latency / routes.times.at_once
    if spare:
        steps += [Step(routes.times.pe, 1, float(PASSES))] * 2
    total = sum(one.share for one in steps)
    widest, at_once = 1.0 if spare else 0.5, routes.times.at_once
    worked = 2.0 - 2.0 / (n - spare) + bool(spare)  # halves are added, and halves of the sums are copied
    how: dict[str, Any] = {"full": True, "window": ACTIVE, "abreast": at_once, "worked": worked}
    return Outline(steps, len(steps), total, widest, shape.sips > 1, True, sending, **how)


def _chain(adds: bool) -> Form:
    """Return the outline of a chain from rank 0 along the flat ring in both directions, to the middle.

    With `adds`, the messages travel to rank 0, and each rank adds its elements.
    """

    def made(shape: Shape, kind: int, routes: Routes) -> Outline:
        half, ring = shape.ranks // 2, flat_ring(kind, shape)
        moved = _crossing([ring], routes)
        latency, sending = _latency(ring, routes)
        steps = [Step(latency, 1, moved)] * half
        how: dict[str, Any] = {"worked": float(min(2, half)), "chained": float(half)} if adds else {}
        return Outline(steps, 2, 2 * moved, 1.0, shape.sips > 1, True, sending, **how)

    return made


def _around(shape: Shape, kind: int, routes: Routes) -> Outline:
    """Return the outline of an exchange along the flat ring, in which elements travel the distance to their destination."""
    n, ring = shape.ranks, flat_ring(kind, shape)
    hops = sum(range(1, n // 2 + 1))
    moved = _crossing([ring], routes)
    latency, sending = _latency(ring, routes)
    return Outline([Step(latency, 1, moved)] * min(hops, 2 * n), hops, hops * moved, 1.0, False, False, hops * sending)


def _shift(shape: Shape, kind: int, routes: Routes) -> Outline:
    return Outline([Step(routes.times.pe + routes.times.sip, 1, 1.0)], 1, 1.0, 1.0, shape.sips > 1, False)


def _signals(shape: Shape, kind: int, routes: Routes) -> Outline:
    far = [1 << k for k in range((shape.ranks - 1).bit_length())]
    return Outline([Step(routes.between(0, one), 1, 0.0) for one in far], 1, 0.0, 1.0, False, False)


FORMS: Mapping[str, Form] = {
    "all_reduce_ring": _ring(2, lambda n: 1 / n),
    "all_reduce_bidirectional": _ring(2, lambda n: 1 / n),
    "all_reduce_halving_doubling": _halves,
    "all_reduce_torus": _grid,
    "all_reduce_hierarchical": _levels(level_rings),
    "all_gather_ring": _ring(1, lambda n: 1.0, adds=False),
    "reduce_scatter_ring": _ring(1, lambda n: 1.0),
    "broadcast_ring": _chain(adds=False),
    "reduce_ring": _chain(adds=True),
    "all_to_all_ring": _around,
    "send_recv_ring": _shift,
    "barrier_dissemination": _signals,
}


def form_of(full_name: str, shape: Shape, kind: int, routes: Routes) -> Outline | None:
    """Return the outline of an algorithm with a closed form, and None for other algorithms."""
    made = FORMS.get(full_name)
    return None if made is None else made(shape, kind, routes)
