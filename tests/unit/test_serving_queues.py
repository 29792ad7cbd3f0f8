"""The engine as a queue: with one sequence a step it is M/D/1 or M/G/1, whose mean wait has a closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernbench.serving import ContinuousBatching, EngineOptions, FormulaTimer, Request, StepBatch, simulate

STEP_NS = 1_000_000
COUNT = 8000
MANY = pytest.param(250_000, marks=pytest.mark.nightly)


def waits_ms(gaps: list[float], outputs: list[int], step: Callable[[StepBatch], int]) -> np.ndarray:
    """[ms] that each request waits for its first step, in the order of arrival; `gaps`: [ns] between arrivals."""
    arrivals = np.cumsum(gaps).astype(int).tolist()
    requests = [Request(i, arrival_ns=arrivals[i], prompt=8, output=outputs[i]) for i in range(len(gaps))]
    options = EngineOptions(num_gpu_blocks=17, max_model_len=256, max_num_seqs=1, async_scheduling=False)
    rows = simulate(requests, ContinuousBatching(options), FormulaTimer(step)).rows()
    return np.array([row["queue_ms"] for row in sorted(rows, key=lambda row: row["id"])])


def poisson_gaps(mean_ns: float, count: int, seed: int) -> list[float]:
    """Exponential gaps: one from each of `count` equal parts of the distribution, in random order, so their mean is exact."""
    order = np.random.default_rng(seed).permutation(count)
    return (-mean_ns * np.log((order + 0.5) / count)).tolist()


@pytest.mark.parametrize("count", [COUNT, MANY])
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_m_d_1(load: float, count: int) -> None:
    """Mean wait = u S / (2 (1 - u))."""
    found = waits_ms(poisson_gaps(STEP_NS / load, count, seed=3), [1] * count, lambda batch: STEP_NS)
    assert found.mean() == pytest.approx(load / (2 * (1 - load)), rel=0.02)


@pytest.mark.parametrize("count", [COUNT, MANY])
@pytest.mark.parametrize("load", [0.3, 0.5])
def test_m_g_1(load: float, count: int) -> None:
    """Pollaczek and Khinchine: mean wait = rate E[S^2] / (2 (1 - u)), here of requests of 1, 2 or 6 steps."""
    draw = np.random.default_rng(5)
    outputs = draw.permutation(np.repeat([1, 2, 6], [count // 2, count // 4, count // 4]))
    mean, square = outputs.mean(), (outputs.astype(float) ** 2).mean()
    found = waits_ms(poisson_gaps(STEP_NS * mean / load, count, seed=0), outputs.tolist(), lambda batch: STEP_NS)
    assert found.mean() == pytest.approx(load / mean * square / (2 * (1 - load)), rel=0.02)


def test_each_wait_is_that_of_lindleys_recursion() -> None:
    """W of the next = max(0, W + S - gap), to the nanosecond; a prefill step and decode steps differ here."""
    draw = np.random.default_rng(1)
    outputs = draw.integers(1, 8, 500).tolist()
    gaps = poisson_gaps(5 * STEP_NS, 500, seed=4)
    found = waits_ms(gaps, outputs, lambda batch: 3 * STEP_NS if batch.prefill_tokens else STEP_NS)
    arrivals = np.cumsum(gaps).astype(int).tolist()
    free, expected = 0, []
    for arrival, output in zip(arrivals, outputs, strict=True):
        start = max(arrival, free)
        expected.append((start - arrival) / 1e6)
        free = start + (3 + output - 1) * STEP_NS
    assert found.tolist() == expected
