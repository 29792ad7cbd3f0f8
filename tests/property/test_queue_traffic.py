"""Random traffic through queues: against a slow model of its times, and against numpy where every rank computes."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run
from tests.queues import LATENCY, WIDE, idle, line, names, now, queued, ring, row

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
X = np.arange(4096, dtype=np.float32)

machines = st.fixed_dictionaries(
    {"pe.scheduler.cycles": st.integers(0, 2), "pe.ipcq.cycles": st.integers(1, 3), "pe.ipcq.credit_cycles": st.integers(1, 6)}
)
#: of each message: cycles before its send, elements, cycles before its receive, and which of the tensors held goes then
messages = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 300), st.integers(0, 40), st.integers(0, 3)), max_size=12
)

# Times -------------------------------------------------------------------------------------------------------------


class Model:
    """One queue, message by message; one transfer at a time. `stuck`: a message waits for a slot that is never free."""

    def __init__(self, traffic: Any, slots: int, keep: int, before: int, credit: int, begin: tuple[int, int]) -> None:
        """`before`: cycles from a command to PE_IPCQ's turn. `credit`: of one in flight. `begin`: of the two kernels."""
        self.moves: list[tuple[int, int]] = []
        self.came: list[int] = []
        self.stuck = False
        freed: dict[int, int] = {}  # when a message's tensor goes
        held: list[int] = []
        issues = accumulate((gap for gap, *_ in traffic), initial=begin[0])
        next(issues)
        at = begin[1]
        for k, (issued, (_, elements, gap, which)) in enumerate(zip(issues, traffic, strict=True)):
            turn = issued + before
            if k >= slots:
                if any(j not in freed for j in range(k - slots + 1)):
                    self.stuck = True
                    return
                turn = max(turn, max(freed[j] for j in range(k - slots + 1)) + credit)
            start = max(turn, self.moves[-1][1]) if self.moves else turn
            end = start + LATENCY + -(-elements * 4 // WIDE)
            self.moves.append((start, end))
            at = max(at + gap + before, end)
            self.came.append(at)
            held.append(k)
            if len(held) > keep:
                freed[held.pop(which % len(held))] = at


def check_times(traffic: Any, slots: int, keep: int, skew: int, machine: dict[str, int]) -> None:
    seen: dict[Any, Any] = {"came": []}

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tiles = [tl.load(0, (elements,), "f32") for _, elements, *_ in traffic]
            seen[0] = now(tl)
            for (gap, *_), tile in zip(traffic, tiles, strict=True):
                idle(tl, gap)
                tl.send("E", tile)
        else:
            idle(tl, skew)
            seen[1] = now(tl)
            held: list[Any] = []
            for _, elements, gap, which in traffic:
                idle(tl, gap)
                held.append(tl.recv("W", elements, "f32"))
                seen["came"].append(now(tl))
                if len(held) > keep:
                    held.pop(which % len(held))

    changed = {name.replace(".", "__"): value for name, value in machine.items()}
    config = row(2, pe__ipcq__max_concurrent=1, **changed)
    run = queued(kernel, line(2), config=config, memory={0: X}, slots=slots)
    run.machine.run()
    before = machine["pe.scheduler.cycles"] + machine["pe.ipcq.cycles"]
    model = Model(traffic, slots, keep, before, LATENCY + machine["pe.ipcq.credit_cycles"], (seen[0], seen[1]))
    moves = [(int(one.t_start), int(one.t_end)) for one in run.log if one.op_name == "ipcq_copy"]  # type: ignore[union-attr]
    assert moves == model.moves and seen["came"] == model.came
    assert run.machine.status == ("deadlock" if model.stuck else "done")
    left = run.machine.result().warnings
    assert [one["count"] for one in left] == ([len(traffic) - len(model.moves)] if model.stuck else [])


@settings(RELAXED, max_examples=30)
@given(messages, st.integers(1, 4), st.integers(0, 3), st.integers(0, 150), machines)
def test_times_are_those_of_a_slow_model(traffic: Any, slots: int, keep: int, skew: int, machine: dict[str, int]) -> None:
    check_times(traffic, slots, keep, skew, machine)


@pytest.mark.nightly
@settings(RELAXED, max_examples=2000)
@given(messages, st.integers(1, 4), st.integers(0, 3), st.integers(0, 150), machines)
def test_times_are_those_of_a_slow_model_long(
    traffic: Any, slots: int, keep: int, skew: int, machine: dict[str, int]
) -> None:
    check_times(traffic, slots, keep, skew, machine)


# Elements ----------------------------------------------------------------------------------------------------------

#: of each round: elements, and what a rank does with what came
rounds = st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["add", "known", "pass", "matmul"])), min_size=1, max_size=6)
OUT = 1 << 16


def turns(plan: Any, skews: Any, tl: Any) -> None:
    """Every rank sends what it has to the east and goes on with what comes from the west; all scratch is used again."""
    for launch_round, (elements, what) in enumerate(plan):
        idle(tl, skews[(tl.rank + launch_round) % len(skews)])
        x = tl.load(4096 * tl.rank, (elements,), "f32")
        mine = x if what == "known" else x + float(launch_round)
        if what == "matmul":
            m = tl.load(4096 * tl.rank, (8, 8), "f32")
            mine = tl.dot(m, m)
        tl.send("E", mine)
        came = tl.recv_async("W", mine.shape, "f32")
        total = mine + came
        del came
        if what == "pass":
            tl.send("W", total)
            total = tl.recv("E", mine.shape, "f32")
        tl.store(OUT + 4096 * tl.rank + 512 * launch_round, total)


def expected(plan: Any, ranks: int, rank: int, launch_round: int) -> Any:
    elements, what = plan[launch_round]

    def mine(r: int) -> Any:
        x = X[1024 * r : 1024 * r + elements] % 7
        m = (X[1024 * r : 1024 * r + 64] % 7).reshape(8, 8)
        return m @ m if what == "matmul" else x if what == "known" else x + launch_round

    def total(r: int) -> Any:
        return mine(r) + mine((r - 1) % ranks)

    return total((rank + 1) % ranks) if what == "pass" else total(rank)


def in_turns(plan: Any, ranks: int, skews: Any, slots: int, tier: str, waits: bool = False) -> Run:
    """Two launches of the rounds: the second finds scratchpads and slots as the first left them. With `waits` the host waits
    for the first."""

    def body(host: Any) -> None:
        for _ in range(2):
            launch = host.launch("it", [PeWork(pe, turns, (plan, skews)) for pe in names(ranks)])
            if waits:
                host.wait(launch)
        host.wait()

    run = Run(body=body, memory={4096 * r: X[1024 * r : 1024 * r + 1024] % 7 for r in range(ranks)}, config=row(ranks))
    run.system.queues.install(ring(ranks), slots=slots, tier=tier, slot_bytes=1024)
    return run


def check_elements(plan: Any, ranks: int, skews: Any, slots: int, tier: str) -> None:
    run = in_turns(plan, ranks, skews, slots, tier).run()
    for how in ({"threads": 1, "batching": False}, {"threads": 3, "batching": True}):
        store = DataExecutor(run.log, **how).run().store  # type: ignore[arg-type]
        for rank in range(ranks):
            for k in range(len(plan)):
                want = expected(plan, ranks, rank, k)
                got = store.read("hbm", OUT + 4096 * rank + 512 * k, want.shape, "f32")
                assert np.array_equal(got, want), (how, rank, k)


@settings(RELAXED, max_examples=20)
@given(
    rounds,
    st.integers(2, 4),
    st.lists(st.sampled_from([0, 1, 7, 90, 400]), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["tcm", "sram", "hbm"]),
)
def test_elements_are_right_on_every_tier(plan: Any, ranks: int, skews: Any, slots: int, tier: str) -> None:
    check_elements(plan, ranks, skews, slots, tier)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1000)
@given(
    rounds,
    st.integers(2, 4),
    st.lists(st.sampled_from([0, 1, 7, 90, 400]), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["tcm", "sram", "hbm"]),
)
def test_elements_are_right_on_every_tier_long(plan: Any, ranks: int, skews: Any, slots: int, tier: str) -> None:
    check_elements(plan, ranks, skews, slots, tier)
