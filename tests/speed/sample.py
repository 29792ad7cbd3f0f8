"""Several measurements of one thing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import Any


class Sample(float):
    """The median of several measurements; it knows how far they lie apart."""

    spread: float  #: half of what lies between the least and the largest, as a part of the median

    def __new__(cls, measured: Iterable[float]) -> Sample:
        found = list(measured)
        sample = super().__new__(cls, statistics.median(found))
        sample.spread = (max(found) - min(found)) / 2 / abs(sample) if sample else 0.0
        return sample

    @property
    def about(self) -> str:
        """The spread, behind the median."""
        return f"+- {round(100 * self.spread)}%"


def plain(row: Any) -> dict[str, Any]:
    """A dataclass as plain JSON types; beside each sample its spread."""
    samples = {one.name: value for one in fields(row) if isinstance(value := getattr(row, one.name), Sample)}
    medians = {name: float(value) for name, value in samples.items()}
    return {**asdict(replace(row, **medians)), **{f"{name}_spread": value.spread for name, value in samples.items()}}
