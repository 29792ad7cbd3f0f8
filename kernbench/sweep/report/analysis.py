"""Analysis of a sweep: the best points, the Pareto front, the importance of each axis, and a grid of two axes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from kernbench.sweep.goals import goal_float, goal_value
from kernbench.sweep.report.table import Entry, SweepTable
from kernbench.sweep.spec import Goal
from kernbench.sweep.store.tables import Row


def ranked(table: SweepTable, goal: Goal) -> list[Entry]:
    """The points that are done and satisfy the constraints, the best first; equal points are in the order of the spec."""
    scored = [(found, entry) for entry in table.entries if (found := _score(entry, goal)) is not None and table.allowed(entry)]
    return [entry for _, entry in sorted(scored, key=lambda item: (item[0], item[1].number))]


def pareto(table: SweepTable, goals: Sequence[Goal]) -> list[Entry]:
    """The points within the constraints for which no other point is at least as good in every goal and better in one; the best
    by the first goal comes first.
    """
    scored: list[tuple[tuple[Fraction, ...], Entry]] = []
    for entry in table.entries:
        scores = [_score(entry, goal) for goal in goals]
        known = [one for one in scores if one is not None]
        if len(known) == len(goals) and table.allowed(entry):
            scored.append((tuple(known), entry))
    scored.sort(key=lambda item: (item[0], item[1].number))
    front: list[tuple[tuple[Fraction, ...], Entry]] = []
    for own, entry in scored:  # points that dominate a point come before it
        if not any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other, _ in front):
            front.append((own, entry))
    return [entry for _, entry in front]


@dataclass(frozen=True, slots=True)
class Influence:
    """How much one axis matters for a goal."""

    name: str
    share: float  #: of the variance that the means of its levels explain, 0 to 1
    best: Any  #: level with the best mean
    #: mean of its worst level divided by that of its best (for `max`: best divided by worst); 1 if it has no effect
    gain: float
    levels: tuple[tuple[Any, int, float], ...]  #: value, number of points, mean; numbers in rising order
    relative: bool = False  #: whether means are relative to the mean of the target of each point
    counts: tuple[int, ...] = ()  #: number of points of each value, if the levels are groups of values


#: The groups of an axis, the group of each point, and the number of points of each value.
Cuts = dict[tuple[str, tuple[int, ...]], tuple[list[Any], list[int], tuple[int, ...]]]


def influences(table: SweepTable, goal: Goal, cuts: Cuts | None = None) -> list[Influence]:
    """The share of the variance that each axis explains (the first-order index of a full grid), the largest first.

    Drawn axes are divided into eighths of their points by rank. Axes with one level have no influence and are left out. With
    several targets, a point is divided by the mean of the points of its target. `cuts`: stores the division of axes, for
    further goals of the same table.
    """
    scored = [(entry, score_float(entry.row, goal)) for entry in table.entries if entry.row is not None]
    known = [(entry, found) for entry, found in scored if found is not None]
    several = len({entry.target for entry, _ in known}) > 1
    if several:
        known = _relative(known)
    if len(known) < 2:
        return []
    total = _variance([value for _, value in known])
    points = tuple(entry.number for entry, _ in known)
    kept = {} if cuts is None else cuts
    out = []
    for name in (name for name in table.names if name != "target"):
        if (name, points) not in kept:
            kept[name, points] = _groups([table.value(entry, name) for entry, _ in known])
        labels, group_of, counts = kept[name, points]
        groups: list[tuple[Any, list[float]]] = [(label, []) for label in labels]
        for group, (_, value) in zip(group_of, known, strict=True):
            groups[group][1].append(value)
        if len(groups) > 1:
            sign = -1 if goal[1] == "max" else 1
            out.append(replace(_influence(name, sign, groups, total), relative=several, counts=counts))
    return sorted(out, key=lambda one: -one.share)


def _groups(levels: list[Any]) -> tuple[list[Any], list[int], tuple[int, ...]]:
    """The distinct levels, or eighths of them, in rising order; for each point the number of its group; and, if the levels are
    divided into eighths, the number of points of each level.
    """
    cut = [json.dumps(value) for value in _cut(levels)]
    rising = _rising(levels)
    order = sorted(range(len(levels)), key=lambda i: rising((levels[i],)))
    number: dict[str, int] = {}
    for i in order:
        number.setdefault(cut[i], len(number))
    labels, group_of = [json.loads(text) for text in number], [number[text] for text in cut]
    counts = Counter(map(json.dumps, levels))
    return labels, group_of, tuple(counts.values()) if len(counts) > len(labels) else ()


def interactions(found: list[Influence], points: int) -> float | None:
    """The share of the variance that no single axis explains; None if the grid is not full.

    If an axis is divided into groups, the share includes the differences within groups. `points`: the number of points with a
    value of the goal.
    """
    counts = [one.counts or tuple(count for _, count, _ in one.levels) for one in found]
    whole = math.prod(map(len, counts)) if found else 0
    even = all(len(set(some)) == 1 for some in counts)
    return max(0.0, 1 - math.fsum(one.share for one in found)) if whole and points % whole == 0 and even else None


def _relative(known: list[tuple[Entry, float]]) -> list[tuple[Entry, float]]:
    """Each value divided by the mean of its target, with its sign."""
    sums: dict[str, list[float]] = {}
    for entry, value in known:
        sums.setdefault(entry.target, []).append(value)
    means = {target: math.fsum(values) / len(values) for target, values in sums.items()}
    return [(entry, value / abs(means[entry.target])) for entry, value in known if means[entry.target]]


def _rising(levels: list[Any]) -> Callable[[tuple[Any, ...]], Any]:
    """Sort numbers, and keep all other values in their order."""
    numbers = all(isinstance(level, (int, float)) for level in levels)
    return lambda item: item[0] if numbers else 0


MAX_GROUPS = 12  #: most levels of an axis that are used unchanged
GROUPS = 8  #: number of groups of an axis with more levels


def _cut(values: list[Any]) -> list[Any]:
    """The levels unchanged; if there are many numbers, the eighth of each, named by its smallest and largest value.

    The numbers of values in two eighths differ by at most one.
    """
    if len({json.dumps(value) for value in values}) <= MAX_GROUPS or not all(isinstance(v, (int, float)) for v in values):
        return values
    order = sorted(set(values))
    starts = [len(order) * i // GROUPS for i in range(GROUPS + 1)]
    eighths = [order[a:b] for a, b in pairwise(starts)]
    group = {value: eighth for eighth in eighths for value in eighth}
    return [f"{group[value][0]:g} to {group[value][-1]:g}" for value in values]


def _influence(name: str, sign: int, groups: list[tuple[Any, list[float]]], total: float) -> Influence:
    count = sum(len(values) for _, values in groups)
    means = [math.fsum(values) / len(values) for _, values in groups]
    middle = math.fsum(mean * len(values) for mean, (_, values) in zip(means, groups, strict=True)) / count
    between = math.fsum(len(values) * (mean - middle) ** 2 for mean, (_, values) in zip(means, groups, strict=True)) / count
    best = min(range(len(groups)), key=lambda i: means[i])
    ends = sorted((abs(min(means)), abs(max(means))))
    levels = tuple((level, len(values), sign * mean) for (level, values), mean in zip(groups, means, strict=True))
    gain = ends[1] / ends[0] if ends[0] else math.inf
    return Influence(name, between / total if total else 0.0, groups[best][0], gain if total else 1.0, levels)


@dataclass(frozen=True, slots=True)
class Grid:
    """The best number for every pair of levels of two axes."""

    rows: str
    columns: str
    row_levels: tuple[Any, ...]
    column_levels: tuple[Any, ...]
    cells: tuple[tuple[float | None, ...], ...]  #: None if no point is done


def grid_of(table: SweepTable, rows: str, columns: str, goal: Goal) -> Grid:
    """The best value of all points for each pair of levels."""
    places = [table.place(entry) for entry in table.entries]
    row_levels = _levels(place[rows] for place in places)
    column_levels = _levels(place[columns] for place in places)
    best: dict[tuple[str, str], Fraction] = {}
    for entry, place in zip(table.entries, places, strict=True):
        found = _score(entry, goal)
        at = json.dumps(place[rows]), json.dumps(place[columns])
        if found is not None and (at not in best or found < best[at]):
            best[at] = found
    sign = -1 if goal[1] == "max" else 1
    cells = tuple(
        tuple(
            None if (found := best.get((json.dumps(row), json.dumps(column)))) is None else sign * float(found)
            for column in column_levels
        )
        for row in row_levels
    )
    return Grid(rows, columns, row_levels, column_levels, cells)


def _levels(values: Iterable[Any]) -> tuple[Any, ...]:
    """The levels without duplicates: numbers in rising order, all other values in order of appearance."""
    found = list({json.dumps(value): value for value in values}.values())
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found):
        found.sort()
    return tuple(found)


def _score(entry: Entry, goal: Goal) -> Fraction | None:
    return None if entry.row is None else score(entry.row, goal)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def score(row: Row, goal: Goal) -> Fraction | None:
    """The exact value of a goal in a row, where smaller is better; None if the row has none, or if the run is not done."""
    name, way = goal
    number = goal_value(row, name) if row.status == "done" else None
    return None if number is None else -number if way == "max" else number


def score_float(row: Row, goal: Goal) -> float | None:
    """`score` as the nearest float."""
    name, way = goal
    known = goal_float(row, name) if row.status == "done" else None
    return None if known is None else -known if way == "max" else known


class Best:
    """The best row by a goal; of equal rows the first.

    `allowed`: whether a row may be the best.
    """

    def __init__(self, goal: Goal, allowed: Callable[[Row], bool] = lambda row: True) -> None:
        self.goal = goal
        self._allowed = allowed
        self.row: Row | None = None
        self._score: Fraction | None = None

    def offer(self, row: Row) -> None:
        """Keep the row if it is better."""
        found = score(row, self.goal)
        if found is not None and (self._score is None or found < self._score) and self._allowed(row):
            self.row, self._score = row, found
