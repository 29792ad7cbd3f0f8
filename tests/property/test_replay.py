"""Random op logs, replayed, leave the memories as the same ops do one after the other in plain numpy."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import DmaReadCmd, DmaWriteCmd, MathCmd
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord, row_of
from kernbench.sim_engine.ops.ranges import Bytes, ReplayOp
from kernbench.sim_engine.replay.order import ordered
from kernbench.sim_engine.replay.stages import Stages
from tests.oracles.ref_replay import TYPES, Memories
from tests.replay_programs import SIZE, SPACES, Program, random_program, run_phase_1, store_of


@st.composite
def programs(draw: st.DrawFn, most: int = 14) -> Program:
    """Programs on floats of one type, so that every byte belongs to one element, or on integers of several sizes."""
    seed = draw(st.integers(0, 2**32 - 1))
    kinds = draw(st.sampled_from([["f32"], ["f16"], ["bf16"], ["i8", "i16", "i32"]]))
    count = draw(st.integers(1, most))
    spread = draw(st.sampled_from([1, 3, 12, 40]))
    return random_program(random.Random(seed), kinds, count, spread)


def elements(data: bytes, program: Program) -> np.ndarray:
    """Bytes as the elements that they are, where all are of one type: one NaN is as good as another."""
    kinds = {one.dtype for step in program.steps for one in (*step.inputs, step.out)}
    if kinds <= {"i8", "i16", "i32"}:
        return np.frombuffer(data, np.uint8)
    return np.frombuffer(data, TYPES[kinds.pop()]).astype(np.float32)


def check(program: Program, store: MemoryStore) -> None:
    for name, data in program.after().items():
        found = store.read(name, 0, (SIZE,), "u8").tobytes()
        np.testing.assert_array_equal(elements(found, program), elements(data, program), err_msg=name)


def logged(program: Program, **options: Any) -> OpLogger:
    store = store_of(program.spaces)
    log = OpLogger(store, **options)
    run_phase_1(program, log, store)
    return log


@settings(max_examples=250, deadline=None)
@given(programs(), st.booleans(), st.sampled_from([1, 4]))
def test_a_replay_is_the_ops_one_after_the_other(program: Program, batching: bool, threads: int) -> None:
    check(program, DataExecutor(logged(program), threads=threads, batching=batching).run().store)


@settings(max_examples=80, deadline=None)
@given(programs())
def test_the_way_of_a_replay_does_not_show(program: Program) -> None:
    """Batched or not, in one thread or four, one op at a time, from disk, without snapshots: bit by bit the same."""
    ways = [
        DataExecutor(logged(program), threads=1, batching=True),
        DataExecutor(logged(program), threads=4, batching=True),
        DataExecutor(logged(program), threads=1, batching=False),
        DataExecutor(logged(program), threads=4, batching=False),
        DataExecutor(logged(program), debug=True),
        DataExecutor(logged(program, limit_bytes=1500)),
        DataExecutor([without_snapshots(one) for one in logged(program)], store_of(program.spaces)),
    ]
    found = [[way.run().store.read(space, 0, (SIZE,), "u8").tobytes() for space in SPACES] for way in ways]
    assert all(one == found[0] for one in found)


def without_snapshots(record: OpRecord) -> OpRecord:
    """The record as a dict of its own, as one writes it by hand."""
    params = {key: value for key, value in record.params.items() if "snapshot" not in key}
    times = record.t_start, record.t_end
    return OpRecord(*times, record.component_id, record.op_kind, record.op_name, params, record.dependency_ids, record.op_id)


@settings(max_examples=150, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_records_may_be_given_in_any_order_of_distinct_times(program: Program, rng: random.Random) -> None:
    program.times = rng.sample(range(1000), len(program.times))
    for later, step in enumerate(program.steps):
        # Every earlier op, whether it matters or not, that the times put behind this one.
        step.deps = [i for i in range(later) if program.times[i] > program.times[later]]
    records = [without_snapshots(one) for one in logged(program)]
    rng.shuffle(records)
    check(program, DataExecutor(records, store_of(program.spaces)).run().store)


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(1, 6))
def test_stages_keep_every_conflicting_pair_in_order(program: Program, ahead: int) -> None:
    """Against all pairs, by when each op reads and writes, where up to `ahead` ops are sorted before each stage.

    Every third op also depends on the one before it, whatever their bytes.
    """
    for later in range(1, len(program.steps), 3):
        program.steps[later].deps = sorted({*program.steps[later].deps, later - 1})
    order = list(ordered(logged(program).rows()))
    assert sorted(op.op_id for op in order) == list(range(len(program.steps)))
    reads, writes = events(order, ahead)
    for i, op in enumerate(order):
        assert all(writes[dep] < reads[op.op_id] for dep in op.row.deps)
        for one in order[:i]:
            if meet(one.writes, op.reads):
                assert writes[one.op_id] < reads[op.op_id]
            if meet(one.reads, op.writes):
                assert reads[one.op_id] < writes[op.op_id]
            if meet(one.writes, op.writes):
                assert writes[one.op_id] < writes[op.op_id]


def events(order: list[ReplayOp], ahead: int) -> tuple[dict[int, int], dict[int, int]]:
    """By op, when it reads and when it writes in a replay that sorts ops while stages run."""
    stages, left = Stages(), iter(order)
    time, reads, writes = 0, {}, {}
    running: list[ReplayOp] = []
    more = list(islice(left, ahead))
    while more or stages.count or running:
        ops, waits = stages.computations()
        if waits:
            for op in running:
                writes[op.op_id] = time = time + 1
            running = []
        for op in ops:
            assert op.row.op_kind != "memory"
            reads[op.op_id] = time = time + 1
        stages.add(more)
        more = list(islice(left, ahead))
        for op in running:
            writes[op.op_id] = time = time + 1
        for op in stages.moves():
            assert op.row.op_kind == "memory"
            reads[op.op_id] = writes[op.op_id] = time = time + 1
        running = ops
    return reads, writes


def meet(some: list[Bytes], others: list[Bytes]) -> bool:
    """Whether ranges of bytes overlap."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


def test_computations_begin_while_those_before_them_run_unless_they_need_their_results() -> None:
    x, y, z, out = (TensorHandle("", addr, (4,), "f32") for addr in (0, 64, 128, 192))
    log = OpLogger(store_of({}))
    messages = [MathCmd("neg", [x], y), DmaWriteCmd(y, 0, 16), DmaReadCmd(x, 64, 16), MathCmd("neg", [x], z)]
    for t, msg in enumerate([*messages, MathCmd("neg", [y], out)]):
        log.record_start(float(t), "pe", msg)
        log.record_end(t + 0.5, "pe", msg)
    first, store, load, second, third = ordered(log.rows())
    stages = Stages()
    stages.add([first, store, load, second])
    found = [(stages.computations(), stages.moves()) for _ in range(3)]
    assert found == [(([], False), []), (([first], False), [load]), (([second], False), [store])]
    stages = Stages()
    stages.add([first, third])
    assert [stages.computations() for _ in range(3)] == [([], False), ([first], False), ([third], True)]


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 13))
def test_the_store_after_an_op_is_what_the_ops_up_to_it_left(program: Program, last: int) -> None:
    log = logged(program)
    order = [op.op_id for op in ordered(log.rows())]
    until = order[min(last, len(order) - 1)]
    done = Memories(program.spaces)
    for op_id in order[: order.index(until) + 1]:
        done.run(program.steps[op_id])
    store = DataExecutor(log).run(until=until).store
    for space in SPACES:
        found = store.read(space, 0, (SIZE,), "u8").tobytes()
        np.testing.assert_array_equal(elements(found, program), elements(bytes(done.spaces[space]), program))


@settings(max_examples=60, deadline=None)
@given(programs(most=6), st.data())
def test_circles_of_dependencies_are_refused(program: Program, data: st.DataObject) -> None:
    log = logged(program)
    i = data.draw(st.integers(0, len(program.steps) - 1))
    j = data.draw(st.integers(i, len(program.steps) - 1))
    records = {record.op_id: record for record in log}
    records[i].dependency_ids.append(j)
    records[j].dependency_ids.append(i)
    with pytest.raises(InputError, match="waits for op"):
        DataExecutor(log).run()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "i8"])
def test_long_programs(kind: str) -> None:
    kinds = ["i8", "i16", "i32"] if kind == "i8" else [kind]
    for seed in range(60):
        program = random_program(random.Random(seed), kinds, 120, 60)
        for threads, batching in ((1, False), (4, True)):
            check(program, DataExecutor(logged(program), threads=threads, batching=batching).run().store)


def test_conflicts_are_overlaps_with_a_write() -> None:
    """By hand: reads alone never conflict, neighbours do not touch, other spaces are elsewhere."""

    def op(src: int, dst: int, space: str = "hbm") -> ReplayOp:
        params = {"src_addr": src, "dst_addr": dst, "nbytes": 8, "src_space": space, "dst_space": "tcm"}
        return ReplayOp(row_of(OpRecord(0.0, 0.0, "pe", "memory", "dma_read", params)), 0)

    assert not op(0, 0).conflicts(op(0, 8)) and op(0, 0).conflicts(op(64, 7)) and not op(0, 0).conflicts(op(0, 8, "sram"))
    assert op(0, 0, "tcm").conflicts(op(64, 4)) and op(64, 4).conflicts(op(0, 0, "tcm"))
