"""The best results so far, and which of two is better."""

from __future__ import annotations

from fractions import Fraction

from kernbench.common.units import parse_rational
from kernbench.sweep.row import Row
from kernbench.sweep.spec import Goal


def score(row: Row, goal: Goal) -> Fraction | None:
    """A row's number for a goal, exactly, less being better; None where it has none, or the run is not done."""
    name, way = goal
    value = getattr(row, name) if name in ("ns", "cycles") else row.metrics.get(name)
    if row.status != "done" or value is None:
        return None
    number = parse_rational(value)
    return -number if way == "max" else number


class Best:
    """The best row by the first goal; of equals the first that came."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.row: Row | None = None
        self._score: Fraction | None = None

    def offer(self, row: Row) -> None:
        """Take it where it is better."""
        found = score(row, self.goal)
        if found is not None and (self._score is None or found < self._score):
            self.row, self._score = row, found
