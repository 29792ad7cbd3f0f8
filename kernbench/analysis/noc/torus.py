"""Routes over unidirectional tori, and the numbers of the resources that flows share: DRAM controllers, links, ports of
tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kernbench.analysis.noc.device import AXES, Device, Tile

STEPS = {"east": (1, 0), "west": (-1, 0), "south": (0, 1), "north": (0, -1)}


@dataclass(frozen=True, slots=True)
class Hop:
    """One link of a route."""

    resource: int
    side: int  #: 0, or 1 once the route has taken this ring's wrap-around link: packets of the two do not wait for each other


class Torus:
    """Routes of a device's networks over numbered resources."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._noc = {noc: k for k, noc in enumerate(device.nocs)}
        self._tiles = device.columns * device.rows
        self._links = len(device.controllers)
        self._doors = self._links + 2 * self._tiles * len(self._noc)
        self._hops: dict[tuple[str, Tile, Tile], list[Hop]] = device.kept.setdefault("hops", {})

    def names(self) -> list[str]:
        """The names of all resources, in order: controllers, links (`NOC_0.east.1,2`, by their source), tile inputs
        (`NOC_0.into.1,2`).
        """
        nocs, tiles = self.device.nocs.items(), [divmod(k, self.device.columns)[::-1] for k in range(self._tiles)]
        out = [f"dram{k}" for k in range(len(self.device.controllers))]
        out += [f"{noc}.{route}.{x},{y}" for noc, routes in nocs for route in routes for x, y in tiles]
        return out + [f"{noc}.into.{x},{y}" for noc in self._noc for x, y in tiles]

    def capacities(self) -> list[Fraction]:
        """[byte/cycle] of every resource."""
        device = self.device
        doors = [getattr(device.absorption, device.kind_of(divmod(k, device.columns)[::-1])) for k in range(self._tiles)]
        out = [device.controller_bytes_per_cycle] * len(device.controllers)
        return out + [device.link_bytes_per_cycle] * (self._doors - self._links) + doors * len(self._noc)

    def hops(self, noc: str, source: Tile, target: Tile) -> list[Hop]:
        """The links of a route: first along one axis, then along the other. The list is kept, and must not be changed."""
        known = self._hops.get((noc, source, target))
        if known is None:
            known = self._hops[noc, source, target] = self._walk(noc, source, target)
        return known

    def _walk(self, noc: str, source: Tile, target: Tile) -> list[Hop]:
        x, y = source
        size = {"x": self.device.columns, "y": self.device.rows}
        out = []
        for k, route in enumerate(self.device.nocs[noc]):
            dx, dy = STEPS[route]
            axis, side = AXES[route], 0
            while (x, y)[axis == "y"] != target[axis == "y"]:
                out.append(Hop(self._links + (2 * self._noc[noc] + k) * self._tiles + y * size["x"] + x, side))
                nx, ny = (x + dx) % size["x"], (y + dy) % size["y"]
                if (nx - x, ny - y) != (dx, dy):
                    side = 1
                x, y = nx, ny
        return out

    def door(self, noc: str, tile: Tile) -> int:
        """The resource through which a tile receives packets."""
        return self._doors + self._noc[noc] * self._tiles + tile[1] * self.device.columns + tile[0]

    def controllers(self, tiles: Sequence[Tile]) -> list[int]:
        """The DRAM controllers behind these tiles."""
        of = self.device.controller_of
        return sorted({of[tile] for tile in tiles if tile in of})

    def tree(self, noc: str, source: Tile, targets: Sequence[Tile]) -> list[list[int]]:
        """Resources of a multicast, each once: the trunk along the first axis, then each branch off it with its doors."""
        axis = AXES[self.device.nocs[noc][1]] == "y"  # which coordinate a branch runs along
        branches: dict[int, list[Tile]] = {}
        for target in targets:
            branches.setdefault(target[not axis], []).append(target)
        trunk: dict[int, None] = {}
        out = []
        for turn, ends in branches.items():
            corner = (turn, source[1]) if axis else (source[0], turn)
            trunk |= dict.fromkeys(hop.resource for hop in self.hops(noc, source, corner))
            links = dict.fromkeys(hop.resource for end in ends for hop in self.hops(noc, corner, end))
            out.append([*links, *(self.door(noc, end) for end in ends)])
        return ([[*trunk]] if trunk else []) + out
