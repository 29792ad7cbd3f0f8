"""The reference of the serving scheduler against the examples in vLLM's documentation."""

from __future__ import annotations

import pytest

from tests.oracles.serving_reference import Batch, ReferenceScheduler, Request, steps


def cycle(scheduler: ReferenceScheduler) -> Batch:
    batch = scheduler.schedule()
    scheduler.update(batch)
    return batch


def test_the_example_of_prefix_caching() -> None:
    """docs/design/prefix_caching.md, times 1 to 7: ten blocks of four tokens; ours are one higher, as block 0 is never used."""
    scheduler = ReferenceScheduler(num_gpu_blocks=11, block_size=4)
    text = list("abcdefghijklmno")
    first, second = Request(0, text, 3), Request(1, [*text[:10], 1, 2, 3, 4], 2)
    scheduler.add(first)
    cycle(scheduler)
    assert (first.blocks, first.registered) == ([1, 2, 3, 4], 3)  # time 1
    cycle(scheduler)
    assert first.registered == 4  # the fourth block is full
    scheduler.add(second)
    batch = scheduler.schedule()  # time 4: two blocks are found, six tokens computed
    assert (first.blocks, second.blocks) == ([1, 2, 3, 4, 5], [1, 2, 6, 7])
    assert (second.hit, batch.tokens) == (8, {0: 1, 1: 6})
    assert scheduler.update(batch) == [0]
    assert scheduler.free == [8, 9, 10, 5, 4, 3]  # time 5: in reverse; the shared blocks stay
    assert cycle(scheduler).tokens == {1: 1}
    assert scheduler.free == [8, 9, 10, 5, 4, 3, 7, 6, 2, 1]  # time 6
    third = Request(2, [*text[:12], *range(17)], 1)
    scheduler.add(third)
    scheduler.schedule()  # time 7
    assert (third.hit, third.blocks) == (12, [1, 2, 3, 8, 9, 10, 5, 4])


def test_chunks_share_the_budget_and_decodes_come_first() -> None:
    scheduler = ReferenceScheduler(num_gpu_blocks=100, max_num_batched_tokens=16, block_size=4)
    batches = steps(scheduler, [(0, Request(0, [0] * 10, 3)), (1, Request(1, [1] * 30, 2)), (1, Request(2, [2] * 4, 1))])
    assert [batch.tokens for batch in batches] == [{0: 10}, {0: 1, 1: 15}, {0: 1, 1: 15}, {1: 1, 2: 4}]
    assert [batch.sampling for batch in batches] == [(0,), (0,), (0, 1), (1, 2)]


def test_the_last_admitted_is_preempted_and_becomes_the_head() -> None:
    scheduler = ReferenceScheduler(num_gpu_blocks=5, block_size=4, enable_prefix_caching=False)
    batches = steps(scheduler, [(0, Request(k, [k] * 7, 4)) for k in range(3)])
    assert batches[0].tokens == {0: 7, 1: 7}
    assert batches[1].tokens == {0: 1, 1: 1}
    assert (batches[2].tokens, batches[2].preempted) == ({0: 1}, (1,))  # a third block for 0; nobody is admitted then
    assert [list(batch.tokens) for batch in batches[3:6]] == [[0], [1], [1]]
    assert batches[4].tokens == {1: 9}  # recomputed with its two outputs, before 2


def test_a_prompt_is_admitted_only_if_all_of_it_fits() -> None:
    """scheduler_reserve_full_isl: the first chunk would fit."""
    arrivals = [(0, Request(0, [0] * 12, 2)), (0, Request(1, [1] * 12, 1))]
    options = {"num_gpu_blocks": 6, "block_size": 4, "max_num_batched_tokens": 16}
    batches = steps(ReferenceScheduler(**options), arrivals)
    assert [batch.tokens for batch in batches] == [{0: 12}, {0: 1}, {1: 12}]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_step_is_scheduled_before_the_output_of_the_one_before_is_known(asynchronous: bool) -> None:
    """Async: a request computes no step too many, and a follower is admitted one step later."""
    scheduler = ReferenceScheduler(num_gpu_blocks=9, block_size=4, max_num_seqs=1, async_scheduling=asynchronous)
    batches = steps(scheduler, [(0, Request(0, [0] * 4, 3)), (0, Request(1, [1] * 4, 1))])
    assert [batch.tokens for batch in batches] == [{0: 4}, {0: 1}, {0: 1}, {1: 4}]


def test_the_victim_of_the_priority_policy() -> None:
    options = {"num_gpu_blocks": 5, "block_size": 4, "enable_prefix_caching": False, "policy": "priority"}
    requests = [Request(0, [0] * 7, 4, priority=2), Request(1, [1] * 7, 4, priority=1)]
    batches = steps(ReferenceScheduler(**options), [(0, request) for request in requests])
    assert list(batches[0].tokens) == [1, 0]
    assert batches[2].preempted == (0,)


def test_an_abort_returns_the_blocks_also_while_a_step_is_under_way() -> None:
    scheduler = ReferenceScheduler(num_gpu_blocks=9, block_size=4, async_scheduling=True)
    batches = steps(scheduler, [(0, Request(0, [0] * 9, 50)), (1, Request(1, [1] * 9, 3))], [(3, 0)])
    assert [0 in batch.tokens for batch in batches] == [True, True, True, False]
    assert (len(scheduler.free), max(scheduler.users)) == (8, 0)


def test_it_ends_at_max_model_len_and_refuses_longer_prompts() -> None:
    scheduler = ReferenceScheduler(num_gpu_blocks=9, block_size=4, max_model_len=8)
    assert not scheduler.add(Request(0, [0] * 8, 5))
    request = Request(1, [0] * 6, 5)
    steps(scheduler, [(0, request)])
    assert (request.outputs, request.state) == (2, "finished")
