"""GEMMs of a replay: one, or many of the same form together.

Floats are multiplied in f32, f64 in f64. Products of integers are exact: they are computed in f32 or f64 if all partial sums
fit, else in i64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kernbench.common.dtypes import Array, address_of, dtype_of, narrow, widen
from kernbench.sim_engine.ops.reaches import gemm_shape
from kernbench.sim_engine.replay.math_ops import evaluate, rounding


class GemmForm:
    """The common values of all GEMMs of one template."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        a, b = tuple(params["shape_a"]), tuple(params["shape_b"])
        columns_a = params.get("layout_a", "row_major") == "col_major"
        columns_b = params.get("layout_b", "row_major") == "col_major"
        self.lie_a, self.lie_b = lying(a, columns_a), lying(b, columns_b)  #: the shapes of the matrices in memory
        self._swap_a = columns_a != bool(params.get("transpose_a"))
        self._swap_b = columns_b != bool(params.get("transpose_b"))
        self.shape = gemm_shape(params)
        self.columns_out = params.get("layout_out", "row_major") == "col_major"
        self.dtype_out: str = params["dtype_out"]
        self._numpy_out = dtype_of(self.dtype_out).numpy
        self.k = int(a[-2] if params.get("transpose_a") else a[-1])
        self.tile_k: int = params.get("tile_k") or max(self.k, 1)
        self.round_sum = rounding(params)
        self.exact = _exact(params, self.k)  #: type for products of integers; None for floats
        self._integer: str = params.get("dtype_acc") or "i32"  # that sums of integers wrap in
        #: whether the product of f32 operands is `np.matmul` of both as they lie in memory
        self.plain = not (self._swap_a or self._swap_b or self.columns_out) and 1 < self.k <= self.tile_k
        self.plain = self.plain and self.exact is None and self.round_sum is None
        self.small = self.k * self.shape[-1] * self.shape[-2] <= 64 * 64 * 64  # above it a stack is not faster than a loop

    def product(self, a: Array, b: Array, acc: Array | None) -> Array:
        """`[acc +] a @ b` of widened operands as they lie in memory, stacked or not: f32 or i64, still to be rounded."""
        if self._swap_a:
            a = np.swapaxes(a, -1, -2)
        if self._swap_b:
            b = np.swapaxes(b, -1, -2)
        if acc is not None and self.columns_out:
            acc = np.swapaxes(acc, -1, -2)
        floats: Any = np.float64 if np.float64 in (a.dtype, b.dtype) else np.float32
        wanted: Any = floats if self.exact is None else self.exact
        if a.dtype != wanted:
            a = a.astype(wanted)
        if b.dtype != wanted:
            b = b.astype(wanted)
        if a.strides[-2:] == b.strides[:-3:-1] and address_of(a) == address_of(b):
            b = b.copy(order="K")  # numpy multiplies a matrix by its own transpose in another order
        total = acc
        for k in range(0, self.k, self.tile_k):
            if self.tile_k < self.k:
                part = np.matmul(a[..., k : k + self.tile_k], b[..., k : k + self.tile_k, :])
            else:
                part = np.matmul(a, b)
            if self.exact is not None:
                part = part.astype(np.int64, copy=False)
            if total is not None:
                part = np.add(part, total, out=part) if total.dtype == part.dtype else part + total
            total = part if self.round_sum is None else widen(self.round_sum(part))
        if total is None:
            return np.zeros(self.shape, np.float32 if self.exact is None else np.int64)
        return total if self.exact is None else widen(narrow(total, self._integer))

    def rounded(self, total: Array) -> Array:
        """A product as it is written: of the output's type, as it lies in memory."""
        out = total if total.dtype is self._numpy_out else narrow(total, self.dtype_out)
        return np.ascontiguousarray(np.swapaxes(out, -1, -2)) if self.columns_out else out


def lying(shape: tuple[int, ...], columns: bool) -> tuple[int, ...]:
    """The shape of a matrix as it lies in memory."""
    return (*shape[:-2], shape[-1], shape[-2]) if columns else shape


def _exact(params: Mapping[str, Any], k: int) -> Any:
    """The fastest type in which all partial sums of integer products are exact; None for floats."""
    kinds = [dtype_of(params["dtype_in"]), dtype_of(params.get("dtype_b") or params["dtype_in"])]
    acc = params.get("dtype_acc")
    if "float" in [one.kind for one in kinds] or (acc and dtype_of(acc).kind == "float"):
        return None
    largest = max(k, 1)
    for one in kinds:
        largest *= max(abs(int(one.least)), int(one.most))
    return np.float32 if largest <= 1 << 24 else np.float64 if largest <= 1 << 53 else np.int64


def run_gemm(form: GemmForm, a: Array, b: Array, acc: Array | None, epilogue: Sequence[tuple[str, list[Any]]] = ()) -> Array:
    """One GEMM on widened operands; `epilogue`: ops on the sum, in sequence, before the result is rounded."""
    with np.errstate(all="ignore"):
        return one_gemm(form, a, b, acc, epilogue)


def one_gemm(form: GemmForm, a: Array, b: Array, acc: Array | None, epilogue: Sequence[tuple[str, list[Any]]]) -> Array:
    """The same, with numpy already set to ignore overflows."""
    total = form.product(a, b, acc)
    for op, operands in epilogue:
        total = np.asarray(evaluate(op, [total, *operands]))
    return form.rounded(total)


def run_products(form: GemmForm, a: Sequence[Array], b: Sequence[Array], acc: Sequence[Array] | None, results: Array) -> None:
    """Plain products of f32 matrices, each computed as by `run_gemm`, into an array of the output's type.

    Products whose operands are at regular distances in memory are one call of numpy, in which other Python threads run.
    """
    total = results if results.dtype == np.float32 else np.empty(results.shape, np.float32)
    for start, end in _regular(_addresses(a), _addresses(b)):
        np.matmul(_view(a[start:end]), _view(b[start:end]), out=total[start:end])
    if acc is not None:
        for one, addend in zip(total, acc, strict=True):
            np.add(one, addend, out=one)
    if total is not results:
        results[...] = form.rounded(total)


def _addresses(arrays: Sequence[Array]) -> list[int]:
    known = {id(one): address_of(one) for one in {id(one): one for one in arrays}.values()}
    return [known[id(one)] for one in arrays]


def _regular(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of indices in which the numbers of both sequences grow by constant steps."""
    start, count = 0, len(a)
    while start < count:
        end = min(start + 2, count)
        while end < count and a[end] - a[end - 1] == a[start + 1] - a[start] and b[end] - b[end - 1] == b[start + 1] - b[start]:
            end += 1
        yield start, end
        start = end


def _view(arrays: Sequence[Array]) -> Array:
    """Arrays of one shape at regular distances in memory as one array, without a copy."""
    first = arrays[0]
    if len(arrays) == 1:
        return first[np.newaxis]
    step = address_of(arrays[1]) - address_of(first)
    return as_strided(first, (len(arrays), *first.shape), (step, *first.strides), writeable=False)


def run_stack(form: GemmForm, a: Sequence[Array], b: Sequence[Array], acc: Sequence[Array] | None) -> Array:
    """GEMMs of one form in one product: their results, stacked."""
    with np.errstate(all="ignore"):
        return form.rounded(form.product(np.stack(a), np.stack(b), None if acc is None else np.stack(acc)))
