"""Shortest paths in one adjacency graph: one search backwards from each target, carried on as far as sources ask for."""

from __future__ import annotations

import heapq
from threading import Lock

from kernbench.policy.routing.adjacency import Adjacency


class Search:
    """Shortest paths of one graph, each found once.

    Of paths of equal cost the one whose names come first, name by name from the source on.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._graph = adjacency
        self._trees: dict[int, _Tree] = {}
        self._paths: dict[tuple[int, int], tuple[str, ...] | None] = {}
        self._lock = Lock()  # machines of several threads may ask: a tree grows under the hands of one of them

    def path(self, source: str, target: str) -> tuple[str, ...] | None:
        """The nodes of the shortest path, both ends among them; None: there is no path. KeyError: no such node."""
        key = (self._graph.number[source], self._graph.number[target])
        if key not in self._paths:
            with self._lock:
                numbers = self._find(*key)
            names = self._graph.names
            self._paths[key] = None if numbers is None else tuple([names[number] for number in numbers])
        return self._paths[key]

    def _find(self, source: int, target: int) -> list[int] | None:
        """Out of the tree that the source hangs in, across, and into the target's: only across is there a choice."""
        up, down = self._graph.chain(source), self._graph.chain(target)
        if up[-1] == down[-1]:
            meeting = next(node for node in up if node in down)
            return up[: up.index(meeting)] + down[: down.index(meeting) + 1][::-1]
        across = self._tree(down[-1]).walk(up[-1])
        return None if across is None else up[:-1] + across + down[:-1][::-1]

    def _tree(self, target: int) -> _Tree:
        if target not in self._trees:
            self._trees[target] = _Tree(self._graph, target)
        return self._trees[target]


class _Tree:
    """Where to go next on the way to one target, for the nodes that the search (Dijkstra's) has settled so far."""

    def __init__(self, adjacency: Adjacency, target: int) -> None:
        self._graph = adjacency
        self._target = target
        self._cost = {target: 0}  # of the nodes seen so far
        self._next = {target: target}
        self._settled: set[int] = set()
        self._heap = [(0, target)]

    def walk(self, source: int) -> list[int] | None:
        """The nodes from `source` to the target; None: it cannot be reached."""
        if source not in self._settled and not self._settle(source):
            return None
        nodes, onward, target = [source], self._next, self._target
        while source != target:
            source = onward[source]
            nodes.append(source)
        return nodes

    def _settle(self, wanted: int) -> bool:
        """Settle the nearest node and look at the edges into it, again and again up to `wanted`; False: there is no path.

        All nodes between a settled node and the target are settled before it, so that its next node is final.
        """
        graph, cost, onward, heap, settled = self._graph, self._cost, self._next, self._heap, self._settled
        parent, into = graph.parent, graph.into
        while heap:
            here, node = heapq.heappop(heap)
            if node in settled:
                continue
            settled.add(node)
            if not graph.is_end[node] or node == self._target:
                for source, step in into[node]:
                    if parent[source] != source:
                        continue
                    there, total = cost.get(source), here + step
                    if there is None or total < there:
                        cost[source], onward[source] = total, node
                        heapq.heappush(heap, (total, source))
                    elif total == there and node < onward[source]:
                        onward[source] = node
            if node == wanted:
                return True
        return False
