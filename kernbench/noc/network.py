"""Meshes and tori of routers that move flits (docs/model/flits.md): their keys, and their tables for the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.noc.routers import Ints

PORTS = 5  #: east, west, south, north, local: inputs by the side that they face, outputs by the side to which they lead
LOCAL = 4
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
MAX_CHANNELS, MAX_SIDE = 64, 64

Kind = Literal["mesh", "torus"]
Routing = Literal["xy", "adaptive"]  #: `RoutingOption` in kernbench/cli/noc.py has the same names


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSpec:
    """A mesh or torus with a terminal at each router. Times are clocks of the network."""

    columns: int = 8
    rows: int = 8
    kind: Kind = "mesh"
    routing: Routing = "xy"
    channels: int = 8  #: virtual channels of an input
    depth: int = 8  #: the number of flits that a channel can hold
    switch_cycles: int = 1  #: clocks from the grant of the switch to the link
    link_cycles: int = 2  #: clocks on the link
    credit_cycles: int = 2  #: clocks that a router needs for a credit, after the link

    def __post_init__(self) -> None:
        torus = self.kind == "torus"
        least, why = 1 + torus, "a torus needs one for packets that still have to take a wrap-around link" if torus else ""
        if self.routing == "adaptive":
            least += 1
            sides = " for packets before and after the wrap-around link" if torus else ""
            why = f"routing: adaptive needs an escape channel{sides}"
        self._check("columns", self.columns, 1 + torus, MAX_SIDE)
        self._check("rows", self.rows, 1 + torus, MAX_SIDE)
        self._check("channels", self.channels, least, MAX_CHANNELS, why)
        self._check("depth", self.depth, 1, 1 << 16)
        self._check("switch_cycles", self.switch_cycles, 0, 1 << 16)
        self._check("link_cycles", self.link_cycles, 1, 1 << 16)
        self._check("credit_cycles", self.credit_cycles, 0, 1 << 16)

    def _check(self, name: str, value: int, least: int, most: int, why: str = "") -> None:
        if not least <= value <= most:
            rule = f"it must be from {least} to {most}" + (f": {why}" if why else "")
            raise InputError(Problem("a network of routers", rule, name, str(value)))

    @property
    def nodes(self) -> int:
        """Routers, each with a terminal."""
        return self.columns * self.rows

    @property
    def escapes(self) -> int:
        """Channels of the escape network of adaptive routing."""
        return 1 + (self.kind == "torus") if self.routing == "adaptive" else 0

    def neighbour(self, router: Ints, port: int) -> Ints:
        """The router at the end of an output; -1 at the edge of a mesh."""
        y, x = np.divmod(router, self.columns)
        x, y = x + STEPS[port][0], y + STEPS[port][1]
        if self.kind == "torus":
            return np.asarray(y % self.rows * self.columns + x % self.columns, dtype=np.int64)
        inside = (x >= 0) & (x < self.columns) & (y >= 0) & (y < self.rows)
        return np.where(inside, y * self.columns + x, -1)

    def directions(self, router: Ints, target: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """For each pair, the port along the row and the port along the column (-1 if none is needed), and for each of them 1 if
        the wrap-around link of a torus is ahead in this direction."""
        y, x = np.divmod(router, self.columns)
        ty, tx = np.divmod(target, self.columns)
        along_x, seam_x = self._direction(x, tx, self.columns)
        along_y, seam_y = self._direction(y, ty, self.rows)
        return along_x, np.where(along_y >= 0, along_y + 2, -1), seam_x, seam_y

    def _direction(self, at: Ints, to: Ints, size: int) -> tuple[Ints, Ints]:
        if self.kind == "mesh":
            return np.select([to > at, to < at], [0, 1], -1), np.zeros_like(at)
        ahead = (to - at) % size
        forward = (2 * ahead < size) | ((2 * ahead == size) & (at % 2 == 0))
        port = np.where(ahead == 0, -1, np.where(forward, 0, 1))
        return port, ((port == 0) & (to < at) | (port == 1) & (to > at)).astype(np.int64)

    def hops(self, source: Ints, target: Ints) -> tuple[Ints, Ints]:
        """The hops of the routes of `routing: xy` (output, lowest and highest channel), and the first hop of each route."""
        at, heading, columns = source.copy(), np.full(len(source), -1), []
        while True:
            along_x, along_y, seam_x, seam_y = self.directions(at, target)
            port = np.select([along_x >= 0, along_y >= 0], [along_x, along_y], LOCAL)
            if self.kind == "torus":  # a route keeps its direction in a ring, even if both directions have the same length
                held = (heading >= 0) & (port != LOCAL) & (heading // 2 == port // 2)
                turned = held & (port != heading)
                port = np.where(held, heading, port)
                seam_x, seam_y = (np.where(turned, self._ahead(at, target, heading), seam) for seam in (seam_x, seam_y))
            seam = np.select([port == LOCAL, port < 2], [0, seam_x], seam_y)
            half = self.channels // 2
            low = np.where((port != LOCAL) & (seam == 1), half, 0)
            high = np.where((self.kind == "torus") & (port != LOCAL) & (seam == 0), half - 1, self.channels - 1)
            columns.append((at * PORTS + port, low, high))
            if (port == LOCAL).all():
                break
            following = np.choose(np.minimum(port, 3), [self.neighbour(at, p) for p in range(4)])
            at, heading = np.where(port == LOCAL, at, following), port
        return _rows(columns)

    def _ahead(self, at: Ints, target: Ints, heading: Ints) -> Ints:
        """1 if the wrap-around link is ahead in the direction that is kept."""
        y, x = np.divmod(at, self.columns)
        ty, tx = np.divmod(target, self.columns)
        place, to = np.where(heading < 2, x, y), np.where(heading < 2, tx, ty)
        return np.where(heading % 2 == 0, to < place, to > place).astype(np.int64)

    def adaptive_rows(self) -> Ints:
        """For each router and target: the two outputs that lead nearer, the output of the escape network, and its channel."""
        router, target = (each.ravel() for each in np.divmod(np.arange(self.nodes * self.nodes), self.nodes))
        along_x, along_y, seam_x, seam_y = self.directions(router, target)
        first = router * PORTS
        there = router == target
        escape = np.where(along_x >= 0, along_x, along_y)
        channel = np.where(along_x >= 0, seam_x, seam_y)
        rows = np.stack(
            [
                np.where(there, first + LOCAL, np.where(along_x >= 0, first + along_x, -1)),
                np.where(along_y >= 0, first + along_y, -1),
                np.where(there, -1, first + escape),
                channel,
            ],
            axis=1,
        )
        return np.ascontiguousarray(rows, dtype=np.int64)

    def tables(self, hops: Ints) -> dict[str, Any]:
        """The network for the core, with these hops."""
        n = self.nodes
        links = np.full((n * PORTS + n, 6), -1, dtype=np.int64)
        links[:, 4:] = 1
        routers = np.arange(n)
        for port in range(4):
            there = self.neighbour(routers, port)
            links[routers * PORTS + port, 0] = np.where(there >= 0, there * PORTS + (port ^ 1), -1)
        links[: n * PORTS, 2] = self.switch_cycles + self.link_cycles
        links[: n * PORTS, 3] = self.link_cycles + self.credit_cycles
        links[routers * PORTS + LOCAL, 1] = routers
        links[n * PORTS :, 0] = routers * PORTS + LOCAL
        links[n * PORTS :, 2] = links[n * PORTS :, 3] = self.link_cycles
        ports = np.full(n, PORTS, dtype=np.int64)
        return {
            "channels": self.channels,
            "depth": self.depth,
            "escapes": self.escapes,
            "inputs": ports,
            "outputs": ports,
            "terminals": n,
            "links": links,
            "hops": hops,
            "adaptive": self.adaptive_rows() if self.escapes else np.empty((0, 4), dtype=np.int64),
        }

    def alone(self, hops: int, flits: int) -> int:
        """[clock] The time of a packet from its birth to the ejection of its tail, without other packets on the network."""
        return self.link_cycles + (hops + 1) * (1 + self.switch_cycles + self.link_cycles) + flits - 1

    def names(self) -> list[str]:
        """The names of outputs: `r{row}c{col}.east`, ..., and then of the links from terminals into the network."""
        sides = ("east", "west", "south", "north", "local")
        at = [f"r{k // self.columns}c{k % self.columns}" for k in range(self.nodes)]
        return [f"{name}.{side}" for name in at for side in sides] + [f"{name}.in" for name in at]


def _rows(columns: list[tuple[Any, Any, Any]]) -> tuple[Ints, Ints]:
    """The routes one after another, each up to its first local port."""
    output, low, high = (np.stack([column[k] for column in columns], axis=1) for k in range(3))
    last = np.argmax(output % PORTS == LOCAL, axis=1)
    wanted = np.arange(output.shape[1])[None, :] <= last[:, None]
    hops = np.stack([output[wanted], low[wanted], high[wanted]], axis=1)
    first = np.concatenate(([0], np.cumsum(last + 1)[:-1])) if len(last) else np.empty(0, dtype=np.int64)
    return np.ascontiguousarray(hops, dtype=np.int64), first.astype(np.int64)
