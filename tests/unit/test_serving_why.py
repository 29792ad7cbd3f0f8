"""What TTFT and the time between tokens consist of."""

from __future__ import annotations

import random

import pytest

from kernbench.serving import (
    ContinuousBatching,
    EngineOptions,
    Fleet,
    Instance,
    KvLink,
    Request,
    RoundRobin,
    fixed_step,
    simulate,
    simulate_fleet,
)  # fmt: skip
from kernbench.workloads.serving.result import ServingResult
from kernbench.workloads.serving.scheduler import StepBatch
from kernbench.workloads.serving.step_time import StepTimer

MS = 1_000_000


def engine(**options: object) -> ContinuousBatching:
    given = {"num_gpu_blocks": 64, "max_model_len": 256, "async_scheduling": False} | options
    return ContinuousBatching(EngineOptions(**given))  # type: ignore[arg-type]


def parts(result: ServingResult, name: str) -> dict[str, float]:
    """What is not 0."""
    return {part: value for part, value in result.why()[name].items() if value and part != "bound"}


def at_once(count: int) -> list[Request]:
    return [Request(i, arrival_ns=0, prompt=32, output=4) for i in range(count)]


def test_a_request_waits_for_a_place() -> None:
    result = simulate(at_once(2), engine(max_num_seqs=1), fixed_step(MS))
    assert parts(result, "ttft") == {"sequence_slots_ms": 2.0, "prefill_ms": 1.0}  # 0 and 4 ms
    assert result.why()["ttft"]["bound"] == "sequence_slots"


def test_a_request_waits_for_blocks() -> None:
    result = simulate(at_once(2), engine(num_gpu_blocks=4, max_model_len=48), fixed_step(MS))
    assert parts(result, "ttft") == {"kv_blocks_ms": 2.0, "prefill_ms": 1.0}


def test_a_request_waits_for_tokens_of_a_step() -> None:
    whole = engine(max_num_seqs=8, max_model_len=40, max_num_batched_tokens=40, enable_chunked_prefill=False)
    result = simulate(at_once(2), whole, fixed_step(MS))
    assert parts(result, "ttft") == {"token_budget_ms": 0.5, "prefill_ms": 1.0}


@pytest.mark.parametrize(("asynchronous", "waited"), [(False, 0.25), (True, 1.25)])
def test_a_request_waits_for_the_steps_scheduled_before_it(asynchronous: bool, waited: float) -> None:
    two = [*at_once(1), Request(1, arrival_ns=MS + 3 * MS // 4, prompt=32, output=4)]
    result = simulate(two, engine(async_scheduling=asynchronous), fixed_step(MS))
    assert parts(result, "ttft") == {"running_step_ms": waited / 2, "prefill_ms": 1.0}


class _Hosted(StepTimer):
    def device_ns(self, batch: StepBatch) -> int:
        return 5 * MS if batch.chunks else 2 * MS

    def host_ns(self, batch: StepBatch) -> int:
        return 3 * MS


def test_the_host_counts_where_it_is_longer_than_the_device() -> None:
    load = [*at_once(1), Request(1, arrival_ns=MS, prompt=32, output=1)]
    beside = simulate(load, engine(async_scheduling=True), _Hosted())
    assert parts(beside, "tpot") == pytest.approx({"decode_step_ms": 4 / 3, "prefill_step_ms": 5 / 3, "host_ms": 2 / 3})
    after = simulate(at_once(1), engine(), _Hosted())
    assert parts(after, "tpot") == {"decode_step_ms": 2.0, "host_ms": 3.0}


def load(seed: int) -> list[Request]:
    drawn = random.Random(seed)
    times = sorted(drawn.randrange(60 * MS) for _ in range(60))
    leaves = [drawn.choice((None, None, None, 3 * MS)) for _ in times]
    return [
        Request(i, arrival_ns=at, prompt=drawn.randint(1, 90), output=drawn.randint(1, 60), abort_ns=abort)
        for i, (at, abort) in enumerate(zip(times, leaves, strict=True))
    ]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_parts_add_up_to_the_latencies(seed: int, asynchronous: bool) -> None:
    tight = engine(num_gpu_blocks=24, max_num_seqs=6, max_num_batched_tokens=64, async_scheduling=asynchronous)
    result = simulate(load(seed), tight, _Hosted())
    assert result.to_dict()["preemptions"] > 0
    gaps, steps = (result.record.gaps.column(name) for name in ("ns", "step_ns"))
    assert (gaps >= steps).all()  # also where a request is preempted again while the token of its prefill is on its way
    for window in (None, result.steady):
        for name, metric in (("ttft", "ttft"), ("tpot", "itl")):
            found = {part: value for part, value in result.why(window)[name].items() if part != "bound"}
            assert min(found.values()) >= 0
            of = result.summary(metric, window)
            assert of is not None and sum(found.values()) == pytest.approx(of.mean)
    assert result.why()["ttft"]["kv_blocks_ms"] > 0 and result.why()["tpot"]["between_steps_ms"] > 0


def test_parts_of_engines_that_only_prefill_are_kept() -> None:
    instances = [Instance(engine(max_num_seqs=1), fixed_step(MS), role) for role in ("prefill", "decode")]
    fleet = Fleet(instances, RoundRobin(), KvLink(token_bytes=1, bytes_per_ns=1000))
    result = simulate_fleet(at_once(2), fleet)
    found = parts(result, "ttft")
    assert found["sequence_slots_ms"] == 0.5  # the second prompt waits for the first one's step
    of = result.summary("ttft")
    assert of is not None and sum(found.values()) == pytest.approx(of.mean)


def test_a_curve_rises_to_all_values() -> None:
    result = simulate(load(0), engine(), fixed_step(MS))
    for metric in ("ttft", "tpot", "itl", "e2el"):
        points, of = result.curve_ms(metric), result.summary(metric)
        assert points == sorted(points) and points[-1][1] == 1.0 and of is not None
        middle = max(value for value, share in points if share <= 0.5)
        assert middle <= of.median
