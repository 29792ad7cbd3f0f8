"""The points of a sweep: every combination of target, machine and axes, checked, each with the key of its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kernbench.common.errors import ABSENT, MAX_PROBLEMS_SHOWN, InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.config.effects import Unused, unused_values
from kernbench.config.places import KEY
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.sweep.axes import Level, drawn, grid, random_points, sized, sobol_points
from kernbench.sweep.machines import Machines, Setting
from kernbench.sweep.sources import component_digests
from kernbench.sweep.spec import MACHINE, PARAM, Spec
from kernbench.sweep.targets.target import Target
from kernbench.version import VERSION

LEAVE_OUT = "exclude such points with where, or write invalid: skip"
MAX_POINTS = 10_000_000  #: limit of the points of one sweep


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One run, as it is passed to an executor."""

    key: str
    target: int
    machine: int
    settings: tuple[Setting, ...]
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One point: `values` has one for each of the spec's names."""

    number: int  #: from 0, in the order of the spec
    values: tuple[Any, ...]
    task: Task


@dataclass(frozen=True)
class Points:
    """All points of a spec, in order, and the numbers of combinations that are not points."""

    spec: Spec
    points: list[Point]
    excluded: int = 0  #: excluded by conditions
    invalid: int = 0  #: excluded because they violate a rule of the machine

    def __len__(self) -> int:
        return len(self.points)


def points_of(spec: Spec) -> Points:
    """The points. InputError with file and line of the values for which no machine or target can be made."""
    levels = _levels(spec)
    keys = Keys(spec)
    points: list[Point] = []
    problems: dict[str, Problem] = {}
    excluded = invalid = 0
    for t, target in enumerate(spec.targets):
        for m in spec.machine_of[t]:
            machine = spec.machines[m]
            for row in levels:
                values = tuple(value for level in row for value in level)
                if not _holds(spec, target, machine, values):
                    excluded += 1
                    continue
                try:
                    task = keys.task(t, m, values)
                except InputError as error:
                    invalid += 1
                    for problem in error.problems:
                        found = placed(spec, values, problem)
                        problems.setdefault(f"{found.where} {found.rule}", found)
                    if not spec.skip_invalid and len(problems) > MAX_PROBLEMS_SHOWN:
                        raise InputError(problems.values()) from None
                    continue
                points.append(Point(len(points), values, task))
    if problems and not spec.skip_invalid:
        raise InputError(problems.values())
    if not points:
        why = f"excluded by conditions: {excluded}, not valid: {invalid}"
        raise InputError(Problem(_source(spec), f"the sweep has no point to run ({why})"))
    return Points(spec, points, excluded, invalid)


def _levels(spec: Spec) -> list[tuple[Level, ...]]:
    """The combinations of the axes' levels: all of them, or the drawn ones."""
    if spec.sample is None:
        if (count := sized(spec.axes)) > MAX_POINTS:
            rule = f"its axes make {count} points, more than {MAX_POINTS}"
            raise InputError(Problem(_source(spec), rule, remedy="sample them"))
        return grid(spec.axes)
    draw = sobol_points if spec.sample.kind == "sobol" else random_points
    return drawn(spec.axes, draw(spec.sample.count, len(spec.axes), spec.sample.seed))


def _source(spec: Spec) -> str:
    return spec.name if spec.document is None else spec.document.source


def place_holds(spec: Spec, target: int, machine: int, values: tuple[Any, ...]) -> bool:
    """Whether all conditions are true of a combination of values."""
    return _holds(spec, spec.targets[target], spec.machines[machine], values)


def _holds(spec: Spec, target: Target, machine: Machines, values: tuple[Any, ...]) -> bool:
    """Whether all conditions are true of a point."""
    if not spec.conditions:
        return True
    known = dict(zip(spec.names, values, strict=True)) | {"target": target.label, MACHINE: machine.label}
    for i, condition in enumerate(spec.conditions):
        given = {name: known[name] if name in known else machine.value(name) for name in condition.names}
        try:
            if not condition.holds(given):
                return False
        except ValueError as error:
            setting = ", ".join(f"{name} = {value}" for name, value in given.items())
            rule = f"{error}, with {setting}"
            problem = (("where", i), rule, condition.text, "")
            if spec.document is None:
                raise InputError(Problem(_source(spec), rule, f"where[{i}]", condition.text)) from None
            raise InputError(spec.document.problem(*problem)) from None
    return True


def placed(spec: Spec, values: tuple[Any, ...], problem: Problem) -> Problem:
    """The problem of a machine or target, moved to the value of the axis that causes it."""
    for axis in spec.axes:
        for k, name in enumerate(axis.names):
            value = values[spec.names.index(name)]
            bare = name.removeprefix(PARAM)
            if not (problem.where.startswith(f"override {name}=") or (bare != name and problem.field == bare)):
                continue
            if spec.document is None:
                return Problem(_source(spec), problem.rule, f"axes.{name}", value, problem.remedy)
            i = next((i for i, level in enumerate(axis.levels) if level[k] == value), 0)
            unknown = problem.rule.startswith("there is no such key")
            path = (*axis.place(name), KEY) if unknown else (*axis.place(name), i)
            value = ABSENT if unknown else value  # every value would be refused for it
            where = spec.document.where(spec.document.find([path]).get(path))
            # A rule that holds at one point and not at others.
            remedy = problem.remedy
            if " is valid without this override" in remedy:
                other = re.search(r"or also set (\S+)=(\S+);", remedy)
                zipped = f"{name}: [{value}], {other[1]}: [{other[2]}]" if other else ""
                remedy = f"vary both together, as in zip: [{{{zipped}}}], or {LEAVE_OUT}" if zipped else LEAVE_OUT
            return Problem(where, problem.rule, problem.field or name, value, remedy or ("" if unknown else LEAVE_OUT))
    setting = ", ".join(f"{name}={value}" for name, value in zip(spec.names, values, strict=True)) or "no axes"
    where = f"{_source(spec)}: {'' if problem.where == 'machine' else f'{problem.where}: '}with {setting}"
    return Problem(where, problem.rule, problem.field, problem.value, problem.remedy or LEAVE_OUT)


class Keys:
    """Makes tasks with their keys; common data of targets and machines are hashed once."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._targets = [target.fingerprint() for target in spec.targets]
        self._axes = [(i, name.removeprefix(PARAM)) for i, name in enumerate(spec.names) if name.startswith(PARAM)]
        self._settings = [(i, name) for i, name in enumerate(spec.names) if not name.startswith(PARAM)]
        self._checked: dict[str, dict[str, Any]] = {}

    def task(self, target: int, machine: int, values: tuple[Any, ...]) -> Task:
        """The task of a point. InputError if the machine or the parameters are not valid."""
        settings = tuple((name, values[i]) for i, name in self._settings)
        params = {name: values[i] for i, name in self._axes}
        config, digest = self.spec.machines[machine].at(settings)
        content: list[Any] = [self._targets[target], digest, *component_digests(config), self._params(target, params)]
        if self.spec.area is not None and (area := self.spec.area.mm2(config)) is not None:
            content.append(area)
        return Task(key_of(content), target, machine, settings, params)

    def _params(self, target: int, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters of a target, including defaults, checked once for each of their values."""
        text = f"{target} {json.dumps(params, sort_keys=True)}"
        if text not in self._checked:
            self._checked[text] = self.spec.targets[target].checked(params)
        return self._checked[text]


def key_of(content: list[Any]) -> str:
    """The key of a result: SHA-256 over the target, the machine, the model version and the package."""
    text = json.dumps([VERSION, MODEL_VERSION, *content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_MAX_VALUES = 4


def unused_axes(points: Points) -> list[str]:
    """One line for each of these axes: the number of points, the values, and the reason in the first of them."""
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
    more = f" and {len(values) - _MAX_VALUES} more" if len(values) > _MAX_VALUES else ""
    shown, first = ", ".join(values[:_MAX_VALUES]) + more, cases[0][1]
    return f"{path} = {shown} has no effect in {len(cases):,} of {counted(of, 'point')}: {first.why}; {first.instead}"
