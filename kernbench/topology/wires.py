"""What an edge costs: latency from length and fixed part, bandwidth, routing weight."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from kernbench.common.units import ceil_div
from kernbench.topology.edges import EdgeKind
from kernbench.topology.graph import Edge

if TYPE_CHECKING:
    from kernbench.config.system.parts import Link


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a connection, wherever it stands."""

    kind: EdgeKind
    mm: Fraction
    cycles: int
    bytes_per_cycle: Fraction | None = None
    slices: tuple[int, ...] = ()

    def edge(self, source: str, target: str) -> Edge:
        """The edge from `source` to `target`."""
        # One for the hop itself: of routes that are equally fast, the one of fewest hops is the lightest.
        weight = _whole(self.cycles + 1)
        return Edge(source, target, self.kind, self.mm, self.cycles, self.bytes_per_cycle, weight, self.slices)


@cache
def _whole(number: int) -> Fraction:
    return Fraction(number)


def link_wire(kind: EdgeKind, link: Link, mm: Fraction, mm_per_cycle: Fraction) -> Wire:
    """A connection over a link whose ends are `mm` apart, unless it says its own length."""
    length = mm if link.mm is None else link.mm
    return Wire(kind, length, link.cycles + ceil_div(length, mm_per_cycle), link.bytes_per_cycle)


def plain_wire(kind: EdgeKind, mm: Fraction, mm_per_cycle: Fraction) -> Wire:
    """A connection that is wire alone and limits nothing."""
    return Wire(kind, mm, ceil_div(mm, mm_per_cycle))
