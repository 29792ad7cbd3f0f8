"""The routes between SIPs in dimensions, for estimates: their latencies, and the links that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from kernbench.config import SystemConfig
from kernbench.config.system.dimensions import FULLY_CONNECTED, RING, SWITCH, link_of, sizes_of, strides, switches_of
from kernbench.topology.cube import link_wire
from kernbench.topology.graph import EdgeKind

Link = tuple[Any, ...]


@dataclass(frozen=True)
class DimensionCost:
    """The links of a dimension."""

    kind: str
    size: int
    cycles: int  #: of the way to a neighbour: a link, or two links and a switch
    slower: float  #: the time of a byte on a link, relative to `system.link`
    through: float = 0.0  #: the same, through an oversubscribed switch; 0 without a limit

    def hops(self, here: int, there: int) -> int:
        """Return how many links to neighbours a route takes from one position to another."""
        if self.kind != RING:
            return int(here != there)
        return min((there - here) % self.size, (here - there) % self.size)

    def positions(self, here: int, there: int) -> Iterator[int]:
        """Return the positions on a route along a ring, with both ends."""
        step = 1 if 2 * ((there - here) % self.size) <= self.size else -1
        for hop in range(self.hops(here, there) + 1):
            yield (here + step * hop) % self.size


def costs_of(config: SystemConfig) -> tuple[DimensionCost, ...]:
    """Return the dimensions of a machine; none for another kind of network."""
    found = []
    for one in config.system.dimensions if sizes_of(config) else ():
        link, of = link_of(config, one), switches_of(config, one)
        wire = link_wire(EdgeKind.SIP, link, config.system.pitch_mm, config.wires.board_mm_per_cycle)
        switched = one.kind == SWITCH
        slower = float(config.system.link.bytes_per_cycle / link.bytes_per_cycle)
        through = slower * float(of.oversubscription) / one.size if switched and of.oversubscription > 1 else 0.0
        cycles = 2 * wire.cycles + of.cycles if switched else wire.cycles
        found.append(DimensionCost(one.kind, one.size, cycles, slower, through))
    return tuple(found)


def longer(costs: Sequence[DimensionCost], sips: int) -> list[DimensionCost]:
    """Return the dimensions of a group. A group with more SIPs than the machine has a longer last dimension."""
    last = max(costs[-1].size, -(-sips // prod(one.size for one in costs[:-1])))
    return [*costs[:-1], replace(costs[-1], size=last)]


def _legs(costs: Sequence[DimensionCost], a: int, b: int) -> Iterator[tuple[int, DimensionCost, int, int, int]]:
    """Return the number, the cost, both positions and the stride of each dimension on a route."""
    for number, (one, step) in enumerate(zip(costs, strides([one.size for one in costs]), strict=True)):
        here, there = a // step % one.size, b // step % one.size
        if here != there:
            yield number, one, here, there, step


def latency(costs: Sequence[DimensionCost], a: int, b: int) -> int:
    """Return the latency [cycle] of the links between two SIPs."""
    return sum(one.cycles * one.hops(here, there) for _, one, here, there, _ in _legs(costs, a, b))


def links(costs: Sequence[DimensionCost], a: int, b: int) -> Iterator[tuple[Link, float]]:
    """Return the links on the route between two SIPs, with the time of a byte on each, relative to `system.link`."""
    for number, one, here, there, step in _legs(costs, a, b):
        line = a - here * step
        if one.kind == RING:
            ways = list(one.positions(here, there))
            yield from (((number, line + x * step, line + y * step), one.slower) for x, y in pairwise(ways))
        elif one.kind == FULLY_CONNECTED:
            yield (number, a, line + there * step), one.slower
        else:
            yield (number, a, "up"), one.slower
            if one.through:
                yield (number, line, "through"), one.through
            yield (number, line + there * step, "down"), one.slower
        a = line + there * step
