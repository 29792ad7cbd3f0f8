"""Throughput and goodput of a run, and of its steady part."""

from __future__ import annotations

import pytest

from kernbench.serving import ContinuousBatching, EngineOptions, Request, simulate
from kernbench.workloads.serving.result import ServingResult, Window
from kernbench.workloads.serving.step_time import FormulaTimer

SECOND = 1_000_000_000


def run(rate: int, most: int) -> ServingResult:
    """40 s of even arrivals; each request takes 10 steps of 20 ms, and so many run at a time."""
    engine = ContinuousBatching(
        EngineOptions(num_gpu_blocks=4096, max_model_len=256, max_num_seqs=most, async_scheduling=False)
    )
    requests = [Request(i, arrival_ns=i * SECOND // rate, prompt=8, output=10) for i in range(40 * rate)]
    return simulate(requests, engine, FormulaTimer(lambda batch: 20_000_000))


PART = Window(10 * SECOND, 30 * SECOND)


def test_an_engine_that_keeps_up_ends_requests_at_the_rate_of_their_arrivals() -> None:
    rates = run(20, 64).rates(PART)
    assert rates["requests_per_s"] == pytest.approx(20, rel=0.01)
    assert rates["output_tokens_per_s"] == pytest.approx(200, rel=0.01)
    assert rates["total_tokens_per_s"] == pytest.approx(360, rel=0.01)


def test_an_engine_that_falls_behind_ends_them_at_its_own_rate() -> None:
    """Two requests of ten steps every 200 ms, whatever arrives."""
    late = run(20, 2)
    assert late.rates(PART)["requests_per_s"] == pytest.approx(10, rel=0.02)
    assert late.rates()["requests_per_s"] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize("most", [2, 64])
def test_goodput_is_the_share_of_good_requests_of_the_throughput(most: int) -> None:
    result = run(20, most)
    for window in (None, PART):
        rate, share = result.goodput({"ttft": 15_000}, window)
        assert rate == pytest.approx(share * result.rates(window)["requests_per_s"])
        assert (share == 1) == (most == 64)


def test_a_run_without_requests_has_no_throughput() -> None:
    engine = ContinuousBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256))
    result = simulate([], engine, FormulaTimer(lambda batch: 1))
    assert set(result.rates().values()) == set(result.rates(PART).values()) == {0.0}
