"""The reductions of collectives: how a kernel combines two tensors, and how numpy does the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec
import numpy as np

from kernbench.ccl.contract import cut
from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.errors import InputError, Problem
from kernbench.common.halves import F16, combined

#: By name: the op and the function of numpy that combine two tensors.
_COMBINE = {
    "sum": ("add", np.add),
    "prod": ("mul", np.multiply),
    "max": ("maximum", np.maximum),
    "min": ("minimum", np.minimum),
}
_COMBINE |= {"avg": _COMBINE["sum"], "premul_sum": _COMBINE["sum"]}
_BITS = {"band": ("and", np.bitwise_and), "bor": ("or", np.bitwise_or), "bxor": ("xor", np.bitwise_xor)}
_COMBINE |= _BITS
NAMES = tuple(_COMBINE)
OPERATIONS = tuple(name for name in NAMES if name != "premul_sum" and name not in _BITS)  #: the operations of nccl-tests
FLOATS_ONLY = ("avg", "premul_sum")


class Reduction(msgspec.Struct, frozen=True):
    """A reduction: `sum`, `prod`, `max`, `min`, `avg`, `premul_sum`, `band`, `bor` or `bxor`.

    `avg` is the sum divided by the number of ranks. `premul_sum` multiplies the elements of each rank by a factor and adds
    the products.
    """

    name: str = "sum"
    factor: float | None = None  #: of premul_sum

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(Problem("reduction", f"it must be one of {', '.join(NAMES)}", "op", str(self.name)))
        if (self.factor is None) == (self.name == "premul_sum"):
            rule = "premul_sum has a factor, and no other operation has one"
            raise InputError(Problem("reduction", rule, self.name, "no factor" if self.factor is None else self.factor))

    def check(self, where: str, dtype: str) -> None:
        """Raise InputError for an element type that the reduction does not support."""
        if self.name in FLOATS_ONLY and dtype_of(dtype).kind != "float":
            rule = f"{self.name} multiplies or divides, so it takes floating-point elements"
            raise InputError(Problem(where, rule, "dtype", dtype, "use sum, and divide the result yourself"))
        if self.name in _BITS and dtype_of(dtype).kind == "float":
            raise InputError(Problem(where, f"{self.name} combines bits, so it takes integer elements", "dtype", dtype))

    def kernel(self, tl: Any) -> Any:
        """Return the function `f(x, y, out=...)` of `tl` that combines two tensors."""
        op = self.op
        if self.name not in _BITS:
            return getattr(tl, op)
        return lambda x, y, *, out=None: tl.binary(op, x, y, sys._getframe(1), out=out)

    @property
    def op(self) -> str:
        """The name of the op that combines two tensors."""
        return _COMBINE[self.name][0]

    def combined(self, x: Array, y: Array) -> Array:
        """Combine two arrays in numpy, rounded once to their type."""
        op = _COMBINE[self.name][1]
        if x.dtype == F16 and y.dtype == F16 and x.shape == y.shape:
            return combined(op, x, y)
        with np.errstate(all="ignore"):
            return narrow(op(widen(x), widen(y)), dtype_of(x.dtype).name)

    def before(self, x: Array) -> Array:
        """Return the contribution of a rank, from its elements."""
        return x if self.factor is None else self._scaled(x, self.factor)

    def after(self, x: Array, ranks: int) -> Array:
        """Return the result, from the combined elements of all ranks."""
        return self._scaled(x, 1 / ranks) if self.name == "avg" else x

    @staticmethod
    def _scaled(x: Array, factor: float) -> Array:
        with np.errstate(all="ignore"):
            wide = widen(x)
            return narrow(wide * wide.dtype.type(factor), dtype_of(x.dtype).name)


SUM = Reduction()
_current: ContextVar[Reduction] = ContextVar("reduction", default=SUM)


@contextmanager
def reducing(reduction: Reduction) -> Iterator[None]:
    """Make references of algorithms use this reduction inside a `with` block.

    The contract of a reference has no parameter for the reduction.
    """
    token = _current.set(reduction)
    try:
        yield
    finally:
        _current.reset(token)


def plus(x: Array, y: Array) -> Array:
    """Combine `x` and `y` with the current reduction, rounded once to their type."""
    return _current.get().combined(x, y)


def combine_of(tl: Any) -> Any:
    """Return the function `f(x, y, out=...)` with which a kernel reduces: `tl.add`, or the function of another reduction."""
    return getattr(tl, "combine", None) or tl.add


def scale(tl: Any, source: int, target: int, count: int, dtype: str, factor: float, most_bytes: int) -> None:
    """Multiply the elements of a rank by a factor and store them piece by piece, and wait until all are stored."""
    itemsize = dtype_of(dtype).bits // 8
    stores = []
    for first, size in cut((0, count), -(-count * itemsize // most_bytes)):
        tile = tl.load(source + first * itemsize, (size,), dtype, wait=False)
        tl.wait(tile)
        made = tl.mul(tile, factor, out=tl.alloc((size,), dtype))
        tl.wait(made)
        stores.append(tl.store(target + first * itemsize, made))
    tl.wait(*stores)
