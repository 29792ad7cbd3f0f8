"""Reductions and scans along axes, and matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.triton import unsigned
from kernbench.triton.dtypes import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    refuse,
    uint8,
    uint32,
    uint64,
    wanted,
)
from kernbench.triton.elementwise import binary, cast, math, where
from kernbench.triton.program import current, kernel_line
from kernbench.triton.shapes import axis_of, broadcast_to, flip, join, joined, part, permute, ravel, trans
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor

_ORDERED = ("max", "min", "argmax", "argmin")


def _reduced(op: str, x: tensor, axis: int | None, keep_dims: bool, kind: dtype) -> tensor:
    if x.dtype == uint64 and op in _ORDERED:
        found = _reduced(op, unsigned.turned(x), axis, keep_dims, int32 if kind == int32 else int64)
        return found if kind == int32 else unsigned.back(found, uint64)
    along = None if axis is None else axis_of(x, int(axis))
    if along is None:
        shape = (1,) * len(x.shape) if keep_dims else ()
    else:
        shape = (*x.shape[:along], *((1,) if keep_dims else ()), *x.shape[along + 1 :])
    known = x.known
    if known is not None and x.numel == 1:
        shape_kept = tensor(current().compute(op, [x.handle], (), kind, axis=None, keep_dims=False), kind)
        return shape_kept.reshaped(shape)
    made = current().compute(op, [x.handle], shape, kind, axis=along, keep_dims=keep_dims)
    return tensor(made, kind)


def _wide(kind: dtype) -> dtype:
    """Return the type in which elements are added: 32 bits for small integers, and no sign for truth values."""
    if kind.is_int() and kind.int_bitwidth < 32:
        return int32 if kind.is_int_signed() else uint32
    return kind


def sum_(input: Any, axis: int | None = None, keep_dims: bool = False, dtype: Any = None) -> tensor:
    """Sum the elements along an axis.

    Floats are added in f32 and rounded once. Integers of fewer than 32 bits are added as 32-bit integers.

    Parameters
    ----------
    input
        A tensor.
    axis
        The axis that is reduced; None reduces all axes.
    keep_dims
        Whether the reduced axes stay, with length 1.
    dtype
        The type of the result; None chooses it as described above.
    """
    value = as_tensor(input)
    kind = _wide(value.dtype) if dtype is None else wanted(dtype)
    op = "xor_sum" if kind.is_bool() else "sum"  # one bit wraps
    return _reduced(op, cast(value, kind), axis, keep_dims, kind)


def _extreme(op: str, input: Any, axis: int | None, indices: bool, left: bool, keep_dims: bool) -> Any:
    value = as_tensor(input)
    if not indices and value.dtype.primitive_bitwidth < 32:
        value = cast(value, float32 if value.dtype.is_floating() else int32)
    found = _reduced(f"{op}_num" if value.dtype.is_floating() else op, value, axis, keep_dims, value.dtype)
    if not indices:
        return found
    return found, _place(op, value, axis, left, keep_dims)


def _place(op: str, value: tensor, axis: int | None, left: bool, keep_dims: bool) -> tensor:
    name = f"arg{op}_num" if value.dtype.is_floating() else f"arg{op}"
    if left:
        return _reduced(name, value, axis, keep_dims, int32)
    along = -1 if axis is None else int(axis)
    last = value.numel if axis is None else value.shape[along]
    turned = flip(ravel(value) if axis is None else value, along)
    return FUNCTIONS["binary"]("sub", last - 1, _reduced(name, turned, axis, keep_dims, int32))  # type: ignore[no-any-return]


def max_(
    input: Any, axis: int | None = None, return_indices: bool = False, return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:  # fmt: skip
    """Return the largest element along an axis.

    A NaN is skipped if there is any number beside it.

    Parameters
    ----------
    input
        A tensor.
    axis
        The axis that is reduced; None reduces all axes.
    return_indices
        If true, the result is a tuple of the elements and their indices (`int32`).
    return_indices_tie_break_left
        Whether the index of the first of several equal elements is returned; otherwise the index of the last one.
    keep_dims
        Whether the reduced axes stay, with length 1.
    """
    return _extreme("max", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


def min_(
    input: Any, axis: int | None = None, return_indices: bool = False, return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:  # fmt: skip
    """Return the smallest element along an axis. The parameters are the parameters of `max`."""
    return _extreme("min", input, axis, return_indices, return_indices_tie_break_left, keep_dims)


def argmax(input: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """Return the index (`int32`) of the largest element along an axis."""
    return _place("max", as_tensor(input), axis, tie_break_left, keep_dims)


def argmin(input: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """Return the index (`int32`) of the smallest element along an axis."""
    return _place("min", as_tensor(input), axis, tie_break_left, keep_dims)


def xor_sum(input: Any, axis: int | None = None, keep_dims: bool = False) -> tensor:
    """Return the exclusive or of integers along an axis (None: all axes)."""
    value = as_tensor(input)
    if not value.dtype.is_int():
        refuse(f"tl.xor_sum of {value.dtype}: the elements must be integers")
    return _reduced("xor_sum", value, axis, keep_dims, value.dtype)


def reduce_or(input: Any, axis: int, keep_dims: bool = False) -> tensor:
    """Return the bitwise or of integers along an axis."""
    value = as_tensor(input)
    if not value.dtype.is_int():
        refuse(f"tl.reduce_or of {value.dtype}: the elements must be integers")
    return reduce(value, axis, lambda a, b: a | b, keep_dims)  # type: ignore[no-any-return]


def _scanned(op: str, input: Any, axis: int, reverse: bool, dtype: Any) -> tensor:
    value = as_tensor(input)
    kind = _wide(value.dtype) if dtype is None else wanted(dtype)
    value = cast(value, kind)
    along = axis_of(value, int(axis))
    given = flip(value, along) if reverse else value
    found = tensor(current().compute(op, [given.handle], value.shape, kind, axis=along), kind)
    return flip(found, along) if reverse else found


def cumsum(input: Any, axis: int = 0, reverse: bool = False, dtype: Any = None) -> tensor:
    """Return the cumulative sums along an axis; with `reverse`, from the end of the axis."""
    if dtype is not None and wanted(dtype).is_bool():  # a sum of bits wraps: the result is their parity
        found = _scanned("cumsum", cast(input, int1), axis, reverse, int32)
        return cast(FUNCTIONS["binary"]("and", found, 1), int1)
    return _scanned("cumsum", input, axis, reverse, dtype)


def cumprod(input: Any, axis: int = 0, reverse: bool = False, dtype: Any = None) -> tensor:
    """Return the cumulative products along an axis; with `reverse`, from the end of the axis."""
    return _scanned("cumprod", input, axis, reverse, dtype)


Combine = Callable[..., Any]


def _all_of(value: Any) -> list[tensor]:
    return [as_tensor(one) for one in value] if isinstance(value, tuple | list) else [as_tensor(value)]


def reduce(input: Any, axis: int | None, combine_fn: Combine, keep_dims: bool = False) -> Any:
    """Reduce an axis with a function.

    Parameters
    ----------
    input
        A tensor, or a tuple of tensors of one shape.
    axis
        The axis that is reduced; None reduces all axes.
    combine_fn
        An associative function of two operands (for a tuple of n tensors: of 2 n operands, with n results). Neighbours are
        combined first, in pairs.
    keep_dims
        Whether the reduced axes stay, with length 1.
    """
    parts = _all_of(input)
    if axis is None:
        shape = (1,) * len(parts[0].shape)
        parts, axis = [ravel(one) for one in parts], 0
        found = reduce(tuple(parts), 0, combine_fn)
        return _one_or_all(input, [one.reshaped(shape if keep_dims else ()) for one in _all_of(found)])
    along = axis_of(parts[0], int(axis))
    while (size := parts[0].shape[along]) > 1:
        even = size - size % 2
        pairs = [(part(one, along, 0, even, 2), part(one, along, 1, even, 2)) for one in parts]
        done = _all_of(combine_fn(*[one[0] for one in pairs], *[one[1] for one in pairs]))
        if size % 2:
            done = [joined([one, part(old, along, size - 1, size)], along) for one, old in zip(done, parts, strict=True)]
        parts = done
    shape = parts[0].shape
    left = shape if keep_dims else (*shape[:along], *shape[along + 1 :])
    return _one_or_all(input, [one.reshaped(left) for one in parts])


def associative_scan(input: Any, axis: int, combine_fn: Combine, reverse: bool = False) -> Any:
    """Scan an axis with an associative function, in log2(length) steps.

    The scan is inclusive: result i combines the elements 0 to i. With `reverse`, the scan starts at the end of the axis.
    `input` and `combine_fn` are the parameters of `reduce`.
    """
    parts = _all_of(input)
    along = axis_of(parts[0], int(axis))
    parts = [flip(one, along) for one in parts] if reverse else parts
    size, step = parts[0].shape[along], 1
    while step < size:
        before = [part(one, along, 0, size - step) for one in parts]
        later = [part(one, along, step, size) for one in parts]
        done = _all_of(combine_fn(*before, *later))
        parts = [joined([part(old, along, 0, step), one], along) for old, one in zip(parts, done, strict=True)]
        step *= 2
    return _one_or_all(input, [flip(one, along) for one in parts] if reverse else parts)


def _one_or_all(given: Any, parts: list[tensor]) -> Any:
    return tuple(parts) if isinstance(given, tuple | list) else parts[0]


def softmax(x: Any, dim: int | None = None, *, keep_dims: bool | None = None, ieee_rounding: bool = False) -> tensor:
    """Return `exp(x - max) / sum` along an axis (None: the first axis), as one op of the vector engine.

    Raises
    ------
    TritonError
        If `x` is not a tensor of floats. Cast it with `.to(tl.float32)`.
    """
    value = as_tensor(x)
    if not value.dtype.is_floating():
        refuse(f"tl.softmax of {value.dtype}: the elements must be floats; cast with .to(tl.float32)")
    axis = axis_of(value, 0 if dim is None else int(dim))
    return tensor(current().compute("softmax", [value.handle], value.shape, value.dtype, axis=axis), value.dtype)


# Products -------------------------------------------------------------------------------------------------------------

_PRECISIONS = ("tf32", "tf32x3", "ieee")


def dot(
    input: Any, other: Any, acc: Any = None, input_precision: str | None = None, allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None, out_dtype: Any = None, *, trans_a: bool = False, trans_b: bool = False,
) -> tensor:  # fmt: skip
    """Multiply matrices: `input @ other + acc`.

    Products of floats are added in f32, and products of integers in i32.

    Parameters
    ----------
    input
        A matrix [M, K], or a stack of matrices [B, M, K].
    other
        A matrix [K, N], or a stack of matrices [B, K, N], of the same element type.
    acc
        The tensor that is added, broadcast to the shape of the result; None adds nothing.
    input_precision
        "tf32" first rounds f32 operands to tf32. "tf32x3", "ieee" and None multiply the operands as they are.
    allow_tf32
        An older form of `input_precision="tf32"`.
    max_num_imprecise_acc
        A hint for GPUs, which is ignored.
    out_dtype
        The type of the result for float operands without `acc`; the default is `tl.float32`.
    trans_a, trans_b
        Whether the transpose of `input` or `other` is multiplied, as in Triton 2.0.

    Returns
    -------
    A tensor [M, N] or [B, M, N]. With `acc`, it has the type of `acc`.

    Raises
    ------
    TritonError
        If the shapes or the element types do not fit.
    """
    input, other = (FUNCTIONS["trans"](one) if turns else one for one, turns in ((input, trans_a), (other, trans_b)))
    a, b, kind = as_tensor(input), as_tensor(other), float32 if out_dtype is None else wanted(out_dtype)
    if input_precision not in (None, *_PRECISIONS):
        refuse(f'input_precision="{input_precision}": it is one of {", ".join(_PRECISIONS)}')
    if a.dtype != b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8()):
        refuse(f"tl.dot of {a.dtype} and {b.dtype}: both must be of one type; cast one with .to")
    if len(a.shape) not in (2, 3) or len(a.shape) != len(b.shape) or a.shape[-1] != b.shape[-2]:
        refuse(
            f"tl.dot of {list(a.shape)} and {list(b.shape)}: the first needs as many columns as the second has rows"
        )
    least = max(4, 256 // a.dtype.primitive_bitwidth)  # of Triton's backend for CUDA
    if current().options.portable and a.shape[-1] < least:
        refuse(f"tl.dot of {list(a.shape)} and {list(b.shape)}: in Triton the inner side of {a.dtype} is {least} or more")
    if a.dtype.is_int():
        kind = int32
    if a.dtype == float64:
        kind = float64
    if a.dtype == float32 and (input_precision == "tf32" or (input_precision is None and allow_tf32)):
        a, b = math("tf32", [a], float32), math("tf32", [b], float32)
    shape = (*a.shape[:-1], b.shape[-1])
    added = None
    if acc is not None:
        given = as_tensor(acc)
        kind = given.dtype
        added = broadcast_to(given, shape).handle
    swaps = a.swapped is not None, b.swapped is not None
    first, second = (one.handle if one.swapped is None else one.swapped.handle for one in (a, b))
    return tensor(current().multiply(first, second, added, kind, swaps), kind)


def device_assert(cond: Any, msg: str = "", mask: Any = None) -> None:
    """Raise TritonError if a condition is false for any element.

    A known condition is checked at once. Other conditions are checked after the timing.

    Parameters
    ----------
    cond
        Truth values.
    msg
        A text for the error message.
    mask
        The lanes that are checked. The mask must be known at the time of the call.
    """
    checked = as_tensor(cond)
    found = checked.known
    lanes = None if mask is None else as_tensor(mask).known
    if found is None:
        tile = checked.handle
        if tile.op_id is None or tile.op == "dma_read" or (mask is not None and lanes is None):
            refuse("tl.device_assert needs a computed tensor and a known mask; compute with loaded elements first")
        current().options.asserts.append((tile.op_id, kernel_line(), str(msg), lanes))
        return
    if not np.all(found if lanes is None else found | ~np.asarray(lanes, np.bool_)):
        refuse(assert_text(str(msg)))


def assert_text(msg: str) -> str:
    """Return the error message for a condition that is false."""
    return f"tl.device_assert failed{f': {msg}' if msg else ''}"


FUNCTIONS.update(
    device_assert=device_assert,
    sum=sum_,
    max=max_,
    min=min_,
    argmax=argmax,
    argmin=argmin,
    xor_sum=xor_sum,
    reduce_or=reduce_or,
    cumsum=cumsum,
    cumprod=cumprod,
    reduce=reduce,
    associative_scan=associative_scan,
    softmax=softmax,
)


FORMATS: dict[str, dtype] = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16, "e2m1": uint8}


def dot_scaled(
    lhs: Any, lhs_scale: Any, lhs_format: str, rhs: Any, rhs_scale: Any, rhs_format: str, acc: Any = None,
    fast_math: bool = False, lhs_k_pack: bool = True, rhs_k_pack: bool = True, out_dtype: Any = float32,
) -> tensor:  # fmt: skip
    """Multiply scaled matrices of a narrow type: `(lhs * lhs_scale) @ (rhs * rhs_scale) + acc`, in f32.

    The vector engine converts the operands to bf16 and scales them (to f16, if one format is "fp16"). The tensor engine then
    multiplies the converted operands.

    Parameters
    ----------
    lhs, rhs
        Matrices [M, K] and [K, N]. With format "e2m1", a `uint8` holds two elements.
    lhs_scale, rhs_scale
        Scales [M, K / group] and [N, K / group]: exponents (`uint8`, e8m0) or `float8e4nv`; None scales by 1.
    lhs_format, rhs_format
        The element formats: "e4m3", "e5m2", "bf16", "fp16" or "e2m1".
    acc
        The tensor that is added, broadcast to [M, N]; None adds nothing.
    fast_math
        A hint, which is ignored.
    lhs_k_pack, rhs_k_pack
        Whether the two "e2m1" elements of a byte are neighbours along K; otherwise they are neighbours along the other axis.
    out_dtype
        The type of the result; only `tl.float32` is supported.

    Raises
    ------
    TritonError
        If a format, an element type or a shape is not valid.
    """
    if out_dtype != float32:
        refuse(f"tl.dot_scaled to {out_dtype}: the result must be tl.float32; cast it afterwards")
    for name, one in (("lhs", lhs_format), ("rhs", rhs_format)):
        if one not in FORMATS:
            refuse(f'tl.dot_scaled with {name}_format="{one}": it must be one of {", ".join(FORMATS)}')
    kind = float16 if "fp16" in (lhs_format, rhs_format) else bfloat16
    a = _wide_operand(as_tensor(lhs), lhs_format, kind, 1 if lhs_k_pack else 0)
    b = _wide_operand(as_tensor(rhs), rhs_format, kind, 0 if rhs_k_pack else 1)
    if lhs_scale is not None:
        a = binary("mul", a, _spread_scale(as_tensor(lhs_scale), a.shape[1], kind))
    if rhs_scale is not None:
        b = binary("mul", b, trans(_spread_scale(as_tensor(rhs_scale), b.shape[0], kind)))
    return dot(a, b, acc=acc)


def _wide_operand(x: tensor, form: str, kind: dtype, axis: int) -> tensor:
    """Return an operand as 16-bit floats; `axis` is the axis along which a byte holds two elements."""
    if len(x.shape) != 2:
        refuse(f"tl.dot_scaled of {list(x.shape)}: the operands must be matrices")
    if form == "e2m1":
        return cast(_of_nibbles(x, axis), kind)
    wanted = FORMATS[form]
    if x.dtype != wanted and not (x.dtype == uint8 and wanted.is_fp8()):
        refuse(f'tl.dot_scaled of {x.dtype} as "{form}": it is {wanted}' + (" or uint8" if wanted.is_fp8() else ""))
    return cast(cast(x, wanted, bitcast=x.dtype == uint8), kind)


def _of_nibbles(x: tensor, axis: int) -> tensor:
    """Return the two e2m1 numbers of each byte, low half first, as bf16: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""
    if x.dtype != uint8:
        refuse(f'tl.dot_scaled of {x.dtype} as "e2m1": the elements must be packed in uint8, two in each')
    halves = join(binary("and", x, 15), binary("shr", x, 4))  # a new last axis
    if axis == 0:
        halves = permute(halves, 0, 2, 1)
    shape = (x.shape[0] * 2, x.shape[1]) if axis == 0 else (x.shape[0], x.shape[1] * 2)
    code = cast(halves.reshaped(shape), int16)
    size = binary("and", code, 7)
    sign = binary("shl", binary("and", code, 8), 12)
    # Of size 2 and more: one bit of mantissa, and an exponent from 1 on. 1 is 0.5, the only one below the normal ones.
    bits = binary("add", binary("shl", size, 6), 126 << 7)
    bits = where(binary("ge", size, 2), bits, where(binary("eq", size, 1), 126 << 7, 0))
    return cast(cast(binary("or", bits, sign), int16), bfloat16, bitcast=True)


def _spread_scale(scale: tensor, length: int, kind: dtype) -> tensor:
    """Convert exponents [rows, groups] to factors [rows, length]. The exponent 255 means NaN, and 0 means 2 ** -127."""
    if scale.dtype not in (uint8, int8, float8e4nv) or len(scale.shape) != 2 or length % scale.shape[1]:
        kinds = "uint8 (exponents) or fp8e4nv, one for each group of a row"
        refuse(f"a scale of {scale.dtype}{list(scale.shape)} for {length} elements: the scale must be {kinds}")
    if scale.dtype == float8e4nv:
        return _repeated(cast(scale, kind), length)
    exponent = binary("and", cast(scale, int16), 255)
    bits = where(binary("eq", exponent, 255), 0x7FC0, where(binary("eq", exponent, 0), 0x40, binary("shl", exponent, 7)))
    factors = cast(cast(bits, int16), bfloat16, bitcast=True)
    wide = _repeated(factors, length)
    return wide if kind == bfloat16 else math("copy", [wide], kind)


def _repeated(factors: tensor, length: int) -> tensor:
    """Repeat each factor of [rows, groups] for its group, so that the result is [rows, length]."""
    rows, groups = factors.shape
    return broadcast_to(factors.reshaped((rows, groups, 1)), (rows, groups, length // groups)).reshaped((rows, length))
