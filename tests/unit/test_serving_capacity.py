"""The search for the largest rate under latency targets."""

from __future__ import annotations

import math
import random
from typing import cast

import pytest

from kernbench.common.errors import InputError
from kernbench.serving import (
    ContinuousBatching,
    EngineOptions,
    Request,
    ServingResult,
    Summary,
    find_capacity,
    fixed_step,
    parse_slo,
    simulate,
)
from kernbench.workloads.serving.capacity import BACKLOG

MS = 1_000_000
SERVICE_MS = 10.0


class Queue:
    """An M/D/1 queue of 10 ms by its formula, as the result of a run. The seed makes it slower or faster by some per cent."""

    backlog = 0.0

    def __init__(self, rate: float, seed: int) -> None:
        load = rate * SERVICE_MS * 1e-3 * (1 + 0.01 * (seed - 2))
        self.wait_ms = load * SERVICE_MS / (2 * (1 - load)) if load < 1 else 1e9

    def summary(self, metric: str) -> Summary:
        assert metric == "ttft"
        mean = SERVICE_MS + self.wait_ms
        return Summary(1000, mean, 0.0, {50: mean, 90: 2 * mean, 95: 3 * mean, 99: 4 * mean})


def queue(rate: float, seed: int) -> ServingResult:
    return cast(ServingResult, Queue(rate, seed))


def engine(rate: float, seed: int) -> ServingResult:
    """One request at a time, of one step of 10 ms: the same queue."""
    draw = random.Random(seed)
    now, made = 0.0, []
    for number in range(400):
        now += draw.expovariate(1.0)
        made.append(Request(number, arrival_ns=round(now / rate * 1e9), prompt=8, output=1))
    options = EngineOptions(num_gpu_blocks=3, max_model_len=16, max_num_seqs=1, async_scheduling=False)
    return simulate(made, ContinuousBatching(options), fixed_step(10 * MS))


def test_the_capacity_of_a_queue_is_that_of_its_formula() -> None:
    """Mean time in an M/D/1 queue of service S at load u: S + u S / (2 (1 - u)); 20 ms at S = 10 ms means u = 2/3."""
    found = find_capacity(queue, parse_slo("mean ttft<20ms"), seeds=(1, 2, 3))
    assert [one.rate for one in found.seeds] == [pytest.approx(200 / 3 / scale, rel=0.01) for scale in (0.99, 1.0, 1.01)]
    assert all(one.met < one.missed <= 1.02 * one.met for one in found.seeds)
    assert all(Queue(one.met, one.seed).wait_ms < 10 <= Queue(one.missed, one.seed).wait_ms for one in found.seeds)
    spread = 4.303 * 0.667 / 3**0.5  # Student's t of two degrees of freedom, the deviation of the three, and their number
    width = sum((one.missed - one.met) / 6 for one in found.seeds)
    assert found.half_width == pytest.approx(spread + width, rel=0.2)
    assert found.interval == (found.rate - found.half_width, found.rate + found.half_width)
    assert found.bound == "mean ttft < 20 ms"


def test_the_capacity_of_an_engine() -> None:
    found = find_capacity(engine, parse_slo("mean ttft<20ms"), seeds=(1,), tolerance=0.2, start_rate=64)
    assert found.rate == pytest.approx(200 / 3, rel=0.2)


def test_a_run_that_is_over_too_soon_does_not_count() -> None:
    """400 requests of 10 ms wait 4 s at most, however fast they come, so the target alone would have no limit."""
    found = find_capacity(engine, parse_slo("p99 ttft<10s"), seeds=(1,), tolerance=0.2, start_rate=64)
    assert (found.bound, found.rate) == (BACKLOG, pytest.approx(200, rel=0.3))


def test_the_tightest_target_decides() -> None:
    loose = find_capacity(queue, parse_slo("p99 ttft<100ms"), seeds=(1,))
    both = find_capacity(queue, parse_slo("p99 ttft<100ms, mean ttft<12ms"), seeds=(1,))
    assert both.rate < loose.rate
    assert both.bound == "mean ttft < 12 ms"
    assert math.isinf(both.half_width)
    assert both.to_dict()["interval"][1] is None


def test_a_target_that_no_rate_meets() -> None:
    found = find_capacity(queue, parse_slo("p50 ttft<9ms"), seeds=(1, 2), least_rate=0.1)
    assert (found.rate, found.interval[0]) == (pytest.approx(found.seeds[0].missed / 2), 0.0)
    assert all(one.met == 0 for one in found.seeds)


def test_a_target_that_every_rate_meets() -> None:
    found = find_capacity(queue, parse_slo("p50 ttft<1000s"), seeds=(1, 2), most_rate=64)
    assert [(one.met, one.missed, one.bound) for one in found.seeds] == [(64, math.inf, "")] * 2
    assert (found.rate, found.half_width, found.bound) == (64, 0, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "STATISTIC METRIC<LIMIT"),
        ("p99 ttft<200", "STATISTIC METRIC<LIMIT"),
        ("p98 ttft<200ms", "statistic"),
        ("p99 tftt<200ms", "did you mean ttft"),
        ("p99 ttft<0ms", "above 0"),
        ("p99 ttft<1.2.3ms", "above 0"),
    ],
)
def test_texts_that_are_no_target(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_slo(text)


def test_units() -> None:
    assert [one.limit_ms for one in parse_slo("p99 ttft<0.2s,median itl <= 500us")] == [200, 0.5]


def test_searches_that_cannot_be_made() -> None:
    for options, words in (({"seeds": ()}, "seed"), ({"seeds": (1, 1)}, "seed"), ({"tolerance": 0.0}, "tolerance")):
        with pytest.raises(InputError, match=words):
            find_capacity(queue, parse_slo("p99 ttft<1s"), **options)
    with pytest.raises(InputError, match="target"):
        find_capacity(queue, ())
