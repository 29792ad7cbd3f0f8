"""The four adjacency graphs: a topology's edges without some kinds; and what makes a path in one of them short."""

from __future__ import annotations

from enum import StrEnum

from kernbench.topology.edges import WITHOUT_COMMAND, WITHOUT_PES, WITHOUT_UCIE, EdgeKind


class Graph(StrEnum):
    """Which edges a path may use."""

    ALL = "all"
    DATA = "data"
    MCPU = "mcpu"
    LOCAL = "local"


class Measure(StrEnum):
    """What makes a path short."""

    WEIGHT = "weight"
    DISTANCE = "distance"


#: The kinds of edges that each graph leaves out.
LEFT_OUT: dict[Graph, frozenset[EdgeKind]] = {
    Graph.ALL: frozenset(),
    Graph.DATA: WITHOUT_COMMAND,
    Graph.MCPU: WITHOUT_PES,
    Graph.LOCAL: WITHOUT_UCIE,
}
