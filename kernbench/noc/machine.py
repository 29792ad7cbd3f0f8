"""The routers of a machine as tables for the core, and the routes of its transfers through them
(docs/model/flit_transfers.md)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config.routers import DEFAULTS, Routers
from kernbench.topology.mesh import mesh_links

if TYPE_CHECKING:
    from kernbench.config import NpuConfig
    from kernbench.topology.graph import Edge, Topology

R = TypeVar("R", bound=Hashable)  #: a router
SIDES = 4  #: inputs and outputs of a router before those of its terminals: east, west, south, north
Hop = tuple[int, int, int]  #: output, lowest and highest channel
SegmentRow = tuple[int, int, int, list[Hop]]  #: terminals of source and target, clocks of a flit without contention, hops


@dataclass(frozen=True)
class Link:
    """A link between two routers."""

    side: int  #: side of its source router: the number of the output
    latency: int  #: [cycle]
    bytes_per_cycle: Fraction


class RouterMesh(Generic[R]):
    """Routers with their links and terminals. A terminal is a component beside a router, with the name that it has there."""

    def __init__(
        self,
        routers: Routers,
        flit: int,
        links: Mapping[tuple[R, R], Link],
        beside: Mapping[R, Sequence[str]],
        *,
        halved: bool,
        source: str,
    ) -> None:
        """`beside`: the terminals of every router, in order. `halved`: whether packets that turned from a column into a row
        have their own channels."""
        self.routers, self.flit, self.links, self.beside = routers, flit, links, beside
        self.halved, self.source = halved, source
        self._first: dict[R, int] = {}
        self.terminal: dict[tuple[R, str], int] = {}
        outputs = 0
        for router, names in beside.items():
            self._first[router] = outputs
            outputs += SIDES + len(names)
            for name in names:
                self.terminal[router, name] = len(self.terminal)
        self.outputs = outputs

    def output(self, router: R, name: str) -> int:
        """The output of a router to a terminal."""
        return self._first[router] + SIDES + self.beside[router].index(name)

    def segment(self, before: str, path: Sequence[R], behind: str) -> SegmentRow:
        """The segment through routers, from the terminal of the component before the first router to that of the component
        after the last."""
        spec = self.routers
        half = spec.channels // 2 if self.halved else spec.channels
        hops: list[Hop] = []
        alone, turned, column = 1, False, False
        for a, b in pairwise(path):
            link = self.links[a, b]
            if link.side < 2 and column:
                if turned:
                    way = f"the way from {path[0]} to {path[-1]}"
                    rule = f"{way} turns from a column into a row more than once, and packets could wait in a cycle"
                    raise InputError(Problem(self.source, rule, "cube.mesh.model", "flit", "use fluid for this mesh"))
                turned = True
            column = link.side >= 2
            hops.append((self._first[a] + link.side, half if turned else 0, spec.channels - 1 if turned else half - 1))
            alone += 1 + spec.switch_cycles + spec.link_cycles(link.latency)
        hops.append((self.output(path[-1], behind), 0, spec.channels - 1))
        alone += 2 + spec.switch_cycles
        return self.terminal[path[0], before], self.terminal[path[-1], behind], alone, hops

    def tables(self, resource: Mapping[tuple[R, R], int]) -> dict[str, Any]:
        """The network for the core, without routes. `resource`: the numbers of links among the machine's resources."""
        spec, terminals = self.routers, len(self.terminal)
        rows = np.full((self.outputs + terminals, 6), -1, dtype=np.int64)
        rows[:, 2:] = 1
        resources = np.full(self.outputs + terminals, -1, dtype=np.int64)
        for (a, b), link in self.links.items():
            cycles, k = spec.link_cycles(link.latency), self._first[a] + link.side
            rows[k, 0] = self._first[b] + (link.side ^ 1)
            rate = _flits_per_clock(link.bytes_per_cycle, self.flit)
            rows[k, 2:] = spec.switch_cycles + cycles, cycles + spec.credit_cycles, *rate
            resources[k] = resource.get((a, b), -1)
        for (router, name), k in self.terminal.items():
            out = self.output(router, name)
            rows[out, 1:4] = k, spec.switch_cycles + 1, 1 + spec.credit_cycles
            rows[self.outputs + k, 0] = out  # the input of a router beside this output
        ports = np.array([SIDES + len(names) for names in self.beside.values()], dtype=np.int64)
        return {
            "channels": spec.channels, "depth": spec.depth, "escapes": 0,
            "inputs": ports, "outputs": ports, "terminals": terminals,
            "links": rows, "adaptive": np.empty((0, 4), dtype=np.int64), "resources": resources,
            "flit_bytes": self.flit, "packet_bytes": spec.packet_flits * self.flit,
            "window_bytes": spec.window_packets * spec.packet_flits * self.flit,
        }  # fmt: skip

    @cached_property
    def names(self) -> list[str]:
        """The two ends of outputs, and then of the links from terminals into the network."""
        out = [""] * self.outputs
        for (a, b), link in self.links.items():
            out[self._first[a] + link.side] = naming.directed(_named(a), _named(b))
        for router, name in self.terminal:
            out[self.output(router, name)] = naming.directed(_named(router), name)
        return out + [naming.directed(name, _named(router)) for router, name in self.terminal]


def with_capacities(network: dict[str, Any], capacities: Sequence[Fraction]) -> dict[str, Any]:
    """The network with other capacities of links between routers. `capacities`: [byte/cycle] of the machine's resources."""
    rows = network["links"].copy()
    for k in np.flatnonzero(network["resources"] >= 0).tolist():
        rows[k, 4:] = _flits_per_clock(capacities[network["resources"][k]], network["flit_bytes"])
    return {**network, "links": rows}


def _flits_per_clock(bytes_per_cycle: Fraction, flit: int) -> tuple[int, int]:
    """The rate of a link between routers, as numerator and denominator."""
    return min(Fraction(1), bytes_per_cycle / flit).as_integer_ratio()


def _named(router: object) -> str:
    return router if isinstance(router, str) else "r{}c{}".format(*router)  # type: ignore[misc]


def route_tables(routes: Iterable[tuple[int, Sequence[SegmentRow]]]) -> dict[str, Any]:
    """The segments of all routes: for each route, the number of resources of which flows are members, and its segments."""
    members, first = [], [0]
    segments: list[tuple[int, int, int, int]] = []
    hops: list[Hop] = []
    for count, rows in routes:
        members.append(count)
        for source, target, alone, row in rows:
            segments.append((source, target, len(hops), alone))
            hops += row
        first.append(len(segments))
    return {
        "route_members": np.array(members, dtype=np.int64),
        "route_segments": np.array(first, dtype=np.int64),
        "segments": np.array(segments, dtype=np.int64).reshape(-1, 4),
        "hops": np.array(hops, dtype=np.int64).reshape(-1, 3),
    }


Coordinates = tuple[int, int]


def npu_mesh(config: NpuConfig) -> RouterMesh[Coordinates]:
    """The mesh of one NPU."""
    noc = config.noc
    assert noc is not None
    beside: dict[Coordinates, list[str]] = {(row, col): [] for row in range(noc.rows) for col in range(noc.cols)}
    for k, place in enumerate(noc.dma_at):
        beside[place].append(naming.engine("dma", k))
    for k, place in enumerate(noc.dram_at):
        beside[place].append(naming.dram_channel(k))
    links = {
        (a, b): Link(_side(b[1] - a[1], b[0] - a[0]), noc.hop_latency_cycles, noc.link_bytes_per_cycle)
        for a, b in mesh_links(noc.rows, noc.cols)
    }
    spec = noc.flit or DEFAULTS
    return RouterMesh(spec, spec.flit(noc.link_bytes_per_cycle), links, beside, halved=False, source=config.source)


def npu_network(config: NpuConfig, routes: Sequence[tuple[int, bool, int, Sequence[Coordinates]]]) -> dict[str, Any]:
    """The table `network` of one NPU. `routes`: DMA engine, store, channel, and the routers from the source of the data on."""
    mesh = npu_mesh(config)
    channels = config.dram.channels
    resource = {link: channels + k for k, link in enumerate(mesh.links)}
    found = []
    for engine, store, channel, path in routes:
        ends = naming.dram_channel(channel), naming.engine("dma", engine)
        before, behind = ends[::-1] if store else ends
        found.append((1, [mesh.segment(before, path, behind)]))
    return mesh.tables(resource) | route_tables(found) | {"names": mesh.names}


def _side(dx: Any, dy: Any) -> int:
    """East, west, south or north."""
    return (0 if dx > 0 else 1) if dx else (2 if dy > 0 else 3)


def cube_meshes(topology: Topology, rate: Callable[[Edge], Fraction]) -> RouterMesh[str]:
    """The meshes of all cubes of a system. `rate`: [byte/cycle] of an edge."""
    mesh, nodes = topology.config.cube.mesh, topology.by_id
    beside: dict[str, list[str]] = {node.id: [] for node in topology.nodes if node.kind == naming.ROUTER}
    order = {node.id: k for k, node in enumerate(topology.nodes)}
    links: dict[tuple[str, str], Link] = {}
    for edge in topology.edges:
        if edge.source in beside and edge.target in beside:
            a, b = nodes[edge.source], nodes[edge.target]
            links[edge.source, edge.target] = Link(_side(b.x_mm - a.x_mm, b.y_mm - a.y_mm), edge.cycles, rate(edge))
        elif edge.source in beside:
            beside[edge.source].append(edge.target)
    in_order = {router: sorted(set(names), key=order.__getitem__) for router, names in beside.items()}
    spec = mesh.flit or DEFAULTS
    flit = spec.flit(mesh.link.bytes_per_cycle)
    return RouterMesh(spec, flit, links, in_order, halved=True, source=topology.config.source)


def between_routers(mesh: RouterMesh[str], edge: Edge) -> bool:
    """Whether the edge connects two routers, so that flits move over it."""
    return (edge.source, edge.target) in mesh.links


def segments_of(mesh: RouterMesh[str], edges: Sequence[Edge]) -> list[SegmentRow]:
    """The segments of a route."""
    nodes = [edge.source for edge in edges] + [edges[-1].target] if edges else []
    found, path, before = [], [], ""
    for node in nodes:
        if node in mesh.beside:
            path.append(node)
            continue
        if path:
            found.append(mesh.segment(before, path, node))
        path, before = [], node
    return found
