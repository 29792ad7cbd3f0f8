"""Functions of `triton.language`, one kernel each, against numpy: values, types, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl

N = 16
RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, N)).astype(np.float32)
I = RNG.integers(-100, 100, (N, N)).astype(np.int32)  # noqa: E741


def computed(
    body: Callable[..., Any], *arrays: np.ndarray, dtype: Any = np.float32, shape: tuple[int, ...] = (N, N)
) -> np.ndarray:
    """What `body` makes of tiles of arrays, stored as elements of `dtype`."""
    out = np.zeros(shape, dtype)

    @triton.jit
    def kernel(out_ptr, a_ptr, b_ptr, count: tl.constexpr, shapes: tl.constexpr):
        tiles = []
        for pointer, one in zip((a_ptr, b_ptr), shapes, strict=True):
            tiles.append(tl.load(pointer, one, pointer.dtype.element_ty))
        found = body(*tiles[:count])
        places = tl.arange(0, int(np.prod(shape))).reshape(shape) if shape else 0
        tl.store(out_ptr + places, found)

    pair = (*arrays, arrays[0])[:2]
    kernel[(1,)](out, *pair, len(arrays), tuple(one.shape for one in pair))
    return out


SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exp2": (tl.exp2, np.exp2),
    "sigmoid": (tl.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (tl.math.tanh, np.tanh),
    "abs": (tl.abs, np.abs),
    "floor": (tl.floor, np.floor),
    "cos": (tl.cos, np.cos),
    "log1p": (lambda x: tl.math.log1p(tl.abs(x)), lambda x: np.log1p(np.abs(x))),
    "fma": (lambda x: tl.fma(x, x, 1.0), lambda x: x * x + 1),
    "clamp": (lambda x: tl.clamp(x, -0.5, 0.25), lambda x: np.clip(x, -0.5, 0.25)),
    "softmax": (lambda x: tl.softmax(x, 1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "trans": (tl.trans, np.transpose),
    "permute": (lambda x: tl.permute(x, 1, 0), np.transpose),
    "flip": (lambda x: tl.flip(x, 1), lambda x: x[:, ::-1]),
    "cumsum": (lambda x: tl.cumsum(x, 1), lambda x: x.cumsum(1)),
    "cumsum_back": (lambda x: tl.cumsum(x, 0, reverse=True), lambda x: x[::-1].cumsum(0)[::-1]),
    "cumprod": (lambda x: tl.cumprod(x, 0), lambda x: x.cumprod(0)),
    "sort": (tl.sort, lambda x: np.sort(x, 1)),
    "sort_down": (lambda x: tl.sort(x, descending=True), lambda x: np.sort(x, 1)[:, ::-1]),
    "rows": (lambda x: x - tl.sum(x, 1)[:, None], lambda x: x - x.sum(1, keepdims=True)),
    "keep": (lambda x: x - tl.max(x, 0, keep_dims=True), lambda x: x - x.max(0, keepdims=True)),
    "join_split": (lambda x: tl.split(tl.join(x, x + 1))[1], lambda x: x + 1),
    "reshape": (lambda x: tl.trans(tl.reshape(x, 8, 32)).reshape(N, N), lambda x: x.reshape(8, 32).T.reshape(N, N)),
    "scan": (lambda x: tl.associative_scan(x, 1, tl.maximum), lambda x: np.maximum.accumulate(x, 1)),
    "reduce": (lambda x: tl.reduce(x, 1, tl.minimum, True) + x, lambda x: x.min(1, keepdims=True) + x),
    "dot": (lambda x: tl.dot(x, x, input_precision="ieee"), lambda x: x @ x),
    "acc": (lambda x: tl.dot(x, x, acc=x), lambda x: x @ x + x),
    "reflected": (lambda x: 1.0 / (2.0 - x), lambda x: 1 / (2 - x)),
    "power": (lambda x: tl.math.pow(tl.abs(x), 1.5), lambda x: np.abs(x) ** 1.5),
}


@pytest.mark.parametrize("name", SAME)
def test_a_function_of_floats_is_that_of_numpy(name: str) -> None:
    ours, theirs = SAME[name]
    np.testing.assert_allclose(computed(ours, X), theirs(X), rtol=2e-5, atol=1e-5)


def c_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.trunc(a / b).astype(np.int32)


EXACT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "divide": (lambda i: i // 7, lambda i: c_divide(i, 7)),
    "divide_by_negative": (lambda i: i // -7, lambda i: c_divide(i, -7)),
    "remainder": (lambda i: i % 7, lambda i: i - 7 * c_divide(i, 7)),
    "shift": (lambda i: i >> 2, lambda i: i >> 2),
    "left": (lambda i: i << 28, lambda i: i << 28),
    "wraps": (lambda i: i * 100_000_000, lambda i: i * np.int32(100_000_000)),
    "not": (lambda i: ~i, lambda i: ~i),
    "logic": (lambda i: (i & 12) | (i ^ 5), lambda i: (i & 12) | (i ^ 5)),
    "where": (lambda i: tl.where((i > 0) & (i < 50), i, -1), lambda i: np.where((i > 0) & (i < 50), i, -1)),
    "argmax": (lambda i: tl.argmax(i, 1)[:, None] + tl.zeros_like(i), lambda i: i.argmax(1)[:, None] + 0 * i),
    "gather": (lambda i: tl.gather(i, tl.abs(i) % N, 1), lambda i: np.take_along_axis(i, np.abs(i) % N, 1)),
    "xor_sum": (lambda i: tl.xor_sum(i, 0)[None, :] + 0 * i, lambda i: np.bitwise_xor.reduce(i, 0)[None, :] + 0 * i),
    "cat": (lambda i: tl.cat(i, i).reshape(2, N, N).sum(0), lambda i: 2 * i),
    "interleave": (lambda i: tl.interleave(i, i).reshape(N, N, 2).max(2), lambda i: i),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_function_of_integers_is_exact(name: str) -> None:
    ours, theirs = EXACT[name]
    np.testing.assert_array_equal(computed(ours, I, dtype=np.int32), theirs(I))


EDGES = (-(1 << 31), -7, -1, 0, 5, (1 << 31) - 1)
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_known_integers_without_axes_are_those_of_numpy(kind: str) -> None:
    """Tensor beside tensor, tensor beside number, and number beside tensor."""
    element = np.dtype(kind)
    found: list[tuple[Any, ...]] = []

    @triton.jit
    def kernel(x_ptr):
        for i in tl.static_range(len(EDGES)):
            x, beside = tl.load(x_ptr + i), tl.load(x_ptr + (len(EDGES) - 1 - i))
            for other in EDGES:
                for j in tl.static_range(len(OPERATORS)):
                    op = OPERATORS[j]
                    for made in (op(x, beside), op(x, other), op(other, x)):
                        found.append((str(made.dtype), int(made)))

    kernel[(1,)](np.array(EDGES, element))
    wanted = []
    for i, x in enumerate(EDGES):
        for y in EDGES:
            for op in OPERATORS:
                for a, b in ((x, EDGES[len(EDGES) - 1 - i]), (x, y), (y, x)):
                    with np.errstate(over="ignore"):
                        made = op(np.array([a], element), np.array([b], element))[0]
                    wanted.append(("int1" if made.dtype == bool else kind, int(made)))
    assert found == wanted


def test_known_integers_of_another_type_keep_their_lowest_bits() -> None:
    found: list[int] = []
    kinds = (tl.int8, tl.uint8, tl.int16, tl.int32, tl.uint32, tl.int64, tl.uint64)

    @triton.jit
    def kernel(x_ptr):
        for i in tl.static_range(len(EDGES)):
            for j in tl.static_range(len(kinds)):
                found.append(int(tl.load(x_ptr + i).to(kinds[j])))

    kernel[(1,)](np.array(EDGES, np.int64) * 3)
    names = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
    assert found == [int(np.int64(3 * x).astype(name)) for x in EDGES for name in names]


def test_a_shift_to_the_right_goes_by_the_left_operand() -> None:
    """An i32 stays one below 0 where the count has no sign, also of elements that are computed after the timing."""
    count = tl.uint32
    for pending in (False, True):
        given = (lambda i: i) if not pending else (lambda i: i.to(tl.float32).to(tl.int32))
        shifted = computed(lambda i, given=given: (given(i) >> tl.full((N, N), 2, count)).to(tl.int32), I, dtype=np.int32)
        np.testing.assert_array_equal(shifted, I >> 2)
    narrow = computed(lambda i: i.to(tl.int8) >> tl.full((N, N), 3, count), I, dtype=np.uint32)
    np.testing.assert_array_equal(narrow, (I.astype(np.int8).astype(np.int32) >> 3).astype(np.uint32))
    no_sign = computed(lambda i: i.to(tl.uint32) >> tl.full((N, N), 3, tl.int32), I, dtype=np.uint32)
    np.testing.assert_array_equal(no_sign, I.astype(np.uint32) >> 3)
    # Of a number on the left the right operand's type says it; the interpreter fills in the sign here, and hardware zeros.
    assert computed(lambda i: -2 >> tl.full((4,), 1, tl.int1), I, dtype=np.int32, shape=(4,)).tolist() == [2**31 - 1] * 4


@pytest.mark.parametrize("pending", [False, True])
def test_one_bit_wraps_in_sums(pending: bool) -> None:
    """As additions of i1 do on hardware; the interpreter asks whether any is set."""

    def ones(count: int) -> Any:
        made = tl.full((count,), 1, tl.int32)
        return made.to(tl.float32).to(tl.int32) if pending else made

    sums = computed(lambda i: tl.join(tl.sum(ones(1024), 0, dtype=tl.int1), tl.sum(ones(7), 0, dtype=tl.int1)), I, shape=(2,))
    assert sums.tolist() == [0, 1]
    so_far = computed(lambda i: tl.cumsum(ones(5), 0, dtype=tl.int1), I, shape=(5,))
    assert so_far.tolist() == [1, 0, 1, 0, 1]
    back = computed(lambda i: tl.cumsum(ones(4), 0, reverse=True, dtype=tl.int1), I, shape=(4,))
    assert back.tolist() == [0, 1, 0, 1]
    assert computed(lambda i: tl.sum(ones(300) > 0, 0), I, shape=()).item() == 300


def test_histogram_and_indices() -> None:
    counted = computed(lambda i: tl.histogram(tl.abs(i) % 8, 8), I, dtype=np.int32, shape=(8,))
    np.testing.assert_array_equal(counted, np.bincount((np.abs(I) % 8).reshape(-1), minlength=8))
    tied = np.array([[1, 3, 3, 0]] * 4, np.int32)
    assert computed(lambda i: tl.max(i, 1, return_indices=True)[1], tied, dtype=np.int32, shape=(4,)).tolist() == [1] * 4
    last = computed(lambda i: tl.argmax(i, 1, tie_break_left=False), tied, dtype=np.int32, shape=(4,))
    assert last.tolist() == [2] * 4


def test_nan_in_max_and_min() -> None:
    nan, both = np.float32("nan"), np.array([np.nan, 1, 2, np.nan], np.float32)
    other = np.array([1, np.nan, 3, np.nan], np.float32)
    assert computed(tl.maximum, both, other, shape=(4,)).tolist()[:3] == [1, 1, 3]
    kept = computed(lambda a, b: tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL), both, other, shape=(4,))
    np.testing.assert_array_equal(kept, [nan, nan, 3, nan])
    assert computed(lambda a: tl.max(a, 0), both, shape=()).item() == 2
    assert computed(lambda a: tl.min(a, 0), both, shape=()).item() == 1
    assert np.isnan(computed(lambda a: tl.max(tl.where(a > 9, a, float("nan")), 0), both, shape=()))


def kinds(*pairs: tuple[Any, Any]) -> list[str]:
    found: list[str] = []

    @triton.jit
    def kernel():
        for a, b in pairs:
            made = [tl.full((2,), 1, one) if isinstance(one, tl.dtype) else one for one in (a, b)]
            found.append(str((made[0] + made[1]).dtype))

    kernel[(1,)]()
    return found


def test_types_of_sums() -> None:
    half, brain, wide = tl.float16, tl.bfloat16, tl.float32
    assert kinds((half, wide), (half, brain), (brain, brain), (tl.int32, half), (tl.int64, brain)) == [
        "fp32", "fp16", "bf16", "fp16", "fp32"
    ]  # fmt: skip
    assert kinds((tl.int8, tl.int32), (tl.int32, tl.uint32), (tl.int64, tl.uint32), (tl.uint8, tl.int8)) == [
        "int32", "uint32", "int64", "uint8"
    ]  # fmt: skip
    assert kinds((half, 1), (half, 2.5), (tl.int32, 2.5), (tl.int8, 3), (3, tl.uint16)) == [
        "fp16", "fp16", "fp32", "int8", "uint16"
    ]  # fmt: skip


def test_tf32_rounds_operands_of_a_product() -> None:
    """1 + 2^-11 lies between two numbers of tf32 (10 bits of mantissa), and goes to the even one, 1; f32 keeps it."""
    a = np.full((N, N), 1 + 2.0**-11, np.float32)
    assert computed(lambda x: tl.dot(x, tl.full((N, N), 1.0, tl.float32), input_precision="tf32"), a)[0, 0] == N
    assert computed(lambda x: tl.dot(x, tl.full((N, N), 1.0, tl.float32)), a)[0, 0] == np.float32(N + N * 2.0**-11)


def test_f8_saturates() -> None:
    big = np.array([1e6, -1e6, 3.3, np.nan], np.float32)
    out = computed(lambda x: x.to(tl.float8e4nv), big, dtype=ml_dtypes.float8_e4m3fn, shape=(4,)).astype(np.float32)
    np.testing.assert_array_equal(out, [448, -448, 3.25, np.nan])


def test_random_numbers_are_those_of_philox() -> None:
    """Counter 0 and key 0 give 6627e8d5 as the first word (Random123's known answers)."""
    out = computed(lambda i: tl.randint(0, tl.arange(0, 4)), I, dtype=np.uint32, shape=(4,))
    assert out[0] == 0x6627E8D5
    normal = computed(lambda i: tl.randn(3, tl.arange(0, 4096)), I, shape=(4096,))
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    even = computed(lambda i: tl.rand(3, tl.arange(0, 4096)), I, shape=(4096,))
    assert even.min() >= 0 and even.max() < 1 and abs(even.mean() - 0.5) < 0.02


def test_atomics_count_and_add() -> None:
    @triton.jit
    def kernel(ticket, order, total, most):
        mine = tl.atomic_add(ticket, 1)
        tl.store(order + mine, tl.program_id(0))
        tl.atomic_add(total + tl.arange(0, 4) % 2, tl.full((4,), 0.5, tl.float32))
        tl.atomic_max(most, tl.program_id(0))

    ticket, most = np.zeros(1, np.int32), np.zeros(1, np.int32)
    order, total = np.full(20, -1, np.int32), np.zeros(2, np.float32)
    kernel[(20,)](ticket, order, total, most)
    assert ticket[0] == 20 and sorted(order.tolist()) == list(range(20)) and most[0] == 19
    assert total.tolist() == [20, 20]  # two lanes of 0.5 at each place, from 20 programs


def test_descriptors_pad_and_cut() -> None:
    @triton.jit
    def kernel(x_ptr, out_ptr, rows, columns):
        source = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [4, 8])
        target = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [4, 8])
        for r in range(0, rows, 4):
            for c in range(0, columns, 8):
                target.store([r, c], source.load([r, c]) + 1)

    x, out = RNG.standard_normal((10, 12)).astype(np.float32), np.zeros((10, 12), np.float32)
    kernel[(1,)](x, out, 10, 12)
    np.testing.assert_array_equal(out, x + 1)


def refused(body: Callable[[Any], Any], portable: bool = False) -> str:
    @triton.jit
    def kernel(x_ptr, body: tl.constexpr):
        body(x_ptr)

    with pytest.raises(triton.TritonError) as caught, kernbench.machine("single_cube", portable=portable):
        kernel[(1,)](X, body)
    return str(caught.value).partition(": ")[2]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            lambda x: tl.load(x + tl.arange(0, 512)),
            "tl.load: lane [256] of [512] points to element 256 of x_ptr, which has 256; 256 lanes are outside. "
            "Check the mask and the strides",
        ),
        (lambda x: tl.arange(0, 4) + tl.arange(0, 3), "shapes [4] and [3] do not go together: axes must be equal or 1; "
         "add axes by x[:, None], or tl.reshape"),
        (lambda x: tl.load(x + tl.load(x + tl.arange(0, 4))), "fp32 is added to a pointer; offsets are integers: cast with "
         ".to(tl.int32)"),
        (lambda x: tl.slice, "tl.slice is not supported: use x[:, None], tl.split, tl.gather or tl.load"),
        (lambda x: tl.zeros((4,), tl.float8e4b15),
         "elements of fp8e4b15: no machine here has them; use tl.float8e4nv or another type"),
        (lambda x: tl.arange(0, 4)[0], "unsupported tensor index 0: it is : or None; use tl.gather or tl.load"),
        (lambda x: tl.load(x + tl.arange(0, 4), other=0), "tl.load has other= but no mask=; give both"),
        (lambda x: tl.dot(tl.zeros((16, 16), tl.float16), tl.zeros((16, 16), tl.float32)),
         "tl.dot of fp16 and fp32: both must be of one type; cast one with .to"),
        (lambda x: tl.static_assert(False, "no"), "tl.static_assert failed: no"),
        (lambda x: tl.device_assert(tl.arange(0, 4) < 3), "tl.device_assert failed"),
        (lambda x: bool(tl.arange(0, 4) > 0),
         "the truth value of a tensor of shape [4] is not one value; use tl.where, or reduce it first"),
        (lambda x: tl.exp(tl.arange(0, 4)), "tl.exp of int32: it takes floats; cast with .to(tl.float32)"),
        (lambda x: tl.zeros((4,), tl.float32) // 2,
         "invalid operands of type fp32 and int32: // takes integers; use tl.floor(x / y)"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(body: Callable[[Any], Any], text: str) -> None:
    assert refused(body) == text


def test_portable_has_triton_s_own_rules() -> None:
    rule = "tl.arange(0, 6): in Triton its length is a power of two, and not 6; use a mask"
    assert refused(lambda x: tl.arange(0, 6), portable=True) == rule
    halves = refused(lambda x: tl.exp(tl.zeros((4,), tl.float16)), portable=True)
    assert halves.startswith("tl.exp of fp16: Triton accepts only f32 and f64")
    assert refused(lambda x: tl.zeros((6,), tl.float16), portable=True).startswith("a shape of [6]: in Triton each length")
    narrow = refused(lambda x: tl.make_tensor_descriptor(x, [16, 16], [16, 1], [8, 2]), portable=True)
    rule = "Descriptor block shape must have at least 16 bytes in the last dimension"
    assert narrow == f"{rule}, but got 2 * 4 = 8 bytes; use a wider block"
    inner = refused(lambda x: tl.dot(tl.zeros((16, 4), tl.float32), tl.zeros((4, 16), tl.float32)), portable=True)
    assert inner == "tl.dot of [16, 4] and [4, 16]: in Triton the inner side of fp32 is 8 or more"
    assert refused(lambda x: tl.full((), 32, tl.int32) + (1 << 40)).startswith(f"{1 << 40} is out of range for int32")


def test_colons_and_constants_mean_what_they_mean_in_triton() -> None:
    """A colon past the last axis means nothing, axes without an index stay, and a type equals a constant of that type."""

    @triton.jit
    def kernel(x_ptr):
        pointer = x_ptr[None, None, :]
        tl.static_assert(pointer.shape == [1, 1])
        tl.static_assert(tl.zeros((2, 4), tl.float32)[None].shape == [1, 2, 4])
        tl.static_assert(x_ptr.dtype.element_ty == tl.constexpr(tl.float32))
        tl.static_assert(tl.int8 != tl.constexpr(tl.float32))
        tl.store(pointer, tl.sum(tl.full((2, 4), 0.5, tl.float32), keep_dims=True))

    x = np.zeros(1, np.float32)
    kernel[(1,)](x)
    assert x[0] == 4


def test_pending_values_are_no_conditions() -> None:
    text = refused(lambda x: bool(tl.sum(tl.load(x + tl.arange(0, 4)), 0) > 0))
    assert text.startswith("the truth value must be known, but comes after the timing, from gt (test_triton_language.py:")


@triton.jit
def some_numbers():
    return 1, (2.5, 3)


def test_numbers_that_a_device_function_returns_have_what_tensors_have() -> None:
    @triton.jit
    def kernel(x_ptr):
        one, (half, three) = some_numbers()
        tl.static_assert(one.dtype == tl.int32 and half.dtype == tl.float32 and three.to(tl.int64).dtype == tl.int64)
        tl.store(x_ptr + tl.arange(0, 4), (one + half + three) * tl.full((4,), 2.0, tl.float32), cache_modifier=None)

    x = np.zeros(4, np.float32)
    kernel[(1,)](x)
    assert x.tolist() == [13.0] * 4


def test_shapes_are_joined_with_lists() -> None:
    @triton.jit
    def kernel(x_ptr):
        y = tl.full((2, 8), 1.0, tl.float32)
        split = y.shape[:-1] + [4, 2]  # noqa: RUF005
        tl.static_assert(split == [2, 4, 2] and [1] + y.shape == (1, 2, 8))  # noqa: RUF005
        tl.store(x_ptr, tl.sum(tl.reshape(y, split)))

    x = np.zeros(1, np.float32)
    kernel[(1,)](x)
    assert x[0] == 16


def test_pending_uint64_are_shifted_right_without_a_sign() -> None:
    """By known numbers, of which 0 changes nothing, and 64 leaves nothing."""

    @triton.jit
    def kernel(x_ptr, out_ptr, by_ptr):
        places = tl.arange(0, 4)
        wide = tl.load(x_ptr + places).to(tl.uint64, bitcast=True)
        tl.store(out_ptr + places, (wide >> tl.load(by_ptr + places).to(tl.uint64)).to(tl.int64, bitcast=True))

    bits = np.array([2**64 - 1, 2**63 + 5, 2**63 + 5, 12], np.uint64)
    by, out = np.array([60, 0, 64, 2], np.int64), np.zeros(4, np.int64)
    kernel[(1,)](bits.view(np.float64), out, by)
    assert out.view(np.uint64).tolist() == [15, 2**63 + 5, 0, 3]


def test_the_target_is_no_gpu() -> None:
    @triton.jit
    def kernel(x_ptr):
        if tl.target_info.is_cuda() or tl.target_info.is_hip_cdna3() or tl.target_info.cuda_capability_geq(8, 0):
            tl.store(x_ptr, 1.0)
        else:
            tl.store(x_ptr, 2.0)

    x = np.zeros(1, np.float32)
    kernel[(1,)](x)
    assert x[0] == 2 and tl.target_info.current_target().backend == "cpu"
