"""Products of a replay use one BLAS thread: their bits do not depend on the number of processors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernbench.common import blas
from kernbench.common.handles import TensorHandle
from kernbench.common.pe_commands import GemmCmd
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger

ROWS, DEPTH, COLUMNS = 512, 128, 64  # a product whose bits depend on the number of OpenBLAS's threads


def threads() -> list[int]:
    return [one["num_threads"] for one in blas.controller().info() if one["user_api"] == "blas"]


@pytest.fixture
def three_threads() -> Iterator[None]:
    """The libraries use three threads each, on any computer."""
    with blas.controller().limit(limits=3, user_api="blas"):
        if not threads() or set(threads()) == {1}:
            pytest.skip("numpy's BLAS library has one thread, or none is known")
        yield


def replayed() -> bytes:
    rng = np.random.default_rng(0)
    store = MemoryStore()
    one = TensorHandle("a", 0, (ROWS, DEPTH), "f32", "hbm")
    two = TensorHandle("b", 1 << 20, (DEPTH, COLUMNS), "f32", "hbm")
    out = TensorHandle("c", 2 << 20, (ROWS, COLUMNS), "f32", "hbm")
    for handle in (one, two):
        store.write("hbm", handle.addr, rng.standard_normal(handle.shape).astype(np.float32))
    log = OpLogger(store)
    gemm = GemmCmd(one, two, out, ROWS, DEPTH, COLUMNS, line="k.py:1")
    log.record_start(0.0, "pe_gemm", gemm)
    log.record_end(1.0, "pe_gemm", gemm)
    found: bytes = DataExecutor(log, threads=1).run().store.read("hbm", out.addr, out.shape, "f32").tobytes()
    return found


def test_limits_end_with_the_last_of_them(three_threads: None) -> None:
    before = threads()
    with blas.one_blas_thread():
        with blas.one_blas_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before


def test_bits_of_a_replay_do_not_depend_on_the_number_of_blas_threads() -> None:
    bits = []
    for count in (1, 2, 3):
        with blas.controller().limit(limits=count, user_api="blas"):
            bits.append(replayed())
    assert bits[0] == bits[1] == bits[2]
