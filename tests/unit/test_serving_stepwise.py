"""Drafts, adapters, swaps and the radix tree: what every run keeps to, and what each of them changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.serving import (
    ContinuousBatching,
    EngineOptions,
    FormulaTimer,
    Request,
    Speculation,
    State,
    StepwiseBatching,
    batching,
    fixed_step,
    parse_speculation,
    simulate,
)
from kernbench.workloads.models.files import load_model
from kernbench.workloads.serving.extra_work import Adapters, Lora, Swaps
from kernbench.workloads.serving.radix import RadixPool
from kernbench.workloads.serving.scheduler import StepBatch
from kernbench.workloads.serving.waiting import Waiting
from tests.serving_workloads import speculations

MS = 1_000_000


class Watched(StepwiseBatching):
    """Checks each batch as it is made."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.batches: list[Any] = []

    def schedule(self, now_ns: int) -> Any:
        batch = super().schedule(now_ns)
        options, rows = self.options, batch.rows()
        assert sum(tokens for _, tokens, _ in rows) <= options.scheduled_tokens
        assert len({one for one, _, _ in rows}) == len(rows) <= options.max_num_seqs
        assert len(batch.adapters) <= options.max_loras and 0 <= self.host_blocks <= options.swap_blocks
        blocks = [block for one in self.running for block in one.blocks]
        assert self.pool.used == len(set(blocks)) <= options.usable_blocks
        for one in self.running:
            assert len(one.blocks) * options.block_size >= min(one.computed, options.max_model_len)
            assert len(set(one.blocks)) == len(one.blocks)
        if isinstance(self.pool, RadixPool):
            pages = self.pool._pages
            assert all(page.parent == 0 or page.parent in pages for page in pages.values())
            assert len(pages) + len(self.pool._empty) <= options.usable_blocks
        self.batches.append(batch)
        return batch


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[Request], EngineOptions]:
    block, longest = draw(st.sampled_from([1, 4, 16])), draw(st.integers(8, 80))
    spec = draw(st.none() | speculations())
    seqs, swap = draw(st.integers(1, 6)), draw(st.sampled_from([0, 0, 3, 50]))
    options = EngineOptions(
        num_gpu_blocks=-(-longest // block) + 1 + draw(st.integers(0, 40)), max_model_len=longest, block_size=block,
        max_num_seqs=seqs, max_num_batched_tokens=draw(st.integers(8, 64)) + seqs,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 5])), enable_prefix_caching=draw(st.booleans()),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority", "slo"])), async_scheduling=draw(st.booleans()),
        speculation=spec, max_loras=draw(st.integers(1, 2)), preemption_mode="swap" if swap else "recompute", swap_blocks=swap,
        prefix_cache=draw(st.sampled_from(["hash", "radix"])), pipeline_parallel_size=draw(st.sampled_from([1, 1, 2, 3])),
    )  # fmt: skip
    now, requests = 0, []
    for number in range(draw(st.integers(1, 10))):
        now += draw(st.sampled_from([0, 0, MS, 30 * MS]))
        prompt = draw(st.integers(1, longest - 1))
        shared = draw(st.integers(0, prompt))
        requests.append(Request(
            number, arrival_ns=now, prompt=prompt, output=draw(st.integers(1, longest - prompt)),
            priority=draw(st.integers(0, 2)), prefix=(("p", shared),) if shared else (),
            ttft_target_ns=draw(st.sampled_from([None, 5 * MS])), abort_ns=draw(st.sampled_from([None, None, None, 10 * MS])),
            adapter=draw(st.sampled_from([None, 0, 1, 2])),
        ))  # fmt: skip
    return requests, options


def check_run(requests: list[Request], options: EngineOptions) -> None:
    engine = Watched(options)
    result = simulate(requests, engine, FormulaTimer(lambda batch: MS + 30_000 * (batch.decodes + batch.drafts)))
    assert {row["id"] for row in result.rows()} == {one.id for one in requests}
    for one in requests:
        assert one.state in (State.FINISHED, State.ABORTED)
        assert one.generated == one.output or one.state == State.ABORTED
    assert engine.pool.free == options.usable_blocks and not engine.running and not engine.host_blocks
    if options.speculation is None:
        assert result.speculation() is None
    if all(one.state == State.FINISHED for one in requests):
        record = result.record
        assert sum(one.tokens for one in record.timeline.intervals) == sum(one.output for one in requests)
        gaps, count = record.gaps.column("ns"), record.gaps.column("count")
        spans = sum((one.last_token_ns or 0) - (one.first_token_ns or 0) for one in requests)
        assert int((gaps * count).sum()) == spans


@given(loads())
@settings(max_examples=30, deadline=None)
def test_every_run_keeps_the_invariants(drawn: tuple[list[Request], EngineOptions]) -> None:
    check_run(*drawn)


@pytest.mark.nightly
@given(loads())
@settings(max_examples=10_000, deadline=None)
def test_every_run_keeps_the_invariants_long(drawn: tuple[list[Request], EngineOptions]) -> None:
    check_run(*drawn)


def options(**given: Any) -> EngineOptions:
    return EngineOptions(**{"num_gpu_blocks": 100, "max_model_len": 400, "async_scheduling": False, **given})


@pytest.mark.parametrize("method", ["draft_model", "ngram"])
def test_drafts_that_are_all_accepted_divide_the_steps(method: Any) -> None:
    """The prefill gives one token, and each step after it one and its three drafts: 1 + 4 + 4 + 1 tokens."""
    spec = Speculation(method=method, model="small" if method == "draft_model" else None, rates=(1.0, 1.0, 1.0))
    result = simulate([Request(0, arrival_ns=0, prompt=8, output=10)], batching(options(speculation=spec)), fixed_step(MS))
    assert result.summary("e2el").mean == 4.0  # type: ignore[union-attr]
    assert result.speculation() == {
        "verifications": 3, "draft_tokens": 9, "accepted_tokens": 9, "acceptance_rate": 1.0, "acceptance_length": 4.0,
        "accepted_per_position": [1.0, 1.0, 1.0],
    }  # fmt: skip


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_accepted_follows_the_rates_and_not_the_schedule(asynchronous: bool) -> None:
    spec = Speculation(method="draft_model", model="small", rates=(0.8, 0.5, 0.1))
    found = []
    for seqs in (4, 64):
        engine = batching(options(num_gpu_blocks=4000, speculation=spec, async_scheduling=asynchronous, max_num_seqs=seqs))
        requests = [Request(i, arrival_ns=0, prompt=8, output=300) for i in range(60)]
        found.append(simulate(requests, engine, fixed_step(MS)).speculation())
    assert found[0] == found[1] and found[0] is not None
    assert found[0]["accepted_per_position"] == pytest.approx([0.8, 0.5, 0.1], abs=0.015)
    assert found[0]["acceptance_length"] == pytest.approx(2.4, abs=0.03)


def test_n_grams_are_found_in_a_share_of_the_steps() -> None:
    spec = Speculation(method="ngram", rates=(1.0,), match_rate=0.25)
    requests = [Request(i, arrival_ns=0, prompt=8, output=300) for i in range(20)]
    result = simulate(requests, batching(options(num_gpu_blocks=1000, speculation=spec)), fixed_step(MS))
    counts = result.speculation()
    assert counts is not None
    steps = 20 * 299 - counts["verifications"]  # each accepted draft saves a step of its request
    assert counts["verifications"] / steps == pytest.approx(0.25, abs=0.02)


def test_a_step_costs_its_drafts_and_their_verification() -> None:
    """One pass of four tokens, one of the draft model over them, and two more of it."""
    from kernbench.workloads.serving.extra_work import DraftModel
    from kernbench.workloads.serving.machine_step import MachineStep
    from kernbench.workloads.serving.step_time import ExactTimer, TableTimer

    class Linear(MachineStep):
        edges = ([1, 512], [1, 512], [0, 4096])

        def __init__(self, ns: int) -> None:
            self.ns = ns

        def device_ns(self, sequences: Any) -> float:
            return self.ns + sum(one.count * (10 * one.tokens + one.context) for one in sequences)

        def host_ns(self, sequences: int, *, prompt: bool) -> int:
            return 0

        def weight_bytes(self) -> int:
            return 0

        token_bytes = memory_bytes = content = weight_bytes

    spec = Speculation(method="draft_model", model="small", rates=(1.0, 1.0, 1.0))
    for kind in (ExactTimer, TableTimer):
        width = {"width": 4} if kind is TableTimer else {}
        timer = kind(Linear(1000), extra=[DraftModel(kind(Linear(100), **width), 3)], **width)
        engine = batching(options(speculation=spec))
        result = simulate([Request(0, arrival_ns=0, prompt=8, output=5)], engine, timer)
        prefill = 1000 + 80 + (100 + 80) + 2 * (100 + 10 + 8)
        verify = 1000 + 40 + 8 + (100 + 40 + 8) + 2 * (100 + 10 + 12)
        assert result.end_ns == pytest.approx(prefill + verify, abs=40 if kind is TableTimer else 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "it must be a JSON object"),
        ("{", "it must be a JSON object"),
        ('{"method": "eagle", "num_speculative_tokens": 2, "acceptance_rate": 0.5}', "draft_model, ngram"),
        ('{"num_speculative_tokens": 0, "acceptance_rate": 0.5}', "num_speculative_tokens = 0"),
        ('{"num_speculative_tokens": 2}', "acceptance must be given once"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": 0.5, "synthetic_acceptance_length": 2}', "given once"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": true}', "it must be a number"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": 1.5}', "from 0 to 1"),
        ('{"num_speculative_tokens": 2, "synthetic_acceptance_length": 4}', "from 1 to 3"),
        ('{"num_speculative_tokens": 2, "synthetic_acceptance_rates": [0.5]}', "a list of 2 numbers"),
        ('{"num_speculative_tokens": 2, "synthetic_acceptance_rates": [0.5, 0.6]}', "do not increase"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": 0.5, "method": "draft_model"}', "needs the model"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": 0.5, "seed": -1}', "seed = -1"),
        ('{"num_speculative_tokens": 2, "acceptance_rate": 0.5, "modle": "x"}', "did you mean model"),
    ],
)
def test_speculation_that_cannot_be(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told.replace("[", r"\[")):
        parse_speculation(text)


def test_rates_by_a_share_or_a_length() -> None:
    assert parse_speculation({"num_speculative_tokens": 3, "acceptance_rate": 0.5}).rates == (0.5, 0.25, 0.125)
    assert parse_speculation({"num_speculative_tokens": 4, "synthetic_acceptance_length": 3.5}).rates == (1, 1, 0.5, 0)


def test_options_that_need_another_scheduler() -> None:
    assert isinstance(batching(options()), ContinuousBatching)
    with pytest.raises(InputError, match="StepwiseBatching"):
        ContinuousBatching(options(prefix_cache="radix"))
    with pytest.raises(InputError, match="swap_blocks"):
        options(swap_blocks=3)
    with pytest.raises(InputError, match="a draft model takes a token of each"):
        options(max_num_batched_tokens=256, speculation=Speculation(method="draft_model", model="m", rates=(1.0,)))


def test_swapped_requests_compute_nothing_again() -> None:
    """Two requests fill five blocks; the second one goes to the host with its two blocks, and comes back."""
    found = {}
    for mode, space in (("recompute", 0), ("swap", 2)):
        given = {"num_gpu_blocks": 6, "max_model_len": 80, "enable_prefix_caching": False}
        engine = Watched(options(preemption_mode=mode, swap_blocks=space, **given))
        requests = [Request(i, arrival_ns=0, prompt=30, output=10) for i in range(2)]
        result = simulate(requests, engine, fixed_step(MS))
        computed = sum(tokens for batch in engine.batches for request, tokens, _ in batch.rows() if request == 1)
        found[mode] = requests[1].preemptions, computed, result.record.swapped_blocks
    assert found["swap"] == (1, 30 + 9, 4)  # two blocks, each way
    assert found["recompute"][0] == 1 and found["recompute"][1] > 30 + 9 and found["recompute"][2] == 0


def test_swaps_and_adapters_lengthen_a_step() -> None:
    batch = StepBatch()
    batch.swapped_blocks = 6
    assert Swaps(block_bytes=1000, host_bytes_per_ns=2.0).ns(batch) == 3000.0
    lora = Lora(adapters=4, rank=16, max_loras=2)
    batch.adapters, batch.adapter_loads = frozenset({0, 3}), 1
    assert Adapters(lora, 1000, memory_bytes_per_ns=10.0, host_bytes_per_ns=1.0).ns(batch) == 2 * 100 + 1000
    with pytest.raises(InputError, match="--host-link-gb-s"):
        Adapters(lora, 1000, memory_bytes_per_ns=10.0, host_bytes_per_ns=None)


def test_the_bytes_of_an_adapter() -> None:
    """Llama-3-8B at rank 16: 41.9 M weights of all linear layers (peft prints 41,943,040)."""
    model = load_model("llama3-8b")
    assert Lora(adapters=1, rank=16).adapter_bytes(model, 1) == 2 * 41_943_040
    assert Lora(adapters=1, rank=16).adapter_bytes(model, 4) == 2 * 41_943_040 * 5 // 8
    with pytest.raises(InputError, match="dense"):
        Lora(adapters=1, rank=16).adapter_bytes(load_model("mixtral-8x7b"), 1)


def test_adapters_beyond_the_places_wait_and_others_pass() -> None:
    engine = Watched(options(max_loras=1, max_num_seqs=2))
    requests = [Request(i, arrival_ns=0, prompt=8, output=4, adapter=adapter) for i, adapter in enumerate([0, 1, 0])]
    simulate(requests, engine, fixed_step(MS))
    assert [one.scheduled_ns for one in requests] == [0, 4 * MS, 0]
    assert [batch.adapter_loads for batch in engine.batches if batch] == [1, 0, 0, 0, 1, 0, 0, 0]


def test_adapters_of_a_pipeline_count_in_all_of_its_batches() -> None:
    """One place: two requests with different adapters do not run at a time, though each is alone in its batch."""
    engine = Watched(options(max_loras=1, pipeline_parallel_size=2, max_num_batched_tokens=256))
    requests = [Request(i, arrival_ns=0, prompt=200, output=3, adapter=i) for i in range(2)]
    simulate(requests, engine, fixed_step(MS))
    assert requests[1].scheduled_ns == requests[0].last_token_ns


def test_a_preempted_request_that_is_passed_over_keeps_its_place() -> None:
    """By the policy slo it comes before requests with deadlines."""
    waiting = Waiting("slo")
    urgent = Request(0, arrival_ns=0, prompt=8, output=4, ttft_target_ns=MS)
    preempted = Request(1, arrival_ns=0, prompt=8, output=4)
    preempted.state = State.PREEMPTED
    waiting.add(urgent)
    waiting.put_back(preempted)
    waiting.pop(preempted)
    waiting.restore([preempted])
    assert waiting.peek(0) is preempted and len(waiting) == 2
    waiting.pop(preempted)
    assert waiting.peek(0) is urgent


def test_equal_prompts_of_different_adapters_share_nothing() -> None:
    for kind in ("hash", "radix"):
        requests = [
            Request(i, arrival_ns=i * 10**9, prompt=64, output=1, prefix=(("a", 64),), adapter=adapter)
            for i, adapter in enumerate([0, 1, 0, None, None])
        ]
        simulate(requests, batching(options(max_loras=2, prefix_cache=kind)), fixed_step(MS))
        assert [one.cached for one in requests] == [0, 0, 48, 0, 48]


def test_a_radix_tree_merges_equal_pages_and_evicts_leaves_first() -> None:
    """Two requests with one prompt hold it once. Its oldest pages outlive a younger branch, because they are before it."""
    engine = Watched(options(prefix_cache="radix", num_gpu_blocks=26))
    same = [Request(i, arrival_ns=0, prompt=64, output=2, prefix=(("a", 64),)) for i in range(2)]
    simulate(same, engine, fixed_step(MS))
    assert max(batch.kv_blocks for batch in engine.batches) == 4 + 2  # and a block of output each
    engine = Watched(options(prefix_cache="radix", num_gpu_blocks=13, max_model_len=160))
    first = Request(0, arrival_ns=0, prompt=128, output=1, prefix=(("a", 64), ("b", 64)))
    other = Request(1, arrival_ns=10**9, prompt=96, output=1)
    again = Request(2, arrival_ns=2 * 10**9, prompt=128, output=1, prefix=(("a", 64), ("b", 64)))
    simulate([first, other, again], engine, fixed_step(MS))
    assert again.cached == 6 * 16  # two leaves of eight pages went


def test_a_radix_tree_of_pages_of_one_token_finds_every_token() -> None:
    requests = [Request(i, arrival_ns=i * 10**9, prompt=50, output=1, prefix=(("a", 37),)) for i in range(2)]
    simulate(requests, batching(options(prefix_cache="radix", block_size=1, num_gpu_blocks=500)), fixed_step(MS))
    assert requests[1].cached == 37
