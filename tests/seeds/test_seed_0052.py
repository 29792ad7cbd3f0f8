"""Seed ADR-0052, schemas of the op log and the memory store: a test a decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import DmaWriteCmd, MathCmd, MsgBase
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord
from tests.kernels import Run, easy
from tests.queues import line, queued

A = (np.arange(256) % 7).astype(np.float16).reshape(16, 16)
SEVEN = ("t_start", "t_end", "component_id", "op_kind", "op_name", "params", "dependency_ids")


def everything(tl: Any) -> None:
    x = tl.load(0, (16, 16), "f16")
    y = tl.dot(x, x, out_dtype="f32")
    z = tl.sum(y * 2.0, axis=1)
    tl.store(4096, tl.cast(z, "f16"))


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(everything, memory={0: A}).run()


def record(run: Run, name: str) -> OpRecord:
    """The only record with this op name."""
    (found,) = [one for one in run.log if one.op_name == name]  # type: ignore[union-attr]
    return found


def has(found: OpRecord, **wanted: Any) -> None:
    assert {name: found.params.get(name) for name in wanted} == wanted


def composite(tl: Any) -> None:
    a = tl.ref(0, (16, 16), "f16")
    tl.composite("gemm", a, a, out_ptr=4096, wait=True)


def test_seed_0052_first_action() -> None:
    """A new log and a new store are empty; both grow by what is written."""
    store = MemoryStore()
    log = OpLogger(store)
    assert log._records == [] and log._pending == {} and log._memory_store is store and log.records == []
    assert OpLogger()._memory_store is None
    assert store._storage == {} and not store.has("hbm", 0)
    store.write("anything", 0, A)
    assert list(store._storage) == ["anything"]


def test_seed_0052_d1(run: Run) -> None:
    """The seven fields; a load of 512 bytes takes 8 cycles of 1 ns, from the cycle in which its kernel begins."""
    assert tuple(OpRecord.__dataclass_fields__)[:7] == SEVEN
    load = record(run, "dma_read")
    assert (load.t_start, load.t_end, load.component_id, load.op_kind) == (1.0, 9.0, "pe_dma", "memory")
    assert load.dependency_ids == [] and isinstance(load.t_start, float)
    assert {one.op_kind for one in run.log} == {"memory", "gemm", "math"}  # type: ignore[union-attr]


def test_seed_0052_d2() -> None:
    """Sorted by start on each access, ties in the order of their ends: a long load stands before a short one in it."""

    def kernel(tl: Any) -> None:
        long = tl.load(0, (64, 64), "f32", wait=False)
        tl.load(16384, (16,), "f32")
        tl.wait(tl.load(16384, (16,), "f32", wait=False), long)

    found = Run(kernel, memory={0: np.zeros(8192, np.float32)}, config=easy(dma={"engines": 2})).run().log
    assert found is not None
    assert [one.t_start for one in found.records] == sorted(one.t_start for one in found.records)
    (long,) = [one for one in found.records if one.params["nbytes"] == 16384]
    last = found.records[-1]
    assert last.params["nbytes"] == 64 and long.t_start < last.t_start and last.t_end < long.t_end
    ties = OpLogger()
    for name in ("b", "a", "c"):
        ties.record_write(float(name == "c"), name, "hbm", 0, A)
    assert [one.component_id for one in ties.records] == ["b", "a", "c"]


def test_seed_0052_d3_1(run: Run) -> None:
    """dma_read."""
    found = record(run, "dma_read")
    has(found, src_addr=0, nbytes=512)
    assert isinstance(found.params["handle_id"], str) and found.op_kind == "memory"


def test_seed_0052_d3_2(run: Run) -> None:
    """dma_write: from the scratchpad to memory."""
    found = record(run, "dma_write")
    has(found, src_space="tcm", src_addr=record(run, "cast").params["dst_addr"], shape=(16,), dtype="f16")
    has(found, dst_space="hbm", dst_addr=4096, nbytes=32, snapshot=None)


def test_seed_0052_d3_3(run: Run) -> None:
    """gemm, named by the type of its first operand."""
    found, load = record(run, "gemm_f16"), record(run, "dma_read")
    has(found, src_a_addr=load.params["dst_addr"], src_b_addr=load.params["dst_addr"], m=16, k=16, n=16)
    has(found, shape_a=(16, 16), shape_b=(16, 16), shape_out=(16, 16), dtype_in="f16", dtype_out="f32")
    has(found, src_a_space="tcm", src_b_space="tcm", dst_space="tcm")
    assert found.op_kind == "gemm"


def test_seed_0052_d3_4(run: Run) -> None:
    """math, named by its op; `axis` of a reduction, and a snapshot for each input."""
    found = record(run, "sum")
    has(found, input_addrs=[record(run, "mul").params["dst_addr"]], input_spaces=["tcm"], input_dtypes=["f32"])
    has(found, input_shapes=[(16, 16)], dst_space="tcm", shape_out=(16,), dtype="f32", axis=1, input_snapshots=[None])
    assert record(run, "mul").params["axis"] is None and found.op_kind == "math"


def test_seed_0052_d3_5() -> None:
    """composite: the fields of the product beside its own; Phase 2 computes it as one."""
    run = Run(composite, memory={0: A}).run()
    found = record(run, "composite_gemm")
    has(found, op="gemm", out_addr=4096, out_nbytes=512, src_a_addr=0, src_b_addr=0, shape_a=(16, 16), shape_b=(16, 16))
    has(found, dtype_in="f16", dtype_out="f16", src_a_space="hbm", src_b_space="hbm", dst_space="hbm", dst_addr=4096)
    assert found.op_kind == "gemm"
    got = DataExecutor(run.log).run().store.read("hbm", 4096, (16, 16), "f16")  # type: ignore[arg-type]
    assert np.array_equal(got, (A.astype(np.float32) @ A.astype(np.float32)).astype(np.float16))

    def scaled(tl: Any) -> None:
        tl.composite("math", tl.ref(0, (16, 16), "f16"), math_op="exp", out_ptr=4096, wait=True)

    assert record(Run(scaled, memory={0: A}).run(), "composite_math").op_kind == "math"


def test_seed_0052_d3_6() -> None:
    """ipcq_copy: what a PE received from another, with what was in flight."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (16, 16), "f16"))
        else:
            tl.store(8192, tl.recv("W", (16, 16), "f16"))

    run = queued(kernel, line(2), memory={0: A}).run()
    found = record(run, "ipcq_copy")
    has(found, src_space="tcm", dst_space="tcm", shape=(16, 16), dtype="f16", nbytes=512)
    assert np.array_equal(found.params["snapshot"], A) and found.op_kind == "memory"
    assert found.component_id == "sip0.cube0.pe1.pe_dma"
    assert np.array_equal(DataExecutor(run.log).run().store.read("hbm", 8192, (16, 16), "f16"), A)  # type: ignore[arg-type]


class Note(MsgBase):
    data_op = True


def test_seed_0052_d3_7() -> None:
    """A message that the log does not know is of kind unknown and has no params of an op; Phase 2 passes it over."""
    from tests.seeds.test_seed_0020 import Mailbox

    class Box(Mailbox):
        def message_of(self, job: Any) -> Any:
            note = super().message_of(job)
            note.value = 0
            return note

    def kernel(tl: Any) -> None:
        tl.issue(Note(), to="box", wait=True)
        everything(tl)

    run = Run(kernel, memory={0: A}, parts={"box": Box(4)}).run()
    found = record(run, "Note")
    assert (found.op_kind, dict(found.params)) == ("unknown", {})
    assert found.component_id == "box"
    assert DataExecutor(run.log).run().store.has("hbm", 4096)  # type: ignore[arg-type]


def test_seed_0052_d4() -> None:
    """Math: copies of what Phase 1 has of its inputs at its end. Stores from the scratchpad: none. Without a store: none."""

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f16")
        tl.store(4096, x * 2.0)
        tl.store(0, x + x)  # over what was loaded

    run = Run(kernel, memory={0: A}).run()
    (copy,) = record(run, "mul").params["input_snapshots"]
    assert np.array_equal(copy, A) and not np.shares_memory(copy, A)
    assert [one.params["snapshot"] for one in run.log if one.op_name == "dma_write"] == [None, None]  # type: ignore[union-attr]
    memory = MemoryStore()
    memory.write("hbm", 0, A)
    log, source = OpLogger(memory), TensorHandle("x", addr=0, shape=(16, 16), dtype="f16", space="hbm")
    for one in (log, OpLogger()):  # a write from HBM has a copy of its source, where there is a store to read
        write = DmaWriteCmd(source, dst_addr=8192, nbytes=512)
        one.record_start(0.0, "pe_dma", write)
        one.record_end(1.0, "pe_dma", write)
        snapshot = one.records[0].params["snapshot"]
        assert (snapshot is None) == (one is not log)
    kept = log.records[0].params["snapshot"]
    memory.write("hbm", 0, A * 3)
    assert np.array_equal(kept, A)


def test_seed_0052_d5() -> None:
    """The tiles of a composite op: a record a stage, named by the stage that it began with, with that stage's params."""
    run = Run(composite, memory={0: A}).run()
    tiles = [one for one in run.log if one.op_name.startswith("TileToken/")]  # type: ignore[union-attr]
    names = [one.op_name for one in tiles]
    assert {"TileToken/DMA_READ", "TileToken/FETCH", "TileToken/GEMM", "TileToken/STORE", "TileToken/DMA_WRITE"} == set(names)
    for one in tiles:
        assert one.params["stage_type"] == one.op_name.partition("/")[2]
    by_name = {one.op_name: one for one in tiles}
    # Two stages of one component, told apart by name and by params of their own.
    read, write = by_name["TileToken/DMA_READ"], by_name["TileToken/DMA_WRITE"]
    assert read.component_id == write.component_id == "pe_dma"
    assert read.params["transfers"][0].addr == 0 and write.params["transfers"][0].addr == 4096
    assert by_name["TileToken/GEMM"].params["m"] == 16 and "transfers" not in by_name["TileToken/GEMM"].params


def test_seed_0052_d5_the_stage_of_the_start_is_kept() -> None:
    """A token that goes on, and whose stage's params change, before its record ends: the record is of the stage it began."""
    from kernbench.common.pe_commands import CompositeCmd, GemmCmd, Stage, StageType, TileToken

    x = TensorHandle("x", addr=0, shape=(16, 16), dtype="f16")
    work = GemmCmd(x, x, x, m=16, k=16, n=16)
    params = {"rows": 4}
    stages = [Stage(StageType.DMA_READ, "pe_dma", params), Stage(StageType.GEMM, "pe_gemm", {"m": 16})]
    token, log = TileToken(CompositeCmd("gemm", 0, 512, work), (0,), stages), OpLogger()
    log.record_start(0.0, "pe_dma", token)
    params["rows"] = 5
    token.advance()
    log.record_end(4.0, "pe_dma", token)
    (found,) = log.records
    assert (found.op_name, found.params["stage_type"], found.params["rows"]) == ("TileToken/DMA_READ", "DMA_READ", 4)
    assert "m" not in found.params


def test_seed_0052_d5_in_a_component_of_the_users() -> None:
    """A component in the place of an engine gets the stage of a tile as a job, and its hooks get the token."""
    from tests.seeds.test_seed_0020 import Engine

    parts = {"te0": Engine(9), "te1": Engine(9)}
    run = Run(composite, memory={0: A}, parts=parts).run()
    tile = record(run, "TileToken/GEMM")
    assert (tile.t_end - tile.t_start, tile.component_id) == (9, "pe_gemm")
    assert [name for part in parts.values() for _, name, _ in part.told] == ["Token", "Token"]


def test_seed_0052_d6() -> None:
    """Two levels: space, then address."""
    store = MemoryStore()
    store.write("hbm", 0, A)
    store.write("tcm", 0, A * 2)
    assert store.read("hbm", 0) is A and np.array_equal(store.read("tcm", 0), A * 2)


def test_seed_0052_d6_1() -> None:
    """Any name is a space, made by its first write."""
    store = MemoryStore()
    for space in ("hbm", "tcm", "sram", "reg"):
        assert not store.has(space, 64)
        store.write(space, 64, A)
        assert store.has(space, 64)


def test_seed_0052_d6_2() -> None:
    """An address is a number: a tensor of the host is at its physical and its virtual address."""
    import kernbench as kb

    seen: dict[str, Any] = {}

    def body(ctx: kb.Context) -> None:
        x = ctx.from_numpy(A.astype(np.float32))
        seen["virtual"] = x.virtual
        ctx.launch("look", lambda p, tl: seen.update(data=tl.load(p, (16,), "f32").tolist()), x, grid=1)

    engine = kb.GraphEngine("single_cube")
    engine.run(kb.bench(name="look", description="look")(body))
    assert seen["data"] == A.reshape(-1)[:16].tolist() and engine.op_log is not None
    store, load = engine.op_log.initial_store, engine.op_log[0]
    assert store is not None and load.params["src_addr"] != seen["virtual"]
    for address in (load.params["src_addr"], seen["virtual"]):
        assert store.read("hbm", address, (16,), "f32").tolist() == seen["data"]


def test_seed_0052_d6_3() -> None:
    """References in, references out; views by type and shape; another size is an error."""
    store, x = MemoryStore(), np.arange(4, dtype=np.float32)
    store.write("hbm", 0, x)
    assert store.read("hbm", 0) is x
    x[0] = 5
    assert store.read("hbm", 0)[0] == 5
    assert np.shares_memory(store.read("hbm", 0, dtype="i32"), x) and np.shares_memory(store.read("hbm", 0, shape=(2, 2)), x)
    with pytest.raises(ValueError, match="bytes"):
        store.read("hbm", 0, shape=(3,))


def test_seed_0052_d6_4() -> None:
    """`has` is about the key alone."""
    store = MemoryStore()
    store.write("hbm", 16, np.zeros(4, np.float32))
    assert store.has("hbm", 16) and not store.has("hbm", 64) and not store.has("tcm", 16)


def test_seed_0052_d6_5() -> None:
    """A snapshot shares arrays, and no later write of either side."""
    store, x = MemoryStore(), np.zeros(4, np.float32)
    store.write("hbm", 0, x)
    copy = store.snapshot()
    assert copy.read("hbm", 0) is x
    copy.write("hbm", 0, x + 1)
    store.write("hbm", 64, x)
    assert store.read("hbm", 0) is x and not copy.has("hbm", 64)


def test_seed_0052_d7() -> None:
    """Every message is begun and ended once, in one process: another one's records are refused."""
    import os

    run = Run(everything, memory={0: A}, config=easy(dma={"engines": 2})).run()
    assert run.log is not None and run.log._pending == {}
    child = os.fork()
    if not child:
        code = 1
        try:
            run.log.record_write(0.0, "host", "hbm", 0, A)
        except Exception as error:
            code = 0 if "another process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_seed_0052_alternatives() -> None:
    """A1: the log is in memory. A2: inputs that come before the start are not there yet, and are at the end. A4: no edges."""
    run = Run(everything, memory={0: A}).run()
    assert run.log is not None and isinstance(run.log.records, list)
    assert all(one.dependency_ids == [] for one in run.log)
    memory = MemoryStore()
    log = OpLogger(memory)
    x = TensorHandle("x", addr=64, shape=(16, 16), dtype="f16")
    op = MathCmd("exp", (x,), TensorHandle("y", addr=4096, shape=(16, 16), dtype="f16"))
    log.record_start(0.0, "pe_math", op)
    memory.write("tcm", 64, A)  # the op before it has ended meanwhile
    log.record_end(1.0, "pe_math", op)
    (copy,) = log.records[0].params["input_snapshots"]
    assert np.array_equal(copy, A)


def test_seed_0052_context() -> None:
    """Hooks log every data op with time and metadata; Phase 2 replays the log; data are at a space and an address."""
    run = Run(everything, memory={0: A}).run()
    assert run.log is not None
    assert all(one.t_end >= one.t_start and one.params for one in run.log if one.op_kind != "unknown")
    stored = [one for one in run.log if one.op_name == "dma_write"]
    store = DataExecutor(run.log).run().store
    assert stored and all(store.has("hbm", one.params["dst_addr"]) for one in stored)
    wide = A.astype(np.float32)
    assert np.array_equal(store.read("hbm", 4096, (16,), "f16"), ((wide @ wide) * 2).sum(axis=1).astype(np.float16))


def test_seed_0052_consequences() -> None:
    """A copy of what a store holds does not change with the store: who changes elements in place copies them first."""
    store = MemoryStore()
    mine = np.arange(4, dtype=np.float32)
    store.write("hbm", 0, mine)
    kept = store.read("hbm", 0, (4,), "f32").copy()
    mine[0] = 9
    assert store.read("hbm", 0, (4,), "f32")[0] == 9 and kept[0] == 0
