"""Axes of a sweep: what varies, over which values, and which value a number between 0 and 1 stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from kernbench.common.units import plain_number
from kernbench.config.places import PathLike

DIGITS = 6  # that count, of a value between the ends of a range: the same on every machine, whatever its `pow` does
MOST_LEVELS = 1_000_000  #: of one axis
Scale = Literal["linear", "log"]
Level = tuple[Any, ...]  #: a value for each name of an axis, in plain JSON types


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers. Its values are integers where all that is given are."""

    low: int | Fraction
    high: int | Fraction
    scale: Scale = "linear"
    step: int | Fraction | None = None  #: from one value to the next
    count: int | None = None  #: how many values, both ends among them
    multiple_of: int | None = None  #: values are rounded to multiples

    @property
    def whole(self) -> bool:
        """Whether its values are integers."""
        given = (self.low, self.high) if self.step is None else (self.low, self.high, self.step)
        return all(isinstance(value, int) for value in given)

    @property
    def is_grid(self) -> bool:
        """Whether it says which values it has, and not only between which they lie."""
        return self.step is not None or self.count is not None or (self.whole and self.scale == "linear")

    def levels(self) -> list[Any]:
        """Its values, rising, each once; ValueError for more than a million, and where it does not say how many."""
        count, step = self.count, self.step
        if count is None:
            if step is None and not (self.whole and self.scale == "linear"):
                raise ValueError("it must say its count or its step")
            step = step or self.multiple_of or 1
            count = int((self.high - self.low) / Fraction(step)) + 1
        if count > MOST_LEVELS:
            raise ValueError(f"it has {count} values, and an axis has at most {MOST_LEVELS}")
        if step is not None:
            return list(dict.fromkeys(self._rounded(self.low + step * i) for i in range(count)))
        return list(dict.fromkeys(self.at(Fraction(i, count - 1)) if count > 1 else self.at(Fraction(0)) for i in range(count)))

    def at(self, part: Fraction) -> Any:
        """The value at a part, 0 to 1, of the way from one end to the other."""
        if part in (0, 1):
            return self._rounded(self.high if part else self.low)
        if self.scale == "linear":
            value = self.low + (self.high - self.low) * part
            return self._rounded(value if self.whole else _short(float(value)))
        low, high = math.log(self.low), math.log(self.high)
        return self._rounded(_short(math.exp(low + (high - low) * float(part))))

    def _rounded(self, value: int | Fraction) -> Any:
        if self.multiple_of is not None:
            value = round(Fraction(value) / self.multiple_of) * self.multiple_of
        return round(value) if self.whole else plain_number(Fraction(value))


def _short(value: float) -> Fraction:
    return Fraction(f"{value:.{DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that varies, or several that move together: a level has a value for each of its names."""

    names: tuple[str, ...]
    levels: tuple[Level, ...] = ()
    span: Span | None = None  #: instead of levels, where values are drawn
    path: PathLike = field(default=(), compare=False)  #: in the spec

    def place(self, name: str) -> PathLike:
        """Where one of its names stands in the spec."""
        return (*self.path, name) if self.path[:1] == ("zip",) else self.path

    def at(self, part: Fraction) -> Level:
        """The level that a part, from 0 to below 1, stands for; each of a list has an equal share."""
        if self.span is not None:
            return (self.span.at(part),)
        return self.levels[int(part * len(self.levels))]


def grid(axes: Sequence[Axis]) -> list[tuple[Level, ...]]:
    """Every combination of levels; the last axis varies fastest."""
    return list(product(*(axis.levels for axis in axes)))


def drawn(axes: Sequence[Axis], parts: Sequence[Sequence[Fraction]]) -> list[tuple[Level, ...]]:
    """Points of a unit cube as combinations of levels, each combination once, in order."""
    found = (tuple(axis.at(part) for axis, part in zip(axes, row, strict=True)) for row in parts)
    return list({repr(levels): levels for levels in found}.values())  # a value of the machine may be a list


def sized(axes: Sequence[Axis]) -> int:
    """How many combinations of levels there are."""
    return math.prod(len(axis.levels) for axis in axes)
