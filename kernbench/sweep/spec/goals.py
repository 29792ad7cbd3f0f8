"""The keys `goals`, `area` and `constraints` of a spec: which results are good, and which are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbench.common.errors import ABSENT, InputError
from kernbench.common.spelling import meant
from kernbench.config.energy_table import is_table_file, read_table, table_names
from kernbench.config.places import PathLike
from kernbench.sweep.area import KEY as AREA_TABLE
from kernbench.sweep.area import METRIC, Area
from kernbench.sweep.axes import Axis
from kernbench.sweep.conditions import Condition, Formula
from kernbench.sweep.goals import DERIVED, GOALS, SYNONYMS, check_goal
from kernbench.sweep.spec import DEFAULT_GOALS, Goal
from kernbench.sweep.spec.reader import Reader


def read_goals(read: Reader) -> tuple[Goal, ...]:
    given = read.mapping(("goals",))
    goals = []
    for name in given:
        try:
            check_goal(str(name))
        except ValueError as error:
            plain_name = str(name).isidentifier()
            rule = f"there is no metric with this name; the metrics are {', '.join(GOALS)}" if plain_name else str(error)
            remedy = meant(SYNONYMS.get(str(name), name), (*GOALS, *DERIVED)) if plain_name else ""
            read.refuse(("goals", name), rule, remedy=remedy)
        else:
            _refuse_area(read, ("goals", name), Formula(str(name)).names)
            goals.append((str(name), read.choice(("goals", name), ("min", "max"), "min")))
    return tuple(goals) or DEFAULT_GOALS


def read_area(read: Reader, folder: Path) -> Area | None:
    """The figures of the table that `area_table` names."""
    name = read.text((AREA_TABLE,))
    if name is None:
        return None
    if not is_table_file(name) and name not in table_names():
        rule = f"there is no such table; tables are {', '.join(table_names())}, or a .yaml file"
        read.refuse((AREA_TABLE,), rule, name, meant(name, table_names()))
        return None
    try:
        return Area.of(read_table(str(folder / name) if is_table_file(name) else name))
    except InputError as error:
        for problem in error.problems:
            read.refuse((AREA_TABLE,), str(problem))
    return None


def _refuse_area(read: Reader, path: PathLike, names: Sequence[str]) -> bool:
    """Whether an expression names the area, and the spec no table that gives it. The expression is then refused."""
    missing = METRIC in names and read.get((AREA_TABLE,)) is ABSENT
    if missing:
        remedy = f"add the key {AREA_TABLE} with one of {', '.join(table_names())}, or a .yaml file"
        read.refuse(path, f"results have {METRIC} only in a sweep with the key {AREA_TABLE}", remedy=remedy)
    return missing


def read_constraints(read: Reader, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """The conditions that results must meet."""
    found = []
    for i, text in enumerate(read.items(("constraints",))):
        if constraint := read_constraint(read, ("constraints", i), text, axes):
            found.append(constraint)
    return tuple(found)


def read_constraint(read: Reader, path: PathLike, text: Any, axes: tuple[Axis, ...]) -> str:
    """A condition on results; empty if the condition is refused."""
    try:
        condition = Condition(str(text))
    except ValueError as error:
        read.refuse(path, str(error), text)
        return ""
    known = {name for axis in axes for name in axis.names} | {*GOALS, *DERIVED}
    for name in condition.names:
        if name not in known:
            remedy = meant(SYNONYMS.get(name, name), sorted(known)) or f"numbers are {', '.join((*GOALS, *DERIVED))}"
            read.refuse(path, f"{name} is neither a number of a result nor an axis", text, remedy)
            return ""
    return "" if _refuse_area(read, path, condition.names) else condition.text
