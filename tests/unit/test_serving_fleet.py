"""Fleets: routers, prefill apart from decode, and a fleet of one as the engine alone."""

from __future__ import annotations

import random

import pytest

from kernbench.common.errors import InputError
from kernbench.serving import (
    ContinuousBatching,
    EngineOptions,
    Fleet,
    FormulaTimer,
    Instance,
    KvLink,
    LeastOutstanding,
    PrefixAware,
    Random,
    Request,
    RoundRobin,
    State,
    fixed_step,
    simulate,
    simulate_fleet,
)
from kernbench.workloads.serving.fleet import Role
from kernbench.workloads.serving.routing import ROUTERS, router

MS = 1_000_000
OPTIONS = EngineOptions(num_gpu_blocks=65, max_model_len=512, max_num_batched_tokens=512, max_num_seqs=16)


def instance(role: Role = "both", ms: float = 1.0, options: EngineOptions = OPTIONS) -> Instance:
    return Instance(ContinuousBatching(options), fixed_step(int(ms * MS)), role)


def workload(count: int = 60, seed: int = 1, gap_ms: float = 2.0) -> list[Request]:
    draw = random.Random(seed)
    now, made = 0.0, []
    for number in range(count):
        now += draw.expovariate(1 / gap_ms)
        shared = [(draw.randrange(4), 64)]
        abort = 3 * MS if draw.random() < 0.1 else None
        made.append(
            Request(number, arrival_ns=int(now * MS), prompt=draw.randint(64, 200), output=draw.randint(1, 60), prefix=shared,
                    abort_ns=abort)
        )  # fmt: skip
    return made


@pytest.mark.parametrize("name", ROUTERS)
def test_a_fleet_of_one_is_the_engine_alone(name: str) -> None:
    alone = simulate(workload(), ContinuousBatching(OPTIONS), fixed_step(MS))
    fleet = simulate_fleet(workload(), Fleet([instance()], router(name)))
    assert list(fleet.rows()) == list(alone.rows())


@pytest.mark.parametrize("name", ROUTERS)
def test_every_request_ends_once_and_all_blocks_return(name: str) -> None:
    some = [instance(ms=1), instance(ms=3), instance(ms=2)]
    requests = workload(200, gap_ms=0.5)
    rows = list(simulate_fleet(requests, Fleet(some, router(name))).rows())
    assert sorted(row["id"] for row in rows) == list(range(200))
    assert all(row["state"] == "aborted" or row["generated"] == row["output"] for row in rows)
    assert [one.scheduler.pool.used for one in some] == [0, 0, 0]
    assert sum(one.served for one in some) == 200


def test_the_least_loaded_gets_more_where_it_is_faster() -> None:
    fast, slow = instance(ms=1), instance(ms=4)
    simulate_fleet(workload(300, gap_ms=5), Fleet([fast, slow], LeastOutstanding()))
    assert fast.served > 2 * slow.served


def test_equal_prefixes_go_to_the_same_instance_until_it_is_overloaded() -> None:
    def hits(policy: RoundRobin | PrefixAware, gap_ms: float) -> int:
        some = [instance() for _ in range(4)]
        return sum(row["cached"] for row in simulate_fleet(workload(200, gap_ms=gap_ms), Fleet(some, policy)).rows())

    assert hits(PrefixAware(), 4.0) > 1.05 * hits(RoundRobin(), 4.0)
    some = [instance() for _ in range(2)]
    requests = [Request(i, arrival_ns=0, prompt=64, output=1, prefix=[("all", 64)]) for i in range(12)]
    simulate_fleet(requests, Fleet(some, PrefixAware(balance=0)))
    assert [one.served for one in some] == [6, 6]


def test_a_random_router_depends_on_its_seed_only() -> None:
    def served(seed: int) -> list[int]:
        some = [instance() for _ in range(3)]
        simulate_fleet(workload(), Fleet(some, Random(seed)))
        return [one.served for one in some]

    assert served(1) == served(1) != served(2)


def test_decode_starts_when_the_keys_are_there() -> None:
    """One step of prefill, 64 tokens over the link one after another, then a step for the first token."""
    link = KvLink(token_bytes=1000, bytes_per_ns=0.064, latency_ns=2 * MS)  # 1 ms and 2 ms a transfer
    fleet = Fleet([instance("prefill", 5), instance("decode", 1)], RoundRobin(), link)
    requests = [Request(i, arrival_ns=0, prompt=64, output=3) for i in range(2)]
    rows = list(simulate_fleet(requests, fleet).rows())
    assert [row["ttft_ms"] for row in rows] == [5 + 3 + 1, 5 + 6 + 1]
    assert [row["e2el_ms"] for row in rows] == [11, 14]
    assert [row["generated"] for row in rows] == [3, 3]
    assert fleet.moved_bytes == 2 * 64 * 1000


def test_a_client_that_leaves_is_gone_wherever_its_request_is() -> None:
    link = KvLink(token_bytes=1000, bytes_per_ns=0.064, latency_ns=2 * MS)
    for after_ms in (2, 6, 9):  # during prefill, on the link, during decode
        fleet = Fleet([instance("prefill", 5), instance("decode", 1)], RoundRobin(), link)
        result = simulate_fleet([Request(0, arrival_ns=0, prompt=64, output=30, abort_ns=after_ms * MS)], fleet)
        assert result.count(State.ABORTED) == 1
        assert [one.scheduler.pool.used for one in fleet.instances] == [0, 0]


def test_split_prefill_keeps_decode_steady() -> None:
    """Prefills no longer lengthen the steps of decodes: the longest time between tokens is that of a step of decode."""
    timer = FormulaTimer(lambda batch: MS + 20_000 * batch.prefill_tokens)
    requests = workload(100, gap_ms=10)
    for one in requests:
        one.abort_ns = None
    whole = Instance(ContinuousBatching(OPTIONS), timer)
    mixed = simulate_fleet(requests, Fleet([whole], RoundRobin()))
    parts = [Instance(ContinuousBatching(OPTIONS), timer, role) for role in ("prefill", "decode")]
    again = workload(100, gap_ms=10)
    for one in again:
        one.abort_ns = None
    split = simulate_fleet(again, Fleet(parts, RoundRobin(), KvLink(token_bytes=1000, bytes_per_ns=1.0)))
    assert split.count(State.FINISHED) == mixed.count(State.FINISHED) == 100
    late, steady = mixed.summary("itl"), split.summary("itl")
    assert late is not None and steady is not None
    assert late.percentiles[99] > 3 * steady.percentiles[99]


@pytest.mark.parametrize(
    ("roles", "link", "words"),
    [
        ((), None, "at least one instance"),
        (("both", "decode"), None, "role"),
        (("prefill",), None, "role"),
        (("prefill", "decode"), None, "need a link"),
    ],
)
def test_fleets_that_cannot_serve(roles: tuple[Role, ...], link: KvLink | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Fleet([instance(role) for role in roles], RoundRobin(), link)


def test_an_unknown_router() -> None:
    with pytest.raises(InputError, match="least_outstanding"):
        router("least_outstandin")
