"""Kernels of models as people publish them (attention, norms, quantised products, experts), against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.triton.tools.tensor_descriptor import TensorDescriptor

RNG = np.random.default_rng(9)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


@triton.jit
def _fwd_kernel(
    Q, K, V, sm_scale, L, Out, stride_qz, stride_qh, stride_qm, stride_qk, stride_kz, stride_kh, stride_kn, stride_kk,
    stride_vz, stride_vh, stride_vn, stride_vk, stride_oz, stride_oh, stride_om, stride_ok, H, GROUPS, N_CTX,
    BLOCK_M: tl.constexpr, BLOCK_DMODEL: tl.constexpr, BLOCK_N: tl.constexpr, IS_CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    off_kv = off_h // GROUPS
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_DMODEL)
    Q += off_z.to(tl.int64) * stride_qz + off_h.to(tl.int64) * stride_qh
    K += off_z.to(tl.int64) * stride_kz + off_kv.to(tl.int64) * stride_kh
    V += off_z.to(tl.int64) * stride_vz + off_kv.to(tl.int64) * stride_vh
    q_ptrs = Q + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qk
    k_ptrs = K + offs_n[None, :] * stride_kn + offs_d[:, None] * stride_kk
    v_ptrs = V + offs_n[:, None] * stride_vn + offs_d[None, :] * stride_vk
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(q_ptrs, mask=offs_m[:, None] < N_CTX, other=0.0)
    q = (q * qk_scale).to(K.dtype.element_ty)
    hi = min((start_m + 1) * BLOCK_M, N_CTX) if IS_CAUSAL else N_CTX
    for start_n in range(0, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        cols = start_n + offs_n
        k = tl.load(k_ptrs + start_n * stride_kn, mask=cols[None, :] < N_CTX, other=0.0)
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, k)
        if IS_CAUSAL:
            qk = tl.where(offs_m[:, None] >= cols[None, :], qk, float("-inf"))
        qk = tl.where(cols[None, :] < N_CTX, qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.math.exp2(m_i - m_new)
        p = tl.math.exp2(qk - m_new[:, None])
        acc *= alpha[:, None]
        v = tl.load(v_ptrs + start_n * stride_vn, mask=cols[:, None] < N_CTX, other=0.0)
        acc += tl.dot(p.to(V.dtype.element_ty), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    acc = acc / l_i[:, None]
    l_ptrs = L + off_hz * N_CTX + offs_m
    tl.store(l_ptrs, m_i + tl.math.log2(l_i), mask=offs_m < N_CTX)
    out_ptrs = Out + off_z * stride_oz + off_h * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :] * stride_ok
    tl.store(out_ptrs, acc.to(Out.dtype.element_ty), mask=offs_m[:, None] < N_CTX)


def strides(x: np.ndarray) -> list[int]:
    return [one // x.itemsize for one in x.strides]


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_with_grouped_heads(causal: bool) -> None:
    z, heads, groups, n, d = 1, 4, 2, 50, 16
    q, k, v = normal(z, heads, n, d, dtype="f2"), normal(z, 2, n, d, dtype="f2"), normal(z, 2, n, d, dtype="f2")
    out, lse = np.empty_like(q), np.empty((z * heads, n), np.float32)
    _fwd_kernel[(triton.cdiv(n, 32), z * heads, 1)](
        q, k, v, 0.25, lse, out, *strides(q), *strides(k), *strides(v), *strides(out), heads, groups, n,
        BLOCK_M=32, BLOCK_DMODEL=d, BLOCK_N=16, IS_CAUSAL=causal, num_warps=4, num_stages=3,
    )  # fmt: skip
    wide = [np.repeat(one, groups, 1).astype("f4") if one is not q else q.astype("f4") for one in (q, k, v)]
    scores = 0.25 * wide[0] @ wide[1].swapaxes(2, 3)
    if causal:
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    np.testing.assert_allclose(out, softmax(scores) @ wide[2], atol=1e-2)


@triton.heuristics({"HAS_SMOOTHING": lambda args: args["label_smoothing"] > 0.0})
@triton.jit
def cross_entropy_fwd_kernel(
    loss_ptr, lse_ptr, logits_ptr, labels_ptr, label_smoothing, ignore_index, n_cols, logits_row_stride,
    BLOCK_SIZE: tl.constexpr, HAS_SMOOTHING: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    logits_ptr = logits_ptr + row_idx * logits_row_stride.to(tl.int64)
    sum_logits = 0.0
    label_idx = tl.load(labels_ptr + row_idx)
    m_i = -float("inf")
    l_i = 0.0
    for col_offset in range(0, n_cols, BLOCK_SIZE):
        cols = col_offset + tl.arange(0, BLOCK_SIZE)
        logits = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        if HAS_SMOOTHING:
            sum_logits += tl.sum(tl.where(cols < n_cols, logits, 0.0))
        m_i_new = tl.maximum(m_i, tl.max(logits))
        l_i = tl.exp(m_i - m_i_new) * l_i + tl.sum(tl.exp(logits - m_i_new))
        m_i = m_i_new
    lse = tl.log(l_i) + m_i
    tl.store(lse_ptr + row_idx, lse)
    if label_idx == ignore_index:
        loss = 0.0
    else:
        logits_label = tl.load(logits_ptr + label_idx).to(tl.float32)
        if HAS_SMOOTHING:
            loss = lse - label_smoothing * sum_logits / n_cols - (1 - label_smoothing) * logits_label
        else:
            loss = lse - logits_label
    tl.store(loss_ptr + row_idx, loss)


def test_cross_entropy_with_smoothing_and_heuristics() -> None:
    x, labels = normal(5, 70), np.array([3, -100, 69, 0, 7], np.int64)
    loss, lse = np.empty(5, np.float32), np.empty(5, np.float32)
    cross_entropy_fwd_kernel[(5,)](loss, lse, x, labels, 0.1, -100, 70, x.strides[0] // 4, BLOCK_SIZE=32)
    expected = np.log(np.exp(x).sum(1))
    np.testing.assert_allclose(lse, expected, rtol=1e-5)
    picked = expected - 0.1 * x.mean(1) - 0.9 * x[np.arange(5), labels.clip(0)]
    np.testing.assert_allclose(loss, np.where(labels == -100, 0, picked), rtol=1e-4, atol=1e-5)


@triton.jit
def fused_add_rms_norm(X, R, W, Y, stride, N, eps, BLOCK: tl.constexpr, OFFSET: tl.constexpr = 0.0):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(R + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(R + row * stride + cols, x.to(R.dtype.element_ty), mask=mask)
    rstd = tl.math.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    w = tl.load(W + cols, mask=mask)
    tl.store(Y + row * stride + cols, (x * rstd).to(Y.dtype.element_ty) * (w + OFFSET), mask=mask)


def test_rms_norm_with_a_residual() -> None:
    x, r, w, y = normal(4, 60, dtype="f2"), normal(4, 60, dtype="f2"), normal(60, dtype="f2"), np.empty((4, 60), "f2")
    total = x.astype("f4") + r
    fused_add_rms_norm[(4,)](x, r, w, y, 60, 60, 1e-6, BLOCK=64)
    expected = total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(y, expected, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(r, total, rtol=1e-3)


@triton.jit
def int4_matmul(
    a_ptr, qw_ptr, scales_ptr, zeros_ptr, c_ptr, M, N, K, GROUP_SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Eight weights to an i32, along K; scales and packed zeros for each group of rows."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = qw_ptr + (offs_k[:, None] // 8) * N + offs_n[None, :]
    shifter = (offs_k % 8) * 4
    zero_shifter = (offs_n % 8) * 4
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        g = (k * BLOCK_K) // GROUP_SIZE
        a = tl.load(a_ptrs, mask=offs_m[:, None] < M, other=0.0)
        b = tl.load(b_ptrs)
        scales = tl.load(scales_ptr + g * N + offs_n)
        zeros = tl.load(zeros_ptr + g * (N // 8) + offs_n // 8)
        zeros = (zeros >> zero_shifter) & 0xF
        b = (b >> shifter[:, None]) & 0xF
        b = ((b - zeros[None, :]) * scales[None, :]).to(a.dtype)
        accumulator += tl.dot(a, b)
        a_ptrs += BLOCK_K
        b_ptrs += (BLOCK_K // 8) * N
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, accumulator.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def packed(x: np.ndarray) -> np.ndarray:
    """Eight numbers below 16 of axis 0 to an i32."""
    parts = x.reshape(-1, 8, x.shape[1]).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))[None, :, None]
    return np.bitwise_or.reduce(parts, 1).view(np.int32)


def test_weights_of_four_bits() -> None:
    m, n, k, group = 20, 32, 64, 32
    weights, zeros = RNG.integers(0, 16, (k, n)), RNG.integers(0, 16, (k // group, n))
    a, scales, c = normal(m, k, dtype="f2"), np.abs(normal(k // group, n, dtype="f2")), np.zeros((m, n), "f2")
    held = np.ascontiguousarray(packed(zeros.T).T)
    int4_matmul[(2, 2)](a, packed(weights), scales, held, c, m, n, k, group, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
    spread = [np.repeat(one, group, 0) for one in (zeros, scales.astype("f4"))]
    np.testing.assert_allclose(c, a.astype("f4") @ ((weights - spread[0]) * spread[1]), rtol=2e-2, atol=0.5)


@triton.jit
def paged_attention(
    out_ptr, q_ptr, k_cache_ptr, v_cache_ptr, tables_ptr, lens_ptr, scale, pages,
    PAGE: tl.constexpr, D: tl.constexpr, KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    seq, kv = tl.program_id(0), tl.program_id(1)
    length = tl.load(lens_ptr + seq)
    heads = kv * GROUP + tl.arange(0, GROUP)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + seq * KV_HEADS * GROUP * D + heads[:, None] * D + d[None, :]) * scale
    m, l = tl.full([GROUP], -float("inf"), tl.float32), tl.zeros([GROUP], tl.float32)  # noqa: E741
    acc = tl.zeros([GROUP, D], tl.float32)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(tables_ptr + seq * pages + i).to(tl.int64)
        slot = tl.arange(0, PAGE)
        inside = i * PAGE + slot < length
        at = (page * PAGE + slot)[:, None] * KV_HEADS * D + kv * D + d[None, :]
        k = tl.load(k_cache_ptr + at, mask=inside[:, None], other=0.0)
        v = tl.load(v_cache_ptr + at, mask=inside[:, None], other=0.0)
        s = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        s = tl.where(inside[None, :], s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(m - new)
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        acc = acc * alpha[:, None] + tl.sum(p[:, :, None] * v[None, :, :], axis=1)
        m = new
    tl.store(out_ptr + seq * KV_HEADS * GROUP * D + heads[:, None] * D + d[None, :], acc / l[:, None])


def test_paged_attention() -> None:
    kv, group, d, page = 2, 2, 8, 4
    q, k, v = normal(3, kv * group, d), normal(10, page, kv, d), normal(10, page, kv, d)
    tables, lens = RNG.permutation(9).reshape(3, 3).astype(np.int32), np.array([5, 12, 1], np.int32)
    out = np.zeros_like(q)
    paged_attention[(3, kv)](out, q, k, v, tables, lens, 0.5, 3, PAGE=page, D=d, KV_HEADS=kv, GROUP=group)
    for s in range(3):
        keys, values = (one[tables[s]].reshape(-1, kv, d)[: lens[s]] for one in (k, v))
        for h in range(kv * group):
            p = softmax(0.5 * keys[:, h // group] @ q[s, h])
            np.testing.assert_allclose(out[s, h], p @ values[:, h // group], rtol=1e-4, atol=1e-5)


@triton.jit
def fused_moe(
    a_ptr, b_ptr, c_ptr, weights_ptr, sorted_ids_ptr, expert_ids_ptr, padded_ptr, N, K, valid, stride_be,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TOP: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    if pid_m * BM >= tl.load(padded_ptr):
        return
    token_ids = tl.load(sorted_ids_ptr + pid_m * BM + tl.arange(0, BM))
    token_mask = token_ids < valid
    expert = tl.load(expert_ids_ptr + pid_m)
    offs_n = (pid_n * BN + tl.arange(0, BN).to(tl.int64)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + token_ids[:, None] // TOP * K + offs_k[None, :]
    b_ptrs = b_ptr + expert * stride_be + offs_k[:, None] + offs_n[None, :] * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=token_mask[:, None] & (offs_k[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc=acc)
        a_ptrs += BK
        b_ptrs += BK
    acc = acc * tl.load(weights_ptr + token_ids, mask=token_mask, other=0)[:, None]
    cols = pid_n * BN + tl.arange(0, BN)
    tl.store(c_ptr + token_ids[:, None] * N + cols[None, :], acc, mask=token_mask[:, None] & (cols[None, :] < N))


def test_each_token_goes_through_its_experts() -> None:
    tokens, top, experts, n, k, bm = 10, 2, 3, 24, 40, 16
    a, b = normal(tokens, k), normal(experts, n, k)
    chosen, weights = RNG.integers(0, experts, (tokens, top)), np.abs(normal(tokens, top))
    ids: list[int] = []
    owners: list[int] = []
    for expert in range(experts):
        mine = np.flatnonzero(chosen.reshape(-1) == expert).tolist()
        mine += [tokens * top] * (-len(mine) % bm)
        ids += mine
        owners += [expert] * (len(mine) // bm)
    out = np.zeros((tokens * top, n), np.float32)
    fused_moe[(len(owners) + 2, triton.cdiv(n, 16))](
        a, b, out, weights, np.array(ids, np.int32), np.array(owners, np.int32), np.array([len(ids)], np.int32), n, k,
        tokens * top, n * k, BM=bm, BN=16, BK=16, TOP=top,
    )  # fmt: skip
    expected = np.einsum("tk,tink->tin", a, b[chosen]) * weights[:, :, None]
    np.testing.assert_allclose(out.reshape(tokens, top, n), expected, rtol=1e-4, atol=1e-4)


@triton.jit
def matmul_persistent(a_desc, b_desc, c_desc, M, N, K, PROGRAMS: tl.constexpr, GROUP_M: tl.constexpr):
    BM: tl.constexpr = a_desc.block_shape[0]
    BN: tl.constexpr = b_desc.block_shape[0]
    BK: tl.constexpr = a_desc.block_shape[1]
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    num_pid_in_group = GROUP_M * num_pid_n
    for tile_id in tl.range(start_pid, num_pid_m * num_pid_n, PROGRAMS, flatten=True, warp_specialize=True):
        group_id = tile_id // num_pid_in_group
        first_pid_m = group_id * GROUP_M
        group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
        pid_m = first_pid_m + (tile_id % group_size_m)
        pid_n = (tile_id % num_pid_in_group) // group_size_m
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BK)):
            a = a_desc.load([pid_m * BM, ki * BK])
            b = b_desc.load([pid_n * BN, ki * BK])
            acc = tl.dot(a, b.T, acc)
        acc = tl.reshape(acc, (BM, 2, BN // 2))
        acc0, acc1 = tl.split(tl.permute(acc, (0, 2, 1)))
        c_desc.store([pid_m * BM, pid_n * BN], acc0.to(c_desc.dtype))
        c_desc.store([pid_m * BM, pid_n * BN + BN // 2], acc1.to(c_desc.dtype))


def test_persistent_matmul_with_descriptors_of_the_host() -> None:
    m, n, k = 60, 64, 48
    a, b, c = normal(m, k, dtype="f2"), normal(n, k, dtype="f2"), np.zeros((m, n), "f2")
    given = [TensorDescriptor.from_tensor(*one) for one in ((a, [32, 16]), (b, [32, 16]), (c, [32, 16]))]
    matmul_persistent[(3,)](*given, m, n, k, PROGRAMS=3, GROUP_M=2)
    np.testing.assert_allclose(c, a.astype("f4") @ b.astype("f4").T, rtol=2e-3, atol=2e-2)
