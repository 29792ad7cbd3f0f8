"""`tl.composite`: tiles that walk through the PE, their times and their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from kernbench.config import NpuConfig
from kernbench.sim_engine.data_executor import DataExecutor
from tests.kernels import Run, easy

A, B, C, D = (i << 22 for i in range(4))
RNG = np.random.default_rng(0)
WIDE = {"engines": 1, "max_concurrent_transfers": 4}


def machine(dma: Mapping[str, Any] = WIDE, **te: Any) -> NpuConfig:
    """64 B a cycle from memory, 4096 MACs a cycle unless `te` says otherwise, and nobody is ever denied a bank."""
    return easy(dma=dma, te={"macs_per_cycle": 4096, **te}, spm={"bank_size_bytes": 1 << 16})


class Ran(Run):
    """One kernel on one NPU, to its end."""

    def __init__(
        self, kernel: Callable[..., None], *args: Any, data: Mapping[int, Any], skip: bool = True, **keys: Any
    ) -> None:
        super().__init__(kernel, *args, memory=data, config=keys.pop("config", None) or machine(), **keys)
        self.machine.run(skip=skip)
        self.result = self.machine.result()

    def read(self, addr: int, shape: tuple[int, ...], dtype: str = "f16") -> Any:
        assert self.log is not None
        return DataExecutor(self.log).run().store.read("hbm", addr, shape, dtype)

    def names(self) -> list[str]:
        assert self.log is not None
        return [record.op_name for record in self.log]

    @property
    def cycles(self) -> int:
        assert self.launch.start is not None and self.launch.end is not None
        return self.launch.end - self.launch.start

    def failure(self) -> str:
        assert self.result.status == "failed" and self.result.failure is not None
        return str(self.result.failure["message"]).partition("failed: ")[2]


def matrices(m: int, n: int, k: int, dtype: Any = np.float16) -> tuple[Any, Any]:
    return RNG.standard_normal((m, k)).astype(dtype), RNG.standard_normal((k, n)).astype(dtype)


def gemm(a: int, b: int, c: int, m: int, n: int, k: int, how: dict[str, Any], tl: Any) -> None:
    tl.wait(tl.composite("gemm", tl.ref(a, (m, k), "f16"), tl.ref(b, (k, n), "f16"), c, **how))


def test_adr0020_d5_tokens_are_logged_by_stage_and_the_op_once() -> None:
    """2 x 1 output tiles of 2 steps: four tokens, each read, fetched and multiplied; two are stored and written."""
    a, b = matrices(64, 32, 64)
    ran = Ran(gemm, A, B, C, 64, 32, 64, {"tile": (32, 32, 32)}, data={A: a, B: b})
    names = ran.names()
    counts = {name: names.count(name) for name in sorted(set(names))}
    assert counts == {
        "TileToken/DMA_READ": 4, "TileToken/DMA_WRITE": 2, "TileToken/FETCH": 4, "TileToken/GEMM": 4, "TileToken/STORE": 2,
        "composite_gemm": 1,
    }  # fmt: skip
    assert ran.log is not None
    where = {record.op_name: record.component_id for record in ran.log}
    assert where == {
        "TileToken/DMA_READ": "pe_dma", "TileToken/DMA_WRITE": "pe_dma", "TileToken/FETCH": "pe_fetch_store",
        "TileToken/STORE": "pe_fetch_store", "TileToken/GEMM": "pe_gemm", "composite_gemm": "pe_scheduler",
    }  # fmt: skip
    whole = next(record for record in ran.log if record.op_name == "composite_gemm")
    tokens = [record for record in ran.log if record.op_name != "composite_gemm"]
    assert whole.t_start == min(one.t_start for one in tokens) and whole.t_end == max(one.t_end for one in tokens)
    assert {one.op_kind for one in tokens} == {"unknown"} and whole.params["tile_k"] == 32


def test_a_composite_takes_its_longest_stage() -> None:
    """One output tile of 128 x 128 and 64 steps of K, f16; f_a and f_w of 16 bits are 1. Two transfers at a time.

    A step reads 2 * 32 KiB at 64 B a cycle, 1024 cycles, and multiplies in 128^3 / 4096 = 512. The reads never stop, and after
    the last one come its product and the write of 32 KiB: 64 * 1024 + 512 + 512. With 512 MACs a cycle a product takes 4096,
    and the products never stop after the first read: 1024 + 64 * 4096 + 512.
    """
    a, b = matrices(128, 128, 8192)
    how, pair = {"tile": (128, 128, 128)}, {"max_concurrent_transfers": 2}
    ran = Ran(gemm, A, B, C, 128, 128, 8192, how, data={A: a, B: b}, config=machine(pair))
    assert ran.cycles == 64 * 1024 + 512 + 512
    slow = Ran(gemm, A, B, C, 128, 128, 8192, how, data={A: a, B: b}, config=machine(pair, macs_per_cycle=512))
    assert slow.cycles == 1024 + 64 * 4096 + 512


def test_it_approaches_the_longest_stage_and_not_the_sum() -> None:
    """512 cubed by tiles of 128 cubed: 64 reads of 1024 cycles and 16 writes of 512 in the channel, 64 products of 512."""
    a, b = matrices(512, 512, 512)
    cycles = Ran(gemm, A, B, C, 512, 512, 512, {"tile": (128, 128, 128)}, data={A: a, B: b}).cycles
    channel, engine = 64 * 1024 + 16 * 512, 64 * 512
    assert channel < cycles < channel * 1.04 < (channel + engine) * 0.75


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_tile_waits_for_a_buffer_and_its_result_for_another(buffers: int) -> None:
    """Tiles of f16 become f32, so writes take the longest. One engine computes one tile after the other."""
    a = RNG.standard_normal(8 * 1024).astype(np.float16)

    def kernel(tl: Any) -> None:
        of = tl.ref(A, (1, a.size), "f16")
        tl.wait(tl.composite("math", of, out_ptr=C, math_op="exp", tile=(1, 1024), buffers=buffers, out_dtype="f32"))

    ran = Ran(kernel, data={A: a}, config=easy(dma=WIDE, ve={"engines": 1}))
    assert ran.log is not None
    stages = ("DMA_READ", "MATH", "DMA_WRITE")
    reads, ops, writes = ([one for one in ran.log if one.op_name == f"TileToken/{name}"] for name in stages)
    assert len(reads) == len(ops) == len(writes) == 8
    assert [one.t_start for one in reads] == [reads[0].t_start] * buffers + [one.t_end for one in ops[:-buffers]]
    for k in range(buffers, 8):
        assert ops[k].t_start == max(reads[k].t_end, ops[k - 1].t_end, writes[k - buffers].t_end)
    assert any(ops[k].t_start == writes[k - buffers].t_end > reads[k].t_end for k in range(buffers, 8))


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("logged", [True, False])
def test_times_do_not_depend_on_log_or_skipping(skip: bool, logged: bool) -> None:
    a, b = matrices(96, 80, 72)
    how = {"tile": (32, 32, 32), "epilogue": ["relu"]}
    busy = machine(spm_traffic=True)
    ran = Ran(gemm, A, B, C, 96, 80, 72, how, data={A: a, B: b}, skip=skip, logged=logged, config=busy)
    assert ran.result.status == "done"
    first = Ran(gemm, A, B, C, 96, 80, 72, how, data={A: a, B: b}, config=busy)
    assert ran.result.cycles == first.result.cycles and ran.result.counters == first.result.counters


def expected(a: Any, b: Any, step: int) -> Any:
    """f32 sums of the columns in steps, as the engine adds them up."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], step):
        total += a[:, k : k + step].astype(np.float32) @ b[k : k + step].astype(np.float32)
    return total


@pytest.mark.parametrize("tile", [None, (16, 16, 16), (100, 100, 100), (7, 9, 5)])
def test_the_product_is_added_up_in_the_order_of_the_tiles(tile: Any) -> None:
    a, b = matrices(40, 24, 56)
    ran = Ran(gemm, A, B, C, 40, 24, 56, {"tile": tile}, data={A: a, B: b})
    step = 56 if tile is None else min(tile[2], 56)
    np.testing.assert_array_equal(ran.read(C, (40, 24)), expected(a, b, step).astype(np.float16))


def test_operands_are_pinned_or_streamed_or_transposed() -> None:
    a, b = matrices(32, 48, 64)
    bias = RNG.standard_normal(48).astype(np.float16)

    def kernel(tl: Any) -> None:
        pinned = tl.load(A, (64, 32), "f16")
        row = tl.load(D, (48,), "f16")
        steps = [("add", row), "relu", ("mul", 2.0)]
        streamed = tl.ref(B, (64, 48), "f16")
        tl.composite("gemm", pinned, streamed, C, transpose_a=True, epilogue=steps, out_dtype="f32", tile=(32, 16, 64))

    ran = Ran(kernel, data={A: np.ascontiguousarray(a.T), B: b, D: bias})
    wanted = np.maximum(expected(a, b, 64) + bias.astype(np.float32), 0) * np.float32(2)
    np.testing.assert_array_equal(ran.read(C, (32, 48), "f32"), wanted)
    # Only b is streamed: three tiles of 64 x 16. The pinned a and the bias were loaded.
    assert ran.names().count("TileToken/DMA_READ") == 3 and ran.names().count("dma_read") == 2
    assert ran.names().count("TileToken/MATH") == 9


def test_math_goes_over_elements_or_rows() -> None:
    x = RNG.standard_normal((12, 40)).astype(np.float32)
    y = RNG.standard_normal((12, 40)).astype(np.float32)

    def kernel(tl: Any) -> None:
        total = tl.composite("math", tl.ref(A, (12, 40), "f32"), tl.ref(B, (12, 40), "f32"), C, math_op="add", tile=(1, 128))
        tl.composite("math", total, out_ptr=D, math_op="softmax", tile=(5, 40))

    ran = Ran(kernel, data={A: x, B: y})
    np.testing.assert_array_equal(ran.read(C, (12, 40), "f32"), x + y)
    shifted = np.exp((x + y) - (x + y).max(axis=1, keepdims=True))
    np.testing.assert_allclose(ran.read(D, (12, 40), "f32"), shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-6)
    # 480 elements by 128, then 12 rows by 5.
    assert ran.names().count("TileToken/MATH") == 4 + 3


def test_a_later_store_does_not_reach_a_composite_op_that_runs() -> None:
    """The store of zeros over `a` is visible at once, but the op was issued before it, and reads what was there then."""
    a, b = matrices(64, 64, 64)

    def kernel(tl: Any) -> None:
        zeros = tl.load(D, (64, 64), "f16")
        tl.composite("gemm", tl.ref(A, (64, 64), "f16"), tl.ref(B, (64, 64), "f16"), C, tile=(16, 16, 16))
        tl.store(A, zeros)
        assert not tl.load(A, (64, 64), "f16").data.any()
        tl.composite("gemm", tl.ref(A, (64, 64), "f16"), tl.ref(B, (64, 64), "f16"), D)

    ran = Ran(kernel, data={A: a, B: b, D: np.zeros((64, 64), np.float16)})
    assert ran.result.status == "done", ran.failure()
    np.testing.assert_array_equal(ran.read(C, (64, 64)), expected(a, b, 16).astype(np.float16))
    assert not ran.read(D, (64, 64)).any()


def test_its_result_is_pending_and_in_memory() -> None:
    a, b = matrices(16, 16, 16)

    def kernel(tl: Any) -> None:
        result = tl.composite("gemm", tl.ref(A, (16, 16), "f16"), tl.ref(B, (16, 16), "f16"), C)
        assert tl.load(C, (16, 16), "f16").pending
        tl.wait(result)
        _ = result.data

    ran = Ran(kernel, data={A: a, B: b})
    assert "is in memory, so its data cannot be had; tl.load it" in ran.failure()


def one(a: str = "f16") -> dict[str, Any]:
    return {"data": dict(zip((A, B), matrices(16, 16, 16), strict=True))}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tile": (1, 2)}, "the tile of a GEMM must be (m, n, k), each at least 1, not (1, 2)"),
    ({"buffers": 0}, "composite with buffers=0: it must be 1 or more"),
    ({"channel": "fast"}, "a DMA engine has the channels act_weight, kv_load, kv_store, and not fast"),
    ({"epilogue": ["add"]}, "'add' is not a step of an epilogue: give the name of an elementwise op, or a pair of it and its"),
    ({"epilogue": [5]}, "5 is not a step of an epilogue: give the name of an elementwise op, or a pair of it and its"),
    ({"epilogue": ["transpose"]}, "'transpose' is not a step of an epilogue: give the name of an elementwise op"),
    ({"epilogue": ["not"]}, "not of the epilogue: not takes integers and truth values, and not f16"),
    ({"tile": (512, 512, 512), "buffers": 100}, "takes 157286400 bytes, but of the scratchpad"),
]


@pytest.mark.parametrize(("how", "text"), REFUSED, ids=[str(sorted(how)) for how, _ in REFUSED])
def test_what_is_refused(how: dict[str, Any], text: str) -> None:
    zeros = np.zeros((512, 512), np.float16)
    ran = Ran(gemm, A, B, C, 512, 512, 512, how, data={A: zeros, B: zeros})
    assert text in ran.failure() and "test_kernel_composite.py:" in ran.failure()


def test_shapes_that_do_not_fit_are_refused() -> None:
    def kernel(tl: Any) -> None:
        tl.composite("gemm", tl.ref(A, (16, 8), "f16"), tl.ref(B, (16, 16), "f16"), C)

    assert "composite of shapes (16, 8) and (16, 16): a has 8 columns and b has 16 rows" in Ran(kernel, **one()).failure()

    def unknown(tl: Any) -> None:
        tl.composite("conv", tl.ref(A, (16, 8), "f16"), None, C)

    assert 'composite(op="conv"): it must be "gemm" or "math"' in Ran(unknown, **one()).failure()


@pytest.mark.parametrize(
    ("op", "both", "text"),
    [
        ("add", False, "composite: add takes 2 operands, and not 1"),
        ("exp", True, "composite: exp takes 1 operands, and not 2"),
        ("where", True, "composite: where takes 3 operands, and not 2"),
        ("transpose", False, 'composite(math_op="transpose"): it must be one of abs, '),
    ],
)
def test_math_of_other_operands_is_refused_before_phase_2(op: str, both: bool, text: str) -> None:
    def kernel(tl: Any) -> None:
        x = tl.ref(A, (16, 16), "f16")
        tl.composite("math", x, x if both else None, C, math_op=op)

    failure = Ran(kernel, **one()).failure()
    assert text in failure and "test_kernel_composite.py:" in failure


def test_an_epilogues_operand_must_fit_the_product() -> None:
    def kernel(tl: Any) -> None:
        row = tl.load(A, (8,), "f16")
        tl.composite("gemm", tl.ref(A, (16, 16), "f16"), tl.ref(B, (16, 16), "f16"), C, epilogue=[("add", row)])

    assert "add of the epilogue: its operand has the shape [8], and the product [16, 16]" in Ran(kernel, **one()).failure()


def test_an_operand_on_its_way_is_an_implicit_wait_and_an_error_where_waits_are_strict() -> None:
    def kernel(tl: Any) -> None:
        a = tl.load(A, (16, 16), "f16", wait=False)
        tl.composite("gemm", a, tl.ref(B, (16, 16), "f16"), C)

    ran = Ran(kernel, **one())
    assert ran.result.status == "done" and ran.system.states()[0].implicit_waits == 1
    assert "call tl.wait on it first" in Ran(kernel, strict_wait=True, **one()).failure()
