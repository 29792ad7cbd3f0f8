"""Element types by name: their size in memory, the numpy type of arrays with such elements, and the rounding of numbers to the
type.

Arithmetic uses f32 (f64 if an operand is f64), or integers if all operands are integers. `widen` converts an array to this
type, and `narrow` converts it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from kernbench.common.errors import InputError, Problem
from kernbench.common.halves import F16, F32, narrowed, widened

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type."""

    name: str
    bits: int  #: bits of one element in memory; elements with less than 8 bits are packed, the first in the lowest bits
    kind: str  #: float, int or bool
    numpy: np.dtype[Any]  #: dtype of arrays with one element per item
    least: float  #: the smallest finite value
    most: float  #: the largest finite value
    saturates: bool  #: whether a float beyond the finite values becomes the nearest finite value instead of an infinity

    @property
    def align(self) -> int:
        """[B] The alignment of addresses of such elements."""
        return max(1, self.bits // 8)


def _float(name: str, numpy: Any, saturates: bool = False) -> DType:
    finfo: Any = ml_dtypes.finfo  # the type stubs of ml_dtypes leave the call untyped
    limits = finfo(numpy)
    return DType(name, np.dtype(numpy).itemsize * 8, "float", np.dtype(numpy), float(limits.min), float(limits.max), saturates)


def _int(name: str, numpy: Any, bits: int, signed: bool = True) -> DType:
    low = -(1 << bits - 1) if signed else 0
    return DType(name, bits, "int", np.dtype(numpy), low, low + (1 << bits) - 1, True)


DTYPES: dict[str, DType] = {
    one.name: one
    for one in (
        _float("f32", np.float32),
        _float("f16", np.float16),
        _float("bf16", ml_dtypes.bfloat16),
        _float("f8e4m3", ml_dtypes.float8_e4m3fn, saturates=True),
        _float("f8e5m2", ml_dtypes.float8_e5m2, saturates=True),
        _float("f64", np.float64),
        _float("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, saturates=True),
        _float("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, saturates=True),
        _int("i64", np.int64, 64),
        _int("i32", np.int32, 32),
        _int("i16", np.int16, 16),
        _int("i8", np.int8, 8),
        _int("u32", np.uint32, 32, signed=False),
        _int("u16", np.uint16, 16, signed=False),
        _int("u8", np.uint8, 8, signed=False),
        _int("i4", ml_dtypes.int4, 4),
        DType("bool", 8, "bool", np.dtype(np.bool_), 0, 1, True),
    )
}
#: Types for kernels only; collectives do not accept them.
KERNEL_ONLY = ("f8e4m3fnuz", "f8e5m2fnuz")
INT4 = DTYPES["i4"].numpy
_BY_NUMPY = {one.numpy: one for one in DTYPES.values()}
_BY_TEXT = {one.numpy.name: one for one in DTYPES.values()}


@cache
def dtype_of(wanted: Any) -> DType:
    """The element type for its name (`f16`), for numpy's name (`float16`) or for a numpy type; InputError for anything else."""
    if isinstance(wanted, str):
        found = DTYPES.get(wanted) or _BY_TEXT.get(wanted)
    else:
        found = _BY_NUMPY.get(np.dtype(wanted))
    if found is None:
        raise InputError(Problem("dtype", f"it must be one of {', '.join(DTYPES)}", "dtype", str(wanted)))
    return found


def nbytes_of(shape: Iterable[int], dtype: str) -> int:
    """[B] The size of a contiguous tensor; ValueError if its elements do not fill whole bytes."""
    bits = prod(shape) * dtype_of(dtype).bits
    if bits % 8:
        raise ValueError(f"{bits // dtype_of(dtype).bits} elements of {dtype} do not fill whole bytes")
    return bits // 8


def pack_i4(values: Array) -> NDArray[np.uint8]:
    """Pack two i4 elements into each byte of a flat array, the first element in the low half; ValueError for an odd number of
    elements."""
    if values.size % 2:
        raise ValueError(f"{values.size} elements of i4 do not fill whole bytes")
    halves = values.reshape(-1).astype(np.int8).view(np.uint8) & np.uint8(15)
    return halves[0::2] | (halves[1::2] << np.uint8(4))


def unpack_i4(data: NDArray[np.uint8], shape: tuple[int, ...]) -> Array:
    """The elements of packed bytes as an array of i4."""
    halves = np.empty((data.size, 2), np.uint8)
    np.bitwise_and(data, 15, out=halves[:, 0])
    np.right_shift(data, 4, out=halves[:, 1])
    signed = ((halves ^ np.uint8(8)).view(np.int8) - np.int8(8)).astype(np.int8)
    return signed.astype(INT4).reshape(shape)


def address_of(array: Array) -> int:
    """The address of the first element in the host's memory."""
    return int(array.__array_interface__["data"][0])


def widen(values: Array) -> Array:
    """An array for arithmetic: f32 for floats, i64 for integers; arrays of f32, f64, i64 and booleans are returned
    unchanged."""
    if values.dtype == np.float32 or values.dtype == np.float64:
        return values
    if values.dtype == F16:
        return widened(values)
    kind = dtype_of(values.dtype).kind
    wide: Any = {"float": np.float32, "int": np.int64, "bool": np.bool_}[kind]
    if values.dtype == INT4:
        values = values.astype(np.int8)  # ml_dtypes converts to wider integers item by item
    return values.astype(wide, copy=False)


def narrow(values: Array, dtype: str) -> Array:
    """Round an array of f32, f64, integers or booleans to an element type; an array of this type is returned unchanged.

    Floats are rounded to the nearest value, and ties to even. Values beyond the finite values become infinite in f16 and bf16;
    f8e4m3 and f8e5m2 saturate, also for infinities. NaN stays NaN. A conversion from float to integer truncates and saturates,
    and NaN becomes 0; a conversion from integer to integer wraps around. In a conversion to bool, every value except 0 becomes
    true.
    """
    to = dtype_of(dtype)
    if values.dtype == to.numpy:
        return values
    if to.numpy == F16 and values.dtype == F32:
        return narrowed(values)
    if to.kind == "bool":
        return np.not_equal(values, 0)
    from_float = values.dtype.kind not in "iub" and values.dtype != INT4
    with np.errstate(all="ignore"):
        if to.kind == "float":
            return (np.clip(values, to.least, to.most) if to.saturates else values).astype(to.numpy)
        if from_float:
            values = _to_integers(values, to)
        if to.numpy == INT4:
            low = values.astype(np.int64) & 15
            return ((low ^ 8) - 8).astype(np.int8).astype(INT4)
        return values.astype(to.numpy)


def _to_integers(values: Array, to: DType) -> NDArray[np.int64]:
    exact = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    whole = np.trunc(exact)
    inside = np.where((whole > to.least) & (whole < to.most), whole, 0).astype(np.int64)
    return np.where(whole >= to.most, int(to.most), np.where(whole <= to.least, int(to.least), inside))
