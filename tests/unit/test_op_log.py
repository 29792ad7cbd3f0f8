"""The op log: seed ADR-0052 D1 to D5 and D7, seed ADR-0020 D2, D4 and D5, decision by decision."""

from __future__ import annotations

import gc
import os
import pickle
import tracemalloc
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InternalError
from kernbench.common.pe_commands import (
    CompositeCmd,
    DmaReadCmd,
    DmaWriteCmd,
    GemmCmd,
    MathCmd,
    MemoryWriteMsg,
    MsgBase,
    Stage,
    StageType,
    TileToken,
)
from kernbench.sim_engine import op_log
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord
from kernbench.sim_engine.ops.params import Params
from tests.op_logs import DMA, GEMM, MATH, copied, holding, logged, tile


class Hooked:
    """What seed ADR-0020 D2 has of a component's base class: the hook decides by the message alone."""

    def __init__(self, logger: OpLogger | None) -> None:
        self.logger = logger

    def serve(self, msg: Any, start: float, end: float) -> None:
        if self.logger and getattr(msg, "data_op", False):
            self.logger.record_start(start, DMA, msg)
            self.logger.record_end(end, DMA, msg)


def test_adr0052_first_action_a_logger_begins_empty() -> None:
    store = MemoryStore()
    for log, given in ((OpLogger(), None), (OpLogger(store), store)):
        assert log._records == [] and log._pending == {} and log._memory_store is given
        assert log.records == [] and len(log) == 0


def test_adr0052_d1_a_record_has_seven_fields_and_an_op_id() -> None:
    names = ["t_start", "t_end", "component_id", "op_kind", "op_name", "params", "dependency_ids"]
    assert [field.name for field in fields(OpRecord)] == [*names, "op_id"]
    record = OpRecord(0.0, 1.0, DMA, "memory", "dma_read", {})
    assert record.dependency_ids == [] and record.op_id == -1
    record = logged(DmaReadCmd(tile(0), 64, 16))
    assert (record.t_start, record.t_end, record.component_id) == (10.0, 25.5, DMA)


def test_adr0052_d2_records_are_sorted_stably_on_each_access() -> None:
    log = OpLogger()
    late, early, same = (MathCmd(op, [tile(0)], tile(64)) for op in ("late", "early", "same"))
    log.record_start(5.0, MATH, late)
    log.record_end(6.0, MATH, late)
    assert [record.op_name for record in log.records] == ["late"]
    log.record_start(1.0, MATH, early)
    log.record_start(5.0, MATH, same)
    log.record_end(9.0, MATH, same)
    log.record_end(9.0, MATH, early)
    assert [record.op_name for record in log.records] == ["early", "late", "same"]
    assert [one.op_name for one in log] == ["early", "late", "same"] and log[2].op_name == "same"


def test_adr0052_d4_inputs_of_math_are_copied_when_it_is_done() -> None:
    x = np.arange(8, dtype=np.float16).reshape(2, 4)
    store = holding(tcm={0: x})
    log, msg = OpLogger(store), MathCmd("add", [tile(0), tile(64), 1.0], tile(128), mask=tile(32, dtype="bool"))
    log.record_start(0.0, MATH, msg)
    x[0, 0] = 5  # it is not yet done
    store.write("tcm", 64, np.full((2, 4), 3, np.float16))
    log.record_end(1.0, MATH, msg)
    x[0, 0] = 9
    first, second, mask = log[0].params["input_snapshots"]
    assert first.tolist() == [[5, 1, 2, 3], [4, 5, 6, 7]] and second.tolist() == [[3] * 4] * 2
    assert mask is None  # nothing is there
    assert not np.shares_memory(first, x)


def test_adr0052_d4_a_write_is_copied_from_hbm_alone() -> None:
    array = np.arange(8, dtype=np.float16).reshape(2, 4)
    store = holding(hbm={0: array}, tcm={0: array}, sram={0: array})
    kept = logged(DmaWriteCmd(tile(0, space="hbm"), 256, 16), store).params["snapshot"]
    assert kept.tolist() == array.tolist() and not np.shares_memory(kept, array)
    for space in ("tcm", "sram"):
        assert logged(DmaWriteCmd(tile(0, space=space), 256, 16), store).params["snapshot"] is None
    assert logged(DmaWriteCmd(tile(512, space="hbm"), 256, 16), store).params["snapshot"] is None


def test_adr0052_d4_a_copy_keeps_what_was_in_flight_else_reads_the_source() -> None:
    flying, there = np.full(4, 1, np.float32), np.full(4, 2, np.float32)
    log = OpLogger(holding(tcm={0: there}))
    kept = copied(log, snapshot=flying).params["snapshot"]
    assert kept.tolist() == [1] * 4 and not np.shares_memory(kept, flying)
    fresh = copied(log).params["snapshot"]
    assert fresh.tolist() == [2] * 4 and not np.shares_memory(fresh, there)
    assert copied(log, src_addr=64).params["snapshot"] is None


def test_adr0052_d4_gemms_and_loads_are_not_copied() -> None:
    store = holding(tcm={0: np.zeros((4, 4), np.float16)}, hbm={0: np.zeros((4, 4), np.float16)})
    square = tile(0, (4, 4))
    for msg in (GemmCmd(square, square, tile(64, (4, 4)), 4, 4, 4), DmaReadCmd(square, 0, 32)):
        assert not any(isinstance(value, np.ndarray) for value in logged(msg, store).params.values())


def test_adr0052_d4_nothing_is_copied_without_a_store() -> None:
    log = OpLogger()
    assert copied(log, snapshot=np.zeros(4, np.float32)).params["snapshot"] is None
    assert logged(MathCmd("exp", [tile(0)], tile(64))).params["input_snapshots"] == [None]
    assert logged(DmaWriteCmd(tile(0, space="hbm"), 256, 16)).params["snapshot"] is None
    assert log.initial_store is None


def test_a_pending_byte_is_never_copied() -> None:
    """Seed ADR-0027: what a scratchpad held before a result was due there is an earlier kernel's, no snapshot of anything."""
    stale = np.full((2, 4), 7, np.float16)
    store = holding(tcm={0: stale, 64: stale}, hbm={0: stale})
    store.mark_pending("tcm", 14, 2, 3)  # one element of the first
    store.mark_pending("hbm", 0, 16, 4)
    assert [one is None for one in logged(MathCmd("add", [tile(0), tile(64)], tile(128)), store).params["input_snapshots"]] == [
        True,
        False,
    ]
    assert logged(DmaWriteCmd(tile(0, space="hbm"), 256, 16), store).params["snapshot"] is None
    assert copied(OpLogger(store), shape=(2, 4), dtype="f16").params["snapshot"] is None


def token() -> TileToken:
    a, out = tile(0, (4, 4)), tile(64, (4, 4), space="hbm")
    command = CompositeCmd("gemm", 64, 32, GemmCmd(a, a, out, 4, 4, 4))
    read = Stage(StageType.DMA_READ, "pe_dma", {"nbytes": 32, "stage_type": "mine"})
    write = Stage(StageType.DMA_WRITE, "pe_dma", {"nbytes": 16})
    return TileToken(command, (0, 0), [read, Stage(StageType.GEMM, "pe_gemm", {"m": 4}), write])


def test_adr0052_d5_a_tokens_stage_is_that_of_its_start() -> None:
    log, msg = OpLogger(), token()
    for t, component in enumerate((DMA, GEMM, DMA)):
        log.record_start(float(t), component, msg)
        msg.advance()
        log.record_end(t + 1.0, component, msg)
    assert [(one.op_name, one.component_id) for one in log] == [
        ("TileToken/DMA_READ", DMA),
        ("TileToken/GEMM", GEMM),
        ("TileToken/DMA_WRITE", DMA),
    ]
    assert [dict(one.params) for one in log] == [
        {"nbytes": 32, "stage_type": "DMA_READ"},
        {"m": 4, "stage_type": "GEMM"},
        {"nbytes": 16, "stage_type": "DMA_WRITE"},
    ]
    assert all(one.op_kind == "unknown" for one in log) and len({one.op_id for one in log}) == 3
    assert msg.stage is None


def test_adr0052_d5_a_stages_keys_do_not_replace_the_messages_own() -> None:
    class Staged(DmaReadCmd):
        stage = Stage(StageType.FETCH, "pe_fetch_store", {"nbytes": 999, "bank": 3})

    record = logged(Staged(tile(0), 64, 16))
    assert record.op_name == "dma_read"
    assert (record.params["nbytes"], record.params["bank"], record.params["stage_type"]) == (16, 3, "FETCH")


def test_adr0052_d7_a_logger_takes_records_of_its_own_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    log, msg = OpLogger(), DmaReadCmd(tile(0), 64, 16)
    with pytest.raises(InternalError) as caught:
        pickle.dumps(log)
    assert str(caught.value) == "an op log belongs to the process that made it; hand its records on instead"
    own = os.getpid()
    monkeypatch.setattr(op_log, "_PROCESS", [own + 1])
    text = "it comes from another process; each process needs an op log of its own"
    with pytest.raises(InternalError) as caught:
        log.record_start(0.0, DMA, msg)
    assert str(caught.value) == f"the op log refuses DmaReadCmd of {DMA}: {text}"
    with pytest.raises(InternalError) as caught:
        copied(log)
    assert str(caught.value) == f"the op log refuses a record of {DMA}: {text}"


def test_a_message_is_begun_once_and_ended_once_at_one_place() -> None:
    log, msg = OpLogger(), DmaReadCmd(tile(0), 64, 16)
    with pytest.raises(InternalError, match=f"^the op log refuses DmaReadCmd of {DMA}: it was not begun there$"):
        log.record_end(0.0, DMA, msg)
    log.record_start(0.0, DMA, msg)
    with pytest.raises(InternalError, match=f"^the op log refuses DmaReadCmd of {GEMM}: it is being served already$"):
        log.record_start(0.0, GEMM, msg)


def test_adr0052_d7_pending_is_keyed_by_the_message_itself() -> None:
    log = OpLogger()
    one, other = (DmaReadCmd(tile(0), addr, 16) for addr in (64, 128))
    log.record_start(0.0, DMA, one)
    log.record_start(1.0, DMA, other)
    assert list(log._pending) == [id(one), id(other)] and log.records == []
    log.record_end(5.0, DMA, other)
    assert list(log._pending) == [id(one)] and log[0].params["src_addr"] == 128


def test_adr0020_d2_and_d4_the_hook_logs_what_says_so_itself() -> None:
    log = OpLogger()
    component = Hooked(log)
    quiet = DmaReadCmd(tile(0), 64, 16)
    quiet.data_op = False
    for msg in (MsgBase(), object(), quiet):
        component.serve(msg, 0.0, 1.0)
    assert len(log) == 0
    component.serve(DmaReadCmd(tile(0), 64, 16), 0.0, 1.0)
    component.serve(token(), 0.0, 1.0)
    assert len(log) == 2
    Hooked(None).serve(DmaReadCmd(tile(0), 64, 16), 0.0, 1.0)


def test_adr0020_d4_every_command_is_a_data_op() -> None:
    commands = (DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd, CompositeCmd, MemoryWriteMsg, TileToken)
    assert all(command.data_op for command in commands) and not MsgBase.data_op


def test_adr0020_d5_dependencies_name_op_ids() -> None:
    log = OpLogger()
    first = log.ids.new()
    store = DmaWriteCmd(tile(0), 64, 16, op_id=first)
    load = DmaReadCmd(tile(64), 64, 16, dependency_ids=[first])
    for msg in (load, store):
        log.record_start(0.0, DMA, msg)
        log.record_end(1.0, DMA, msg)
    assert [(one.op_id, one.dependency_ids) for one in log] == [(1, [0]), (0, [])]


def test_the_store_before_the_first_record_is_kept() -> None:
    store = holding(hbm={0: np.zeros(4, np.float32)})
    log = OpLogger(store)
    store.write("hbm", 16, np.ones(4, np.float32))
    msg = DmaReadCmd(tile(0, (4,), "f32"), 0, 16)
    log.record_start(0.0, DMA, msg)
    store.write("hbm", 0, np.ones(4, np.float32))
    log.record_end(1.0, DMA, msg)
    assert log.initial_store is not None and log.initial_store.read("hbm", 0, (8,), "f32").tolist() == [0] * 4 + [1] * 4


def test_past_its_limit_a_log_goes_to_disk_and_comes_back_in_order(tmp_path: Path) -> None:
    def filled(**options: Any) -> OpLogger:
        log = OpLogger(holding(tcm={0: np.arange(8, dtype=np.float16).reshape(2, 4)}), **options)
        for i in range(1200):
            msg = MathCmd("exp", [tile(0)], tile(64 + i), line="k.py:1")
            log.record_start(float(i * 7919 % 300), MATH, msg)
            log.record_end(400.0, MATH, msg)
        return log

    plain, small = filled(), filled(limit_bytes=100_000, directory=str(tmp_path))
    assert list(tmp_path.iterdir()) == []  # the file has no name
    assert len(small) == len(plain) == 1200 and len(small._records) < 200
    for _ in range(2):
        assert [one.op_id for one in small] == [one.op_id for one in plain] == [one.op_id for one in small.records]
    for one, other in zip(small, plain, strict=True):
        assert (one.t_start, one.t_end, one.component_id, one.op_name) == (other.t_start, 400.0, MATH, "exp")
        assert one.params["dst_addr"] == other.params["dst_addr"]
        assert one.params["input_snapshots"][0].tolist() == other.params["input_snapshots"][0].tolist()
    assert len({id(one.params.template) for one in small.records if isinstance(one.params, Params)}) <= 2


def test_a_record_takes_less_than_500_bytes() -> None:
    """Without its payload, every address and time being a number of its own."""

    def fill(log: OpLogger, count: int) -> None:
        for i in range(0, count, 4):
            base = (1 << 40) + i * 4096
            x, y, z, out = (tile(base + 64 * j, (64, 64), name=f"t{i + j}") for j in range(4))
            gemm = GemmCmd(x, y, z, 64, 64, 64, line="k.py:2")
            math, store = MathCmd("add", [z, y], out, line="k.py:3"), DmaWriteCmd(out, base * 3, 8192)
            for t, msg in enumerate((DmaReadCmd(x, base * 2, 8192), gemm, math, store)):
                log.record_start(i * 1.5 + t, DMA, msg)
                log.record_end(i * 1.5 + t + 1, DMA, msg)

    fill(OpLogger(), 100)
    gc.collect()
    tracemalloc.start()
    log = OpLogger()
    fill(log, 4000)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(log) == 4000 and held / 4000 < 500
