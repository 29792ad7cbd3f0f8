"""Seed ADR-0052 with kernels, decision by decision: what the log of a real run says, and seed ADR-0027's stale scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InternalError
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run, at, easy

A = (np.arange(256) % 7).astype(np.float16).reshape(16, 16)


def everything(tl: Any) -> None:
    x = tl.load(0, (16, 16), "f16")
    y = tl.dot(x, x, out_dtype="f32")
    z = tl.sum(y * 2.0, axis=1)
    index = tl.arange(16)
    tl.store(4096, tl.cast(z, "f16"))
    tl.store(8192, index + 1)


@pytest.fixture
def run() -> Run:
    return Run(everything, memory={0: A}).run()


def test_d1_a_record_says_when_where_and_what(run: Run) -> None:
    assert run.log is not None
    load = run.log[0]
    # 512 B at 64 B a cycle; the kernel begins in cycle 1, and a cycle is 1 ns.
    assert (load.t_start, load.t_end, load.component_id) == (1.0, 9.0, "pe_dma")
    assert (load.op_kind, load.op_name) == ("memory", "dma_read")
    assert load.dependency_ids == [] and load.params["line"] == at(everything, 1)


def test_d2_records_are_in_order_of_their_starts(run: Run) -> None:
    starts = [one.t_start for one in run.log]  # type: ignore[union-attr]
    assert starts == sorted(starts)


def test_d3_the_rows_of_a_kernel(run: Run) -> None:
    rows = {one.op_name: one for one in run.log}  # type: ignore[union-attr]
    assert set(rows) == {"dma_read", "gemm_f16", "mul", "sum", "cast", "memory_write", "dma_write"}
    assert {name: one.op_kind for name, one in rows.items()} == {
        "dma_read": "memory", "memory_write": "memory", "dma_write": "memory",
        "gemm_f16": "gemm", "mul": "math", "sum": "math", "cast": "math",
    }  # fmt: skip
    read = rows["dma_read"].params
    assert (read["src_space"], read["src_addr"], read["nbytes"], read["dst_space"]) == ("hbm", 0, 512, "tcm")
    assert (read["shape"], read["dtype"]) == ((16, 16), "f16")
    gemm = rows["gemm_f16"].params
    assert gemm["src_a_addr"] == gemm["src_b_addr"] == read["dst_addr"] and gemm["dst_space"] == "tcm"
    assert (gemm["m"], gemm["k"], gemm["n"], gemm["dtype_in"], gemm["dtype_out"]) == (16, 16, 16, "f16", "f32")
    assert rows["mul"].params["scalars"] == {1: 2.0} and rows["mul"].params["input_addrs"] == [gemm["dst_addr"]]
    assert (rows["sum"].params["axis"], rows["sum"].params["shape_out"]) == (1, (16,))
    known = rows["memory_write"].params
    assert known["snapshot"].tolist() == list(range(1, 17)) and rows["memory_write"].component_id == "pe_cpu"
    stores = [one.params for one in run.log if one.op_name == "dma_write"]  # type: ignore[union-attr]
    assert [(one["src_space"], one["dst_space"], one["dst_addr"]) for one in stores] == [
        ("tcm", "hbm", 4096),
        ("tcm", "hbm", 8192),
    ]
    assert stores[1]["src_addr"] == known["dst_addr"]


def test_d4_snapshots_are_of_what_phase_1_has(run: Run) -> None:
    """Of a product's result there is nothing yet; of what a load brought there is a copy. A store from scratchpad has none."""
    snapshots = {one.op_name: one.params.get("input_snapshots") for one in run.log}  # type: ignore[union-attr]
    assert snapshots["mul"] == [None] and snapshots["sum"] == [None]

    def scaled(tl: Any) -> None:
        tl.store(4096, tl.load(0, (16, 16), "f16") * 2.0)

    log = Run(scaled, memory={0: A}).run().log
    assert log is not None
    (copy,) = log[1].params["input_snapshots"]
    np.testing.assert_array_equal(copy, A)
    assert not np.shares_memory(copy, A)
    assert log[2].params["snapshot"] is None


def test_adr0027_a_snapshot_never_holds_what_an_earlier_kernel_left() -> None:
    """Two kernels on one PE use the same scratchpad. The second one's results lie where the first one's data was.

    A snapshot of these bytes in Phase 1 would be the first kernel's: what the second adds to is its own product.
    """

    def first(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f16")
        y = tl.load(1024, (16, 16), "f16")
        tl.store(4096, x + y)

    def second(tl: Any) -> None:
        x = tl.load(2048, (16, 16), "f16")
        product = tl.dot(x, x)
        tl.store(8192, product + 1.0)

    def body(host: Any) -> None:
        host.launch("first", [PeWork("pe0", first)])
        host.wait()
        host.launch("second", [PeWork("pe0", second)])

    ones = np.ones((16, 16), np.float16)
    run = Run(body=body, memory={0: ones * 3, 1024: ones * 5, 2048: ones}).run()
    assert run.log is not None
    by_name = {(one.op_name, one.params["line"]): one for one in run.log}
    product = next(one for (name, _), one in by_name.items() if name == "gemm_f16")
    y = [one for one in run.log if one.op_name == "dma_read"][1]
    assert product.params["dst_addr"] == y.params["dst_addr"]  # the same bytes, which held 5s
    added = [one for one in run.log if one.op_name == "add"][1]
    assert added.params["input_snapshots"] == [None]
    assert [one for one in run.log if one.op_name == "dma_write"][1].params["snapshot"] is None
    for threads in (1, 4):
        store = DataExecutor(run.log, threads=threads).run().store
        assert np.all(store.read("hbm", 4096, (16, 16), "f16") == 8)
        assert np.all(store.read("hbm", 8192, (16, 16), "f16") == 17)


def test_d6_memories_are_by_space_and_address(run: Run) -> None:
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    want = (A.astype(np.float32) @ A.astype(np.float32) * 2).sum(1)
    np.testing.assert_allclose(store.read("hbm", 4096, (16,), "f16"), want.astype(np.float16), rtol=1e-3)
    assert store.read("hbm", 8192).tolist() == list(range(1, 17))
    assert run.store.read("hbm", 0) is not None and not run.store.has("hbm", 4096)


def test_d7_one_log_takes_the_records_of_one_run_at_a_time() -> None:
    """Every message is begun and ended once, in one process."""
    run = Run(everything, memory={0: A}, config=easy(dma={"engines": 2})).run()
    assert run.log is not None and not run.log._pending
    with pytest.raises(InternalError, match="it was not begun there"):
        run.log.record_end(1.0, "pe_dma", object())
