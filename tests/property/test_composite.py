"""Composite ops as tiles: every byte is read and written where it belongs, and no buffer is filled while it is in use."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.pe_commands import CompositeCmd, StageType
from kernbench.components.builtin.composite import Composite
from kernbench.components.builtin.tile_plan import GemmTiles, MathTiles, Matrix, Rows, TilePlan, Whole, choose_tile, tile_bytes

SIDE = 1 << 20  # [B] between the tensors, and between the rings, of these tests
DTYPES = ("f32", "f16", "i8")
BYTES = {"f32": 4, "f16": 2, "i8": 1}


@st.composite
def gemms(draw: st.DrawFn) -> GemmTiles:
    m, n, k = (draw(st.integers(1, 20)) for _ in range(3))
    tile = tuple(draw(st.integers(1, 9)) for _ in range(3))
    dtypes = [draw(st.sampled_from(DTYPES)) for _ in range(3)]
    a = Matrix(m, k, dtypes[0], draw(st.booleans()))
    b = Matrix(k, n, dtypes[1], draw(st.booleans()))
    c = Matrix(m, n, dtypes[2])
    sizes = tile_bytes((tile[0], tile[1], tile[2]), dtypes)
    operands = tuple(
        Whole(i * SIDE, one.rows * one.cols * BYTES[one.dtype], one.dtype, i * SIDE if draw(st.booleans()) else -1, size)
        for i, (one, size) in enumerate(zip((a, b), sizes, strict=False))
    )
    out = Whole(2 * SIDE, m * n * BYTES[c.dtype], c.dtype, 2 * SIDE, sizes[2])
    buffers = draw(st.integers(1, 3))
    return GemmTiles(
        operands=operands, out=out, buffers=buffers, channel="act_weight", a=a, b=b, c=c, tile=(tile[0], tile[1], tile[2])
    )


@st.composite
def maths(draw: st.DrawFn) -> MathTiles:
    rows, length, count = draw(st.integers(1, 12)), draw(st.integers(1, 30)), draw(st.integers(0, 2))
    tile = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    dtypes = [draw(st.sampled_from(DTYPES)) for _ in range(count + 1)]
    wholes = [
        Whole(i * SIDE, rows * length * BYTES[dtype], dtype, i * SIDE if i == count or draw(st.booleans()) else -1,
              tile[0] * tile[1] * BYTES[dtype])
        for i, dtype in enumerate(dtypes)
    ]  # fmt: skip
    return MathTiles(
        operands=tuple(wholes[:-1]), out=wholes[-1], buffers=draw(st.integers(1, 3)), channel="act_weight", op="add",
        rows=rows, length=length, tile=tile,
    )  # fmt: skip


def touched(rows: Rows) -> list[int]:
    """Offsets of its bytes, in the order in which they travel."""
    return [rows.offset + i * rows.stride + j for i in range(rows.rows) for j in range(rows.row_bytes)]


def wanted(matrix: Matrix, row: int, rows: int, col: int, cols: int) -> list[int]:
    """Offsets of the bytes of a block, by numpy's own means."""
    shape = (matrix.cols, matrix.rows) if matrix.transposed else (matrix.rows, matrix.cols)
    size = BYTES[matrix.dtype]
    every = np.arange(shape[0] * shape[1] * size).reshape(*shape, size)
    block = every[col : col + cols, row : row + rows] if matrix.transposed else every[row : row + rows, col : col + cols]
    return [int(one) for one in block.reshape(-1)]


@settings(max_examples=200, deadline=None)
@given(gemms())
def test_the_tiles_of_a_gemm_are_its_blocks(plan: GemmTiles) -> None:
    done = np.zeros((plan.a.rows, plan.b.cols, plan.a.cols), int)
    for step in plan.steps():
        i, j, at = (index * part for index, part in zip(step.place, plan.tile, strict=True))
        m, n, k = step.size
        done[i : i + m, j : j + n, at : at + k] += 1
        assert touched(step.operands[0]) == wanted(plan.a, i, m, at, k)
        assert touched(step.operands[1]) == wanted(plan.b, at, k, j, n)
        assert (step.out is not None) == (at + k == plan.a.cols)
        if step.out is not None:
            assert touched(step.out) == wanted(plan.c, i, m, j, n)
    assert (done == 1).all()


@settings(max_examples=150, deadline=None)
@given(maths())
def test_the_tiles_of_a_math_op_are_all_of_it(plan: MathTiles) -> None:
    written = [offset for step in plan.steps() for offset in touched(step.out or Rows(0, 0, 0, 0))]
    assert sorted(written) == list(range(plan.out.nbytes))
    assert all(step.out is not None and step.operands[0].nbytes * BYTES[plan.out.dtype]
               == step.out.nbytes * BYTES[plan.operands[0].dtype] for step in plan.steps() if step.operands)  # fmt: skip


class Parts:
    """Serves stages in random times, one after the other in each part and engine, and watches every buffer."""

    def __init__(self, plan: TilePlan, engines: int, times: list[int]) -> None:
        self.plan = plan
        self.times = times
        self.op = Composite(CompositeCmd("gemm", 0, 0, None), plan, engines)  # type: ignore[arg-type]
        self.queue: list[tuple[int, int, Any]] = []
        self.free: dict[Any, int] = {}
        self.served = 0
        self.now = 0
        self.ready: dict[int, Any] = {}  # by address in the scratchpad: the tile that is there, once it has come
        self.filling: set[int] = set()
        self.using: dict[int, int] = {}  # by address: jobs that read or write it now
        self.computed: list[tuple[int, ...]] = []

    def serve(self, serves: Any) -> None:
        for token, stage, engine in serves:
            kind = stage.stage_type
            part = (kind, engine) if kind in (StageType.GEMM, StageType.MATH) else kind
            took = 0 if kind in (StageType.FETCH, StageType.STORE) else self.times[self.served % len(self.times)]
            self.begin(token, stage)
            start = max(self.now, self.free.get(part, 0))
            self.free[part] = start + took
            self.served += 1
            heapq.heappush(self.queue, (start + took, self.served, token))

    def begin(self, token: Any, stage: Any) -> None:
        if stage.stage_type is StageType.DMA_READ:
            for one in stage.params["transfers"]:
                assert self.using.get(one.spm_addr, 0) == 0 and one.spm_addr not in self.filling
                self.filling.add(one.spm_addr)
                self.ready.pop(one.spm_addr, None)
        if stage.stage_type is self.plan.computes:
            self.computed.append(token.tile)
            for whole, piece, rows in zip(self.plan.operands, stage.params["operands"], token.step.operands, strict=True):  # type: ignore[attr-defined]
                if whole.ring >= 0:
                    assert self.ready[piece.addr] == (whole.addr, rows) and piece.nbytes == rows.nbytes
                    self.using[piece.addr] = self.using.get(piece.addr, 0) + 1
            if stage.params["out"] is not None:
                assert self.using.get(stage.params["out"].addr, 0) == 0
                self.using[stage.params["out"].addr] = 1

    def end(self, token: Any) -> None:
        stage = token.stage
        if stage.stage_type is StageType.DMA_READ:
            for one in stage.params["transfers"]:
                self.filling.discard(one.spm_addr)
                whole = next(w for w in self.plan.operands if 0 <= one.spm_addr - w.ring < SIDE and w.ring >= 0)  # type: ignore[attr-defined]
                self.ready[one.spm_addr] = (whole.addr, one.rows)
        if stage.stage_type is self.plan.computes:
            for whole, piece in zip(self.plan.operands, stage.params["operands"], strict=True):  # type: ignore[attr-defined]
                if whole.ring >= 0:
                    self.using[piece.addr] -= 1
        if stage.stage_type is StageType.DMA_WRITE:
            self.using[stage.params["transfers"][0].spm_addr] -= 1

    def run(self) -> int:
        self.serve(self.op.go_on())
        while self.queue:
            self.now, _, token = heapq.heappop(self.queue)
            self.end(token)
            self.serve(self.op.ended(token))
        return self.now


@settings(max_examples=300, deadline=None)
@given(st.one_of(gemms(), maths()), st.integers(1, 3), st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_tokens_walk_in_order_and_buffers_are_not_overwritten(plan: Any, engines: int, times: list[int]) -> None:
    parts = Parts(plan, engines, times)
    parts.run()
    assert parts.op.over and parts.computed == [step.place for step in plan.steps()]


def test_a_composite_takes_as_long_as_its_longest_stage() -> None:
    """4 x 4 output tiles of 4 steps each: 64 tokens.

    With reads of 9 and products of 7 cycles the reads never stop: 64 * 9, then the last product and the last write of 5.
    With reads of 5 and products of 7 the products never stop after the first read: 5 + 64 * 7, then the last write.
    """
    square = Matrix(512, 512, "f16")
    whole = [Whole(i * SIDE, 512 * 512 * 2, "f16", i * SIDE, 128 * 128 * 2) for i in range(3)]
    plan = GemmTiles(operands=(whole[0], whole[1]), out=whole[2], buffers=2, channel="act_weight", a=square, b=square, c=square,
                     tile=(128, 128, 128))  # fmt: skip

    def cycles(read: int, product: int) -> int:
        parts = Parts(plan, 1, [])
        cost = {"DMA_READ": read, "GEMM": product, "DMA_WRITE": 5, "FETCH": 0, "STORE": 0}

        def serve(serves: Any) -> None:
            for token, stage, _ in serves:
                kind = stage.stage_type
                start = max(parts.now, parts.free.get(kind, 0))
                parts.free[kind] = start + cost[kind.name]
                parts.served += 1
                heapq.heappush(parts.queue, (parts.free[kind], parts.served, token))

        parts.serve = serve  # type: ignore[method-assign]
        parts.end = lambda token: None  # type: ignore[method-assign]
        return parts.run()

    assert cycles(9, 7) == 64 * 9 + 7 + 5
    assert cycles(5, 7) == 5 + 64 * 7 + 5


def test_the_largest_tile_that_fits_is_taken() -> None:
    f16 = ("f16", "f16", "f16")
    # 512 x 512 x 128: 2 * (128 KiB + 128 KiB + 512 KiB) = 1.5 MiB; at half the edge 2 * (64 + 64 + 128) KiB = 512 KiB.
    assert choose_tile((4096, 4096, 4096), f16, (True, True), 3 << 19) == (512, 512, 128)
    assert choose_tile((4096, 4096, 4096), f16, (True, True), (3 << 19) - 1) == (256, 256, 128)
    # Pinned operands need no buffers: 2 * 512 KiB.
    assert choose_tile((4096, 4096, 4096), f16, (False, False), 1 << 20) == (512, 512, 128)
    assert choose_tile((3, 5, 7), f16, (True, True), 1 << 20) == (3, 5, 7)
    with pytest.raises(ValueError, match=r"^tiles of 8x8x8 in 2 buffers each take 768 bytes$"):
        choose_tile((64, 64, 64), f16, (True, True), 767)
