"""Axes of a sweep whose values have no effect in some of its points, because another value of the machine decides there."""

from __future__ import annotations

from collections import defaultdict

from kernbench.common.words import counted
from kernbench.config.effects import Unused, unused_values
from kernbench.sweep.points import Points

_MOST_VALUES = 4


def unused_axes(points: Points) -> list[str]:
    """A line for each of these axes: in how many points, with which values, and why in the first of them."""
    found: dict[str, list[tuple[object, Unused]]] = defaultdict(list)
    known: dict[tuple[int, str], dict[str, Unused]] = {}
    for point in points.points:
        task = point.task
        key = task.machine, repr(task.settings)
        if key not in known:
            config = points.spec.machines[task.machine].again(task.settings)
            known[key] = {one.path: one for one in unused_values(config)} if task.settings else {}
        for path, value in task.settings:
            for unused in known[key].values():
                if path == unused.path or path.startswith(f"{unused.path}."):
                    found[path].append((value, unused))
    return [_line(path, cases, len(points)) for path, cases in found.items()]


def _line(path: str, cases: list[tuple[object, Unused]], of: int) -> str:
    values = list(dict.fromkeys(str(value) for value, _ in cases))
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    shown, first = ", ".join(values[:_MOST_VALUES]) + more, cases[0][1]
    return f"{path} = {shown} has no effect in {len(cases):,} of {counted(of, 'point')}: {first.why}; {first.instead}"
