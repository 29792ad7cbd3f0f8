"""Goals of measured figures: the least or the most that a figure may be, and whether it was met."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tests.speed.sample import Sample

ONE_BY_ONE = (21, 17)  #: columns of measured values and of goals, for lines that are printed one by one


@dataclass(frozen=True, slots=True)
class Goal:
    """One measured figure and its limit."""

    figure: str
    value: float  #: a `Sample` also has a spread
    limit: float
    unit: str = ""
    more: bool = False  #: the value must be at least the limit, otherwise at most
    beside: str = ""  #: what another tool takes, or what the figure was

    @property
    def met(self) -> bool:
        """The value is on the right side of its limit."""
        return self.value >= self.limit if self.more else self.value <= self.limit

    @property
    def measured(self) -> str:
        """The value with its unit and its spread."""
        spread = f" {self.value.about}" if isinstance(self.value, Sample) else ""
        return f"{number(self.value)} {self.unit}".strip() + spread

    @property
    def limited(self) -> str:
        """The limit with its unit."""
        return f"{'>=' if self.more else '<='} {self.limit:,g} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        """Whether it was met, as a word."""
        return "met" if self.met else "MISSED"


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    steps = ((99.95, 0), (9.995, 1), (0.9995, 2), (0.09995, 3))
    digits = next((count for bound, count in steps if abs(value) >= bound), 4)
    return f"{value:,.{digits}f}"


def terminal_columns() -> int:
    """Of the terminal, and 80 to 120 otherwise."""
    return min(120, max(80, shutil.get_terminal_size((100, 24)).columns))


def goal_lines(goals: Sequence[Goal], width: int | None = None, columns: tuple[int, int] = (0, 0)) -> str:
    """A line for each goal: the figure, what was measured, the goal, and whether it was met. Long figures are wrapped.

    `columns`: the least widths of the second and of the third column.
    """
    rows = [(f"{one.figure} ({one.beside})" if one.beside else one.figure, one.measured, one.limited) for one in goals]
    measured, limited = (max([least, *(len(row[k]) for row in rows)]) for k, least in zip((1, 2), columns, strict=True))
    room = (width or terminal_columns()) - measured - limited - len("  " * 4 + "MISSED")
    lines = []
    for goal, (figure, value, limit) in zip(goals, rows, strict=True):
        first, *rest = textwrap.wrap(figure, room - 2, break_long_words=False)
        lines.append(f"  {first:{room - 2}}  {value:>{measured}}  {limit:{limited}}  {goal.verdict}")
        lines += [f"    {line}" for line in rest]
    return "\n".join(lines)
