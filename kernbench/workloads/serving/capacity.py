"""The largest request rate that meets latency targets: bisection for each seed, and an interval over the seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.workloads.serving.result import METRICS, ServingResult
from kernbench.workloads.serving.statistics import PERCENTILES

STATISTICS = ("mean", "median", *(f"p{percent}" for percent in PERCENTILES))
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_TARGET = re.compile(r"\s*(\w+)\s+(\w+)\s*<=?\s*([0-9.]+)\s*(us|ms|s)\s*")
_MAX_RUNS = 60  #: limit of the runs of one seed
_MAX_BACKLOG = 0.5  #: limit for a run whose latencies count
BACKLOG = "backlog at the last arrival"  #: the missed target if a run ends before its latencies have grown
_START_RATE = 1.0  #: [request/s] first rate of the search

#: Quantile 0.975 of Student's t by degrees of freedom, from Abramowitz and Stegun, table 26.10; for larger numbers, the
#: quantile of the normal distribution.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.960


@dataclass(frozen=True, slots=True)
class Target:
    """A statistic of a latency that must stay below a limit."""

    statistic: str
    metric: str
    limit_ms: float

    def value_ms(self, result: ServingResult) -> float | None:
        """The statistic of a run; None if no request has this latency."""
        found = result.summary(self.metric)
        return None if found is None else found.to_dict()[self.statistic]

    def __str__(self) -> str:
        return f"{self.statistic} {self.metric} < {self.limit_ms:g} ms"


def parse_slo(text: str) -> tuple[Target, ...]:
    """Targets such as `p99 ttft<200ms, p99 tpot<50ms`. InputError for a text that is not valid.

    >>> from kernbench.serving import parse_slo
    >>> [str(target) for target in parse_slo("p99 ttft<200ms, mean e2el < 4s")]
    ['p99 ttft < 200 ms', 'mean e2el < 4000 ms']
    """
    found = []
    for part in text.split(","):
        match = _TARGET.fullmatch(part)
        if match is None:
            rule = "each target must have the form STATISTIC METRIC<LIMIT, where LIMIT is a number with the unit us, ms or s"
            raise InputError(Problem("slo", rule, "target", part.strip(), _target_meant(part)))
        statistic, metric, number, unit = match.groups()
        if statistic in METRICS and metric in STATISTICS:
            rule = "the statistic must come before the metric"
            raise InputError(Problem("slo", rule, "target", part.strip(), _target_meant(part)))
        for name, value, known in (("statistic", statistic, STATISTICS), ("metric", metric, METRICS)):
            if value not in known:
                raise InputError(Problem("slo", f"it must be one of {', '.join(known)}", name, value, meant(value, known)))
        try:
            limit = float(number) * _UNITS[unit]
        except ValueError:
            limit = 0.0
        if not 0 < limit < math.inf:
            raise InputError(Problem("slo", "it must be a number above 0", "limit", number))
        found.append(Target(statistic, metric, limit))
    return tuple(found)


def _target_meant(part: str) -> str:
    """A question with the target that was probably meant, with p99 if it names no statistic; empty if it has no metric or
    number."""
    words = re.findall(r"[a-z]+[0-9]*|[0-9.]+", part.replace("_", " ").lower())
    kinds = (STATISTICS, METRICS, [one for one in words if one[0].isdigit()])
    found = [next((one for one in words if one in known), "") for known in kinds]
    unit = next((one for one in words if one in _UNITS), "ms")
    found[0] = found[0] or "p99"
    return f"did you mean {found[0]} {found[1]}<{found[2]}{unit}?" if all(found) else ""


@dataclass(frozen=True, slots=True)
class SeedCapacity:
    """The result of the search with one seed. The capacity is between `met` and `missed`."""

    seed: int
    met: float  #: [request/s] the largest rate that met all targets; 0 if the search found none
    missed: float  #: [request/s] the smallest rate above it that did not; inf if the search found none
    runs: int
    bound: str  #: the target that was missed by the largest factor at that rate; empty if none was

    @property
    def rate(self) -> float:
        """[request/s] the middle of the two."""
        return self.met if math.isinf(self.missed) else (self.met + self.missed) / 2


@dataclass(frozen=True, slots=True)
class Served:
    """The requests that a run of the search served."""

    rate: float  #: [request/s]
    seed: int
    output: float  #: [token] mean output of a finished request
    prompt: float
    joules: float | None = None  #: [J] energy of an output token


@dataclass(frozen=True, slots=True)
class Capacity:
    """The largest rate, over all seeds."""

    targets: tuple[Target, ...]
    seeds: tuple[SeedCapacity, ...]
    rate: float  #: [request/s] the mean over the seeds
    #: [request/s] of its 95 % confidence interval, which includes the seeds and the bisection; inf with one seed
    half_width: float
    served: tuple[Served, ...] = ()  #: for each seed, the run at the largest rate that met all targets

    @property
    def interval(self) -> tuple[float, float]:
        """[request/s] The 95 % confidence interval."""
        return max(0.0, self.rate - self.half_width), self.rate + self.half_width

    @property
    def bound(self) -> str:
        """The target that limits most of the seeds."""
        names = [one.bound for one in self.seeds if one.bound]
        return max(sorted(set(names)), key=names.count) if names else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; None where a number is not finite."""
        return {
            "slo": [str(target) for target in self.targets],
            "rate": self.rate,
            "interval": [_finite(end) for end in self.interval],
            "bound": self.bound,
            "seeds": [
                {"seed": one.seed, "met": one.met, "missed": _finite(one.missed), "runs": one.runs, "bound": one.bound}
                for one in self.seeds
            ],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def find_capacity(
    run: Callable[[float, int], ServingResult], targets: Sequence[Target], *, seeds: Sequence[int] = (0, 1, 2, 3, 4),
    tolerance: float = 0.02, start_rate: float = _START_RATE, least_rate: float = 1e-3, most_rate: float = 1e6,
) -> Capacity:  # fmt: skip
    """The largest rate at which every target is met.

    `run(rate, seed)`: a run at this rate, in requests/s. With the same seed, `run` should draw the same requests at every rate
    and only change the intervals of their arrivals, so that latency grows with the rate. `tolerance`: the two rates of a seed
    differ by at most this share. A run also misses its targets if no request has ended, or if less than half of them have ended
    when the last one arrives.
    """
    if not targets:
        raise InputError(Problem("capacity", "it must have at least one target", "slo"))
    if not 0 < tolerance < 1:
        raise InputError(Problem("capacity", "it must be between 0 and 1", "tolerance", tolerance))
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(Problem("capacity", "it must have at least one seed, and each seed only once", "seeds", tuple(seeds)))
    found = tuple(_of_seed(run, targets, seed, tolerance, start_rate, least_rate, most_rate) for seed in seeds)
    rates = [one.rate for one in found]
    mean = sum(rates) / len(rates)
    return Capacity(tuple(targets), found, mean, _half_width(rates, found))


def _half_width(rates: Sequence[float], found: Sequence[SeedCapacity]) -> float:
    count = len(rates)
    if count < 2:
        return math.inf
    mean = sum(rates) / count
    deviation = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (count - 1))
    student = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
    bisected = sum((one.missed - one.met) / 2 for one in found if math.isfinite(one.missed)) / count
    return student * deviation / math.sqrt(count) + bisected


def _of_seed(
    run: Callable[[float, int], ServingResult], targets: Sequence[Target], seed: int, tolerance: float, start: float,
    least: float, most: float,
) -> SeedCapacity:  # fmt: skip
    """Double or halve the rate until one rate meets the targets and one misses them, and then bisect between them by their
    geometric mean."""
    met, missed, rate, runs, bound = 0.0, math.inf, start, 0, ""
    while runs < _MAX_RUNS and least <= rate <= most:
        runs += 1
        late = _missed(run(rate, seed), targets)
        if late is None:
            met = rate
        else:
            missed, bound = rate, late
        if met and math.isfinite(missed):
            if missed <= met * (1 + tolerance):
                break
            rate = math.sqrt(met * missed)
        else:
            rate = 2 * met if met else missed / 2
    return SeedCapacity(seed, met, missed, runs, bound)


def _missed(result: ServingResult, targets: Sequence[Target]) -> str | None:
    """The target that a run misses by the largest factor; None if it meets all.

    If less than half of the requests have ended when the last one arrives, the rate is above the capacity of the engines, and
    latency would have grown with more requests.
    """
    worst, name = 1.0, None
    for target in targets:
        value = target.value_ms(result)
        factor = math.inf if value is None else value / target.limit_ms
        if factor >= worst:
            worst, name = factor, str(target)
    return BACKLOG if name is None and result.backlog > _MAX_BACKLOG else name
