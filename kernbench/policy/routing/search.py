"""Shortest paths in one adjacency graph: one search backwards from each target, carried on as far as sources ask for."""

from __future__ import annotations

import heapq

from kernbench.policy.routing.adjacency import Adjacency


class Search:
    """Shortest paths of one graph, each found once.

    Of paths of equal cost the one whose names come first, name by name from the source on.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._graph = adjacency
        self._trees: dict[int, _Tree] = {}
        self._paths: dict[tuple[int, int], tuple[str, ...] | None] = {}

    def path(self, source: str, target: str) -> tuple[str, ...] | None:
        """The nodes of the shortest path, both ends among them; None: there is no path. KeyError: no such node."""
        key = (self._graph.number[source], self._graph.number[target])
        if key not in self._paths:
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
        while source not in self._settled:
            if not self._settle():
                return None
        nodes = [source]
        while source != self._target:
            source = self._next[source]
            nodes.append(source)
        return nodes

    def _settle(self) -> bool:
        """Settle the nearest node and look at the edges into it; False: every node with a path is settled.

        All nodes between a settled node and the target are settled before it, so that its next node is final.
        """
        graph, cost, heap = self._graph, self._cost, self._heap
        while heap:
            here, node = heapq.heappop(heap)
            if node in self._settled:
                continue
            self._settled.add(node)
            if graph.is_end[node] and node != self._target:
                return True
            for source, step in graph.into[node]:
                if graph.parent[source] != source:
                    continue
                there = cost.get(source)
                if there is None or here + step < there:
                    cost[source], self._next[source] = here + step, node
                    heapq.heappush(heap, (here + step, source))
                elif here + step == there and node < self._next[source]:
                    self._next[source] = node
            return True
        return False
