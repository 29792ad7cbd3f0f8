"""Kernels as people publish them in which programs and lanes work together (locks, scans, sums, sorting), against numpy."""

from __future__ import annotations

import numpy as np

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
def mac_loop(A, B, C, M, N, K, locks, sk, sn, start, end, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    iters = tl.cdiv(K, BK)
    tile = start // iters
    pid_m, pid_n = tile // tl.cdiv(N, BN), tile % tl.cdiv(N, BN)
    rm, rn, rk = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for it in range(start, end):
        k = (it % iters) * BK + rk
        a = tl.load(A + rm[:, None] * K + k[None, :])
        b = tl.load(B + k[:, None] * sk + rn[None, :] * sn)
        acc += tl.dot(a, b)
    C_ = C + rm[:, None] * N + rn[None, :]
    if end % iters == 0:
        if start % iters != 0:
            while tl.atomic_cas(locks + tile, 1, 1) != 1:
                pass
            tl.atomic_add(C_, acc)
        else:
            tl.store(C_, acc)
    else:
        tl.store(C_, acc)
        tl.debug_barrier()
        tl.atomic_xchg(locks + tile, 1)


@triton.jit
def stream_k(A, B, C, M, N, K, locks, sk, sn, per_program, total, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * per_program
    last = tl.minimum(start + per_program, total)
    while start < last:
        iters = tl.cdiv(K, BK)
        end = tl.minimum(start + (iters - start % iters), last)
        mac_loop(A, B, C, M, N, K, locks, sk, sn, start, end, BM, BN, BK)
        start = end


def test_stream_k_with_locks() -> None:
    m, n, k = 32, 48, 64
    a, b, c = normal(m, k), normal(k, n), np.zeros((m, n), np.float32)
    total = (m // 16) * (n // 16) * (k // 16)
    programs = 4
    stream_k[(programs,)](
        a, b, c, m, n, k, np.zeros(6, np.int32), n, 1, triton.cdiv(total, programs), total, BM=16, BN=16, BK=16
    )
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@triton.jit
def segment_sum(x_ptr, ids_ptr, out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < n
    ids = tl.load(ids_ptr + rows, mask=mask, other=0)
    x = tl.load(x_ptr + rows[:, None] * D + tl.arange(0, D)[None, :], mask=mask[:, None], other=0.0)
    tl.atomic_add(out_ptr + ids[:, None] * D + tl.arange(0, D)[None, :], x, mask=mask[:, None])


def test_segment_sum() -> None:
    x, ids, out = normal(50, 8), RNG.integers(0, 5, 50).astype(np.int32), np.zeros((5, 8), np.float32)
    segment_sum[(4,)](x, ids, out, 50, D=8, BLOCK=16)
    expected = np.zeros((5, 8), np.float32)
    np.add.at(expected, ids, x)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@triton.jit
def topk_gating(logits_ptr, values_ptr, ids_ptr, stride, E: tl.constexpr, K: tl.constexpr):
    """A float and its index in one integer, sorted: as routers of experts do."""
    row = tl.program_id(0)
    cols = tl.arange(0, E)
    x = tl.load(logits_ptr + row * stride + cols)
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    packed = (key.to(tl.int64) << 32) | (E - 1 - cols).to(tl.int64)
    top = tl.topk(packed, K)
    ids = E - 1 - (top & 0xFFFFFFFF).to(tl.int32)
    key = (top >> 32).to(tl.int32)
    found = tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)
    tl.store(values_ptr + row * K + tl.arange(0, K), tl.softmax(found))
    tl.store(ids_ptr + row * K + tl.arange(0, K), ids)


def test_topk_of_keys_with_indices() -> None:
    x, values, ids = normal(6, 16), np.zeros((6, 4), np.float32), np.zeros((6, 4), np.int32)
    topk_gating[(6,)](x, values, ids, 16, E=16, K=4)
    order = np.argsort(-x, 1, kind="stable")[:, :4]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_allclose(values, softmax(np.take_along_axis(x, order, 1)), rtol=1e-5)


@triton.jit
def causal_conv1d(x_ptr, w_ptr, b_ptr, out_ptr, L, stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr, SILU: tl.constexpr):
    channel, block = tl.program_id(0), tl.program_id(1)
    t = block * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32) + tl.load(b_ptr + channel)
    for k in tl.static_range(WIDTH):
        at = t - (WIDTH - 1) + k
        x = tl.load(x_ptr + channel * stride + at, mask=(at >= 0) & (at < L), other=0.0)
        acc += tl.load(w_ptr + channel * WIDTH + k) * x
    if SILU:
        acc = acc / (1 + tl.exp(-acc))
    tl.store(out_ptr + channel * stride + t, acc, mask=t < L)


def test_causal_convolution() -> None:
    x, w, b, out = normal(3, 40), normal(3, 4), normal(3), np.empty((3, 40), np.float32)
    causal_conv1d[(3, 2)](x, w, b, out, 40, 40, WIDTH=4, BLOCK=32, SILU=True)
    padded = np.pad(x, ((0, 0), (3, 0)))
    y = sum(w[:, k : k + 1] * padded[:, k : k + 40] for k in range(4)) + b[:, None]
    np.testing.assert_allclose(out, y / (1 + np.exp(-y)), rtol=1e-4, atol=1e-5)


@triton.jit
def add_pairs(a, b):
    return a + b


@triton.jit
def chained_scan(x_ptr, out_ptr, total_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    """Each program waits for the sum of those before it."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    scanned = tl.associative_scan(x, 0, add_pairs)
    before = 0
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(total_ptr + pid - 1)
    tl.store(total_ptr + pid, before + tl.sum(x, 0))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    tl.store(out_ptr + offsets, scanned + before, mask=offsets < n)


def test_a_scan_that_is_chained_from_program_to_program() -> None:
    x, out = RNG.integers(0, 9, 100).astype(np.int32), np.zeros(100, np.int32)
    chained_scan[(7,)](x, out, np.zeros(7, np.int32), np.zeros(7, np.int32), 100, BLOCK=16)
    np.testing.assert_array_equal(out, np.cumsum(x))


@triton.jit
def histogram_kernel(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    counts = tl.histogram(tl.load(x_ptr + offsets, mask=mask, other=0), BINS, mask=mask)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts, mask=counts > 0)


def test_histogram_over_programs() -> None:
    x, out = RNG.integers(0, 16, 100).astype(np.int32), np.zeros(16, np.int32)
    histogram_kernel[(4,)](x, out, 100, BINS=16, BLOCK=32)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))


@triton.jit
def selu_scalar(x, alpha):
    if x > 0:
        return x
    elif x < -3:  # noqa: RET505
        return -alpha
    return alpha * (tl.exp(x) - 1)


@triton.jit
def selu(x_ptr, out_ptr, alpha, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.map_elementwise(selu_scalar, x, alpha))


def test_functions_of_single_elements() -> None:
    x, out = normal(64) * 3, np.zeros(64, np.float32)
    selu[(1,)](x, out, 1.5, BLOCK=64)
    np.testing.assert_allclose(out, np.where(x > 0, x, np.where(x < -3, -1.5, 1.5 * (np.exp(x) - 1))), rtol=1e-5, atol=1e-6)


@triton.jit
def reduce_by_descriptor(x_ptr, total, N: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [N, N], [N, 1], [BLOCK, N])
    total.atomic_add([0, 0], x.load([tl.program_id(0) * BLOCK, 0]))


def test_tuples_and_descriptors_that_add() -> None:
    x, total = normal(16, 16), np.zeros((4, 16), np.float32)
    reduce_by_descriptor[(4,)](x, TensorDescriptor.from_tensor(total, [4, 16]), N=16, BLOCK=4)
    np.testing.assert_allclose(total, x.reshape(4, 4, 16).sum(0), rtol=1e-5, atol=1e-5)

    @triton.jit
    def kernel(pair, sizes, N: tl.constexpr):
        tl.store(pair[1] + tl.arange(0, N), tl.load(pair[0] + tl.arange(0, N)) * sizes[0] + sizes[1])

    out = np.zeros(16, np.float32)
    run = kernel[(1,)]((x[0], out), (2, 0.5), N=16)
    np.testing.assert_allclose(out, 2 * x[0] + 0.5)
    assert run.verify({"pair.1": 2 * x[0] + 0.5})
