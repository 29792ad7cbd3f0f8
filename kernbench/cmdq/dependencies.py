"""The dependency graph of a program, and its problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter

import msgspec
import numpy as np
import numpy.typing as npt

from kernbench.cmdq.entries import BarrierEntry, Entry
from kernbench.cmdq.read_entry import FieldProblem

_CIRCLES_SHOWN = 3  # limit of printed cycles: one search may find many cycles, and each may be as long as the program
_CIRCLE_ENDS = 12  # entries of a long cycle that are printed

Positions = npt.NDArray[np.int64]
Edges = tuple[Positions, Positions]  #: dependency and dependent


def edges_of(entries: Sequence[Entry]) -> Edges | None:
    """The pairs of positions (dependency, dependent), each once, sorted. None if ids repeat or do not exist."""
    count = len(entries)
    ids = np.fromiter(map(attrgetter("id"), entries), np.int64, count)
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    before = _named(list(map(attrgetter("deps_before"), entries)), ranked, order)
    behind = _named(list(map(attrgetter("deps_after"), entries)), ranked, order)
    kinds = list(map(type, entries))
    barriers = [k for k, kind in enumerate(kinds) if kind is BarrierEntry] if BarrierEntry in kinds else []
    waited = _named([entries[k].wait_for for k in barriers], ranked, order)  # type: ignore[attr-defined]  # of barriers
    if before is None or behind is None or waited is None or (ranked[1:] == ranked[:-1]).any():
        return None
    gates = np.array(barriers, dtype=np.int64)
    source = np.concatenate((before[1], behind[0], waited[1]))
    target = np.concatenate((before[0], behind[1], gates[waited[0]]))
    edges = np.sort(source * count + target)
    if (edges[1:] == edges[:-1]).any():  # listed twice
        edges = np.unique(edges)
    return edges // max(count, 1), edges % max(count, 1)


def _named(lists: Sequence[tuple[int, ...]], ranked: Positions, order: Positions) -> tuple[Positions, Positions] | None:
    """The pairs (position in `lists`, position of the named entry); None if an id does not exist."""
    if not any(lists):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    sizes = np.fromiter(map(len, lists), np.int64, len(lists))
    flat = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
    place = np.minimum(np.searchsorted(ranked, flat), max(len(ranked) - 1, 0))
    if len(flat) and (not len(ranked) or (ranked[place] != flat).any()):
        return None
    return np.repeat(np.arange(len(lists)), sizes), order[place]


def predecessors(entries: Sequence[Entry]) -> list[tuple[int, ...]]:
    """For each entry, the indices of its dependencies: its `deps_before` and `wait_for`, and the entries that list it in
    `deps_after`. The list is sorted without duplicates; ids that do not exist and the entry itself are left out.

    Two dependencies are not included: entries wait for a BARRIER before them in the file, and END waits for all entries before
    it.
    """
    index_of = first_with_id(entries)
    waits: list[set[int]] = [set() for _ in entries]
    for i, entry in enumerate(entries):
        for _, _, other in _edges(entry):
            if other in index_of:
                waits[i].add(index_of[other])
        for other in entry.deps_after:
            if other in index_of:
                waits[index_of[other]].add(i)
    return [tuple(sorted(found - {i})) for i, found in enumerate(waits)]


def first_with_id(entries: Sequence[Entry]) -> dict[int, int]:
    """Index of the first entry with each id."""
    index_of: dict[int, int] = {}
    for i, entry in enumerate(entries):
        index_of.setdefault(entry.id, i)
    return index_of


def _edges(entry: Entry) -> Iterator[tuple[str, int, int]]:
    """(field, position in it, id) for the dependencies that an entry lists."""
    for k, other in enumerate(entry.deps_before):
        yield "deps_before", k, other
    if isinstance(entry, BarrierEntry):
        for k, other in enumerate(entry.wait_for):
            yield "wait_for", k, other


def structure_problems(entries: Sequence[Entry], edges: Edges | None = None) -> list[tuple[int, FieldProblem]]:
    """(index, problem) of ids, dependencies and END, as docs/model/endings.md lists them, in file order.

    `edges`: the result of `edges_of`, if it is known.
    """
    edges = edges_of(entries) if edges is None else edges
    if edges is not None and (edges[0] < edges[1]).all() and "END" not in map(attrgetter("opcode"), entries[:-1]):
        return []  # no entry depends on a later one, so there is no cycle
    index_of = first_with_id(entries)
    problems: list[tuple[int, FieldProblem]] = []
    end: int | None = None
    for i, entry in enumerate(entries):
        first = index_of[entry.id]
        if first != i:
            problems.append((i, FieldProblem(("id",), f"cmdq[{first}] has this id too: ids must differ", entry.id)))
        if end is not None and i == end + 1:
            problems.append((i, FieldProblem((), f"it is after END, cmdq[{end}]: no entry is allowed after END")))
        if entry.opcode == "END" and end is None:
            end = i
        for field, k, other in _edges(entry):
            problems += _reference(i, entry, index_of, field, k, other, "an entry cannot wait for itself")
        for k, other in enumerate(entry.deps_after):
            problems += _reference(i, entry, index_of, "deps_after", k, other, "an entry cannot wait for itself")
    return problems + _circles(entries)


def _reference(
    i: int, entry: Entry, index_of: dict[int, int], field: str, k: int, other: int, self_rule: str
) -> list[tuple[int, FieldProblem]]:
    if other not in index_of:
        return [(i, FieldProblem((field, k), "the program has no entry with this id", other))]
    return [(i, FieldProblem((field, k), self_rule, other))] if other == entry.id else []


def _circles(entries: Sequence[Entry]) -> list[tuple[int, FieldProblem]]:
    """Cycles of dependencies, each printed once. Depth-first search without recursion: every edge is visited once."""
    waits = predecessors(entries)
    new, open_, done = 0, 1, 2
    state = [new] * len(entries)
    problems: list[tuple[int, FieldProblem]] = []
    for start in range(len(entries)):
        if state[start] != new:
            continue
        state[start] = open_
        path, pending = [start], [iter(waits[start])]
        while path:
            following = next(pending[-1], None)
            if following is None:
                state[path.pop()] = done
                pending.pop()
            elif state[following] == new:
                state[following] = open_
                path.append(following)
                pending.append(iter(waits[following]))
            elif state[following] == open_ and len(problems) < _CIRCLES_SHOWN:
                circle = path[path.index(following) :]
                problems.append(_circle_problem(entries, circle))
    return sorted(problems, key=lambda item: item[0])


def _circle_problem(entries: Sequence[Entry], circle: list[int]) -> tuple[int, FieldProblem]:
    first = circle.index(min(circle))
    ids = [str(entries[i].id) for i in circle[first:] + circle[:first]]
    if len(ids) > 2 * _CIRCLE_ENDS:
        ids[_CIRCLE_ENDS:-_CIRCLE_ENDS] = [f"... ({len(ids) - 2 * _CIRCLE_ENDS} more) ..."]
    text = " -> ".join([*ids, ids[0]])
    return min(circle), FieldProblem((), f"it waits for itself in a circle: {text} (each waits for the next)")


#: Names of the fill colours of boxes, by engine; the text of these boxes is dark.
_FILLS = {"dma": "dma/30", "te": "te/30", "ve": "ve/30", "control": "control/20"}


class Edge(msgspec.Struct, frozen=True):
    """`target` waits for `source`; both are indices."""

    source: int
    target: int
    implied: bool  #: whether BARRIER or END implies the edge


class Graph(msgspec.Struct, frozen=True):
    """The dependencies, and the depth of each entry."""

    edges: tuple[Edge, ...]  #: by target, then source
    #: for each entry, the number of entries on the longest chain before it; None: it can never be issued
    levels: tuple[int | None, ...]

    @property
    def depth(self) -> int:
        """The number of entries on the longest chain."""
        return max((level + 1 for level in self.levels if level is not None), default=0)

    @property
    def width(self) -> int:
        """The number of entries on the level with the most entries."""
        counts = Counter(level for level in self.levels if level is not None)
        return max(counts.values(), default=0)


def dependency_graph(entries: Sequence[Entry]) -> Graph:
    """The graph of a program whose ids and dependencies are valid; it may contain cycles through barriers."""
    edges = _lines_of(entries)
    return Graph(tuple(edges), tuple(_levels(len(entries), edges)))


def _lines_of(entries: Sequence[Entry]) -> list[Edge]:
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
        # Only earlier entries replace the edge to END: a later entry that depends on this one may not end before END.
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
    from kernbench.common.look.palette import tinted  # needed only for pictures

    fills = {engine: tinted(name) for engine, name in _FILLS.items()}
    lines = ["digraph program {", "  rankdir=LR;", '  node [shape=box, style=filled, fontname="sans-serif"];']
    lines += [f'  n{e.index} [label="{_label(e)}", fillcolor="{fills[e.engine]}"];' for e in entries]
    lines += [f"  n{e.source} -> n{e.target}{' [style=dashed]' if e.implied else ''};" for e in graph.edges]
    return "\n".join([*lines, "}", ""])


def mermaid_text(entries: Sequence[Entry], graph: Graph) -> str:
    """The graph for Mermaid; implied edges are dashed."""
    from kernbench.common.look.palette import tinted  # needed only for pictures

    lines = ["flowchart LR"]
    lines += [f'  n{e.index}["{_label(e)}"]:::{e.engine}' for e in entries]
    lines += [f"  n{e.source} {'-.->' if e.implied else '-->'} n{e.target}" for e in graph.edges]
    lines += [f"  classDef {engine} fill:{tinted(name)}" for engine, name in _FILLS.items()]
    return "\n".join([*lines, ""])


def _label(entry: Entry) -> str:
    where = "" if entry.engine == "control" else f" {entry.engine}{entry.engine_id}"
    return f"{entry.id} {entry.opcode}{where}"
