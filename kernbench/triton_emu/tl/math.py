"""Math of `tl`: ops on known integers and truth values are evaluated immediately; a vector engine executes all other ops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import index
from types import FrameType
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.pe_ops import MathCmd
from kernbench.sim_engine.replay.math_ops import run_math
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.frames import caller, line_at
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.op_types import TO_BOOL, TO_INDEX, broadcast, elementwise_type, lengths_of, reduced
from kernbench.triton_emu.tl.products import TlProducts, check_acc

MATERIALIZED = 64  # most elements of a result that Phase 1 computes itself


@cache
def _type_of(op: str, dtypes: tuple[str, ...]) -> str:
    """The type of an elementwise op on tensors."""
    return elementwise_type(op, dtypes, ())


class TlMath(TlProducts):
    """The elementwise ops and the reductions of `tl`."""

    # Elementwise.

    def unary(
        self, op: str, x: Any, frame: FrameType, *, out: Any = None, dtype: str | None = None, materialize: bool = False
    ) -> KernelTensor:
        """Run an op with one operand; `frame` is the frame of the caller."""
        return self._elementwise(op, (x,), frame, out, dtype, materialize)

    def binary(self, op: str, x: Any, y: Any, frame: FrameType, *, out: Any = None) -> KernelTensor:
        """Run an op with two operands; `frame` is the frame of the caller. On integers, `truediv` gives f32, and `floordiv`
        truncates."""
        if op in ("truediv", "floordiv"):
            floats = self._is_float(x) or self._is_float(y)
            if op == "truediv" and not floats:
                tensor = x if isinstance(x, KernelTensor) else y
                x, y = [self._elementwise("cast", (one,), frame, None, "f32") if one is tensor else one for one in (x, y)]
            result = self._elementwise("div", (x, y), frame, out)
            return self._elementwise("floor", (result,), frame, out) if op == "floordiv" and floats else result
        return self._elementwise(op, (x, y), frame, out)

    @staticmethod
    def _is_float(value: Any) -> bool:
        if isinstance(value, KernelTensor):
            return dtype_of(value.dtype).kind == "float"
        return isinstance(value, float | np.floating)

    def _elementwise(
        self,
        op: str,
        given: tuple[Any, ...],
        frame: FrameType,
        out: Any = None,
        dtype: str | None = None,
        materialize: bool = False,
    ) -> KernelTensor:
        line = line_at(frame)
        operands, tensors, scalars, dtypes = [], [], [], []
        for one in given:
            value = self._value(one, line)
            operands.append(value)
            if isinstance(value, KernelTensor):
                tensors.append(value)
                dtypes.append(value.dtype)
            else:
                scalars.append(value)
        if not tensors:
            raise KernelError(f"{line}: {op} takes at least one tensor of tl")
        shape = _shape_of(op, tensors, line)
        if dtype is None:
            try:
                dtype = elementwise_type(op, dtypes, scalars) if scalars else _type_of(op, tuple(dtypes))
            except ValueError as error:
                raise KernelError(f"{line}: {error}") from None
        return self.computed(op, operands, shape, dtype, line, out, None, materialize)

    def _value(self, value: Any, line: str) -> Any:
        """An operand: a tensor of tl, or a number."""
        if isinstance(value, KernelTensor):
            tile: KernelTensor = value
            if tile.flight is not None and dtype_of(tile.dtype).kind != "float":
                self._runner.wait_implicitly(tile.flight, tile.handle_id, line)
            return tile
        if isinstance(value, np.ndarray) and value.ndim:
            return self._known(np.ascontiguousarray(value), dtype_of(value.dtype).name, line)
        if isinstance(value, np.generic | np.ndarray):
            value = value.item()
        if not isinstance(value, bool | int | float):
            raise KernelError(f"{line}: an operand must be a tensor of tl or a number, and this is a {type(value).__name__}")
        return value

    def _compute(
        self,
        op: str,
        operands: Sequence[Any],
        shape: tuple[int, ...],
        dtype: str,
        line: str,
        out: KernelTensor | None,
        how: dict[str, Any] | None,
        materialize: bool,
    ) -> KernelTensor:
        """The same as `computed`, for modules that are not compiled."""
        return self.computed(op, operands, shape, dtype, line, out, how, materialize)

    def computed(
        self,
        op: str,
        operands: Sequence[Any],
        shape: tuple[int, ...],
        dtype: str,
        line: str,
        out: KernelTensor | None,
        how: dict[str, Any] | None,
        materialize: bool,
    ) -> KernelTensor:
        """Evaluate the op immediately if all operands are known and no type is a float; otherwise use a vector engine. `how`:
        axis, keep_dims, dtype_acc."""
        runner = self._runner
        if out is None and _is_known(operands, dtype):
            runner.scalar_work()
            return self._known(_evaluate(op, operands, shape, dtype, how or {}), dtype, line)
        placed = []
        for one in operands:
            placed.append(self.operand_tile(one, line) if isinstance(one, KernelTensor) else one)
        tile = self.result_tile(out, shape, dtype, line, op)
        msg = MathCmd.__new__(MathCmd)
        msg.op, msg.inputs, msg.out, msg.line, msg.dependency_ids = op, placed, tile, line, ()
        msg.axis, msg.keep_dims, msg.dtype_acc = None, False, ""
        msg.mask, msg.other, msg.value, msg._quiet, msg.op_id = None, 0, None, False, runner.memory.new_id()
        if how is not None:
            msg.axis, msg.keep_dims, msg.dtype_acc = how.get("axis"), how.get("keep_dims", False), how.get("dtype_acc", "")
        if materialize:
            msg.value = self._materialized(msg, line)
        self.issue_for(msg, tile, line)
        return tile

    def _materialized(self, msg: MathCmd, line: str) -> Array:
        """The result of a small op on known operands, so that the kernel can read it; Phase 2 verifies the result."""
        for one in msg.handles:
            if one.value is None:
                raise KernelError(f"{line}: {msg.op} cannot be materialized: {one.handle_id} ({one.line}) is pending itself")
        count = int(np.prod(msg.out.shape, dtype=np.int64))
        if count > MATERIALIZED:
            raise KernelError(f"{line}: {msg.op} has {count} elements; at most {MATERIALIZED} are materialized in Phase 1")
        how = {"axis": msg.axis, "keep_dims": msg.keep_dims, "dtype_acc": msg.dtype_acc}
        return _evaluate(msg.op, msg.inputs, msg.out.shape, msg.out.dtype, how)

    def add(self, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """`x + y`, elementwise.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        `materialize`: as in `exp`. Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.add(tl.load(x, (2,), "i64"), 3), [1, 2])
        array([4, 5])
        """
        return self._elementwise("add", (x, y), caller(), out, None, materialize)

    def sub(self, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """`x - y`, elementwise.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        `materialize`: as in `exp`. Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.sub(tl.load(x, (2,), "i64"), 3), [1, 2])
        array([-2, -1])
        """
        return self._elementwise("sub", (x, y), caller(), out, None, materialize)

    def mul(self, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """`x * y`, elementwise.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        `materialize`: as in `exp`. Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.mul(tl.load(x, (2,), "i64"), 3), [1, 2])
        array([3, 6])
        """
        return self._elementwise("mul", (x, y), caller(), out, None, materialize)

    def div(self, x: Any, y: Any, *, out: Any = None) -> KernelTensor:
        """`x / y`, elementwise; the quotient of two integers is f32.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.div(tl.load(x, (2,), "i64"), 2), [1, 2])
        array([0.5, 1. ], dtype=float32)
        """
        return self.binary("truediv", x, y, caller(), out=out)

    def maximum(self, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """The larger of `x` and `y`, elementwise.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        `materialize`: as in `exp`. Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.maximum(tl.load(x, (2,), "i64"), 3), [1, 5])
        array([3, 5])
        """
        return self._elementwise("maximum", (x, y), caller(), out, None, materialize)

    def minimum(self, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """The smaller of `x` and `y`, elementwise.

        `x`, `y`: tensors whose shapes broadcast, or one tensor and a number. `out`: a tile that receives the result.
        `materialize`: as in `exp`. Raises KernelError if the shapes do not fit.

        >>> evaluate(lambda x, tl: tl.minimum(tl.load(x, (2,), "i64"), 3), [1, 5])
        array([1, 3])
        """
        return self._elementwise("minimum", (x, y), caller(), out, None, materialize)

    def where(self, condition: Any, x: Any, y: Any, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """`x` where the condition is true, and `y` elsewhere.

        `condition`: a bool tensor. `x`, `y`: tensors or numbers; all three shapes broadcast. `out`: a tile that receives the
        result. `materialize`: as in `exp`. Raises KernelError if the shapes do not broadcast.

        >>> evaluate(lambda tl: tl.where(tl.arange(4) > 1, tl.arange(4), 0))
        array([0, 0, 2, 3], dtype=int32)
        """
        frame = caller()
        if not (isinstance(x, KernelTensor) or isinstance(y, KernelTensor)):
            floats = isinstance(x, float) or isinstance(y, float)
            return self._elementwise("where", (condition, x, y), frame, out, "f32" if floats else "i32", materialize)
        return self._elementwise("where", (condition, x, y), frame, out, None, materialize)

    def cast(self, x: Any, dtype: str, *, out: Any = None, materialize: bool = False) -> KernelTensor:
        """The elements of `x` converted to another type, rounded to the nearest value and ties to even. Raises KernelError for
        a type that does not exist.

        `dtype`: the new element type. `out`: a tile that receives the result. `materialize`: as in `exp`.

        >>> evaluate(lambda tl: tl.cast(tl.arange(3), "f32"))
        array([0., 1., 2.], dtype=float32)
        """
        return self._elementwise("cast", (x,), caller(), out, dtype, materialize)

    def transpose(self, x: Any, *, out: Any = None) -> KernelTensor:
        """`x` with its last two axes swapped. Raises KernelError if it has fewer than two axes.

        `out`: a tile that receives the result.

        >>> evaluate(lambda x, tl: tl.transpose(tl.load(x, x.shape, x.dtype)), [[1, 2, 3], [4, 5, 6]])
        array([[1, 4],
               [2, 5],
               [3, 6]])
        """
        return self._elementwise("transpose", (x,), caller(), out)

    def full(self, shape: Sequence[int] | int, value: bool | int | float, dtype: str, *, out: Any = None) -> KernelTensor:
        """A tensor with the same value in every element.

        `shape`: lengths of the axes. `value`: the element. `dtype`: the element type. `out`: a tile that receives the result.

        Its elements are known if they are not floats; a vector engine writes floats. Raises KernelError for a negative length.

        >>> evaluate(lambda tl: tl.full((2, 2), 7, "i32"))
        array([[7, 7],
               [7, 7]], dtype=int32)
        """
        line = line_at(caller())
        shape = lengths_of(shape, line)
        return self.computed("full", (value,), shape, dtype, line, out, None, False)

    def zeros(self, shape: Sequence[int] | int, dtype: str, *, out: Any = None) -> KernelTensor:
        """A tensor of zeros. `shape`, `dtype` and `out`: as in `full`.

        >>> evaluate(lambda tl: tl.zeros((3,), "f32"))
        array([0., 0., 0.], dtype=float32)
        """
        line = line_at(caller())
        shape = lengths_of(shape, line)
        return self.computed("full", (0,), shape, dtype, line, out, None, False)

    def arange(self, start: int, stop: int | None = None, dtype: str = "i32") -> KernelTensor:
        """The integers `[start, stop)` as a known tensor with one axis; `arange(n)` begins at 0.

        `start`, `stop`: the first integer, and the integer after the last. `dtype`: the element type.

        >>> evaluate(lambda tl: tl.arange(2, 5))
        array([2, 3, 4], dtype=int32)
        """
        line = line_at(caller())
        first, last = (0, start) if stop is None else (start, stop)
        return self._known(np.arange(first, last).astype(dtype_of(dtype).numpy), dtype, line)

    # Reductions and normalisations along axes.

    def _reduce(
        self, op: str, x: Any, axis: int | None, keep_dims: bool, frame: FrameType, materialize: bool, dtype_acc: str = ""
    ) -> KernelTensor:
        line = line_at(frame)
        x = self._value(x, line)
        if not isinstance(x, KernelTensor):
            raise KernelError(f"{line}: {op} needs a tensor of tl, and x is of type {type(x).__name__}")
        axis = None if axis is None else self._axis(x, axis, op, line)
        check_acc(dtype_acc, line)
        dtype = "bool" if op in TO_BOOL else "i32" if op in TO_INDEX or x.dtype == "bool" else x.dtype
        how = {"axis": axis, "keep_dims": keep_dims, "dtype_acc": dtype_acc}
        return self.computed(op, (x,), reduced(x.shape, axis, keep_dims), dtype, line, None, how, materialize)

    def _axis(self, x: KernelTensor, axis: Any, op: str, line: str) -> int:
        try:
            number = index(axis)
        except TypeError:
            raise KernelError(f"{line}: {op} along axis {axis!r}: an axis is an integer") from None
        if not -len(x.shape) <= number < len(x.shape):
            raise KernelError(f"{line}: {op} along axis {number} of {list(x.shape)}: it has {len(x.shape)} axes")
        return number % len(x.shape)

    def sum(
        self, x: Any, axis: int | None = None, keep_dims: bool = False, *, dtype_acc: str = "", materialize: bool = False
    ) -> KernelTensor:
        """The sum along an axis.

        `x`: a tensor. `axis`: None reduces all elements to a tensor without axes. `keep_dims`: keep the axis with length 1.
        `materialize`: as in `exp`. Raises KernelError for an axis that the tensor does not have. `dtype_acc`: round to this
        type after each addition.

        >>> evaluate(lambda x, tl: tl.sum(tl.load(x, x.shape, x.dtype), axis=0), [[1, 5], [3, 2]])
        array([4, 7])
        """
        return self._reduce("sum", x, axis, keep_dims, caller(), materialize, dtype_acc)

    def max(self, x: Any, axis: int | None = None, keep_dims: bool = False, *, materialize: bool = False) -> KernelTensor:
        """The largest element along an axis.

        `x`: a tensor. `axis`: None reduces all elements to a tensor without axes. `keep_dims`: keep the axis with length 1.
        `materialize`: as in `exp`. Raises KernelError for an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.max(tl.load(x, x.shape, x.dtype), axis=0), [[1, 5], [3, 2]])
        array([3, 5])
        """
        return self._reduce("max", x, axis, keep_dims, caller(), materialize)

    def min(self, x: Any, axis: int | None = None, keep_dims: bool = False, *, materialize: bool = False) -> KernelTensor:
        """The smallest element along an axis.

        `x`: a tensor. `axis`: None reduces all elements to a tensor without axes. `keep_dims`: keep the axis with length 1.
        `materialize`: as in `exp`. Raises KernelError for an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.min(tl.load(x, x.shape, x.dtype), axis=0), [[1, 5], [3, 2]])
        array([1, 2])
        """
        return self._reduce("min", x, axis, keep_dims, caller(), materialize)

    def argmax(self, x: Any, axis: int | None = None, keep_dims: bool = False, *, materialize: bool = False) -> KernelTensor:
        """The index of the largest element along an axis; of equal elements, the first.

        `x`: a tensor. `axis`: None reduces all elements to a tensor without axes. `keep_dims`: keep the axis with length 1.
        `materialize`: as in `exp`. Raises KernelError for an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.argmax(tl.load(x, x.shape, x.dtype), axis=0), [[1, 5], [3, 2]])
        array([1, 0], dtype=int32)
        """
        return self._reduce("argmax", x, axis, keep_dims, caller(), materialize)

    def _scan(self, op: str, x: Any, axis: int, reverse: bool, frame: FrameType) -> KernelTensor:
        line = line_at(frame)
        x = self._value(x, line)
        if not isinstance(x, KernelTensor):
            raise KernelError(f"{line}: {op} needs a tensor of tl, and x is of type {type(x).__name__}")
        along = self._axis(x, axis, op, line)
        dtype = "i32" if x.dtype == "bool" else x.dtype
        if reverse:
            x = self.computed("flip", (x, along), x.shape, x.dtype, line, None, None, False)
        found = self.computed(op, (x,), x.shape, dtype, line, None, {"axis": along}, False)
        return self.computed("flip", (found, along), x.shape, dtype, line, None, None, False) if reverse else found

    def cumsum(self, x: Any, axis: int = 0, reverse: bool = False) -> KernelTensor:
        """The cumulative sums along an axis: element i of the result is the sum of elements 0 to i.

        `axis`: the axis along which elements are added. `reverse`: add from the end of the axis, which takes two more ops.

        The result has the shape and the type of `x`; bool becomes i32. Raises KernelError for an axis that the tensor does not
        have.

        >>> evaluate(lambda x, tl: tl.cumsum(tl.load(x, x.shape, x.dtype)), [1, 5, 2])
        array([1, 6, 8])
        >>> evaluate(lambda x, tl: tl.cumsum(tl.load(x, x.shape, x.dtype), reverse=True), [1, 5, 2])
        array([8, 7, 2])
        """
        return self._scan("cumsum", x, axis, reverse, caller())

    def cumprod(self, x: Any, axis: int = 0, reverse: bool = False) -> KernelTensor:
        """The cumulative products along an axis: element i of the result is the product of elements 0 to i.

        `axis`: the axis along which elements are multiplied. `reverse`: multiply from the end of the axis, which takes two more
        ops.

        The result has the shape and the type of `x`; bool becomes i32. Raises KernelError for an axis that the tensor does not
        have.

        >>> evaluate(lambda x, tl: tl.cumprod(tl.load(x, x.shape, x.dtype)), [1, 5, 2])
        array([ 1,  5, 10])
        """
        return self._scan("cumprod", x, axis, reverse, caller())

    def _rows(self, op: str, x: Any, axis: int, frame: FrameType, *scalars: float) -> KernelTensor:
        line = line_at(frame)
        x = self._value(x, line)
        if not isinstance(x, KernelTensor):
            raise KernelError(f"{line}: {op} needs a tensor of tl, and x is of type {type(x).__name__}")
        dtype = x.dtype if dtype_of(x.dtype).kind == "float" else "f32"
        how = {"axis": self._axis(x, axis, op, line)}
        return self.computed(op, (x, *scalars), x.shape, dtype, line, None, how, False)

    def softmax(self, x: Any, axis: int = -1) -> KernelTensor:
        """`exp(x - max(x)) / sum(exp(x - max(x)))` along an axis.

        `axis`: the axis over which the elements of the result add up to 1.

        The result has the shape of `x`; integers become f32. The function is one op of a vector engine. Raises KernelError for
        an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.softmax(tl.load(x, x.shape, x.dtype)), np.array([1, 1], np.float32)).round(3)
        array([0.5, 0.5], dtype=float32)
        """
        return self._rows("softmax", x, axis, caller())

    def layernorm(self, x: Any, eps: float = 1e-5, axis: int = -1) -> KernelTensor:
        """`(x - mean) / sqrt(variance + eps)` along an axis.

        `axis`: the axis over which mean and variance are taken. `eps`: a number that is added to the variance.

        The result has the shape of `x`; integers become f32. The function is one op of a vector engine. Raises KernelError for
        an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.layernorm(tl.load(x, x.shape, x.dtype)), np.array([1, 3], np.float32)).round(3)
        array([-1.,  1.], dtype=float32)
        """
        return self._rows("layernorm", x, axis, caller(), eps)

    def rmsnorm(self, x: Any, eps: float = 1e-5, axis: int = -1) -> KernelTensor:
        """`x / sqrt(mean(x * x) + eps)` along an axis.

        `axis`: the axis over which the mean is taken. `eps`: a number that is added to the mean.

        The result has the shape of `x`; integers become f32. The function is one op of a vector engine. Raises KernelError for
        an axis that the tensor does not have.

        >>> evaluate(lambda x, tl: tl.rmsnorm(tl.load(x, x.shape, x.dtype)), np.array([1, 3], np.float32)).round(3)
        array([0.447, 1.342], dtype=float32)
        """
        return self._rows("rmsnorm", x, axis, caller(), eps)


def _shape_of(op: str, tensors: list[KernelTensor], line: str) -> tuple[int, ...]:
    """The shape of the result of an elementwise op."""
    first: KernelTensor = tensors[0]
    shape = first.shape
    for one in tensors:
        tile: KernelTensor = one
        if tile.shape is not shape and tile.shape != shape:
            try:
                shape = broadcast(*[one.shape for one in tensors])
            except ValueError:
                shapes = ", ".join([str(list(one.shape)) for one in tensors])
                raise KernelError(f"{line}: {op} of tensors whose shapes do not fit: {shapes}") from None
            break
    if op != "transpose":
        return shape
    if len(shape) < 2:
        raise KernelError(f"{line}: transpose swaps the last two axes, and {list(shape)} has {len(shape)}")
    return (*shape[:-2], shape[-1], shape[-2])


def _is_known(operands: Sequence[Any], dtype: str) -> bool:
    """Whether all operands are known, and neither they nor the result are floats."""
    for one in operands:
        if isinstance(one, KernelTensor):
            tile: KernelTensor = one
            if tile.value is None or dtype_of(tile.dtype).kind == "float":
                return False
        elif isinstance(one, float):
            return False
    return dtype_of(dtype).kind != "float"


def _evaluate(op: str, operands: Sequence[Any], shape: tuple[int, ...], dtype: str, how: dict[str, Any]) -> Array:
    """The same arithmetic as in Phase 2."""
    inputs = [one.value for one in operands if not isinstance(one, bool | int | float)]
    scalars = {i: one for i, one in enumerate(operands) if isinstance(one, bool | int | float)}
    return run_math({**how, "op": op, "scalars": scalars, "shape_out": shape, "dtype": dtype}, op, inputs)
