"""Routes between SIPs whose network has dimensions: one dimension after another, the first one first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kernbench.common import naming
from kernbench.config.system.dimensions import waypoints

if TYPE_CHECKING:
    from kernbench.policy.routing.search import Search
    from kernbench.topology.graph import Topology


class DimensionOrder:
    """The shortest paths between the waypoints of a route, joined.

    Between two waypoints, the shortest path stays in a line of one dimension, unless links are broken. With broken links, a
    path may pass a node twice; the part between the two visits is then left out.
    """

    def __init__(self, topology: Topology, search: Search) -> None:
        self._search = search
        self._nodes = topology.by_id
        self._dimensions = topology.config.system.dimensions
        self._io = naming.io_index(topology.config.sip.io[0].name)
        self._paths: dict[tuple[str, str], tuple[str, ...] | None] = {}

    def path(self, source: str, target: str) -> tuple[str, ...] | None:
        """The nodes of the route, including both ends; None if there is no path. KeyError for an unknown node."""
        here, there = self._nodes[source].sip, self._nodes[target].sip
        if here is None or there is None or here == there:
            return self._search.path(source, target)
        if (source, target) not in self._paths:
            self._paths[source, target] = self._joined(source, target, waypoints(here, there, self._dimensions))
        return self._paths[source, target]

    def _joined(self, source: str, target: str, sips: list[int]) -> tuple[str, ...] | None:
        found = [source]
        ports = [naming.in_io(sip, self._io, naming.IO_NOC) for sip in sips]
        for one, other in pairwise([source, *ports, target]):
            path = self._search.path(one, other)
            if path is None:
                return None
            for node in path[1:]:
                if node in found:
                    del found[found.index(node) + 1 :]
                else:
                    found.append(node)
        return tuple(found)
