"""Phase 2: seed ADR-0020 D6 and D7 as a replay sees them, seed ADR-0052 D2, D3.7 and D4, and the arithmetic of single ops."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from threading import Event
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.common.dtypes import Array, dtype_of, narrow
from kernbench.common.errors import InputError
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import CompositeCmd, DmaReadCmd, DmaWriteCmd, Epilogue, GemmCmd, MathCmd, MemoryWriteMsg
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger, OpRecord
from kernbench.sim_engine.replay import schedule
from kernbench.sim_engine.replay.gemm import GemmForm, run_products
from kernbench.sim_engine.replay.tasks import Task, shares
from kernbench.sim_engine.replay.workers import Workers
from tests.op_logs import holding, tile

A = np.array([[1, 2, 3], [4, 5, 6]], np.float16)
B = np.array([[1, 0], [0, 1], [2, 2]], np.float16)


def replayed(store: MemoryStore, *messages: Any, times: tuple[float, ...] = (), **options: Any) -> MemoryStore:
    """The memories after messages, each at the next nanosecond unless `times` says otherwise."""
    log = OpLogger(store)
    for t, msg in zip(times or range(len(messages)), messages, strict=True):
        log.record_start(float(t), "pe", msg)
        log.record_end(t + 0.5, "pe", msg)
    return DataExecutor(log, **options).run().store


def handle(array: Array, addr: int, dtype: str, space: str = "tcm") -> TensorHandle:
    return TensorHandle("", addr, array.shape, dtype, space)


def product(
    a: Array, b: Array, out: str = "f32", dtypes: tuple[str, str] = ("f16", "f16"), acc: Array | None = None, **flags: Any
) -> Array:
    """What one GEMM makes of matrices as they lie in memory; `shape_*` are those before a col_major layout turned them."""
    shape_a, shape_b = flags.pop("shape_a", a.shape), flags.pop("shape_b", b.shape)
    rows, k = shape_a[::-1] if flags.get("transpose_a") else shape_a
    columns = shape_b[0] if flags.get("transpose_b") else shape_b[1]
    one, two = TensorHandle("", 0, shape_a, dtypes[0]), TensorHandle("", 4096, shape_b, dtypes[1])
    result = TensorHandle("", 8192, (rows, columns), out)
    store = holding(tcm={0: a, 4096: b})
    if acc is not None:
        store.write("tcm", 12288, acc)
        flags["acc"] = TensorHandle("", 12288, acc.shape, "f32")
    done = replayed(store, GemmCmd(one, two, result, rows, k, columns, **flags))
    return done.read("tcm", 8192, (columns, rows) if flags.get("layout_out") == "col_major" else (rows, columns), out)


def test_adr0020_d6_an_op_reads_what_the_one_before_it_wrote() -> None:
    a, b, c, d = tile(0, (2, 3)), tile(64, (3, 2)), tile(128, (2, 2)), tile(192, (2, 2))
    messages = [DmaReadCmd(a, 0, 12), DmaReadCmd(b, 64, 12), GemmCmd(a, b, c, 2, 3, 2), MathCmd("neg", [c], d)]
    store = replayed(holding(hbm={0: A, 64: B}), *messages, DmaWriteCmd(d, 0x100, 8))
    assert store.read("hbm", 0x100, (2, 2), "f16").tolist() == (-(A @ B)).tolist()
    assert store.read("tcm", 128, (2, 2), "f16").tolist() == (A @ B).tolist()


def test_adr0020_d6_a_buffer_is_not_overwritten_before_it_was_read() -> None:
    """WAR and WAW: a second load goes where the first went, whose product is wanted."""
    x, y, z = tile(0, (2,)), tile(16, (2,)), tile(32, (2,))
    messages = [DmaReadCmd(x, 0, 4), MathCmd("neg", [x], y), DmaReadCmd(x, 4, 4), MathCmd("neg", [x], z), DmaReadCmd(x, 8, 4)]
    store = replayed(holding(hbm={0: A}), *messages)
    assert [store.read("tcm", addr, (2,), "f16").tolist() for addr in (0, 16, 32)] == [[5, 6], [-1, -2], [-3, -4]]


def test_adr0020_d6_memory_ops_come_before_math_at_one_time() -> None:
    x, y = tile(0, (2,)), tile(16, (2,))
    messages = [MathCmd("neg", [x], y), DmaReadCmd(x, 0, 4)]
    store = replayed(holding(hbm={0: A}), *messages, times=(5, 5))
    assert store.read("tcm", 16, (2,), "f16").tolist() == [-1, -2]


def test_adr0020_d5_equal_times_keep_the_order_of_logging() -> None:
    loads = [DmaReadCmd(tile(0, (2,)), addr, 4) for addr in (0, 4, 8)]
    assert replayed(holding(hbm={0: A}), *loads, times=(5, 5, 5)).read("tcm", 0, (2,), "f16").tolist() == [5, 6]


def test_adr0020_d5_what_an_op_depends_on_comes_first() -> None:
    """A load that began before the store that it saw: the store waits for its operand, and is visible from its issue on."""
    x, y, z = tile(0, (2,)), tile(16, (2,)), tile(32, (2,))
    store = DmaWriteCmd(y, 0x100, 4, op_id=100)
    load = DmaReadCmd(z, 0x100, 4, dependency_ids=[100])
    done = replayed(
        holding(hbm={0: A, 0x100: np.zeros(2, np.float16)}),
        *[DmaReadCmd(x, 0, 4), load, MathCmd("neg", [z], x), MathCmd("neg", [x], y), store],
        times=(0, 1, 9, 2, 8),
    )
    assert done.read("tcm", 32, (2,), "f16").tolist() == [-1, -2] and done.read("tcm", 0, (2,), "f16").tolist() == [1, 2]


def test_adr0020_d6_dependencies_that_cannot_be_met_are_refused() -> None:
    cases = [([7], "it depends on op 7, which is not in the log"), ([3], "it waits for op 3, which in turn waits for it")]
    for deps, text in cases:
        with pytest.raises(InputError) as caught:
            replayed(holding(hbm={0: A}), DmaReadCmd(tile(0, (2,)), 0, 4, op_id=3, dependency_ids=deps, line="k.py:2"))
        assert str(caught.value) == f"op 3 (dma_read at pe, k.py:2): dependency_ids: {text}"
    with pytest.raises(InputError, match=r"^op 3 \(dma_read at pe\): another record has the op id 3 too$"):
        replayed(holding(hbm={0: A}), *[DmaReadCmd(tile(0, (2,)), 0, 4, op_id=3) for _ in range(2)])


def test_adr0020_d6_equal_gemms_are_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight PEs multiply 2x3 by 3x2 at one time: one matmul of a stack; of other shapes, or alone, others."""
    calls: list[tuple[int, ...]] = []
    matmul = np.matmul

    def counted(a: Array, b: Array) -> Array:
        calls.append(a.shape)
        return np.asarray(matmul(a, b))

    monkeypatch.setattr(np, "matmul", counted)
    for batching, wanted in ((True, [(1, 3), (8, 2, 3)]), (False, [(1, 3)] + [(2, 3)] * 8)):
        calls.clear()
        store = MemoryStore()
        messages: list[Any] = []
        for pe in range(8):
            store.write("tcm", 1024 * pe, A + pe)
            store.write("tcm", 1024 * pe + 64, B)
            a, b, c = (tile(1024 * pe + at, shape) for at, shape in ((0, (2, 3)), (64, (3, 2)), (128, (2, 2))))
            messages.append(GemmCmd(a, b, c, 2, 3, 2))
        messages.append(GemmCmd(tile(0, (1, 3)), b, tile(1 << 16, (1, 2)), 1, 3, 2))
        done = replayed(store, *messages, times=(0,) * 9, batching=batching)
        assert sorted(calls) == wanted
        for pe in range(8):
            assert done.read("tcm", 1024 * pe + 128, (2, 2), "f16").tolist() == ((A + pe) @ B).tolist()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("with_sum", [False, True])
def test_large_products_of_a_stage_have_the_bits_of_each_alone(dtype: str, with_sum: bool) -> None:
    """Twelve PEs multiply rows of one matrix, in another order than in memory, by one of two matrices, and then the results."""
    rng, kind = np.random.default_rng(1), dtype_of(dtype).numpy
    log = OpLogger(MemoryStore())
    a, b = rng.standard_normal((12, 80, 96)).astype(kind), rng.standard_normal((2, 96, 72)).astype(kind)
    c, sums = rng.standard_normal((72, 90)).astype(kind), rng.standard_normal((12, 80, 72)).astype(np.float32)
    assert log.initial_store is not None
    for base, whole in ((0, a), (1 << 24, b), (2 << 24, c), (3 << 24, sums)):
        log.initial_store.write("tcm", base, whole)
    for t in (1.0, 2.0):
        for pe in (3, 0, 1, 2, 11, 10, 9, 8, 4, 6, 5, 7):
            one = TensorHandle("", pe * a[0].nbytes, (80, 96), dtype)
            two = TensorHandle("", (1 << 24) + pe % 2 * b[0].nbytes, (96, 72), dtype)
            made = TensorHandle("", (4 << 24) + pe * a[0].nbytes * 2, (80, 72), dtype)
            acc = TensorHandle("", (3 << 24) + pe * sums[0].nbytes, (80, 72), "f32") if with_sum else None
            cmd = GemmCmd(one, two, made, 80, 96, 72, acc=acc)
            if t == 2.0:
                last = TensorHandle("", (5 << 24) + pe * (1 << 16), (80, 90), dtype)
                cmd = GemmCmd(made, TensorHandle("", 2 << 24, (72, 90), dtype), last, 80, 72, 90)
            log.record_start(t, f"pe{pe}", cmd)
            log.record_end(t + 0.5, f"pe{pe}", cmd)
    alone = DataExecutor(log, debug=True).run().store
    for threads, batching in ((1, False), (1, True), (3, True)):
        store = DataExecutor(log, threads=threads, batching=batching).run().store
        for pe in range(12):
            for space, shape in (((4 << 24) + pe * a[0].nbytes * 2, (80, 72)), ((5 << 24) + pe * (1 << 16), (80, 90))):
                found, wanted = (one.read("tcm", space, shape, dtype).tobytes() for one in (store, alone))
                assert found == wanted, (pe, threads, batching)


def test_products_at_regular_distances_are_one_call_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    matmul = np.matmul

    def counted(a: Array, b: Array, **options: Any) -> Array:
        calls.append((a.shape, b.shape))
        return np.asarray(matmul(a, b, **options))

    monkeypatch.setattr(np, "matmul", counted)
    a, b = np.ones((6, 80, 96), np.float32), np.ones((96, 72), np.float32)
    form = GemmForm({"shape_a": (80, 96), "shape_b": (96, 72), "dtype_in": "f32", "dtype_out": "f32"})
    results = np.empty((6, 80, 72), np.float32)
    order = [0, 1, 2, 5, 4, 3]  # the step is 1, then 3, then -1
    run_products(form, [a[i] for i in order], [b] * 6, None, results)
    assert calls == [((3, 80, 96), (3, 96, 72)), ((3, 80, 96), (3, 96, 72))] and (results == 96).all()


def test_shares_are_large_at_first_and_small_at_the_end() -> None:
    assert shares(100, 2, 4, 1000) == [(0, 50), (50, 75), (75, 87), (87, 93), (93, 97), (97, 100)]
    assert shares(10, 1, 4, 3) == [(0, 3), (3, 6), (6, 9), (9, 10)] and shares(0, 2, 1, 1) == []


def test_adr0052_d3_7_unknown_ops_are_skipped() -> None:
    records = [OpRecord(0.0, 1.0, "pe", "unknown", "TileToken/GEMM", {"stage_type": "GEMM", "dst_addr": 0}, [], 0)]
    assert DataExecutor(records).run().store._storage == {}


def test_adr0052_d3_1_a_load_without_a_destination_is_phase_1s_own() -> None:
    records = [OpRecord(0.0, 1.0, "pe", "memory", "dma_read", {"src_addr": 0, "nbytes": 4, "handle_id": "x"})]
    assert DataExecutor(records).run().store._storage == {}


def test_adr0020_d5_params_of_the_seed_alone_are_enough() -> None:
    gemm = {"src_a_addr": 0, "src_b_addr": 64, "dst_addr": 128, "shape_a": (2, 3), "shape_b": (3, 2), "shape_out": (2, 2)}
    gemm |= {"dtype_in": "f16", "dtype_acc": "f32", "dtype_out": "f16", "addr_space": "sram"}
    math = {"op": "sum", "input_addrs": [128], "input_shapes": [(2, 2)], "dst_addr": 192, "shape_out": (2,), "dtype": "f16"}
    move = {"src_addr": 192, "dst_addr": 0, "nbytes": 4, "src_space": "sram", "dst_space": "hbm"}
    records = [
        OpRecord(0.0, 1.0, "pe", "gemm", "gemm_f16", gemm),
        OpRecord(1.0, 2.0, "pe", "math", "sum", {**math, "axis": 0, "addr_space": "sram"}),
        OpRecord(2.0, 3.0, "pe", "memory", "dma_write", move),
    ]
    store = DataExecutor(records, holding(sram={0: A, 64: B})).run().store
    assert store.read("hbm", 0, (2,), "f16").tolist() == (A @ B).sum(0).tolist()


def test_adr0052_d4_snapshots_are_what_phase_1_had() -> None:
    """The source changes after the op, in a way that the log does not know of."""
    store = holding(hbm={0: np.ones(4, np.float16)}, tcm={0: np.ones(4, np.float16)})
    log = OpLogger(store)
    for t, msg in enumerate((DmaWriteCmd(tile(0, (4,), space="hbm"), 64, 8), MathCmd("neg", [tile(0, (4,))], tile(8, (4,))))):
        log.record_start(float(t), "pe", msg)
        log.record_end(t + 0.5, "pe", msg)
    store.write("hbm", 0, np.zeros(4, np.float16))
    store.write("tcm", 0, np.zeros(4, np.float16))
    after = DataExecutor(log, store.snapshot()).run().store
    assert after.read("hbm", 64).tolist() == [1] * 4 and after.read("tcm", 8).tolist() == [-1] * 4


def test_adr0027_a_scratchpads_stale_bytes_are_not_sent() -> None:
    """Kernel 1 loads into a buffer; kernel 2 computes into it and stores it. The store's data is kernel 2's."""
    x, y = tile(0, (2,)), tile(64, (2,))
    store = holding(hbm={0: A})
    log = OpLogger(store)

    def served(t: float, msg: Any) -> None:
        log.record_start(t, "pe", msg)
        log.record_end(t + 1, "pe", msg)

    served(0.0, DmaReadCmd(x, 0, 4))
    store.write("tcm", 0, A.reshape(-1)[:2])  # kernel 1's load
    store.write("tcm", 64, A.reshape(-1)[4:])
    served(1.0, DmaReadCmd(y, 8, 4))
    store.mark_pending("tcm", 0, 4, 2)
    served(2.0, MathCmd("neg", [y], x))
    served(3.0, DmaWriteCmd(x, 0x100, 4))
    served(4.0, MathCmd("add", [x, 1], y))
    places: dict[str, Any] = {"src_space": "tcm", "src_addr": 0, "dst_space": "sram", "dst_addr": 0}
    log.record_copy(5.0, 6.0, "pe", **places, shape=(2,), dtype="f16", nbytes=4)
    after = DataExecutor(log).run().store
    assert after.read("hbm", 0x100).tolist() == after.read("sram", 0).tolist() == [-5, -6]
    assert after.read("tcm", 64).tolist() == [-4, -5]


def test_what_the_host_writes_later_is_replayed_in_its_place() -> None:
    store = holding(hbm={0: A})
    log = OpLogger(store)
    for t, addr in ((0.0, 0), (2.0, 16)):
        load = DmaReadCmd(tile(addr, (2,)), 0, 4)
        log.record_start(t, "pe", load)
        log.record_end(t, "pe", load)
        if not addr:
            log.record_write(1.0, "host", "hbm", 0, np.array([8, 9], np.float16), virtual_addr=0x9000)
    after = DataExecutor(log).run().store
    assert [after.read("tcm", addr).tolist() for addr in (0, 16)] == [[1, 2], [8, 9]]
    assert after.read("hbm", 0x9000).tolist() == [8, 9]
    assert store.read("hbm", 0).tolist() == A.tolist()


def test_adr0020_d10_timing_alone_needs_nothing_of_phase_2() -> None:
    with pytest.raises(InputError) as caught:
        DataExecutor(OpLogger())
    remedy = "make the log with a memory store, OpLogger(memory_store)"
    assert str(caught.value) == f"op log: it holds only times, so there is nothing to replay; {remedy}"
    code = "import sys, kernbench.sim_engine.op_log as _; print([m for m in sys.modules if 'replay' in m or 'executor' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    write = MemoryWriteMsg("hbm", 0, A)
    log = OpLogger()
    log.record_start(0.0, "pe", write)
    log.record_end(0.0, "pe", write)
    with pytest.raises(InputError, match=r"its elements are not in the log: it was made without a memory store$"):
        DataExecutor(log, MemoryStore()).run()


def test_bytes_that_nothing_wrote_are_named_with_op_and_line() -> None:
    x, y = tile(0, (2,)), tile(16, (2,))
    places = {"hbm[0x100]": DmaReadCmd(x, 0x100, 4, line="k.py:5"), "tcm[0x0]": MathCmd("neg", [x], y, line="k.py:5")}
    places["hbm[0x200]"] = DmaReadCmd(x, 0x200, 4, src_strides=(4,), line="k.py:5")
    for place, msg in places.items():
        with pytest.raises(InputError) as caught:
            replayed(holding(hbm={0: A}), msg)
        name = "neg" if isinstance(msg, MathCmd) else "dma_read"
        assert str(caught.value).startswith(f"op 0 ({name} at pe, k.py:5): it reads unwritten bytes: {place}: of the ")


def test_gemm_sums_in_f32() -> None:
    """2048 ones in f16 stop at 2048 + 1 = 2048; in f32 they go on. Rounded to f16 after every 1024 columns they do not."""
    a, b = np.ones((1, 4097), np.float16), np.ones((4097, 1), np.float16)
    assert product(a, b).item() == 4097
    assert product(a, b, tile_k=1).item() == 4097
    assert product(a, b, tile_k=1, dtype_acc="f16").item() == 2048
    assert product(a, b, tile_k=1024, dtype_acc="f16").item() == 4096
    assert product(a, b, out="f16").item() == 4096  # 4097 lies between 4096 and 4100


def test_gemm_adds_tiles_in_order() -> None:
    """1 + 2^24 - 2^24 in f32: the 1 is lost where it is added first."""
    ones, big = np.ones((3, 1), np.float32), 2.0**24
    for row, wanted in (([1, big, -big], 0.0), ([big, -big, 1], 1.0)):
        assert product(np.array([row], np.float32), ones, dtypes=("f32", "f32"), tile_k=1).item() == wanted


def test_gemm_adds_to_what_was_there() -> None:
    acc = np.array([[100, 200], [300, 400]], np.float32)
    assert product(A, B, acc=acc).tolist() == (acc + A @ B).tolist()
    assert product(A, B, acc=acc, tile_k=2).tolist() == (acc + A @ B).tolist()


@pytest.mark.parametrize("layout", ["row_major", "col_major"])
def test_gemm_takes_transposes_and_layouts(layout: str) -> None:
    def lie(matrix: Array) -> Array:
        return np.ascontiguousarray(matrix.T if layout == "col_major" else matrix)

    layouts: dict[str, Any] = {"layout_a": layout, "layout_b": layout, "layout_out": layout}
    wanted = lie((A @ B).astype(np.float32)).tolist()
    shapes: dict[str, Any] = {"shape_a": (2, 3), "shape_b": (3, 2)}
    assert product(lie(A), lie(B), **shapes, **layouts).tolist() == wanted
    flipped: dict[str, Any] = {"shape_a": (3, 2), "shape_b": (2, 3), "transpose_a": True, "transpose_b": True}
    assert product(lie(A.T), lie(B.T), **flipped, **layouts).tolist() == wanted


def test_gemm_of_integers_is_exact() -> None:
    a = np.full((1, 3001), 127, np.int8)
    assert product(a, a.T.copy(), "i32", ("i8", "i8")).item() == 127 * 127 * 3001  # odd and beyond 2^24: no f32
    assert product(a, a.T.copy(), "i32", ("i8", "i8"), tile_k=7).item() == 127 * 127 * 3001
    wide = np.full((1, 3), 2**30 - 1, np.int32)
    assert product(wide, wide.T.copy(), "i64", ("i32", "i32"), dtype_acc="i64").item() == 3 * (2**30 - 1) ** 2
    # 3 * (2^60 - 2^31 + 1) wraps to 3 - 3 * 2^31 + 2^32 = 3 - 2^31.
    assert product(wide, wide.T.copy(), "i32", ("i32", "i32")).item() == 3 - 2**31
    half = narrow(np.array([[7, -8]]), "i4")
    assert product(half, np.array([[2], [1]], np.float16), dtypes=("i4", "f16")).item() == 6


def test_gemm_of_a_matrix_with_its_own_transpose_is_like_any_other() -> None:
    """In a shape in which OpenBLAS rounds the two differently: numpy multiplies `x @ x.T` by another routine."""
    x = np.random.default_rng(17).standard_normal((17, 33)).astype(np.float32)
    own, other = (product(x, y, dtypes=("f32", "f32"), transpose_b=True) for y in (x, x.copy()))
    assert own.tobytes() == other.tobytes()


def test_composite_gemm_is_one_op_with_its_epilogue() -> None:
    a, b = tile(0, (2, 3), space="hbm"), tile(64, (3, 2))
    out, bias = tile(0x100, (2, 2), "f16", "hbm"), tile(128, (2,), "f32")
    steps = [Epilogue("mul", 0.5), Epilogue("add", bias), Epilogue("relu")]
    msg = CompositeCmd("gemm", 0x100, 8, GemmCmd(a, b, out, 2, 3, 2, tile_k=2), steps)
    store = holding(hbm={0: A}, tcm={64: B, 128: np.array([-5, 1], np.float32)})
    wanted = np.maximum((A @ B) * 0.5 + [-5, 1], 0)
    assert replayed(store, msg).read("hbm", 0x100, (2, 2), "f16").tolist() == wanted.tolist()
    math = CompositeCmd("math", 0x100, 12, MathCmd("exp2", [a], tile(0x100, (2, 3), "f16", "hbm")))
    assert replayed(store, math).read("hbm", 0x100, (2, 3), "f16").tolist() == (2.0**A).tolist()


def test_f8_and_bf16_are_computed_in_f32_and_rounded_once() -> None:
    x = np.array([300.0, -1.0, np.nan]).astype(ml_dtypes.float8_e4m3fn)
    store = holding(tcm={0: x})
    msg = MathCmd("mul", [TensorHandle("", 0, (3,), "f8e4m3"), 2.0], TensorHandle("", 64, (3,), "f8e4m3"))
    assert str(replayed(store, msg).read("tcm", 64).astype(np.float32).tolist()) == "[448.0, -2.0, nan]"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_first_op_that_cannot_be_computed_is_named_by_every_number_of_threads(threads: int) -> None:
    shape = (128, 128)
    store = holding(tcm={0: np.ones(shape, np.float32)})
    log = OpLogger(store)
    for i in range(6):  # ops of one stage: each of its own PE
        wrong = i in (3, 4)  # the thread of op 4 comes before that of op 3
        out = TensorHandle("", (i + 1) << 20, (64, 128) if wrong else shape, "f32")
        cmd = MathCmd("neg", [TensorHandle("", 0, shape, "f32")], out)
        log.record_start(1.0, f"pe{i}", cmd)
        log.record_end(2.0, f"pe{i}", cmd)
    with pytest.raises(InputError, match=r"^op 3 \(neg at pe3\): it cannot be computed"):
        DataExecutor(log, threads=threads).run()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_any_kind_in_another_thread_ends_the_replay(threads: int) -> None:
    began = Event()

    def first() -> list[Array]:
        began.set()
        raise MemoryError

    def last() -> list[Array]:
        assert threads == 1 or began.wait(10)  # the other thread computes the first task
        return []

    large = np.ones(1 << 16, np.float32)
    with Workers(threads) as workers:
        work = workers.start([Task([], [[large]], first), Task([], [[large]], last)])
        with pytest.raises(MemoryError):
            list(workers.results(work))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_in_ops_that_are_sorted_early_is_reported_in_its_turn(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """The second op of each chain cannot be computed; an op after the first 8 depends on one that is not in the log."""
    monkeypatch.setattr(schedule, "FIRST", 8)
    shape, store = (128, 128), holding(tcm={0: np.ones((128, 128), np.float32)})
    log = OpLogger(store)
    for level in (1, 2):
        for i in range(4):
            source = TensorHandle("", 0 if level == 1 else (2 * i + 2) << 20, shape, "f32")
            out = TensorHandle("", (2 * i + level + 1) << 20, shape if level == 1 else (64, 128), "f32")
            cmd = MathCmd("neg", [source], out)
            log.record_start(float(level), f"pe{i}", cmd)
            log.record_end(level + 0.5, f"pe{i}", cmd)
    records = list(log)
    later = replace(records[0], op_id=99, t_start=3.0, t_end=4.0, dependency_ids=[1234])
    for found, named in ((records, "op 4 "), ([*records[:4], later], "op 99 ")):
        with pytest.raises(InputError, match=f"^{named}"):
            DataExecutor(found, store, threads=threads).run()
    with pytest.raises(InputError, match=r"^op 4 \(neg at pe0\): it cannot be computed"):
        DataExecutor([*records, later], store, threads=threads).run()


def test_a_replay_that_overwrites_part_of_an_array_does_not_change_the_array() -> None:
    ones = np.ones(64, np.float32)
    store = holding(hbm={0: ones, 4096: np.zeros(4, np.float32)})
    done = replayed(store, DmaReadCmd(tile(0, (4,), "f32"), 4096, 16), DmaWriteCmd(tile(0, (4,), "f32"), 0, 16))
    assert done.read("hbm", 0, (8,), "f32").tolist() == [0] * 4 + [1] * 4
    done.write("hbm", 64, np.full(4, 2, np.float32))
    assert ones.tolist() == [1] * 64 and store.read("hbm", 0, (64,), "f32") is ones
