"""The arrival times of requests: a rate, its burstiness, and a rate that rises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernbench.common.errors import InputError, Problem
from kernbench.workloads.serving.draws import Draws, exp, log

RampUp = Literal["linear", "exponential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """`request_rate`: [1/s] on average, `inf` for all at once. `burstiness`: the shape of the gamma distribution of intervals:
    1 gives a Poisson process, a smaller value gives bursts, `inf` gives equal intervals. `ramp_up`: how the rate grows from
    `ramp_up_start_rps` at the first request to `ramp_up_end_rps` at the last one; it replaces `request_rate`.
    """

    request_rate: float = math.inf
    burstiness: float = 1.0
    ramp_up: RampUp | None = None
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None

    def __post_init__(self) -> None:
        for name in ("request_rate", "burstiness", "ramp_up_start_rps", "ramp_up_end_rps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(Problem("workload", "it must be greater than 0", name, value))
        ends = {"ramp_up_start_rps": self.ramp_up_start_rps, "ramp_up_end_rps": self.ramp_up_end_rps}
        for name, value in ends.items():
            if (value is None) == (self.ramp_up is not None):
                rule = "it is needed with ramp_up" if value is None else "it is only for ramp_up"
                raise InputError(Problem("workload", rule, name, value))
            if value is not None and math.isinf(value):
                raise InputError(Problem("workload", "it must be finite", name, value))
        if self.ramp_up and not math.isinf(self.request_rate):
            rule = "a rate that rises has its own ends, so no request_rate may be given"
            raise InputError(Problem("workload", rule, "request_rate", self.request_rate))

    def times_ns(self, count: int, seed: int) -> Iterator[int]:
        """[ns] Times of this many arrivals. The first request comes after the first interval."""
        if not self.ramp_up and math.isinf(self.request_rate):
            yield from (0 for _ in range(count))
            return
        draws = Draws(seed, 1)
        now = 0.0
        for number in range(count):
            interval = 1.0 if math.isinf(self.burstiness) else draws.gamma(self.burstiness) / self.burstiness
            now += interval / self.rate(number / count)
            yield round(now * 1e9)

    def rate(self, progress: float) -> float:
        """[1/s] after this share of the requests."""
        if not self.ramp_up:
            return self.request_rate
        assert self.ramp_up_start_rps is not None and self.ramp_up_end_rps is not None
        start, end = self.ramp_up_start_rps, self.ramp_up_end_rps
        if self.ramp_up == "linear":
            return start + (end - start) * progress
        return start * exp(log(end / start) * progress)
