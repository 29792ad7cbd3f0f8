"""The energy of a request: its share of the steps that it was in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings

from kernbench.serving import (
    ContinuousBatching,
    EngineOptions,
    Fleet,
    Instance,
    KvLink,
    Request,
    RoundRobin,
    Scheduler,
    State,
    StepBatch,
    StepwiseBatching,
    simulate,
    simulate_fleet,
)
from kernbench.workloads.serving.step_time import StepTimer
from tests.unit.test_serving_engine import workloads


class Metered(StepTimer):
    """Takes down, from the rows of each step, what each request should pay: equal shares for all tokens."""

    def __init__(self) -> None:
        self.ledger: Counter[int] = Counter()
        self.total = 0.0

    def device_ns(self, batch: StepBatch) -> int:
        return 1_000_000 + 20_000 * batch.prefill_tokens + 30_000 * batch.decodes

    def energy_pj(self, batch: StepBatch) -> Mapping[str, float]:
        rows = batch.rows()
        tokens = batch.prefill_tokens + batch.decodes  # those of clients that have left since it was made are computed too
        dram, mac = 1e6 + 3e3 * sum(before for _, _, before in rows), 5e4 * tokens
        for request, count, _ in rows:
            self.ledger[request] += (dram + mac) * count / tokens
        self.total += dram + mac
        return {"dram": dram, "mac": mac}


@pytest.mark.parametrize("scheduler", [ContinuousBatching, StepwiseBatching])
@settings(max_examples=20, deadline=None)
@given(drawn=workloads())
def test_each_request_pays_for_its_tokens(
    scheduler: type[ContinuousBatching | StepwiseBatching], drawn: tuple[list[Request], EngineOptions]
) -> None:
    """Preempted requests pay for what is computed again, and clients that leave for the steps that had started."""
    requests, options = drawn
    timer = Metered()
    result = simulate(requests, scheduler(options), timer)
    rows = {row["id"]: row["joules"] for row in result.rows()}
    assert bool(timer.total) == all(joules is not None for joules in rows.values())
    for request in requests:
        paid = timer.ledger[request.id]
        if request.state == State.ABORTED:
            assert (rows[request.id] or 0) * 1e12 <= paid * (1 + 1e-9) + 1
        else:
            assert (rows[request.id] or 0) * 1e12 == pytest.approx(paid, rel=1e-9, abs=1)
    if all(one.state != State.ABORTED for one in requests):
        assert sum(one.energy_pj for one in requests) == pytest.approx(sum(result.record.energy_pj.values()), rel=1e-9)


def test_prefill_and_decode_of_two_engines_are_both_paid() -> None:
    options = EngineOptions(num_gpu_blocks=64, max_model_len=256)
    timers = Metered(), Metered()
    parts = [
        Instance(ContinuousBatching(options), timers[0], "prefill"),
        Instance(StepwiseBatching(options), timers[1], "decode"),
    ]
    requests = [Request(i, arrival_ns=i * 500_000, prompt=40 + i, output=6) for i in range(8)]
    result = simulate_fleet(requests, Fleet(parts, RoundRobin(), KvLink(token_bytes=1000, bytes_per_ns=1.0)))
    for row in result.rows():
        assert row["joules"] == pytest.approx(sum(one.ledger[row["id"]] for one in timers) / 1e12)
    each = result.joules()
    assert each is not None and each.mean * 8e12 == pytest.approx(timers[0].total + timers[1].total)


def test_a_scheduler_of_ones_own_pays_too() -> None:
    class All(Scheduler):
        def __init__(self) -> None:
            self.queue: list[Request] = []

        def add(self, request: Request) -> None:
            self.queue.append(request)

        def schedule(self, now_ns: int) -> StepBatch:
            return StepBatch([(one, one.tokens - one.computed) for one in self.queue])

        def finish(self, request: Request) -> None:
            self.queue.remove(request)

    timer = Metered()
    result = simulate([Request(i, arrival_ns=0, prompt=8 * (i + 1), output=2) for i in range(3)], All(), timer)
    for row in result.rows():
        assert row["joules"] == pytest.approx(timer.ledger[row["id"]] / 1e12)
