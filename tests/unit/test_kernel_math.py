"""Math of `tl`: values as numpy computes them, types, what is known at once, and cycles by docs/model/compute.md."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.testing.evaluate import evaluate
from kernbench.triton_emu.op_types import elementwise_type, product_shape, promoted, reduced
from kernbench.triton_emu.tl.functions import UNARY
from tests.kernels import Run, easy

X = np.linspace(0.25, 4, 64, dtype=np.float32).reshape(8, 8)
Y = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)
ERF = np.vectorize(math.erf)
WANT = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "gelu": lambda x: x / 2 * (1 + ERF(x / 2**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "abs": np.abs, "neg": np.negative,
    "floor": np.floor, "ceil": np.ceil, "sin": np.sin, "cos": np.cos, "erf": ERF,
}  # fmt: skip
MORE = {
    "add": (lambda tl, x, y: tl.add(x, y), X + Y),
    "radd": (lambda tl, x, y: 1.5 + x, X + 1.5),
    "sub": (lambda tl, x, y: x - y, X - Y),
    "rsub": (lambda tl, x, y: 1 - x, 1 - X),
    "mul": (lambda tl, x, y: x * y, X * Y),
    "div": (lambda tl, x, y: y / x, Y / X),
    "rdiv": (lambda tl, x, y: 1 / x, 1 / X),
    "floordiv": (lambda tl, x, y: y // x, np.floor(Y / X)),
    "mod": (lambda tl, x, y: x % 1.0, np.fmod(X, 1)),
    "maximum": (lambda tl, x, y: tl.maximum(x, y), np.maximum(X, Y)),
    "minimum": (lambda tl, x, y: tl.minimum(x, 1), np.minimum(X, 1)),
    "where": (lambda tl, x, y: tl.where(x > y, x, y * 2), np.where(X > Y, X, Y * 2)),
    "where numbers": (lambda tl, x, y: tl.cast(tl.where(x >= 1.0, 1, 0), "f32"), (X >= 1).astype(np.float32)),
    "neg": (lambda tl, x, y: -x, -X),
    "abs": (lambda tl, x, y: abs(y), np.abs(Y)),
    "dot": (lambda tl, x, y: x @ y, X @ Y),
    "transposed": (lambda tl, x, y: tl.dot(x, y, transpose_a=True, transpose_b=True), X.T @ Y.T),
    "acc": (lambda tl, x, y: tl.dot(x, y, tl.full((8, 8), 2.0, "f32")), X @ Y + 2),
    "transpose": (lambda tl, x, y: tl.transpose(x), X.T),
    "row": (lambda tl, x, y: x + tl.sum(y, axis=0), X + Y.sum(0)),
    "sum": (lambda tl, x, y: tl.sum(x, axis=1, keep_dims=True), X.sum(1, keepdims=True)),
    "max": (lambda tl, x, y: tl.max(y), Y.max()),
    "min": (lambda tl, x, y: tl.min(y, axis=-1), Y.min(-1)),
    "cumsum": (lambda tl, x, y: tl.cumsum(x), X.cumsum(0)),
    "cumsum of rows": (lambda tl, x, y: tl.cumsum(y, axis=-1), Y.cumsum(1)),
    "cumsum from the end": (lambda tl, x, y: tl.cumsum(x, 1, reverse=True), X[:, ::-1].cumsum(1)[:, ::-1]),
    "cumprod": (lambda tl, x, y: tl.cumprod(x, axis=1), X.cumprod(1)),
    "softmax": (lambda tl, x, y: tl.softmax(y), np.exp(Y) / np.exp(Y).sum(1, keepdims=True)),
    "softmax axis": (lambda tl, x, y: tl.softmax(y, axis=0), np.exp(Y) / np.exp(Y).sum(0)),
    "layernorm": (
        lambda tl, x, y: tl.layernorm(x, eps=0.5),
        (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 0.5),
    ),
    "rmsnorm": (lambda tl, x, y: tl.rmsnorm(x), X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-5)),
}


def result(do: Any, dtype: str = "f32") -> Any:
    def kernel(tl: Any) -> None:
        tl.store(8192, do(tl, tl.load(0, (8, 8), "f32"), tl.load(256, (8, 8), "f32")))

    run = Run(kernel, memory={0: X, 256: Y}).run()
    record = [one for one in run.log if one.op_name == "dma_write"][-1]  # type: ignore[union-attr]
    assert record.params["dtype"] == dtype
    return DataExecutor(run.log).run().store.read("hbm", 8192, record.params["shape"], dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_tensor(op: str) -> None:
    np.testing.assert_allclose(result(lambda tl, x, y: getattr(tl, op)(x)), WANT[op](X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", MORE)
def test_ops_and_operators(case: str) -> None:
    do, want = MORE[case]
    found = result(do)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert found.shape == np.shape(want)


def test_argmax_is_an_index() -> None:
    assert result(lambda tl, x, y: tl.argmax(x, axis=1), "i32").tolist() == [7] * 8


def test_casts_and_comparisons_have_types() -> None:
    assert np.array_equal(result(lambda tl, x, y: x > y, "bool"), X > Y)
    assert np.array_equal(result(lambda tl, x, y: ~(x > y) | (x == y), "bool"), ~(X > Y) | (X == Y))
    assert np.array_equal(result(lambda tl, x, y: tl.cast(x, "i32"), "i32"), X.astype(np.int32))
    assert np.array_equal(result(lambda tl, x, y: tl.dot(x, y, out_dtype="f16"), "f16"), (X @ Y).astype(np.float16))


INTEGERS = {
    "add": (lambda i, tl: i + 3, [-1, 0, 6, 11]),
    "rsub": (lambda i, tl: 10 - i, [14, 13, 7, 2]),
    "mul": (lambda i, tl: i * i, [16, 9, 9, 64]),
    "floordiv cuts towards zero": (lambda i, tl: i // 3, [-1, -1, 1, 2]),
    "mod has the dividend's sign": (lambda i, tl: i % 3, [-1, 0, 0, 2]),
    "shl": (lambda i, tl: i << 2, [-16, -12, 12, 32]),
    "shr": (lambda i, tl: i >> 1, [-2, -2, 1, 4]),
    "and": (lambda i, tl: i & 6, [4, 4, 2, 0]),
    "xor": (lambda i, tl: i ^ 1, [-3, -4, 2, 9]),
    "or": (lambda i, tl: i | 8, [-4, -3, 11, 8]),
    "invert": (lambda i, tl: ~i, [3, 2, -4, -9]),
    "neg": (lambda i, tl: -i, [4, 3, -3, -8]),
    "compare": (lambda i, tl: i >= 3, [False, False, True, True]),
    "equal": (lambda i, tl: i != 3, [True, True, False, True]),
    "where": (lambda i, tl: tl.where(i < 0, 0, i), [0, 0, 3, 8]),
    "max": (lambda i, tl: tl.max(i), 8),
    "sum": (lambda i, tl: tl.sum(i, axis=0, keep_dims=True), [4]),
    "cumsum": (lambda i, tl: tl.cumsum(i), [-4, -7, -4, 4]),
    "cumsum from the end": (lambda i, tl: tl.cumsum(i, reverse=True), [4, 8, 11, 8]),
    "cumprod": (lambda i, tl: tl.cumprod(i, -1), [-4, 12, 36, 288]),
    "cumsum of truth values": (lambda i, tl: tl.cumsum(i > 0), [0, 0, 1, 2]),
    "arange": (lambda i, tl: i + tl.arange(4), [-4, -2, 5, 11]),
    "an array": (lambda i, tl: i + np.array([1, 1, 2, 2], np.int32), [-3, -2, 5, 10]),
    "full": (lambda i, tl: i * tl.full((4,), 2, "i32"), [-8, -6, 6, 16]),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_known_integers_are_computed_at_once(case: str) -> None:
    do, want = INTEGERS[case]
    found: list[Any] = []

    def kernel(tl: Any) -> None:
        i = tl.load(0, (4,), "i32")
        before = tl._runner.now
        found.extend([do(i, tl).tolist(), tl._runner.now - before])

    run = Run(kernel, memory={0: np.array([-4, -3, 3, 8], np.int32)}).run()
    assert found == [want, 0]
    assert [one.op_name for one in run.log] == ["dma_read"]  # type: ignore[union-attr]


def test_an_integer_that_an_engine_needs_is_written_first() -> None:
    def kernel(tl: Any) -> None:
        i = tl.load(0, (4,), "i32") + 1
        tl.store(64, tl.cast(i, "f32") * 2.0)
        tl.store(128, i)

    run = Run(kernel, memory={0: np.arange(4, dtype=np.int32)}).run()
    names = [one.op_name for one in run.log]  # type: ignore[union-attr]
    assert names.count("memory_write") == 1
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    assert store.read("hbm", 64, (4,), "f32").tolist() == [2, 4, 6, 8]
    assert store.read("hbm", 128, (4,), "i32").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("do", "cycles"),
    [
        (lambda tl, x: x + x, 2 + 4 + 1),  # 256 elements by 64 lanes
        (lambda tl, x: tl.exp(x), 2 + 4 + 9 + 1),
        (lambda tl, x: tl.sum(x), 2 + 4 + 3 + 8 + 1),  # a tree of log2 256 levels
        (lambda tl, x: tl.sum(x, axis=1), 2 + 4 + 3 + 4 + 15 + 1),  # 16 rows through a tree of log2 16
        (lambda tl, x: tl.softmax(x), 2 + 22 + 4 + 9 + 22 + 4 + 1),
        (lambda tl, x: tl.layernorm(x), 2 + 22 + 4 + 5 + 1),
        (lambda tl, x: tl.cumsum(x, axis=1), 2 + 4 + 1),
    ],
)
def test_vector_ops_take_the_models_cycles(do: Any, cycles: int) -> None:
    ve = {"init_cycles": 2, "finalize_cycles": 1, "reduction_pipeline": 3, "sfu": {"exp": 9, "rsqrt": 5}}

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        tl.wait(do(tl, x))

    run = Run(kernel, memory={0: np.ones((16, 16), np.float32)}, config=easy(ve=ve)).run()
    record = run.log[1]  # type: ignore[index]
    assert record.t_end - record.t_start == cycles


def test_engines_are_chosen_by_how_much_they_have_to_do() -> None:
    """Two tensor engines: products of 64, 1 and 1 cycles."""

    def kernel(tl: Any) -> None:
        a, wide = tl.zeros((16, 16), "f32"), tl.zeros((16, 1024), "f32")
        tl.wait()
        tl.dot(a, wide)
        tl.dot(a, a)
        tl.dot(a, a)

    run = Run(kernel, memory={}).run()
    times = [(one.t_start, one.t_end) for one in run.log if one.op_kind == "gemm"]  # type: ignore[union-attr]
    start = times[0][0]
    # The third has a choice between two engines with a command each: the first of them, behind the 64 cycles.
    assert times == [(start, start + 1), (start, start + 64), (start + 64, start + 65)]


def test_types_of_results() -> None:
    assert promoted(("f16", "f32")) == "f32" and promoted(("f16", "bf16")) == "f32" and promoted(("i8", "f16")) == "f16"
    assert promoted(("i8", "u8")) == "i32" and promoted(("i32", "i16")) == "i32" and promoted(("bool", "i8")) == "i8"
    assert elementwise_type("add", ["i32"], [1.5]) == "f32" and elementwise_type("add", ["f16"], [1.5]) == "f16"
    assert elementwise_type("exp", ["i8"], []) == "f32" and elementwise_type("lt", ["f16", "f16"], []) == "bool"
    assert elementwise_type("add", ["bool", "bool"], []) == "i32" and elementwise_type("and", ["bool", "bool"], []) == "bool"
    assert reduced((2, 3, 4), 1, True) == (2, 1, 4) and reduced((2, 3), None, False) == ()
    assert product_shape((5, 2, 3), (3, 4), False, False) == (2, 3, 4, (5, 2, 4))


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons_of_equal_and_other_elements_are_those_of_numpy(compare: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([1, 2, 2, 3, 5, 5], np.int32), np.array([2, 2, 1, 3, 4, 6], np.int32)

    def kernel(x: Any, y: Any, tl: Any) -> Any:
        left, right = tl.load(x, (6,), "i32"), tl.load(y, (6,), "i32")
        return tl.cast(compare(left, right), "i32") * 2 + tl.cast(compare(left, 2), "i32")

    found = evaluate(kernel, a, b, config="npu_mobile")
    assert found.tolist() == (compare(a, b).astype(int) * 2 + compare(a, 2).astype(int)).tolist()
