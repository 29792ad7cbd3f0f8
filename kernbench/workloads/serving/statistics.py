"""Mean, standard deviation and percentiles of the measured values of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (50, 90, 95, 99)
_PART = 1 << 14  #: number of values that are summed at a time


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a number of values, in the unit of the values. Percentiles interpolate linearly between values, as numpy
    does."""

    count: int
    mean: float
    std: float
    percentiles: dict[int, float]

    @property
    def median(self) -> float:
        """The 50th percentile."""
        return self.percentiles[50]

    def to_dict(self) -> dict[str, float]:
        """`count`, `mean`, `median`, `std`, `p50`, `p90`, `p95`, `p99`."""
        named = {f"p{percent}": value for percent, value in self.percentiles.items()}
        return {"count": self.count, "mean": self.mean, "median": self.median, "std": self.std, **named}


def summary(values: NDArray[np.float64], weights: NDArray[Any] | None = None) -> Summary | None:
    """The summary of values, each with a weight of more than 0; None if there are no values. The function may change the order
    of `values`."""
    if not len(values):
        return None
    if weights is None:
        count = len(values)
        places = {(count - 1) * percent // 100 + more for percent in PERCENTILES for more in (0, 1)}
        values.partition(sorted(min(place, count - 1) for place in places))

        def at(place: int) -> float:
            return float(values[place])

    else:
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        ends = np.cumsum(weights, dtype=np.int64)
        count = int(ends[-1])

        def at(place: int) -> float:
            return float(values[np.searchsorted(ends, place, side="right")])

    mean = _sum(values, weights) / count
    std = math.sqrt(_sum((values - mean) ** 2, weights) / count)
    found = {}
    for percent in PERCENTILES:
        place = (count - 1) * percent / 100
        low = int(place)
        found[percent] = at(low) + (place - low) * (at(min(low + 1, count - 1)) - at(low))
    return Summary(count, mean, std, found)


def _sum(values: NDArray[np.float64], weights: NDArray[Any] | None) -> float:
    """The sum, rounded once, so that it is equal on every machine; products of numpy's linear algebra are not."""
    parts = (slice(first, first + _PART) for first in range(0, len(values), _PART))
    if weights is None:
        return math.fsum(chain.from_iterable(values[part].tolist() for part in parts))
    return math.fsum(chain.from_iterable((values[part] * weights[part]).tolist() for part in parts))


_BATCH = 5


def truncation(values: NDArray[np.float64]) -> int | None:
    """The number of first values that belong to the warm-up, by the rule MSER-5; None for fewer than 20 values.

    The cut is where the standard error of the means of five values after the cut is smallest; it is at most half of the values.
    """
    count = len(values) // _BATCH
    if count < 4:
        return None
    means = values[: count * _BATCH].reshape(count, _BATCH).mean(axis=1)
    left = np.arange(count, 0, -1)
    sums, squares = (np.cumsum(one[::-1])[::-1] for one in (means, means**2))
    errors = (squares - sums**2 / left) / left**2
    return int(np.argmin(errors[: count // 2 + 1])) * _BATCH
