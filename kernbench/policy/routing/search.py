"""Shortest paths in one adjacency graph: one backward search from each target, extended as far as the sources need."""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from threading import Lock

from kernbench.common.naming import IO_CPU, IO_NOC
from kernbench.topology.graph import LEFT_OUT, Edge, Graph, Measure, Topology

#: Paths begin or end at nodes of these kinds and never pass through one: an HBM stack has ports at many routers, but traffic
#: between these routers does not go through its controller.
ENDS = frozenset({"hbm_ctrl", "sram", "host"})
#: of the nodes of an IO chiplet, those that have edges from cubes
CHIPLET = frozenset({IO_NOC, IO_CPU})


class Adjacency:
    """One graph; nodes are numbered in the order of their names, so a smaller number means an earlier name.

    A cost is one integer that compares as (exits, weight, distance, hops) or (exits, distance, weight, hops) does; every edge
    costs at least 1. An exit is an edge from a cube into an IO chiplet: routes use chiplets to leave a SIP, not to go from cube
    to cube (docs/model/systems.md, Routes). Two paths of equal weight but different length are therefore no tie, and a path and
    its reverse have the same length.
    """

    def __init__(self, topology: Topology, graph: Graph, by: Measure) -> None:
        self.names = sorted(node.id for node in topology.nodes)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.is_end = [topology.by_id[name].kind in ENDS for name in self.names]
        edges = [edge for edge in topology.edges if edge.kind not in LEFT_OUT[graph]]
        into: list[list[tuple[int, int]]] = [[] for _ in self.names]  # for each target: (source, cost) of every incoming edge
        exits = [topology.by_id[edge.source].cube is not None and topology.by_id[edge.target].kind in CHIPLET for edge in edges]
        for edge, cost in zip(edges, _costs(edges, exits, by, len(self.names)), strict=True):
            into[self.number[edge.target]].append((self.number[edge.source], cost))
        #: the only neighbour of a node that is a dead end or part of a tree of dead ends; otherwise the node itself
        self.parent = _parents(into, self.is_end)
        #: `into` without the nodes in these trees: a search never passes through them. Instead of the cost of the
        #: edge, an entry has the key (`_Tree`) that the source would have if the target had cost 0.
        nodes = len(self.names)
        self.across = [
            [(source, cost * nodes + source) for source, cost in edges if self.parent[source] == source] for edges in into
        ]

    def chain(self, node: int) -> list[int]:
        """The chain of nodes with one neighbour each, up to a node with more than one."""
        nodes = [node]
        while self.parent[node] != node:
            node = self.parent[node]
            nodes.append(node)
        return nodes


def _costs(edges: list[Edge], exits: list[bool], by: Measure, nodes: int) -> list[int]:
    weights, lengths = _integers([edge.weight for edge in edges]), _integers([edge.mm for edge in edges])
    first, second = (weights, lengths) if by is Measure.WEIGHT else (lengths, weights)
    above = nodes * max(second, default=0) + 1  # larger than the sum of `second` on any path
    costs = [(one * above + other) * nodes + 1 for one, other in zip(first, second, strict=True)]
    exit_cost = nodes * max(costs, default=0) + 1
    return [cost + exit_cost if out else cost for cost, out in zip(costs, exits, strict=True)]


def _integers(values: list[Fraction]) -> list[int]:
    """The values as integers: multiplied by their common denominator, and divided by their greatest common divisor."""
    denominator = math.lcm(*{value.denominator for value in values})
    scaled = [value.numerator * (denominator // value.denominator) for value in values]
    divisor = math.gcd(*scaled) or 1
    return [value // divisor for value in scaled]


def _parents(into: list[list[tuple[int, int]]], is_end: list[bool]) -> list[int]:
    """Repeatedly remove nodes with one neighbour, and store the neighbour of each.

    The edges must exist in both directions, and paths must be able to pass through the neighbour.
    """
    sources = [{source for source, _ in edges} for edges in into]
    around = [set(found) for found in sources]
    for target, found in enumerate(sources):
        for source in found:
            around[source].add(target)
    parent = list(range(len(into)))
    leaves = [node for node, found in enumerate(around) if len(found) == 1]
    while leaves:
        node = leaves.pop()
        if len(around[node]) != 1:  # its last neighbour was removed already
            continue
        (only,) = around[node]
        if is_end[only] or only not in sources[node] or node not in sources[only]:
            continue
        parent[node] = only
        around[only].discard(node)
        if len(around[only]) == 1:
            leaves.append(only)
    return parent


class Search:
    """The shortest paths of one graph; each is computed once.

    Of paths with equal cost, the first by node names is chosen, compared from the source on.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._graph = adjacency
        self._trees: dict[int, _Tree] = {}
        self._paths: dict[tuple[int, int], tuple[str, ...] | None] = {}
        # machines of several threads use the search, so a lock lets only one of them extend a tree at a time
        self._lock = Lock()

    def path(self, source: str, target: str) -> tuple[str, ...] | None:
        """The nodes of the shortest path, including both ends; None if there is no path. KeyError for an unknown node."""
        key = (self._graph.number[source], self._graph.number[target])
        if key not in self._paths:
            with self._lock:
                numbers = self._find(*key)
            names = self._graph.names
            self._paths[key] = None if numbers is None else tuple([names[number] for number in numbers])
        return self._paths[key]

    def _find(self, source: int, target: int) -> list[int] | None:
        """Follow the chain of the source, then the search tree, then the chain of the target; only the middle part has
        alternatives."""
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
    """The next node on the path to one target, for all nodes that Dijkstra's search has settled so far.

    The key of a node is its cost times the number of nodes, plus its own number. Nodes are therefore settled in the order of
    their costs, and nodes of equal cost in the order of their names.
    """

    def __init__(self, adjacency: Adjacency, target: int) -> None:
        self._graph = adjacency
        self._target = target
        self._keys = {target: target}  # of the nodes seen so far
        self._next = {target: target}
        self._last = -1  # the key of the last settled node: all nodes with keys up to this key are settled
        self._heap = [target]

    def walk(self, source: int) -> list[int] | None:
        """The nodes from `source` to the target; None if there is no path."""
        key = self._keys.get(source)
        if (key is None or key > self._last) and not self._settle(source):
            return None
        nodes, onward, target = [source], self._next, self._target
        while source != target:
            source = onward[source]
            nodes.append(source)
        return nodes

    def _settle(self, wanted: int) -> bool:
        """Settle the nearest node and relax its incoming edges, repeatedly until `wanted` is settled; False if there is no
        path.

        All nodes between a settled node and the target are settled before it, so the next node of a settled node is final.
        """
        graph, keys, onward, heap, target = self._graph, self._keys, self._next, self._heap, self._target
        across, is_end, pop, push, nodes = graph.across, graph.is_end, heapq.heappop, heapq.heappush, len(graph.names)
        while heap:
            key = pop(heap)
            node = key % nodes
            if key != keys[node]:  # a shorter path was found later
                continue
            self._last = key
            if not is_end[node] or node == target:
                here = key - node
                for source, step in across[node]:
                    there, total = keys.get(source), here + step
                    if there is None or total < there:
                        keys[source], onward[source] = total, node
                        push(heap, total)
                    elif total == there and node < onward[source]:
                        onward[source] = node
            if node == wanted:
                return True
        return False
