"""The dependency graph of a program: its levels, and its picture as Graphviz DOT or Mermaid text.

An edge leads from an entry to one that waits for it. Besides what the entries say, BARRIER holds up what follows it and
END waits for everything before it; of these implied edges only those are in the graph that no other path replaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.cmdq.depend import predecessors
from kernbench.cmdq.entries import Entry

_COLORS = {"dma": "#cfe8ff", "te": "#ffe0cc", "ve": "#dff5d8", "control": "#eeeeee"}


@dataclass(frozen=True, slots=True)
class Edge:
    """`target` waits for `source`; both are indices."""

    source: int
    target: int
    implied: bool  #: by BARRIER or END


@dataclass(frozen=True)
class Graph:
    """Who waits for whom, and how far from the beginning each entry is."""

    edges: tuple[Edge, ...]  #: by target, then source
    levels: tuple[int | None, ...]  #: per entry, entries on the longest chain before it; None: it can never be issued

    @property
    def depth(self) -> int:
        """Entries on the longest chain."""
        return max((level + 1 for level in self.levels if level is not None), default=0)

    @property
    def width(self) -> int:
        """Entries on the level that has most."""
        counts = Counter(level for level in self.levels if level is not None)
        return max(counts.values(), default=0)


def dependency_graph(entries: Sequence[Entry]) -> Graph:
    """The graph of a program whose ids and dependencies are sound; circles through barriers may be in it."""
    edges = _edges(entries)
    return Graph(tuple(edges), tuple(_levels(len(entries), edges)))


def _edges(entries: Sequence[Entry]) -> list[Edge]:
    explicit = predecessors(entries)
    edges = []
    gate: int | None = None
    waited_for: set[int] = set()
    for entry, before in zip(entries, explicit, strict=True):
        implied: set[int] = set()
        if gate is not None and not any(gate <= source < entry.index for source in before):
            implied = {gate}
        if entry.opcode == "END":
            implied |= set(range(entry.index)) - waited_for
        sources = [(source, False) for source in before] + [(source, True) for source in implied - set(before)]
        edges += [Edge(source, entry.index, is_implied) for source, is_implied in sorted(sources)]
        # Only earlier entries replace END's edge: a later one that waits for this one may itself never end before END.
        waited_for.update(source for source, _ in sources if source < entry.index)
        if entry.opcode == "BARRIER":
            gate = entry.index
    return edges


def _levels(count: int, edges: Sequence[Edge]) -> list[int | None]:
    dependents: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for edge in edges:
        dependents[edge.source].append(edge.target)
        missing[edge.target] += 1
    levels: list[int | None] = [None] * count
    reached = [0] * count
    able = [index for index in range(count) if not missing[index]]
    while able:
        index = able.pop()
        levels[index] = reached[index]
        for target in dependents[index]:
            reached[target] = max(reached[target], reached[index] + 1)
            missing[target] -= 1
            if not missing[target]:
                able.append(target)
    return levels


def dot_text(entries: Sequence[Entry], graph: Graph) -> str:
    """The graph for Graphviz; implied edges are dashed."""
    lines = ["digraph program {", "  rankdir=LR;", '  node [shape=box, style=filled, fontname="sans-serif"];']
    lines += [f'  n{e.index} [label="{_label(e)}", fillcolor="{_COLORS[e.engine]}"];' for e in entries]
    lines += [f"  n{e.source} -> n{e.target}{' [style=dashed]' if e.implied else ''};" for e in graph.edges]
    return "\n".join([*lines, "}", ""])


def mermaid_text(entries: Sequence[Entry], graph: Graph) -> str:
    """The graph for Mermaid; implied edges are dashed."""
    lines = ["flowchart LR"]
    lines += [f'  n{e.index}["{_label(e)}"]:::{e.engine}' for e in entries]
    lines += [f"  n{e.source} {'-.->' if e.implied else '-->'} n{e.target}" for e in graph.edges]
    lines += [f"  classDef {engine} fill:{color}" for engine, color in _COLORS.items()]
    return "\n".join([*lines, ""])


def _label(entry: Entry) -> str:
    where = "" if entry.engine == "control" else f" {entry.engine}{entry.engine_id}"
    return f"{entry.id} {entry.opcode}{where}"
