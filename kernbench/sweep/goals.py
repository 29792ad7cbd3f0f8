"""Goals of a sweep, and constraints on results: numbers of a row, and expressions of such numbers, for example `tokens_per_s /
power_w`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from kernbench.common.spelling import meant
from kernbench.common.units import parse_rational
from kernbench.sweep.conditions import Condition, Formula
from kernbench.sweep.store.tables import METRICS, Row

#: Numbers of a row that can be goals.
GOALS = ("ns", "cycles", *(name for name in METRICS if name not in ("bound_by", "verified")))
#: Names that expressions can use in addition to GOALS, with their meanings.
DERIVED = {"power_w": "[W] mean power: energy_pj over ns", "energy_w": "another name of power_w"}
#: Other common names.
SYNONYMS = {
    "latency": "ns", "time": "ns", "runtime": "ns", "energy": "energy_pj", "throughput": "tokens_per_s", "power": "power_w",
}  # fmt: skip


def check_goal(text: str) -> None:
    """ValueError if the text is neither a number of a row nor an expression of such numbers."""
    if text in GOALS:
        return
    formula = _formula(text)
    if not formula.names:
        raise ValueError(f"it must have one of the metrics {', '.join((*GOALS, *DERIVED))}")
    for name in formula.names:
        if name not in GOALS and name not in DERIVED:
            near = meant(SYNONYMS.get(name, name), (*GOALS, *DERIVED))
            hint = f"; {near}" if near else ""
            raise ValueError(f"there is no metric {name}; the metrics are {', '.join((*GOALS, *DERIVED))}{hint}")


def is_goal(text: object) -> bool:
    """Whether `check_goal` accepts a text."""
    if not isinstance(text, str):
        return False
    try:
        check_goal(text)
    except ValueError:
        return False
    return True


def is_constraint(text: str, axes: Sequence[str]) -> bool:
    """Whether it is a condition on numbers of a row and on values of axes."""
    try:
        return all(name in GOALS or name in DERIVED or name in axes for name in _condition(text).names)
    except ValueError:
        return False


def goal_value(row: Row, name: str) -> Fraction | None:
    """The exact value of a goal in a row; None if the row has none, or if the expression divides by zero."""
    if name in GOALS or name in DERIVED:
        return _number(row, name)
    formula = _formula(name)
    values = {part: _number(row, part) for part in formula.names}
    if None in values.values():
        return None
    try:
        return formula.value(values)
    except ValueError:
        return None


def goal_float(row: Row, name: str) -> float | None:
    """`goal_value` as the nearest float. Most numbers of rows need no fraction."""
    value = _stored(row, name) if name in GOALS else None
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value + 0.0  # -0.0 is 0
    exact = goal_value(row, name)
    return None if exact is None else float(exact)


def _stored(row: Row, name: str) -> Any:
    return getattr(row, name) if name in ("ns", "cycles") else row.metrics.get(name)


def _number(row: Row, name: str) -> Fraction | None:
    if name in DERIVED:
        energy, ns = _number(row, "energy_pj"), _number(row, "ns")
        return None if energy is None or not ns else energy / ns / 1000  # pJ/ns is mW
    value = _stored(row, name)
    return None if value is None else parse_rational(value)


@cache
def _formula(text: str) -> Formula:
    return Formula(text)


def keeps(row: Row, place: Mapping[str, Any], constraints: Sequence[str]) -> bool:
    """Whether a result, at a point with these values, satisfies all constraints."""
    return all(broken_by(row, place, text) == 0 for text in constraints)


def broken_by(row: Row, place: Mapping[str, Any], constraint: str) -> float:
    """The amount by which a result violates a constraint; 0 if the result satisfies it. 1 if no number gives the amount, or if
    the result has no such number."""
    condition = _condition(constraint)
    values = {name: place[name] if name in place else _known(row, name) for name in condition.names}
    if None in values.values():
        return 1.0
    try:
        if condition.holds(values):
            return 0.0
        return condition.distance(values) or 1.0
    except ValueError:
        return 1.0


def _known(row: Row, name: str) -> Fraction | None:
    return _number(row, name) if name in GOALS or name in DERIVED else None


@cache
def _condition(text: str) -> Condition:
    return Condition(text)
