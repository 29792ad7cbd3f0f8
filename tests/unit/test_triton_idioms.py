"""Idioms of kernels in use: what stands between the tutorials' lines."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl

RNG = np.random.default_rng(8)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, loss_ptr, stride, columns, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels_ptr + row)
    if label == ignored:
        tl.store(loss_ptr + row, 0.0)
        return
    logits_ptr += row * stride
    m, d = float("-inf"), 0.0
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + places, mask=places < columns, other=float("-inf")).cast(tl.float32)
        new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new))
        m = new
    tl.store(loss_ptr + row, m + tl.log(d) - tl.load(logits_ptr + label))


def test_cross_entropy_follows_labels_and_returns_early() -> None:
    x, labels, loss = normal(6, 50), np.array([3, 49, -100, 0, 7, 7], np.int64), np.full(6, np.nan, np.float32)
    cross_entropy[(6,)](x, labels, loss, 50, 50, -100, BLOCK=32)
    lse = np.log(np.exp(x).sum(1))
    np.testing.assert_allclose(loss, np.where(labels == -100, 0, lse - x[np.arange(6), labels.clip(0)]), rtol=1e-4, atol=1e-5)


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, K, sa, sb, sc, BM: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    rows, part = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1)
    ks, acc = part * BK + tl.arange(0, BK), tl.zeros((BM, BM), tl.float32)
    for k in tl.static_range(2):
        a = tl.load(a_ptr + rows[:, None] * sa + (ks + k * BK * SPLIT)[None, :])
        b = tl.load(b_ptr + tl.arange(0, BM)[:, None] * sb + (ks + k * BK * SPLIT)[None, :])
        acc += tl.dot(a, b.T)
    tl.atomic_add(c_ptr + rows[:, None] * sc + tl.arange(0, BM)[None, :], acc, sem="relaxed")


def test_split_k_adds_with_atomics() -> None:
    a, b, c = normal(32, 128), normal(16, 128), np.zeros((32, 16), np.float32)
    split_k[(2, 4)](a, b, c, 128, 128, 128, 16, BM=16, BK=16, SPLIT=4)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-4)


@triton.jit
def welford_combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta, n = mean_b - mean_a, n_a + n_b
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n


@triton.jit
def welford(x_ptr, mean_ptr, var_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full((BLOCK,), 1.0, tl.float32)), 0, welford_combine)
    tl.store(mean_ptr + tl.program_id(0), mean)
    tl.store(var_ptr + tl.program_id(0), m2 / n)


def test_reduce_of_a_tuple_by_a_function() -> None:
    x, mean, var = normal(3, 64), np.zeros(3, np.float32), np.zeros(3, np.float32)
    welford[(3,)](x, mean, var, BLOCK=64)
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(var, x.var(1), rtol=1e-4)


@triton.jit
def paged(q_ptr, cache_ptr, table_ptr, length_ptr, out_ptr, D: tl.constexpr, PAGE: tl.constexpr):
    seq = tl.program_id(0)
    length = tl.load(length_ptr + seq)
    q = tl.load(q_ptr + seq * D + tl.arange(0, D))
    best = tl.full([1], -float("inf"), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + seq * 4 + page)
        places = tl.arange(0, PAGE)
        k = tl.load(
            cache_ptr + (block * PAGE + places)[:, None] * D + tl.arange(0, D)[None, :],
            mask=(page * PAGE + places < length)[:, None], other=0.0,
        )  # fmt: skip
        score = tl.sum(q[None, :] * k, axis=1) * LOG2E
        best = tl.maximum(best, tl.max(tl.where(page * PAGE + places < length, score, -float("inf")), 0))
    tl.store(out_ptr + seq + tl.arange(0, 1), best)


def test_a_page_table_is_followed() -> None:
    q, cache, out = normal(3, 16), normal(8 * 4, 16), np.zeros(3, np.float32)
    table, length = np.array([[3, 0, 0, 0], [7, 1, 2, 0], [5, 6, 0, 4]], np.int32), np.array([2, 11, 16], np.int32)
    paged[(3,)](q, cache, table, length, out, D=16, PAGE=4)
    for i in range(3):
        keys = np.concatenate([cache[4 * page : 4 * page + 4] for page in table[i]])[: length[i]]
        np.testing.assert_allclose(out[i], (keys @ q[i]).max() * 1.442695, rtol=1e-4)


@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, stride, HALF: tl.constexpr, OUT: tl.constexpr = tl.float16):
    row, places = tl.program_id(0), tl.arange(0, HALF)
    c, s = tl.load(cos_ptr + row * HALF + places), tl.load(sin_ptr + row * HALF + places)
    a = tl.load(x_ptr + row * stride + places).to(tl.float32)
    b = tl.load(x_ptr + row * stride + HALF + places).to(tl.float32)
    tl.store(x_ptr + row * stride + places, (a * c - b * s).to(OUT))
    tl.store(x_ptr + row * stride + HALF + places, (b * c + a * s).to(OUT))


def test_rope_in_place() -> None:
    x, angle = normal(5, 32, dtype="float16"), normal(5, 16)
    a, b, c, s = x[:, :16].astype("f4"), x[:, 16:].astype("f4"), np.cos(angle), np.sin(angle)
    rope[(5,)](x, c, s, 32, HALF=16)
    np.testing.assert_allclose(x, np.hstack([a * c - b * s, b * c + a * s]), rtol=2e-3, atol=2e-3)


@triton.jit
def quantize(x_ptr, q_ptr, scale_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    scale = tl.max(tl.abs(x), 0) / 127.0
    q = tl.extra.cuda.libdevice.rint(x / scale).to(tl.int8)
    tl.store(q_ptr + tl.program_id(0) * N + tl.arange(0, N), q)
    tl.store(scale_ptr + tl.program_id(0), scale)


@triton.jit
def int8_product(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    places = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    product = tl.dot(tl.load(a_ptr + places), tl.load(b_ptr + places), out_dtype=tl.int32)
    tl.store(c_ptr + places, product)


def test_quantized_products() -> None:
    x, q, scale = normal(16, 16), np.zeros((16, 16), np.int8), np.zeros(16, np.float32)
    quantize[(16,)](x, q, scale, N=16)
    np.testing.assert_allclose(q * scale[:, None], x, atol=np.abs(x).max() / 120)
    c = np.zeros((16, 16), np.int32)
    int8_product[(1,)](q, q, c, N=16)
    np.testing.assert_array_equal(c, q.astype(np.int32) @ q.astype(np.int32))


@triton.jit
def top_two(x_ptr, value_ptr, index_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    for k in tl.static_range(2):
        value, index = tl.max(x, 0, return_indices=True)
        tl.store(value_ptr + tl.program_id(0) * 2 + k, value)
        tl.store(index_ptr + tl.program_id(0) * 2 + k, index)
        x = tl.where(tl.arange(0, N) == index, -float("inf"), x)


def test_indices_that_are_computed() -> None:
    x, value, index = normal(4, 32), np.zeros((4, 2), np.float32), np.zeros((4, 2), np.int32)
    top_two[(4,)](x, value, index, N=32)
    np.testing.assert_array_equal(index, np.argsort(-x, 1)[:, :2])
    np.testing.assert_array_equal(value, -np.sort(-x, 1)[:, :2])


@triton.jit
def swiglu_persistent(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    for block in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0), flatten=True):
        places = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        places = tl.max_contiguous(tl.multiple_of(places, BLOCK), BLOCK)
        x = tl.load(x_ptr + places, mask=places < n, eviction_policy="evict_first").to(tl.float32)
        y = tl.load(y_ptr + places, mask=places < n, cache_modifier=".cg")
        tl.store(out_ptr + places, (x * tl.sigmoid(x) * y * scale).to(out_ptr.dtype.element_ty), mask=places < n)


def test_persistent_programs_and_hints() -> None:
    x, y, out = normal(300, dtype="float16"), normal(300, dtype="float16"), np.zeros(300, np.float16)
    swiglu_persistent[(3,)](x, y, out, 300, 0.5, BLOCK=64, num_stages=2)
    wide = x.astype(np.float32)
    np.testing.assert_allclose(out, 0.5 * wide / (1 + np.exp(-wide)) * y, rtol=2e-3, atol=2e-3)


@triton.jit
def dropout_backward(g_ptr, x_ptr, out_ptr, seed, p, N: tl.constexpr):
    places = tl.arange(0, N)
    bits = tl.rand(seed, places)
    keep = (bits > p) & (tl.load(x_ptr + places) > 0)
    tl.store(out_ptr + places, tl.where(keep, tl.load(g_ptr + places), 0.0))


def test_masks_that_are_computed_choose() -> None:
    g, x, out = normal(64), normal(64), np.ones(64, np.float32)
    dropout_backward[(1,)](g, x, out, 7, 0.0, N=64)
    np.testing.assert_array_equal(out, np.where(x > 0, g, 0))


@triton.jit
def in_turn(ticket, order, width):
    place = tl.program_id(1) * width + tl.program_id(0)
    tl.store(order + place, tl.atomic_add(ticket, 1))


def test_axis_0_of_a_grid_runs_fastest() -> None:
    """On one PE programs run one after the other: the ticket of (x, y) of a grid of 3 by 2 is 3 y + x."""
    order = np.zeros(6, np.int32)
    with kernbench.machine("npu_server"):
        in_turn[(3, 2)](np.zeros(1, np.int32), order, 3)
    assert order.tolist() == list(range(6))


@triton.jit
def counted(bins, old):
    lanes = tl.arange(0, 4)
    tl.store(old + tl.program_id(0) * 4 + lanes, tl.atomic_add(bins + lanes % 2, 1))
    tl.atomic_add(bins + 2 + lanes, lanes)


def test_lanes_of_one_atomic_op_act_in_turn_and_race_with_none() -> None:
    bins, old = np.zeros(6, np.int32), np.zeros(8, np.int32)
    with kernbench.machine("single_cube", check="races") as runs:
        counted[(2,)](bins, old)
    assert bins.tolist() == [4, 4, 0, 2, 4, 6] and runs[0].races == []
    assert sorted(old.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3] and old[0] < old[2] and old[1] < old[3]


@triton.jit
def of_five(out_ptr):
    tl.store(out_ptr, tl.reduce(tl.arange(1, 6), 0, lambda a, b: a * 10 + b))


def test_reduce_of_an_odd_length_keeps_the_order() -> None:
    """Pairs first: (12, 34, 5), (12 * 10 + 34, 5), 154 * 10 + 5."""
    out = np.zeros(1, np.int32)
    of_five[(1,)](out)
    assert out[0] == 1545


@triton.jit
def by_the_sum(x_ptr, out_ptr, n: tl.constexpr, MORE: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, n))
    large = 1.0 if tl.sum(x, 0) > 3.0 else x_ptr.dtype.element_ty.primitive_bitwidth / 64
    more = tl.load(x_ptr) if MORE else None
    if more is not None:
        large += more
    tl.store(out_ptr, large)


def test_a_conditional_expression_selects_by_what_is_computed_after_the_timing() -> None:
    out = np.zeros(1, np.float32)
    for value, more, wanted in ((1, False, 1), (1, True, 2), (0.25, False, 0.5), (0.25, True, 0.75)):
        by_the_sum[(1,)](np.full(8, value, np.float32), out, 8, more)
        assert out[0] == wanted


@triton.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor
    scale: tl.constexpr = 2

    @triton.jit
    def total(self):
        return self.scale * (self.first + self.second)


@triton.jit
def pairs(x_ptr, out_ptr):
    at = tl.arange(0, 4)
    tl.extra.cuda.gdc_wait()
    pair = Pair(tl.load(x_ptr + at), at)
    changed = tl.aggregate_replace(pair, scale=tl.core.CONSTEXPR_0.value + 3)
    tl.store(out_ptr + at, pair.total() + changed.total())
    tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def changes(out_ptr):
    pair = Pair(1, second=2)
    pair.scale = 5


def test_aggregates_have_fields_and_methods() -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    pairs[(1,)](x, out)
    assert np.array_equal(out, 5 * (x + np.arange(4)))
    with pytest.raises(triton.TritonError, match=r"Pair.scale is set already; tl.aggregate_replace makes a changed copy"):
        changes[(1,)](out)


@triton.jit
def cut(x_ptr, out_ptr, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty, fp_downcast_rounding="rtz"))


def test_floats_are_narrowed_towards_zero() -> None:
    """f16 has 10 bits of mantissa: the largest below 1.9999 is 2 - 2 ** -10, and the largest of all 65504."""
    x = np.array([1.9999, -1.9999, 1.5, 70000, np.inf, np.nan, -0.1, 0], np.float32)
    out = np.zeros(8, np.float16)
    cut[(1,)](x, out, 8)
    wanted = np.array([2 - 2**-10, -2 + 2**-10, 1.5, 65504, np.inf, np.nan, -0.09997559, 0], np.float16)
    assert np.array_equal(out, wanted, equal_nan=True)


SOFTPLUS = tl.constexpr("""{
    .reg .pred p;   // large values stay what they are
    setp.gt.f32  p, $1, 20.;
    @p  mov.f32  $0, $1;
    @!p mul.f32            $0, $1, 1.4426950408889634;
    @!p ex2.approx.ftz.f32 $0, $0;
    @!p add.f32            $0, $0, 0f3F800000;
    @!p lg2.approx.ftz.f32 $0, $0;
    @!p mul.f32            $0, $0, 0.6931471805599453;
}""")


@triton.jit
def assembled(x_ptr, i_ptr, soft_ptr, low_ptr, high_ptr):
    at = tl.arange(0, 8)
    x, i = tl.load(x_ptr + at), tl.load(i_ptr + at)
    soft = tl.inline_asm_elementwise(SOFTPLUS, "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(soft_ptr + at, soft)
    low, high = tl.inline_asm_elementwise(
        "sub.u32 $0, $2, $3; shr.u32 $1, $2, 28; cvt.rn.f32.s32 t, $3; fma.rn.f32 t, t, t, 0.5; cvt.rzi.s32.f32 $3, t; "
        "add.s32 $0, $0, $3;",
        "=r,=r,r,r", [i, at], dtype=(tl.int32, tl.uint32), is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(low_ptr + at, low)
    tl.store(high_ptr + at, high)


@triton.jit
def turned(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $1, 3;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def chosen_by_nothing(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    tl.inline_asm_elementwise("selp.b32 $0, $1, 3, p;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)


def test_common_assembly_has_its_meaning_and_other_is_refused_by_name() -> None:
    x, i = np.array([-30, -1, 0, 1, 5, 19, 21, 1000], np.float32), np.array([-1, 7, 0, 5, -9, 1 << 30, 2, 3], np.int32)
    soft, low, high = np.zeros(8, np.float32), np.zeros(8, np.int32), np.zeros(8, np.uint32)
    assembled[(1,)](x, i, soft, low, high)
    assert np.allclose(soft, np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))), rtol=1e-5, atol=1e-7)
    at = np.arange(8, dtype=np.int32)
    assert np.array_equal(low, i - at + at * at) and np.array_equal(high, i.view(np.uint32) >> 28)
    with pytest.raises(triton.TritonError, match=r'"shf.l.wrap.b32" is not supported; use functions of tl'):
        turned[(1,)](i)
    with pytest.raises(triton.TritonError, match=r'p of "selp.b32 \$0, \$1, 3, p" is not set'):
        chosen_by_nothing[(1,)](i)
