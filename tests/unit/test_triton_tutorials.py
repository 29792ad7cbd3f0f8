"""Kernels in the style of Triton's tutorials, with Triton's names alone, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.language.extra import libdevice

RNG = np.random.default_rng(6)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def test_vector_add_whose_last_block_is_cut() -> None:
    x, y, out = normal(1000), normal(1000), np.empty(1000, np.float32)
    run = add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256, num_warps=4)
    np.testing.assert_array_equal(out, x + y)
    assert run.verify({"out_ptr": x + y}) and run.cycles > 0
    assert run.notes == ["num_warps: hints for GPUs, which change nothing here"]


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        places = tl.arange(0, BLOCK)
        mask = places < columns
        x = tl.load(in_ptr + row * in_stride + places, mask=mask, other=-float("inf"))
        raised = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + places, raised / tl.sum(raised, axis=0), mask=mask)


def test_fused_softmax_of_rows_of_an_odd_length() -> None:
    x, out = normal(21, 77), np.empty((21, 77), np.float32)
    softmax_kernel[(8,)](out, x, 77, 77, 21, 77, BLOCK=triton.next_power_of_2(77), num_stages=2)
    raised = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, raised / raised.sum(1, keepdims=True), rtol=1e-5)


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    grid_m, grid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * grid_n)
    height = min(grid_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * grid_n)) % height
    pid_n = (pid % (GROUP * grid_n)) // height
    tl.assume(pid_m >= 0)
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    columns = (pid_n * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + ks[None, :] * stride_ak)
    b_ptrs = b_ptr + (ks[:, None] * stride_bk + columns[None, :] * stride_bn)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION == "leaky":
        total = leaky(total)
    rows, columns = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, total.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@pytest.mark.parametrize("transposed", [False, True])
def test_grouped_matmul_with_an_epilogue(transposed: bool) -> None:
    m, n, k = 100, 90, 70
    a, b, c = normal(m, k, dtype="float16"), normal(k, n, dtype="float16"), np.zeros((m, n), np.float16)
    given = np.ascontiguousarray(b.T).T if transposed else b
    strides = [one // 2 for array in (a, given, c) for one in array.strides]
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](
        a, given, c, m, n, k, *strides, BM=32, BN=32, BK=32, GROUP=2, ACTIVATION="leaky"
    )
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, np.where(product >= 0, product, 0.01 * product), rtol=2e-3, atol=2e-3)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(tl.rand(seed, offsets) > p, x / (1 - p), 0.0), mask=mask)


def test_dropout_without_a_stored_mask() -> None:
    x, first, again, other = normal(2000), *(np.empty(2000, np.float32) for _ in range(3))
    for out, seed in ((first, 123), (again, 123), (other, 512)):
        dropout_kernel[(4,)](x, out, 2000, 0.5, seed, BLOCK=512)
    np.testing.assert_array_equal(first, again)
    assert 0.45 < np.mean(first == 0) < 0.55 and np.any(first != other)
    np.testing.assert_allclose(first[first != 0], 2 * x[first != 0])


@triton.jit
def norm_kernel(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        places = start + tl.arange(0, BLOCK)
        total += tl.load(X + places, mask=places < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(X + places, mask=places < N, other=0.0).to(tl.float32)
        x = tl.where(places < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for start in range(0, N, BLOCK):
        places = start + tl.arange(0, BLOCK)
        mask = places < N
        w, b = tl.load(W + places, mask=mask), tl.load(B + places, mask=mask)
        x = tl.load(X + places, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + places, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def norm_backward(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    places = tl.arange(0, BLOCK)
    mask = places < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    group = row % GROUPS
    Lock += group
    Count = Lock + GROUPS
    DW = DW + group * N + places
    DB = DB + group * N + places
    x = tl.load(X + places, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + places, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + places, mask=mask).to(tl.float32)
    mean, rstd = tl.load(Mean + row), tl.load(Rstd + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1, c2 = tl.sum(xhat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(DX + places, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    part_w, part_b = (dy * xhat).to(w.dtype), dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    if tl.load(Count) == 0:
        tl.atomic_xchg(Count, 1)
    else:
        part_w += tl.load(DW, mask=mask)
        part_b += tl.load(DB, mask=mask)
    tl.store(DW, part_w, mask=mask)
    tl.store(DB, part_b, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


def test_layer_norm_forward_and_backward() -> None:
    rows, n, groups = 12, 50, 3
    x, w, b, dy = normal(rows, n), normal(n), normal(n), normal(rows, n)
    y, mean, rstd = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
    norm_kernel[(rows,)](x, y, w, b, mean, rstd, n, n, 1e-5, BLOCK=32)
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, centred * scale * w + b, rtol=1e-4, atol=1e-5)
    dx, dw, db = np.empty_like(x), np.zeros((groups, n), np.float32), np.zeros((groups, n), np.float32)
    lock = np.zeros(2 * groups, np.int32)
    norm_backward[(rows,)](dx, dy, dw, db, x, w, mean, rstd, lock, n, n, GROUPS=groups, BLOCK=64)
    xhat, wdy = centred * scale, w * dy
    expected = (wdy - xhat * (xhat * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True)) * scale
    np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dw.sum(0), (dy * xhat).sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(db.sum(0), dy.sum(0), rtol=1e-4, atol=1e-4)
    assert lock.tolist() == [0] * groups + [1] * groups


@triton.jit
def attention_inner(
    acc, l_i, m_i, q, K_block, V_block, start_m, scale, BM: tl.constexpr, BN: tl.constexpr, STAGE: tl.constexpr
):  # fmt: skip
    first, last = (0, start_m * BM) if STAGE == 1 else (start_m * BM, (start_m + 1) * BM)
    K_block = tl.advance(K_block, (0, first))
    V_block = tl.advance(V_block, (first, 0))
    for start_n in tl.range(first, last, BN):
        start_n = tl.multiple_of(start_n, BN)
        qk = tl.dot(q, tl.load(K_block)) * scale
        if STAGE == 2:
            allowed = (start_m * BM + tl.arange(0, BM))[:, None] >= (start_n + tl.arange(0, BN))[None, :]
            qk = qk + tl.where(allowed, 0, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.float16), tl.load(V_block), acc)
        m_i = m_ij
        K_block = tl.advance(K_block, (0, BN))
        V_block = tl.advance(V_block, (BN, 0))
    return acc, l_i, m_i


@triton.jit
def attention_kernel(Q, K, V, Out, scale, stride_h, stride_n, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start_m, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * stride_h
    Q_block = tl.make_block_ptr(Q + base, (N, D), (stride_n, 1), (start_m * BM, 0), (BM, D), order=(1, 0))
    K_block = tl.make_block_ptr(K + base, (D, N), (1, stride_n), (0, 0), (D, BN), order=(0, 1))
    V_block = tl.make_block_ptr(V + base, (N, D), (stride_n, 1), (0, 0), (BN, D), order=(1, 0))
    O_block = tl.make_block_ptr(Out + base, (N, D), (stride_n, 1), (start_m * BM, 0), (BM, D), order=(1, 0))
    m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    q = tl.load(Q_block)
    qk_scale = scale * 1.44269504
    acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, K_block, V_block, start_m, qk_scale, BM, BN, 1)
    acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, K_block, V_block, start_m, qk_scale, BM, BN, 2)
    tl.store(O_block, (acc / l_i[:, None]).to(Out.type.element_ty))


def test_fused_causal_attention() -> None:
    heads, n, d = 2, 64, 32
    q, k, v = (normal(heads, n, d, dtype="float16") for _ in range(3))
    out = np.empty_like(q)
    attention_kernel[(n // 32, heads)](q, k, v, out, 0.5, n * d, d, n, BM=32, BN=16, D=d)
    scores = 0.5 * q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    # 1 + is what a running sum that begins at 1 leaves of it: exp2(-inf) is 0.
    np.testing.assert_allclose(out, p / p.sum(-1, keepdims=True) @ v.astype(np.float32), rtol=1e-2, atol=5e-3)


@triton.jit
def grouped_kernel(
    group_a, group_b, group_c, sizes, strides, group_size,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    end_of_last = 0
    for g in range(group_size):
        m, n, k = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        while tile >= end_of_last and tile < end_of_last + tiles:
            lda, ldb, ldc = tl.load(strides + g * 3), tl.load(strides + g * 3 + 1), tl.load(strides + g * 3 + 2)
            a_ptr = tl.load(group_a + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(group_b + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(group_c + g).to(tl.pointer_type(tl.float16))
            inside = tile - end_of_last
            rows = (inside // columns) * BM + tl.arange(0, BM)
            cols = (inside % columns) * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            a_ptrs = a_ptr + rows[:, None] * lda + ks[None, :]
            b_ptrs = b_ptr + ks[:, None] * ldb + cols[None, :]
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(tl.cdiv(k, BK)):
                tl.multiple_of(a_ptrs, [16, 16])
                total += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
                a_ptrs += BK
                b_ptrs += BK * ldb
            tl.store(c_ptr + ldc * rows[:, None] + cols[None, :], total.to(tl.float16))
            tile += PROGRAMS
        end_of_last = end_of_last + tiles


def test_grouped_gemm_over_addresses_in_memory() -> None:
    shapes = [(32, 32, 32), (64, 32, 16), (16, 48, 32)]
    a = [normal(m, k, dtype="float16") for m, _, k in shapes]
    b = [normal(k, n, dtype="float16") for _, n, k in shapes]
    c = [np.zeros((m, n), np.float16) for m, n, _ in shapes]
    sizes = np.array(shapes, np.int32)
    strides = np.array([(k, n, n) for _, n, k in shapes], np.int32)
    grouped_kernel[(4,)](
        triton.pointers(a), triton.pointers(b), triton.pointers(c), sizes, strides, 3, PROGRAMS=4, BM=16, BN=16, BK=16
    )
    for x, y, z in zip(a, b, c, strict=True):
        np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), rtol=2e-3, atol=2e-3)


@triton.jit
def asin_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, libdevice.asin(x), mask=offsets < n)


def test_libdevice_computes_asin() -> None:
    x, y = RNG.random(98).astype(np.float32), np.empty(98, np.float32)
    asin_kernel[(1,)](x, y, 98, BLOCK=128)
    np.testing.assert_allclose(y, np.arcsin(x), rtol=1e-6)
