"""A path with its edges: how long it is, how long it takes, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from kernbench.topology.graph import Edge, Topology


@dataclass(frozen=True)
class Route:
    """A path: its nodes from source to target, and the edges between them."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def along(cls, topology: Topology, path: tuple[str, ...]) -> Route:
        """The route along a path of `topology`. KeyError where it takes an edge that there is not."""
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
        """The edge of the least bandwidth, of equal ones the first; None where none limits anything."""
        limiting = [edge for edge in self.edges if edge.bytes_per_cycle is not None]
        return min(limiting, key=lambda edge: edge.bytes_per_cycle or Fraction(0), default=None)
