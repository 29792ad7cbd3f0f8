"""Axes of a sweep: the values that vary, and the value for a number between 0 and 1."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from kernbench.common.units import plain_number
from kernbench.config.places import PathLike

DIGITS = 6  # significant digits of a value inside a range, so that the value is the same on every host
MAX_LEVELS = 1_000_000  #: limit of the values of one axis
Scale = Literal["linear", "log"]
Level = tuple[Any, ...]  #: a value for each name of an axis, in plain JSON types


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers. Its values are integers if all given numbers are integers."""

    low: int | Fraction
    high: int | Fraction
    scale: Scale = "linear"
    step: int | Fraction | None = None  #: distance between values
    count: int | None = None  #: number of values, including both ends
    multiple_of: int | None = None  #: values are rounded to multiples

    @property
    def whole(self) -> bool:
        """Whether its values are integers."""
        given = (self.low, self.high) if self.step is None else (self.low, self.high, self.step)
        return all(isinstance(value, int) for value in given)

    @property
    def is_grid(self) -> bool:
        """Whether the axis lists its values instead of giving only a range."""
        return self.step is not None or self.count is not None or (self.whole and self.scale == "linear")

    def levels(self) -> list[Any]:
        """Its values in rising order, without duplicates; ValueError for more than a million values, and if their number is not
        given."""
        count, step = self.count, self.step
        if count is None:
            if step is None and not (self.whole and self.scale == "linear"):
                raise ValueError("it must say its count or its step")
            step = step or self.multiple_of or 1
            count = int((self.high - self.low) / Fraction(step)) + 1
        if count > MAX_LEVELS:
            raise ValueError(f"it has {count} values, and an axis has at most {MAX_LEVELS}")
        if step is not None:
            return list(dict.fromkeys(self._rounded(self.low + step * i) for i in range(count)))
        return list(dict.fromkeys(self.at(Fraction(i, count - 1)) if count > 1 else self.at(Fraction(0)) for i in range(count)))

    def at(self, part: Fraction) -> Any:
        """The value at a relative position from 0 to 1 between the ends."""
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
    """One parameter that varies, or several that vary together: a level has a value for each of its names."""

    names: tuple[str, ...]
    levels: tuple[Level, ...] = ()
    span: Span | None = None  #: replaces levels if values are drawn
    path: PathLike = field(default=(), compare=False)  #: in the spec

    def place(self, name: str) -> PathLike:
        """The location of one of its names in the spec."""
        return (*self.path, name) if self.path[:1] == ("zip",) else self.path

    def at(self, part: Fraction) -> Level:
        """The level for a number from 0 to below 1; each level of a list has an equal share."""
        if self.span is not None:
            return (self.span.at(part),)
        return self.levels[int(part * len(self.levels))]


def grid(axes: Sequence[Axis]) -> list[tuple[Level, ...]]:
    """Every combination of levels; the last axis varies fastest."""
    return list(product(*(axis.levels for axis in axes)))


def drawn(axes: Sequence[Axis], parts: Sequence[Sequence[Fraction]]) -> list[tuple[Level, ...]]:
    """The levels for points of the unit cube; each combination occurs once, in order."""
    found = (tuple(axis.at(part) for axis, part in zip(axes, row, strict=True)) for row in parts)
    return list({repr(levels): levels for levels in found}.values())  # a value of the machine may be a list


def sized(axes: Sequence[Axis]) -> int:
    """The number of combinations of levels."""
    return math.prod(len(axis.levels) for axis in axes)


BITS = 32  # bits of a coordinate
#: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional projections" (SIAM J. Sci. Comput. 30, 2008), table
#: new-joe-kuo-6: for each dimension after the first the polynomial's degree and coefficients, and the first direction numbers.
DIRECTIONS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
    (5, 4, (1, 1, 5, 5, 5)),
    (5, 7, (1, 1, 7, 11, 19)),
    (5, 11, (1, 1, 5, 1, 1)),
    (5, 13, (1, 1, 1, 3, 11)),
    (5, 14, (1, 3, 5, 5, 31)),
    (6, 1, (1, 3, 3, 9, 7, 49)),
    (6, 13, (1, 1, 1, 15, 21, 21)),
    (6, 16, (1, 3, 1, 13, 27, 49)),
    (6, 19, (1, 1, 1, 15, 7, 5)),
    (6, 22, (1, 3, 1, 15, 13, 25)),
    (6, 25, (1, 1, 5, 5, 19, 61)),
    (7, 1, (1, 3, 7, 11, 23, 15, 103)),
    (7, 4, (1, 3, 7, 13, 13, 15, 69)),
)
MAX_DIMENSIONS = len(DIRECTIONS) + 1


def random_points(count: int, dimensions: int, seed: int) -> list[tuple[Fraction, ...]]:
    """`count` independent points of the unit cube."""
    draw = random.Random(seed)
    return [tuple(Fraction(draw.getrandbits(BITS), 1 << BITS) for _ in range(dimensions)) for _ in range(count)]


def sobol_points(count: int, dimensions: int, seed: int = 0) -> list[tuple[Fraction, ...]]:
    """The first `count` points of Sobol's sequence; a seed other than 0 flips the same random bits in all of them.

    A digital shift keeps the evenness of the sequence: each dyadic interval of an axis contains its share of every 2^k points.
    ValueError for more than 21 dimensions.
    """
    if dimensions > MAX_DIMENSIONS:
        raise ValueError(f"Sobol points have at most {MAX_DIMENSIONS} axes here, and this sweep varies {dimensions}")
    numbers = [_directions(k) for k in range(dimensions)]
    at = [_shift(seed, k) for k in range(dimensions)]
    points = []
    for i in range(count):
        points.append(tuple(Fraction(x, 1 << BITS) for x in at))
        lowest = (~i & (i + 1)).bit_length() - 1  # of the zero bits of i: Gray code order changes one direction for each point
        at = [x ^ v[lowest] for x, v in zip(at, numbers, strict=True)]
    return points


def _directions(dimension: int) -> list[int]:
    """The direction numbers of a dimension, as integers of BITS bits."""
    if dimension == 0:
        return [1 << (BITS - 1 - i) for i in range(BITS)]
    degree, coefficients, first = DIRECTIONS[dimension - 1]
    v = [m << (BITS - 1 - i) for i, m in enumerate(first)]
    for i in range(degree, BITS):
        new = v[i - degree] ^ (v[i - degree] >> degree)
        for k in range(1, degree):
            if coefficients >> (degree - 1 - k) & 1:
                new ^= v[i - k]
        v.append(new)
    return v


def _shift(seed: int, dimension: int) -> int:
    if seed == 0:
        return 0
    return int.from_bytes(hashlib.sha256(f"{seed}:{dimension}".encode()).digest()[: BITS // 8], "big")
