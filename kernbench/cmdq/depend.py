"""Who waits for whom in a program: the dependency graph, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernbench.cmdq.entries import BarrierEntry, Entry
from kernbench.cmdq.read_entry import FieldProblem

_CIRCLES_SHOWN = 3  # one search finds any number of circles, and each may be as long as the program
_CIRCLE_ENDS = 12  # entries of a long circle that are printed


def predecessors(entries: Sequence[Entry]) -> list[tuple[int, ...]]:
    """Per entry, the indices of the entries it waits for: its `deps_before` and `wait_for`, and whoever lists it in
    `deps_after`. Sorted, each once; ids that do not exist and the entry itself are left out.

    Not in it: that BARRIER holds up what follows it in the file, and that END waits for everything before it.
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
    """(field, position in it, id) of what an entry says it waits for."""
    for k, other in enumerate(entry.deps_before):
        yield "deps_before", k, other
    if isinstance(entry, BarrierEntry):
        for k, other in enumerate(entry.wait_for):
            yield "wait_for", k, other


def structure_problems(entries: Sequence[Entry]) -> list[tuple[int, FieldProblem]]:
    """(index, problem) of ids, dependencies and END, as docs/model/endings.md lists them, in file order."""
    index_of = first_with_id(entries)
    problems: list[tuple[int, FieldProblem]] = []
    end: int | None = None
    for i, entry in enumerate(entries):
        first = index_of[entry.id]
        if first != i:
            problems.append((i, FieldProblem(("id",), f"cmdq[{first}] has this id too: ids must differ", entry.id)))
        if end is not None and i == end + 1:
            problems.append((i, FieldProblem((), f"it stands after END, cmdq[{end}]: nothing may follow END")))
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
        return [(i, FieldProblem((field, k), "no entry has this id", other))]
    return [(i, FieldProblem((field, k), self_rule, other))] if other == entry.id else []


def _circles(entries: Sequence[Entry]) -> list[tuple[int, FieldProblem]]:
    """Circles of waiting, each printed once. Depth first without recursion: every edge is looked at once."""
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
