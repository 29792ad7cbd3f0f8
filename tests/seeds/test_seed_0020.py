"""Seed ADR-0020, data in two passes: a test a decision. Each runs the product, as a user does."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import BUSY, NEVER, ComponentBase
from kernbench.common.handles import PendingDataError
from kernbench.common.pe_commands import MsgBase
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpRecord
from tests.kernels import Run, easy

A = np.arange(256, dtype=np.float32).reshape(16, 16)  # 1024 bytes: 16 cycles at 64 bytes a cycle
B = np.eye(16, dtype=np.float32) * 2


def product(a: int, b: int, c: int, tl: Any) -> None:
    x = tl.load(a, (16, 16), "f32")
    y = tl.load(b, (16, 16), "f32")
    tl.store(c, tl.dot(x, y))


def run_product(**how: Any) -> Run:
    return Run(product, 0, 1024, 2048, memory={0: A, 1024: B}, **how).run()


def rows(run: Run) -> list[tuple[str, str, float, float]]:
    return [(one.op_name, one.component_id, one.t_start, one.t_end) for one in run.log]  # type: ignore[union-attr]


class Engine(ComponentBase):
    """An engine that takes a fixed time, and counts the messages that its hooks are told of."""

    def __init__(self, cycles: int = 5) -> None:
        super().__init__()
        self.cycles, self.job, self.due = cycles, None, NEVER
        self.told: list[tuple[str, str, float]] = []
        self.got: list[Any] = []

    def accept(self, job: Any, now: int) -> int:
        if self.job is not None:
            return BUSY
        self.job, self.due = job, now + self.cycles - 1
        return self.due

    def step(self, now: int) -> int:
        if now == self.due:
            assert self.job is not None
            self.complete(self.job.id)
            self.job, self.due = None, NEVER
        return self.due

    def _on_process_start(self, env: Any, msg: Any) -> None:
        self.told.append(("start", type(msg).__name__, env.now))
        super()._on_process_start(env, msg)

    def _on_process_end(self, env: Any, msg: Any) -> None:
        self.told.append(("end", type(msg).__name__, env.now))
        super()._on_process_end(env, msg)


def test_seed_0020_d1() -> None:
    """Phase 1 runs the kernel inside the simulation and knows what memory has; Phase 2 computes what engines do."""
    cycles = []

    def kernel(tl: Any) -> None:
        cycles.append(run.machine.cycle)
        assert tl.load(0, (16, 16), "f32")[0][1] == 1  # memory is known in Phase 1
        cycles.append(run.machine.cycle)
        product(0, 1024, 2048, tl)

    run = Run(kernel, memory={0: A, 1024: B})
    run.run()
    assert cycles == [1, 17] and not run.store.has("hbm", 2048)
    assert DataExecutor(run.log).run().verify(A * 2)  # type: ignore[arg-type]


def test_seed_0020_d2() -> None:
    """The hooks of the base class log, also those of a component in the place of an engine; times are its service alone."""
    part = Engine(5)
    run = run_product(parts={"te0": part, "te1": Engine(5)})
    assert rows(run) == [
        ("dma_read", "pe_dma", 1, 17), ("dma_read", "pe_dma", 17, 33), ("gemm_f32", "pe_gemm", 33, 38),
        ("dma_write", "pe_dma", 38, 54),
    ]  # fmt: skip
    assert part.told == [("start", "GemmCmd", 33), ("end", "GemmCmd", 38)]
    silent = run_product(parts={"te0": Engine(5), "te1": Engine(5)}, logged=False)
    assert silent.log is None and silent.launch.end == run.launch.end


def test_seed_0020_d2_only_hooks_write_the_log() -> None:
    """A component that keeps its messages from the base class leaves no record, and takes its time all the same."""

    class Deaf(Engine):
        def _on_process_start(self, env: Any, msg: Any) -> None: ...

        def _on_process_end(self, env: Any, msg: Any) -> None: ...

    run = run_product(parts={"te0": Deaf(5), "te1": Deaf(5)})
    assert [name for name, *_ in rows(run)] == ["dma_read", "dma_read", "dma_write"] and run.launch.end == 54


def test_seed_0020_d3() -> None:
    """A load returns what memory holds when its transfer ends; a store is visible at its issue, also to a load in flight."""
    seen: dict[str, Any] = {}

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16,), "i32")
        early = tl.load(4096, (1024,), "i32", wait=False)
        tl.load(0, (16,), "i32")  # the store starts after the load in flight: their starts alone give the wrong order
        tl.store(4096, x)
        late = tl.load(4096, (16,), "i32")
        tl.wait(early)
        seen["early"], seen["late"] = early.data[:16].tolist(), late.tolist()
        seen["branch"] = "large" if late[15] > 14 else "small"

    memory = {0: np.arange(16, dtype=np.int32), 4096: np.zeros(1024, np.int32)}
    run = Run(kernel, memory=memory, config=easy(dma={"engines": 2})).run()
    assert seen == {"early": list(range(16)), "late": list(range(16)), "branch": "large"}
    executor = DataExecutor(run.log).run()  # type: ignore[arg-type]
    long, _ = loads = [one for one in run.log if one.params.get("src_addr") == 4096]  # type: ignore[union-attr]
    (stored,) = (one for one in run.log if one.op_name == "dma_write")  # type: ignore[union-attr]
    assert long.t_start < stored.t_start and stored.t_end < long.t_end
    for record, first in zip(loads, (seen["early"], seen["late"]), strict=True):
        assert executor.store.read("tcm", record.params["dst_addr"], (16,), "i32").tolist() == first


def test_seed_0020_d3_a_result_that_is_stored_over_a_load_in_flight_is_pending() -> None:
    """A load in flight sees a store issued meanwhile, also of a result that Phase 1 does not have: its bytes are pending."""
    seen = []

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        early = tl.load(8192, (64, 16), "f32", wait=False)
        tl.store(8192, tl.exp(x * 0.0))
        tl.wait(early)
        seen.append(early.pending)
        tl.store(16384, early)

    run = Run(kernel, memory={0: A, 8192: np.zeros((64, 16), np.float32)}, config=easy(dma={"engines": 2})).run()
    assert seen == [True]
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    assert np.array_equal(store.read("hbm", 16384, (16, 16), "f32"), np.ones((16, 16), np.float32))
    assert not store.read("hbm", 16384 + 1024, (48, 16), "f32").any()


def test_seed_0020_d3_handles() -> None:
    """Results are pending in Phase 1, before and after `tl.wait`; they can be stored, and looked at in Phase 2."""

    def kernel(tl: Any) -> None:
        result = tl.dot(tl.load(0, (16, 16), "f32"), tl.load(1024, (16, 16), "f32"))
        assert result.pending
        tl.wait(result)
        assert result.pending
        tl.store(2048, result)

    run = Run(kernel, memory={0: A, 1024: B}).run()
    assert DataExecutor(run.log).run().verify(A @ B)  # type: ignore[arg-type]


class Doorbell(MsgBase):
    """A message of the user's own, as the seed's IpcqMsg: `data_op` is all that the framework is told."""

    data_op = True

    def __init__(self, value: int) -> None:
        self.value = value


class Whisper(Doorbell):
    data_op = False


class Mailbox(Engine):
    """A component of the user's own, which reads what it is sent."""

    def accept(self, job: Any, now: int) -> int:
        due = super().accept(job, now)
        if due != BUSY:
            self.got.append(self.message_of(job).value)
        return due


def test_seed_0020_d4() -> None:
    """A new type of message passes through a run and is logged by its `data_op`, and no code of the framework knows it."""

    def ring(ctx: kb.Context) -> None:
        ctx.launch("ring", kernel, grid=1)

    def kernel(tl: Any) -> None:
        done = tl.issue(Doorbell(7), to="mailbox")
        tl.issue(Whisper(8), to="mailbox", wait=True)
        tl.wait(done)

    boxes: list[Mailbox] = []

    def box() -> Mailbox:
        boxes.append(Mailbox(6))
        return boxes[-1]

    engine = kb.GraphEngine("single_cube", components={"mailbox": box})
    timing = engine.run(kb.bench(name="ring", description="a message")(ring))
    assert timing.status == "done" and boxes[0].got == [7, 8]
    assert engine.op_log is not None
    (record,) = engine.op_log
    assert (record.component_id, record.op_kind, record.op_name) == ("mailbox", "unknown", "Doorbell")
    assert record.t_end - record.t_start == 6
    assert [name for _, name, _ in boxes[0].told] == ["Doorbell", "Doorbell", "Whisper", "Whisper"]
    DataExecutor(engine.op_log).run()  # Phase 2 passes it over


def test_seed_0020_d5() -> None:
    """Records have kind, name, times and params, in order of `t_start`; explicit dependencies where addresses show none."""

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.wait(tl.store(4096, tl.sum(tl.dot(x, x), axis=1)))
        tl.load(1024, (16, 16), "f32")

    run = Run(kernel, memory={0: A, 1024: B}).run()
    records = list(run.log)  # type: ignore[arg-type]
    by_name = {one.op_name: one for one in records}
    assert [(one.op_kind, one.op_name) for one in records] == [
        ("memory", "dma_read"), ("gemm", "gemm_f32"), ("math", "sum"), ("memory", "dma_write"), ("memory", "dma_read"),
    ]  # fmt: skip
    assert {"src_addr", "dst_addr", "nbytes", "src_space", "dst_space"} <= set(by_name["dma_write"].params)
    gemm, math = set(by_name["gemm_f32"].params), set(by_name["sum"].params)
    assert gemm >= {
        "src_a_addr", "src_b_addr", "dst_addr", "shape_a", "shape_b", "shape_out", "dtype_in", "dtype_acc", "dtype_out",
        "transpose_a", "transpose_b", "layout_a", "layout_b", "layout_out", "addr_space",
    }  # fmt: skip
    assert math >= {"op", "input_addrs", "input_shapes", "dst_addr", "shape_out", "dtype", "axis", "addr_space"}
    assert records[-1].dependency_ids == [records[-2].op_id]


def test_seed_0020_d6() -> None:
    """Phase 2 orders by ranges of bytes and by explicit dependencies, and never by what only came earlier or later."""
    run = run_product()
    records = list(run.log)  # type: ignore[arg-type]
    late = [OpRecord(0.0, 0.0, r.component_id, r.op_kind, r.op_name, r.params, [*r.dependency_ids], r.op_id) for r in records]
    late[3].dependency_ids.append(late[2].op_id)  # of one t_start memory comes first, but for what a record depends on
    for threads in (1, 4):
        executor = DataExecutor(late, run.log.initial_store, threads=threads).run()  # type: ignore[union-attr]
        assert np.array_equal(executor.store.read("hbm", 2048, (16, 16), "f32"), A @ B)


def test_seed_0020_d7() -> None:
    """The store keeps references, reads views, refuses other sizes; bytes are the canon where tensors overlap."""
    store, x = MemoryStore(), np.arange(4, dtype=np.float32)
    store.write("hbm", 0, x)
    assert store.read("hbm", 0, (4,), "f32") is x
    assert store.read("hbm", 0, (2, 2), "f32").base is not None
    assert store.read("hbm", 0, (4,), "i32").tolist() == x.view(np.int32).tolist()
    with pytest.raises(ValueError, match="bytes"):
        store.read("hbm", 0, shape=(5,))
    store.write("hbm", 4, np.array([9], np.float32))
    assert store.read("hbm", 0, (4,), "f32").tolist() == [0, 9, 2, 3] and x[1] == 1


def test_seed_0020_d8() -> None:
    """The kernel stays a plain function, and its calls are those of the seed."""
    assert inspect.isfunction(product) and not inspect.isgeneratorfunction(product)

    def kernel(tl: Any) -> None:
        done = tl.composite("gemm", tl.ref(0, (16, 16), "f32"), tl.ref(1024, (16, 16), "f32"), out_ptr=2048)
        tl.wait(done)

    run = Run(kernel, memory={0: A, 1024: B}).run()
    assert np.array_equal(DataExecutor(run.log).run().store.read("hbm", 2048, (16, 16), "f32"), A @ B)  # type: ignore[arg-type]


def test_seed_0020_d9() -> None:
    """A component in the place of an engine changes times; the data of Phase 2 do not change."""
    usual, slow = run_product(), run_product(parts={"te0": Engine(100), "te1": Engine(100)})
    assert slow.launch.end == usual.launch.end + 99  # type: ignore[operator]
    for run in (usual, slow):
        assert DataExecutor(run.log).run().verify(A @ B)  # type: ignore[arg-type]


def test_seed_0020_d10() -> None:
    """Phase 2 is optional: without a log the cycles are the same."""
    bench = kb.bench(name="twice", description="twice")(lambda ctx: ctx.launch("twice", twice, grid=1))

    def twice(tl: Any) -> None:
        tl.wait(tl.full((64,), 1.0, "f32") * 2.0)

    engines = [kb.GraphEngine("single_cube", op_log=on) for on in (True, False)]
    timings = [engine.run(bench) for engine in engines]
    assert timings[0].cycles == timings[1].cycles == engines[1].get_timing_result().cycles
    assert engines[1].op_log is None
    assert engines[0].op_log is not None
    assert [one.op_name for one in engines[0].op_log] == ["full", "mul"]


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-5), ("f16", 1e-3), ("bf16", 1e-2), ("i32", 0)])
def test_seed_0020_d11(dtype: str, tolerance: float) -> None:
    """Outputs are compared by the tolerance of their type: just inside agrees, just outside does not; integers are exact."""

    def kernel(tl: Any) -> None:
        tl.store(4096, tl.load(0, (16,), dtype))

    from kernbench.common.dtypes import dtype_of, narrow, widen

    x = np.full(16, 64, dtype_of(dtype).numpy) if dtype == "i32" else narrow(np.full(16, 64, np.float32), dtype)
    run = Run(kernel, memory={0: x}).run()
    executor = DataExecutor(run.log).run()  # type: ignore[arg-type]
    exact = x.astype(np.float64) if dtype == "i32" else widen(x).astype(np.float64)
    assert executor.verify(exact * (1 + 0.9 * tolerance))
    assert not executor.verify(exact * (1 + 1.2 * tolerance) if tolerance else exact + 1)


def test_seed_0020_d11_debug_mode() -> None:
    """In debug mode every op is compared with what is expected of it, also one whose wrong result no output shows."""

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.store(4096, (x * 2.0) * 0.0)

    log = Run(kernel, memory={0: A}).run().log
    first, second = [one for one in log if one.op_name == "mul"]  # type: ignore[union-attr]
    executor = DataExecutor(log, debug=True).run()  # type: ignore[arg-type]
    assert executor.verify(A * 0, ops={first.op_id: A * 2, second.op_id: A * 0})
    assert executor.verify(A * 0) and not executor.verify(A * 0, ops={first.op_id: A * 3})


@pytest.mark.parametrize("look", [lambda tile: tile[0, 0], bool, np.asarray, float, lambda tile: tile.data])
def test_seed_0020_non_goals(look: Any) -> None:
    """Nothing branches on a result: its elements, truth value and data are errors in Phase 1."""

    def kernel(tl: Any) -> None:
        look(tl.exp(tl.load(0, (16, 16), "f32")))

    assert isinstance(Run(kernel, memory={0: A}).fail(), PendingDataError)


def test_seed_0020_open_questions() -> None:
    """The log goes to disk past a limit, with stable ids; math ops state scalars and kept axes; a composite is one op."""

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.store(4096, tl.where(x > 3.0, tl.sum(x * 2.0, axis=1, keep_dims=True), x))
        tl.wait(tl.composite("gemm", tl.ref(0, (16, 16), "f32"), tl.ref(1024, (16, 16), "f32"), out_ptr=8192))

    run = Run(kernel, memory={0: A, 1024: B}).run()
    records = list(run.log)  # type: ignore[arg-type]
    by_name = {one.op_name: one for one in records}
    assert by_name["mul"].params["scalars"] == {1: 2.0} and by_name["sum"].params["keep_dims"]
    assert [one.op_kind for one in records].count("gemm") == 1
    assert len({one.op_id for one in records}) == len(records)

    @kb.bench(name="chain", description="many ops")
    def chain(ctx: kb.Context) -> None:
        ctx.launch("chain", lambda tl: [tl.wait(tl.full((64,), float(k), "f32") * 2.0) for k in range(20)], grid=1)

    small, large = kb.GraphEngine("single_cube", limit_bytes=1), kb.GraphEngine("single_cube")
    for engine in (small, large):
        engine.run(chain)
    assert small.op_log is not None and large.op_log is not None
    ids, usual = ([(one.op_id, one.op_name, one.dependency_ids) for one in log] for log in (small.op_log, large.op_log))
    assert ids == usual and len(ids) == 40
    assert (len(small.op_log._records), len(large.op_log._records)) == (0, 40)  # all are on disk


def test_seed_0020_consequences() -> None:
    """What the decision adds is where the seed says; kernels need greenlet, and are plain functions that read real data."""
    from importlib import import_module
    from importlib.metadata import requires

    for path, name in [
        ("components.base", "ComponentBase"), ("common.pe_commands", "DmaReadCmd"), ("sim_engine.op_log", "OpLogger"),
        ("sim_engine.data_executor", "DataExecutor"), ("sim_engine.memory_store", "MemoryStore"),
        ("sim_engine.engine", "GraphEngine"), ("triton_emu.kernel_runner", "KernelRunner"),
        ("components.builtin.pe_cpu", "PeCpu"),
    ]:  # fmt: skip
        assert hasattr(import_module(f"kernbench.{path}"), name), path
    assert any(one.startswith("greenlet") for one in requires("kernbench") or ())
    seen = []
    Run(lambda tl: seen.append(tl.load(0, (16, 16), "f32").data[3, 4]), memory={0: A}).run()
    assert seen == [A[3, 4]]
