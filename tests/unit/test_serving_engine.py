"""The engine that serves requests: what every run keeps to, whatever the workload."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.serving import (
    Arrivals,
    ContinuousBatching,
    EngineOptions,
    FormulaTimer,
    Request,
    State,
    StepBatch,
    Workload,
    fixed_step,
    simulate,
)


def timer() -> FormulaTimer:
    return FormulaTimer(lambda batch: 1_000_000 + 20_000 * batch.prefill_tokens + 30_000 * batch.decodes)


class Watched(ContinuousBatching):
    """Checks each batch as it is made."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.batches: list[list[tuple[int, int, int]]] = []
        self.preempted: list[list[int]] = []

    def schedule(self, now_ns: int) -> Any:
        batch = super().schedule(now_ns)
        rows = batch.rows()
        options = self.options
        assert len(rows) == len(batch.chunks) + batch.decodes <= options.max_num_seqs
        assert sum(tokens for _, tokens, _ in rows) <= options.max_num_batched_tokens
        assert self.pool.free >= 0 and self.pool.used == len({block for one in self.running for block in one.blocks})
        decodes = [before for request, tokens, before in rows if request not in {one.id for one, _, _ in batch.chunks}]
        assert sum(decodes) == batch.decode_context
        held = {one.id: len(one.blocks) for one in self.running}
        for request, tokens, before in rows:
            assert held.get(request, before) * options.block_size >= before + tokens
        self.batches.append(rows)
        self.preempted.append([one.id for one in batch.preempted])
        return batch


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Request], EngineOptions]:
    block = draw(st.sampled_from([1, 4, 16]))
    longest = draw(st.integers(8, 120))
    options = EngineOptions(
        num_gpu_blocks=draw(st.integers(-(-longest // block) + 1, 80 + -(-longest // block))),
        max_model_len=longest,
        block_size=block,
        max_num_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(8, 64)),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 5])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        enable_prefix_caching=draw(st.booleans()),
        scheduling_policy=draw(st.sampled_from(["fcfs", "fcfs", "priority", "slo"])),
        async_scheduling=draw(st.booleans()),
    )
    now, requests = 0, []
    for number in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0, 0, 1_000_000, 30_000_000]))
        prompt = draw(st.integers(1, longest))
        shared = draw(st.integers(0, prompt))
        requests.append(Request(
            number, arrival_ns=now, prompt=prompt, output=draw(st.integers(1, longest)), priority=draw(st.integers(0, 2)),
            prefix=(("p", shared),) if shared else (), ttft_target_ns=draw(st.sampled_from([None, 5_000_000])),
            abort_ns=draw(st.sampled_from([None, None, None, 0, 10_000_000])),
        ))  # fmt: skip
    return requests, options


def check_run(requests: list[Request], options: EngineOptions) -> None:
    engine = Watched(options)
    result = simulate(requests, engine, timer())
    rows = {row["id"]: row for row in result.rows()}
    assert len(rows) == len(requests)  # every request ends or is reported
    for request in requests:
        fits = request.prompt + request.output <= options.max_model_len
        assert (request.state == State.REJECTED) == (not fits)
        if request.state == State.FINISHED:
            assert rows[request.id]["generated"] == request.output == request.generated
            assert request.arrival_ns <= (request.scheduled_ns or 0) < (request.first_token_ns or 0)
        else:
            assert request.generated <= request.output
    assert engine.pool.free == options.usable_blocks and not engine.running  # all blocks return
    gaps, count = result.record.gaps.column("ns"), result.record.gaps.column("count")
    if all(one.state == State.FINISHED for one in requests):  # the times between tokens are those of the requests
        spans = sum((one.last_token_ns or 0) - (one.first_token_ns or 0) for one in requests)
        assert int(np.dot(gaps, count)) == spans
        assert int(count.sum()) == sum(one.output - 1 for one in requests)
    if options.scheduling_policy == "fcfs":
        first = [one for one in requests if one.scheduled_ns is not None]
        for one, other in pairwise(first):
            assert (one.scheduled_ns or 0) <= (other.scheduled_ns or 0)


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_every_run_keeps_the_invariants(drawn: tuple[list[Request], EngineOptions]) -> None:
    check_run(*drawn)


@pytest.mark.nightly
@given(workloads())
@settings(max_examples=20_000, deadline=None)
def test_every_run_keeps_the_invariants_long(drawn: tuple[list[Request], EngineOptions]) -> None:
    check_run(*drawn)


def starts(engine: Watched) -> list[tuple[int, int, int]]:
    """Rows of requests that were not in the batch before."""
    found: list[tuple[int, int, int]] = []
    before: set[int] = set()
    for rows in engine.batches:
        found += [row for row in rows if row[0] not in before]
        before = {row[0] for row in rows}
    return found


def test_a_preempted_request_is_the_next_to_start() -> None:
    """Two requests fill five blocks; the first one's next token takes those of the second, which waits before the third."""
    options = EngineOptions(num_gpu_blocks=6, max_model_len=80, async_scheduling=False)
    engine = Watched(options)
    requests = [Request(i, arrival_ns=i, prompt=30, output=10) for i in range(3)]
    simulate(requests, engine, fixed_step(1_000_000))
    assert requests[0].preemptions == 0 and requests[1].preemptions == 1
    assert [request for request, _, _ in starts(engine)][:4] == [0, 1, 1, 2]


def test_what_a_preempted_request_left_is_found_again() -> None:
    options = EngineOptions(num_gpu_blocks=6, max_model_len=80, async_scheduling=False)
    engine = Watched(options)
    simulate([Request(i, arrival_ns=0, prompt=30, output=10) for i in range(2)], engine, fixed_step(1))
    found = [before for request, _, before in starts(engine) if request == 1]
    assert found == [0, 32]  # its two full blocks were not taken


def test_prompts_that_start_alike_share_blocks() -> None:
    options = EngineOptions(num_gpu_blocks=100, max_model_len=200)
    engine = Watched(options)
    requests = [Request(i, arrival_ns=i * 10**9, prompt=100, output=1, prefix=(("a", 70),)) for i in range(2)]
    requests.append(Request(2, arrival_ns=2 * 10**9, prompt=100, output=1, prefix=(("b", 70),)))
    simulate(requests, engine, fixed_step(1))
    assert [one.cached for one in requests] == [0, 64, 0]


def test_decodes_wait_for_a_token_of_the_budget() -> None:
    """With a threshold a prefill in the middle can take the tokens of decodes behind it; they miss a step and then go on."""
    options = EngineOptions(
        num_gpu_blocks=100, max_model_len=300, max_num_seqs=4, max_num_batched_tokens=8, long_prefill_token_threshold=7
    )
    engine = Watched(options)
    requests = [Request(0, arrival_ns=0, prompt=200, output=2), Request(1, arrival_ns=0, prompt=1, output=40)]
    requests += [Request(2, arrival_ns=0, prompt=2, output=40)]
    simulate(requests, engine, fixed_step(1_000_000))
    assert all(one.state == State.FINISHED for one in requests)


def test_an_asynchronous_step_starts_when_the_one_before_ends() -> None:
    """A request that arrives while a step runs joins the step after the next one."""
    found = {}
    for asynchronous in (False, True):
        options = EngineOptions(num_gpu_blocks=100, max_model_len=300, async_scheduling=asynchronous)
        requests = [Request(0, arrival_ns=0, prompt=8, output=8), Request(1, arrival_ns=500, prompt=8, output=2)]
        simulate(requests, ContinuousBatching(options), fixed_step(1000))
        found[asynchronous] = requests[1].scheduled_ns
    assert found == {False: 1000, True: 2000}


def test_requests_meet_their_targets_first() -> None:
    """`slo`: the one that can still be in time goes before the earlier one that is late."""
    options = EngineOptions(num_gpu_blocks=100, max_model_len=300, max_num_seqs=1, scheduling_policy="slo")
    requests = [
        Request(0, arrival_ns=0, prompt=8, output=20),
        Request(1, arrival_ns=1, prompt=8, output=1, ttft_target_ns=10),
        Request(2, arrival_ns=2, prompt=8, output=1, ttft_target_ns=10**9),
        Request(3, arrival_ns=3, prompt=8, output=1, ttft_target_ns=10**8),
    ]
    simulate(requests, ContinuousBatching(options), fixed_step(1000))
    assert sorted(requests[1:], key=lambda one: one.scheduled_ns or 0) == [requests[3], requests[2], requests[1]]


def test_more_requests_than_places_are_sent_later() -> None:
    requests = [Request(i, arrival_ns=0, prompt=8, output=2) for i in range(4)]
    options = EngineOptions(num_gpu_blocks=100, max_model_len=300, async_scheduling=False)
    result = simulate(requests, ContinuousBatching(options), fixed_step(1_000_000), max_concurrency=2)
    assert [row["arrival_ms"] for row in result.rows()] == [0, 0, 2, 2]
    assert [row["ttft_ms"] for row in result.rows()] == [1, 1, 1, 1]


def test_what_is_no_engine_is_refused() -> None:
    for wrong, rule in (
        ({"num_gpu_blocks": 1}, "num_gpu_blocks = 1, but it must be an integer of at least 2"),
        ({"max_num_batched_tokens": 100}, "it must be at least max_num_seqs, 256"),
        ({"max_model_len": 2000}, "it must be at most what the KV cache holds, 99 blocks of 16 tokens"),
        ({"scheduling_policy": "lifo"}, "it must be one of fcfs, priority, slo"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 256}, "it must be at least max_model_len, 300"),
    ):
        values: dict[str, Any] = {"num_gpu_blocks": 100, "max_model_len": 300, **wrong}
        with pytest.raises(InputError, match=rule):
            EngineOptions(**values)


def test_arrivals_have_their_rate_and_burstiness() -> None:
    for burstiness, variation in ((1.0, 1.0), (0.25, 2.0), (float("inf"), 0.0)):
        times = np.array(list(Arrivals(request_rate=50, burstiness=burstiness).times_ns(40_000, 1)))
        intervals = np.diff(times)
        assert intervals.mean() / 1e9 == pytest.approx(1 / 50, rel=0.03)
        assert intervals.std() / intervals.mean() == pytest.approx(variation, abs=0.05)


def test_a_rate_rises() -> None:
    rising = Arrivals(ramp_up="linear", ramp_up_start_rps=1, ramp_up_end_rps=3, burstiness=float("inf"))
    times = list(rising.times_ns(101, 0))
    assert times[0] == 10**9 and times[-1] - times[-2] == pytest.approx(1e9 / 3, rel=0.02)


def test_equal_seeds_give_equal_requests() -> None:
    def drawn(seed: int) -> list[tuple[int, int, int]]:
        load = Workload(num_prompts=50, random_range_ratio=0.5, arrivals=Arrivals(request_rate=3), seed=seed)
        return [(one.arrival_ns, one.prompt, one.output) for one in load.requests()]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_batch_of_a_scheduler_of_ones_own_counts_as_vllms_do() -> None:
    """Explicit batches and those of rounds give the same record."""

    class Plain(ContinuousBatching):
        def schedule(self, now_ns: int) -> Any:
            return super().schedule(now_ns)

    requests = [Request(i, arrival_ns=i * 700_000, prompt=20 + i, output=5 + i % 7) for i in range(30)]
    lazy = simulate(requests, Plain(EngineOptions(num_gpu_blocks=500, max_model_len=200, async_scheduling=False)), timer())
    again = [Request(one.id, arrival_ns=one.arrival_ns, prompt=one.prompt, output=one.output) for one in requests]
    explicit = simulate(again, Greedy(), timer())
    assert list(lazy.rows()) == list(explicit.rows())
    assert lazy.summary("itl") == explicit.summary("itl")


class Greedy(ContinuousBatching):
    """Everything that is there, in explicit batches."""

    def __init__(self) -> None:
        super().__init__(EngineOptions(num_gpu_blocks=500, max_model_len=200, async_scheduling=False))
        self.all: list[Request] = []

    def add(self, request: Request) -> None:
        self.all.append(request)

    def schedule(self, now_ns: int) -> Any:
        return StepBatch([(one, one.tokens - one.computed) for one in self.all])

    def finish(self, request: Request) -> None:
        self.all.remove(request)


def test_results_do_not_depend_on_where_memory_ends() -> None:
    """Tables of more rows than memory holds are read back from their file."""
    from kernbench.workloads.serving.spill import Spill

    spill, want = Spill(("a", "b")), []
    numbers = random.Random(1)
    for i in range(70_000):
        want.append((i, numbers.randrange(1 << 40)))
        spill.append(*want[-1])
    assert len(spill) == 70_000
    assert spill.column("b").tolist() == [b for _, b in want] and spill.column("a").tolist() == list(range(70_000))


def test_a_table_is_exact_at_its_entries_and_linear_between_them() -> None:
    """A step whose time is linear in tokens and contexts is exact everywhere; only entries that have a share are simulated."""
    from kernbench.workloads.blocks.batch import Sequences
    from kernbench.workloads.serving.machine_step import CoreStep, MachineStep
    from kernbench.workloads.serving.step_time import ExactTimer, TableTimer

    class Linear(MachineStep):
        edges = CoreStep.edges

        def __init__(self) -> None:
            self.asked: list[list[Sequences]] = []

        def device_ns(self, sequences: Any) -> float:
            self.asked.append(list(sequences))
            rows = sum(one.tokens * one.count for one in sequences)
            pairs = sum(one.count * one.tokens * (one.context + one.tokens / 2) for one in sequences if one.tokens > 1)
            context = sum(one.count for one in sequences if one.tokens == 1) * 3
            return 5000.0 + 70 * rows + 0.25 * pairs + context

        def host_ns(self, sequences: int, *, prompt: bool) -> int:
            return 0

        def weight_bytes(self) -> int:
            return 0

        token_bytes = memory_bytes = content = weight_bytes

    linear = Linear()
    table, exact = TableTimer(linear), ExactTimer(linear)
    decodes = [(Request(i, arrival_ns=0, prompt=64, output=9), 1) for i in range(8)]
    for request, _ in decodes:
        request.computed = 64
    assert table.device_ns(StepBatch(decodes)) == exact.device_ns(StepBatch(decodes))
    assert len(linear.asked) == 2 and table.filled == 1
    prefills = [(Request(9, arrival_ns=0, prompt=300, output=2), 300), (Request(10, arrival_ns=0, prompt=900, output=2), 900)]
    for batch in (StepBatch(prefills), StepBatch([*decodes[:5], *prefills]), StepBatch(decodes[:3])):
        assert table.device_ns(batch) == pytest.approx(exact.device_ns(batch), abs=1)
    error = table.error()
    assert error is not None and error.steps == 4 and error.worst < 1e-3
