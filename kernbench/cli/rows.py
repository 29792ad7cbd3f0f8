"""Joins rows of a table with the same content: `dram.ch0..7  99.1%`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row")


def joined(rows: Sequence[Row], shown: Callable[[Row], Any]) -> list[list[Row]]:
    """The rows grouped by their `shown` text; groups and rows keep their first order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(shown(row), []).append(row)
    return list(groups.values())


def joined_name(names: Sequence[str]) -> str:
    """The name of joined rows: `dram.ch0..7` if the numbers at the end are consecutive, else `te0 +3`."""
    if len(names) == 1:
        return names[0]
    found = [re.fullmatch(r"(.*?)(\d{1,9})", name) for name in names]
    numbers = [int(one[2]) for one in found if one is not None]
    prefixes = {one[1] for one in found if one is not None}
    if len(numbers) == len(names) and len(prefixes) == 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{names[0]}..{numbers[-1]}"
    return f"{names[0]} +{len(names) - 1}"


def mean(values: Sequence[int | float]) -> float | int:
    """The mean of the values of joined rows; a mean of integers that is whole stays an integer."""
    total = sum(values)
    if all(isinstance(value, int) for value in values):
        return round(total / len(values))
    return total / len(values)


def fits(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table of these texts, with two blanks between columns, fits the terminal."""
    columns = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    return sum(columns) + 2 * (len(columns) - 1) <= width
