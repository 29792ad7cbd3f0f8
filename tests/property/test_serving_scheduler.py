"""The scheduler of `kernbench.serving` against a slow reference of vLLM's: equal batches, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from kernbench.serving import EngineOptions, Speculation, State, StepBatch, StepwiseBatching, batching
from kernbench.serving import Request as Served
from tests.oracles.serving_reference import Batch, Drafts, ReferenceScheduler, Request, steps
from tests.serving_workloads import Asked, Workload, workloads

ENDED = (State.FINISHED, State.ABORTED, State.REJECTED)


class Ours:
    """Our scheduler with the interface of the reference."""

    def __init__(self, options: dict[str, Any], prefixes: dict[int, list[tuple[str, int]]], stepwise: bool = False) -> None:
        made = EngineOptions(**options)
        self.scheduler = StepwiseBatching(made) if stepwise else batching(made)
        self.under_way = 2 if self.scheduler.asynchronous else self.scheduler.batches_in_flight
        self.prefixes = prefixes
        self.requests: dict[int, Served] = {}
        self.steps: list[StepBatch] = []
        self.now = 0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self.scheduler.waiting)

    @property
    def running(self) -> int:
        """Requests that run."""
        return len(self.scheduler.running)

    def add(self, request: Request) -> bool:
        prefix = self.prefixes[request.name]
        served = Served(
            request.name, arrival_ns=int(request.arrival), prompt=len(request.prompt), output=request.max_tokens,
            priority=request.priority, prefix=prefix, adapter=request.lora,
        )  # fmt: skip
        self.requests[request.name] = served
        self.scheduler.add(served)
        return served.state != State.REJECTED

    def abort(self, name: int) -> None:
        request = self.requests.get(name)
        if request is not None and request.state not in ENDED:
            request.state = State.ABORTED
            self.scheduler.finish(request)

    def schedule(self) -> Batch:
        batch = self.scheduler.schedule(self.now)
        rows = batch.rows()
        batch.commit()
        if rows:
            self.steps.append(batch)
        preempted = tuple(request.id for request in batch.preempted)
        return Batch({name: new for name, new, _ in rows}, (), preempted, batch.kv_blocks, batch.running, batch.waiting)

    def update(self, batch: Batch) -> list[int]:
        self.now += 1
        ended = self.steps.pop(0).complete(self.now, self.now - 1).ended
        for request in ended:
            request.state = State.FINISHED
            self.scheduler.finish(request)
        return [request.id for request in ended]


def options_of(workload: Workload) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of both schedulers."""
    names, ours, spec = dict(workload.options), dict(workload.options), workload.speculation
    ours["scheduling_policy"] = ours.pop("policy")
    host = ours.pop("host_blocks", 0)
    ours["pipeline_parallel_size"] = ours.pop("pipeline_stages", 1)
    if host:
        ours |= {"preemption_mode": "swap", "swap_blocks": host}
    if spec is not None:
        ours["speculation"] = spec
        names["drafts"] = Drafts(spec.tokens, spec.drafts, spec.accepted, spec.lookahead)
        if spec.method == "ngram":  # [spec] it needs the tokens before
            names["async_scheduling"] = False
        else:  # [spec] a draft model's first pass takes one more token of each sequence
            ours["max_num_batched_tokens"] += ours["max_num_seqs"]
    return names, ours


def compare(workload: Workload, stepwise: bool = False) -> None:
    longest = workload.options["max_model_len"]
    arrivals, prefixes = [], {}
    for name, asked in enumerate(workload.requests):
        outputs = min(asked.outputs, longest - asked.inputs)  # a server refuses what is longer
        prefixes[name] = [(f"group {asked.group}", min(asked.shared, asked.inputs))] if asked.shared else []
        arrivals.append((asked.step, asked.prompt(name), outputs, asked.priority, asked.lora))

    def fresh() -> list[tuple[int, Request]]:
        return [(at, Request(name, prompt, outputs, priority, float(at), lora=lora))
                for name, (at, prompt, outputs, priority, lora) in enumerate(arrivals)]  # fmt: skip

    theirs, options = options_of(workload)
    expected = steps(ReferenceScheduler(**theirs), fresh(), workload.aborts)
    ours = Ours(options, prefixes, stepwise)
    found = steps(ours, fresh(), workload.aborts)
    for step, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert shown(one) == shown(other), f"step {step}"
    assert len(found) == len(expected)
    assert ours.scheduler.pool.used == 0
    if isinstance(ours.scheduler, StepwiseBatching):
        assert ours.scheduler.host_blocks == 0
    for name, request in ours.requests.items():
        assert request.state == State.ABORTED or request.generated == arrivals[name][2]


def shown(batch: Batch) -> tuple[Any, ...]:
    return list(batch.tokens.items()), batch.preempted, batch.used_blocks, batch.running, batch.waiting


@settings(max_examples=50, deadline=None)
@given(workloads())
def test_batches_are_those_of_the_reference(workload: Workload) -> None:
    compare(workload)


@pytest.mark.nightly
@settings(max_examples=1000, deadline=None)
@given(workloads())
def test_batches_are_those_of_the_reference_on_1000_workloads(workload: Workload) -> None:
    compare(workload)


@settings(max_examples=25, deadline=None)
@given(workloads())
def test_the_plain_scheduler_gives_the_same_batches(workload: Workload) -> None:
    compare(workload, stepwise=True)


@settings(max_examples=60, deadline=None)
@given(workloads(stepwise=True))
def test_drafts_adapters_swap_and_stages_are_those_of_the_reference(workload: Workload) -> None:
    compare(workload)


@pytest.mark.nightly
@settings(max_examples=1000, deadline=None)
@given(workloads(stepwise=True))
def test_drafts_adapters_swap_and_stages_are_those_of_the_reference_on_1000_workloads(workload: Workload) -> None:
    compare(workload)


NAMED: dict[str, tuple[bool, dict[str, Any], list[tuple[int, int, int, int]], Speculation | None]] = {
    "a token on its way is in no block": (
        False, {"num_gpu_blocks": 5, "max_model_len": 4}, [(1, 1, 3, 1), (1, 1, 2, 0)], None,
    ),
    "the first token of a decode was known when its prefill ended": (
        False, {"num_gpu_blocks": 7, "max_model_len": 6}, [(0, 2, 2, 0), (1, 3, 2, 2)], None,
    ),
    "a token that the step of the preemption would compute is in a block": (
        False, {"num_gpu_blocks": 6, "max_model_len": 5}, [(2, 1, 3, 0), (2, 1, 3, 0)], None,
    ),
    "drafts that were accepted are in a block when the step has ended": (
        True, {"num_gpu_blocks": 16, "max_model_len": 10}, [(2, 3, 7, 2), (4, 6, 3, 1)],
        Speculation(method="draft_model", rates=(0.5,), model="small"),
    ),
    "drafts that were rejected are in none": (
        True, {"num_gpu_blocks": 13, "max_model_len": 7}, [(3, 1, 4, 2), (4, 3, 2, 1)],
        Speculation(method="draft_model", rates=(0.0,), model="small"),
    ),
    "a whole prompt is in its blocks": (
        True, {"num_gpu_blocks": 7, "max_model_len": 5}, [(1, 1, 2, 2), (1, 2, 2, 2)],
        Speculation(method="ngram", rates=(0.0, 0.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_blocks_of_preempted_requests_hold_what_was_known(case: str) -> None:
    """With blocks of one token, each token too many or too few that a preempted request finds again is another batch."""
    stepwise, few, asked, spec = NAMED[case]
    options = {
        "block_size": 1, "max_num_seqs": 4, "max_num_batched_tokens": 40, "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0, "enable_prefix_caching": True, "policy": "priority", "async_scheduling": True, **few,
    }  # fmt: skip
    requests = tuple(Asked(step, inputs, outputs, 0, 0, priority) for step, inputs, outputs, priority in asked)
    compare(Workload(options, requests, (), spec), stepwise)


def test_blocks_become_free_in_the_order_of_the_batch() -> None:
    """Two requests end in one step. The one that was admitted first began to decode last; its blocks are free first."""
    options = {
        "num_gpu_blocks": 22, "block_size": 4, "max_num_seqs": 2, "max_num_batched_tokens": 46, "max_model_len": 46,
        "enable_chunked_prefill": False, "long_prefill_token_threshold": 1, "enable_prefix_caching": True, "policy": "priority",
        "async_scheduling": False,
    }  # fmt: skip
    asked = [
        (0, 1, 29, 0, 0), (6, 32, 14, 32, 0), (6, 38, 8, 32, 1), (6, 1, 1, 0, 1), (6, 9, 9, 0, 1), (6, 29, 7, 0, 0),
        (6, 1, 7, 0, 1), (6, 1, 9, 0, 1), (7, 9, 1, 8, 2),
    ]  # fmt: skip
    requests = tuple(Asked(step, inputs, outputs, 0, shared, priority) for step, inputs, outputs, shared, priority in asked)
    compare(Workload(options, requests, ()))
