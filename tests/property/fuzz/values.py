"""Values that break readers: the edges of number types, texts that are none, and nesting."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

#: Edges of counts, sizes and indices, and of 8, 16, 32, 53 and 64 bits.
INTEGERS = (
    0, -1, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53,
    2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -2, -(2**31), -(2**31) - 1, -(2**63), -(2**63) - 1, 10**30,
)  # fmt: skip
WORDS = tuple(value for value in INTEGERS if -(2**63) <= value < 2**63)
FLOATS = (0.0, -0.0, 0.5, 1.5, 1e-300, 5e-324, 1e308, -1e308, 1e18, 2.0**63, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "0", "-1", "1 GiB", "1e9 GiB", "64 KB", "nan", "inf", "1/0", "0/1", "1e400", "9" * 400, "\0", "x" * 10_000,
    "\ud800", "\N{ZERO WIDTH JOINER}", "\N{ARABIC-INDIC DIGIT THREE}", "../../etc/passwd", "/dev/zero", "-", "--help", ".",
    "a.b.c", "[", "*", "%s%n", "{}", "\n", "\r\n", "true", "null", "no:module", "math:sqrt", "os", "\x1b[31m",
)  # fmt: skip


def integer_near(rng: Random, value: int) -> int:
    """A number that has to do with the one that was there, or an edge."""
    way = rng.randrange(8)
    if way < 4:
        return rng.choice(INTEGERS)
    return (value + 1, value - 1, -value, value * rng.choice((2, 3, 10, 1000)))[way - 4]


def strange(rng: Random, was: Any = None) -> Any:
    """A value in the place of `was`: of its type, or of another."""
    if rng.random() < 0.6:
        if isinstance(was, bool):
            return not was
        if isinstance(was, int):
            return integer_near(rng, was)
        if isinstance(was, float):
            return rng.choice((*FLOATS, was * 2, -was, was / 3, int(was) if abs(was) < 1e18 else 0))
        if isinstance(was, str):
            return text_near(rng, was)
    way = rng.randrange(8)
    if way == 0:
        return None
    if way == 1:
        return rng.random() < 0.5
    if way == 2:
        return rng.choice(INTEGERS)
    if way == 3:
        return rng.choice(FLOATS)
    if way == 4:
        return rng.choice(TEXTS)
    if way == 5:
        return nested(rng.choice((1, 2, 3, 60, 70, 150)))
    if way == 6:
        return rng.choice(([], {}, [[]], {"": 1}, [None], [1, 2, 3], ["a"], [0] * rng.choice((10, 1000)), {"a": {"b": {}}}))
    return (str(was), [was], {"value": was}, was)[rng.randrange(4)]


def text_near(rng: Random, text: str) -> str:
    """A text that has to do with the one that was there, or an odd one."""
    way = rng.randrange(8)
    if way < 3:
        return rng.choice(TEXTS)
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.randint(0, 4))
    if way == 3:
        return text[:at]
    if way == 4:
        return text[:at] + text[end:]
    if way == 5:
        return text[:end] + text[at:]
    if way == 6:
        return text[:at] + rng.choice(TEXTS)[:40] + text[at:]
    number = str(rng.choice(INTEGERS))
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    if not digits:
        return text + number
    where = rng.choice(digits)
    return text[:where] + number + text[where + 1 :]


def nested(depth: int) -> Any:
    """A value so many levels deep."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def chosen(rng: Random, found: Sequence[T]) -> T:
    """One of a list that may be long; the ends are drawn more often."""
    if rng.random() < 0.1:
        return found[rng.choice((0, -1))]
    return found[rng.randrange(len(found))]
