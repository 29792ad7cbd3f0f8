"""Rings of ranks, and the tables of neighbours that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernbench.ccl.contract import Table, Way

OPPOSITE = {"E": "W", "W": "E", "S": "N", "N": "S"}


@dataclass(frozen=True, slots=True)
class Ring:
    """Ranks in a circle. Each sends to the next in direction `out`, and hears from the one before it."""

    members: tuple[int, ...]
    plane: int = 0
    out: str = "E"
    far: bool = False  #: it goes over several SIPs

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def back(self) -> str:
        """The direction of the one before."""
        return OPPOSITE[self.out]

    def turned(self) -> Ring:
        """The same ring the other way round."""
        return Ring(self.members[::-1], self.plane, self.back, self.far)


def table_of(rings: Iterable[Ring]) -> Table:
    """Who is next to whom along these rings, both ways."""
    table: dict[int, dict[Way, tuple[int, str]]] = {}
    for ring in rings:
        if ring.size < 2:
            continue
        for at, rank in enumerate(ring.members):
            after = ring.members[(at + 1) % ring.size]
            table.setdefault(rank, {})[ring.plane, ring.out] = after, ring.back
            table.setdefault(after, {})[ring.plane, ring.back] = rank, ring.out
    return table
