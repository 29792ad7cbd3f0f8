"""Tracks lanes that the mask of a load leaves out, when the load has no `other`.

The marks say which elements of later tensors depend on such lanes, and which of these elements are stored.

A tensor has `Marks` only if it depends on such lanes, or on lanes that are 0 because of a mask. The marks are known before
the data is computed: a product with a lane that is 0 by its mask depends on nothing, and a `where` with a known condition
depends only on the selected operand. Marks hold arrays and no tensors, because tensors would occupy the scratchpad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.common.vector_ops import REDUCTIONS
from kernbench.sim_engine.replay.math_ops import run_math
from kernbench.triton_emu.handle import KernelTensor

Lanes = Callable[[], Array]  #: elements by truth values, made on first use


MAX_STEPS = 16  #: that are put off
_NO_LINES: frozenset[str] = frozenset()


class Marks:
    """The marks of one tensor, in the shape of the tensor."""

    __slots__ = ("_made", "_steps", "_zero", "left_out", "lines")

    def __init__(self, left_out: Array | None, lines: frozenset[str], zero: Lanes | None, steps: int = 0) -> None:
        """Make marks. `zero` returns the elements that masks make 0, and needs `steps` postponed steps to compute them."""
        self.left_out = left_out  #: elements that depend on lanes without a value; None: none
        self.lines = lines  #: of the loads that left these out
        self._zero = zero
        self._made: Array | None = None
        self._steps = steps
        if steps == MAX_STEPS:  # of a loop that may be long
            self._made, self._zero, self._steps = self._zero() if self._zero is not None else None, None, 0

    @property
    def zero(self) -> Array | None:
        """The elements that are 0 because of masks, or None if no such element is known."""
        if self._made is None and self._zero is not None:
            self._made, self._zero = self._zero(), None
        return self._made

    @property
    def has_zero(self) -> bool:
        """Whether masks may make an element 0, without computing which elements."""
        return self._made is not None or self._zero is not None

    def again(self, change: Callable[[Array], Array]) -> Marks:
        """Return the marks of a tensor whose elements were moved by `change`."""
        zero = (lambda: change(np.asarray(self.zero))) if self.has_zero else None
        return Marks(None if self.left_out is None else change(self.left_out), self.lines, zero, self._steps + 1)


def without_value(active: Array, line: str) -> Marks:
    """Return the marks of a load without `other`, where lanes that are not active have no value."""
    return Marks(~active, frozenset((line,)), None)


def with_zero(active: Array) -> Marks:
    """Return the marks of a load where lanes that are not active are 0."""
    return Marks(None, _NO_LINES, lambda: ~active)


def chosen_zero(picks: Array | None, first: Any, second: Any) -> Marks | None:
    """Return the marks of a `where` with a known condition and an operand that is the number 0."""
    zero = [not isinstance(one, KernelTensor) and one == 0 for one in (first, second)]
    if picks is None or not any(zero):
        return None
    return Marks(None, _NO_LINES, lambda: np.where(picks, *zero))


def after(op: str, operands: Sequence[Any], shape: tuple[int, ...], how: dict[str, Any]) -> Marks | None:
    """Return the marks of the result of an op on tensors and numbers, or None if no operand has marks."""
    marks = [one.marks for one in operands if isinstance(one, KernelTensor) and one.marks is not None]
    if not marks:
        return None
    zero = _zero(op, operands, shape)
    steps = 1 + max([one._steps for one in marks])
    without = [one.lines for one in marks if one.left_out is not None]
    if without:
        left_out = _left_out(op, operands, shape, how)
        if left_out.any():
            return Marks(left_out, _NO_LINES.union(*without), zero, steps)
    return None if zero is None else Marks(None, _NO_LINES, zero, steps)


def after_product(a: KernelTensor, b: KernelTensor, acc: KernelTensor | None, swaps: tuple[bool, bool]) -> Marks | None:
    """Return the marks of `a @ b + acc`; `swaps` says which operand is transposed first."""
    marks = [one.marks for one in (a, b, acc) if one is not None and one.marks is not None and one.marks.left_out is not None]
    if not marks:
        return None
    first, second = ((_of(one), ~_zeros(one)) for one in (a, b))
    if swaps[0]:
        first = first[0].swapaxes(-1, -2), first[1].swapaxes(-1, -2)
    if swaps[1]:
        second = second[0].swapaxes(-1, -2), second[1].swapaxes(-1, -2)
    found = _any_product(first[0], second[1]) | _any_product(first[1], second[0])
    if acc is not None:
        found |= _of(acc)
    return Marks(found, _NO_LINES.union(*(one.lines for one in marks)), None) if found.any() else None


def _any_product(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)) > 0)


def _marks(operand: Any) -> Marks | None:
    return operand.marks if isinstance(operand, KernelTensor) else None


def _of(operand: Any) -> Array:
    """Return which elements of an operand depend on lanes without a value."""
    marks = _marks(operand)
    if marks is None or marks.left_out is None:
        return np.zeros(getattr(operand, "shape", ()), np.bool_)
    return marks.left_out


def _zeros(operand: Any) -> Array:
    """Return which elements of an operand are 0, either by masks or because their values are known."""
    if not isinstance(operand, KernelTensor):
        return np.asarray(operand == 0)
    if operand.value is not None:
        return np.asarray(operand.value == 0)
    zero = None if operand.marks is None else operand.marks.zero
    return np.zeros(operand.shape, np.bool_) if zero is None else zero


def _left_out(op: str, operands: Sequence[Any], shape: tuple[int, ...], how: dict[str, Any]) -> Array:
    """Return which elements of the result of an op depend on lanes without a value."""
    if op in ("mul", "and"):
        first, second = _unless_zero(*operands), _unless_zero(*operands[::-1])
        both = first if second is None else second if first is None else first | second
        return np.broadcast_to(np.asarray(both), shape)
    parts = [_of(one) for one in operands]
    axis: Any = how.get("axis")
    if op in _MOVED:
        return _moved(op, operands, parts, shape)
    if op in REDUCTIONS:
        return np.asarray(parts[0].any(axis=axis, keepdims=bool(how.get("keep_dims")))).reshape(shape)
    if op in ("cumsum", "cumprod"):
        return np.logical_or.accumulate(parts[0], axis=axis)
    if op in ("softmax", "sort"):
        return np.broadcast_to(parts[0].any(axis=axis, keepdims=True), shape)
    if op == "gather":
        return _gathered(operands, parts)
    if op == "histogram":
        return np.full(shape, any(one.any() for one in parts))
    if op == "fma":
        first, second = (one & ~_zeros(other) for one, other in zip(parts[:2], (operands[1], operands[0]), strict=True))
        return np.broadcast_to(first | second | parts[2], shape)
    if op == "where" and isinstance(operands[0], KernelTensor) and operands[0].value is not None:
        return np.broadcast_to(np.where(operands[0].value, parts[1], parts[2]) | parts[0], shape)
    found = np.zeros(shape, np.bool_)
    for one in parts:
        found = found | one
    return found


def _unless_zero(one: Any, other: Any) -> Array | None:
    """Return the elements of `one` that count in a product with `other`; None means no element."""
    marks = _marks(one)
    if marks is None or marks.left_out is None:
        return None
    return marks.left_out if _is_pending(other) else marks.left_out & ~_zeros(other)


def _is_pending(operand: Any) -> bool:
    """Return whether no element of the operand is known."""
    return isinstance(operand, KernelTensor) and operand.value is None and (operand.marks is None or not operand.marks.has_zero)


#: Ops that put elements in other places, and do it with truth values too.
_MOVED = frozenset({"permute", "slice", "concat", "flip", "reshape"})


def _moved(op: str, operands: Sequence[Any], parts: Sequence[Array], shape: tuple[int, ...]) -> Array:
    inputs = [part for part, one in zip(parts, operands, strict=True) if isinstance(one, KernelTensor)]
    numbers = {i: one for i, one in enumerate(operands) if not isinstance(one, KernelTensor)}
    return run_math({"op": op, "scalars": numbers, "shape_out": shape, "dtype": "bool"}, op, inputs)


def _gathered(operands: Sequence[Any], parts: Sequence[Array]) -> Array:
    index, axis = operands[1], operands[2]
    if index.value is None:
        return np.broadcast_to(parts[0].any(), index.shape) | parts[1]
    return np.asarray(np.take_along_axis(parts[0], index.value.astype(np.int64), axis) | parts[1])


def _zero(op: str, operands: Sequence[Any], shape: tuple[int, ...]) -> Lanes | None:
    """Return a function that computes which elements of a result masks make 0, or None."""
    if op in ("mul", "and"):
        first, second = (_later(one) for one in operands)
        return lambda: np.broadcast_to(first() | second(), shape)
    if op in ("cast", "copy", "neg", "abs", "tf32"):
        only = _later(operands[0])
        return lambda: np.broadcast_to(only(), shape)
    if op == "where" and isinstance(operands[0], KernelTensor) and operands[0].value is not None:
        chosen, first, second = operands[0].value, _later(operands[1]), _later(operands[2])
        return lambda: np.broadcast_to(np.where(chosen, first(), second()), shape)
    if op in _MOVED - {"concat"}:
        marks = _marks(operands[0])
        how = {"op": op, "scalars": dict(enumerate(operands[1:])), "shape_out": shape, "dtype": "bool"}
        return (lambda: run_math(how, op, [np.asarray(marks.zero)])) if marks is not None and marks.has_zero else None
    return None


def _later(operand: Any) -> Lanes:
    """Return a function that computes `_zeros` later and does not keep the tensor."""
    if not isinstance(operand, KernelTensor):
        return lambda: np.asarray(operand == 0)
    value, marks, shape = operand.value, operand.marks, operand.shape
    if value is not None:
        return lambda: np.asarray(value == 0)
    return lambda: found if marks is not None and (found := marks.zero) is not None else np.zeros(shape, np.bool_)
