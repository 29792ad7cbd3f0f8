"""Elementwise ops: operators, casts, selection and functions, with Triton's types."""

from __future__ import annotations

from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

from kernbench.common.dtypes import dtype_of, narrow, widen
from kernbench.triton import dtypes, unsigned
from kernbench.triton.constants import constexpr, plain
from kernbench.triton.dtypes import common, dtype, float32, float64, int1, int32, int64, refuse, uint64, wanted, with_number
from kernbench.triton.masked_lanes import chosen_zero
from kernbench.triton.program import OF_INTEGERS, current
from kernbench.triton.tensor import FUNCTIONS, as_tensor, number_tensor, tensor


class PropagateNan(IntEnum):
    """How `maximum`, `minimum` and `clamp` treat a NaN: NONE returns the other number, and ALL returns NaN."""

    NONE = 0
    ALL = 0xFFFF


_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
# fmt: off
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>",
}
# fmt: on


def is_number(value: Any) -> bool:
    """Return whether a value is a Python or numpy number, and not a tensor."""
    return isinstance(value, bool | int | float | np.generic | constexpr)


def spread(*tensors: tensor) -> tuple[int, ...]:
    """Return the shape to which the tensors broadcast. Shapes that do not fit raise TritonError."""
    shapes = [one.shape if one.swapped is not None else one.handle.shape for one in tensors]
    longest = shapes[0]
    for one in shapes:
        if len(one) > len(longest):
            longest = one
    for one in shapes:
        if one and one != longest:
            break
    else:
        return tuple(longest)
    try:
        return tuple(int(one) for one in np.broadcast_shapes(*shapes))
    except ValueError:
        said = " and ".join(str(list(one)) for one in shapes)
        refuse(f"shapes {said} do not go together: axes must be equal or 1; add axes by x[:, None], or tl.reshape")


def math(op: str, operands: list[tensor], kind: dtype | None, into: dtype | None = None) -> tensor:
    """Run an elementwise op whose operands are converted to `kind` (None: unchanged) and whose result has the type `into`."""
    own = current()
    shape = spread(*operands)
    if op in unsigned.KNOWN and kind == uint64:
        return unsigned.divided(op, cast(operands[0], kind), cast(operands[1], kind), kind)
    if op in unsigned.ORDERED and kind == uint64:
        found = math(op, [unsigned.turned(cast(one, kind)) for one in operands], int64, into)
        return found if into else unsigned.back(found, kind)
    given = [_as_operand(one, kind or one.dtype) for one in operands]
    if shape and all(isinstance(one, bool | int | float) for one in given):  # all have one element, and axes
        given[0] = own.compute("full", [given[0]], shape, kind or operands[0].dtype)
    into = into or kind
    assert into is not None
    return tensor(own.compute(op, given, shape, into, [one.handle for one in operands]), into)


def _as_operand(value: tensor, kind: dtype) -> Any:
    """Return the operand of a command: a tile of the type, or a number for a single known value."""
    if value.numel == 1:
        found = value.known
        if found is not None:
            rounded = found if value.dtype == kind else narrow(widen(np.asarray(found)), kind.own)
            one = rounded.reshape(-1)[0]
            if kind.is_floating():
                return np.float64(one) if kind == float64 else float(one)
            return bool(one) if kind.is_bool() else int(one)
    if value.dtype.is_floating() and kind.is_floating() and dtype_of(kind.own).bits > dtype_of(value.dtype.own).bits:
        return value.handle  # the engine widens floats by itself
    return cast(value, kind).handle


def cast(
    input: Any, dtype: Any, fp_downcast_rounding: str | None = None, bitcast: bool = False, _semantic: Any = None
) -> tensor:
    """Convert the elements of a tensor to another type.

    Parameters
    ----------
    input
        A tensor or a number.
    dtype
        The new element type.
    fp_downcast_rounding
        The rounding of floats to a narrower type: "rtne" rounds to nearest, ties to even; "rtz" rounds towards zero.
    bitcast
        If true, the bits are kept and read as the new type. The two types must have the same width.

    Returns
    -------
    A tensor of the new type, in the shape of `input`.
    """
    if isinstance(input, tensor) and input.dtype is dtype:
        return input
    value, kind = as_tensor(input), wanted(dtype)
    fp_downcast_rounding = plain(fp_downcast_rounding)
    if fp_downcast_rounding not in (None, "rtne", "rtz"):
        refuse(
            f'fp_downcast_rounding="{fp_downcast_rounding}": it must be "rtne" (to nearest, ties to even) or "rtz" (to zero)'
        )
    if isinstance(kind, dtypes.pointer_type) and isinstance(value.dtype, dtypes.pointer_type):
        return tensor(value.handle, kind, value.base)
    if value.dtype == kind:
        return value
    if value.base is not None:
        if kind == int64:
            return tensor(value.handle, int64)
        refuse(f"a pointer cannot be cast to {kind}; cast it to tl.int64, the type of addresses")
    if isinstance(kind, dtypes.pointer_type):
        return FUNCTIONS["to_pointer"](value, kind)  # type: ignore[no-any-return]
    if uint64 in (kind, value.dtype) and int64 in (kind, value.dtype):
        return tensor(value.handle, kind)
    if bitcast:
        if kind.primitive_bitwidth != value.dtype.primitive_bitwidth:
            refuse(f"the bits of {value.dtype} as {kind}: both types must have the same number of bits")
        return tensor(current().compute("bitcast", [value.handle], value.shape, kind), kind)
    if value.dtype == uint64 and kind.is_floating():
        return unsigned.to_float(value, kind)
    if fp_downcast_rounding == "rtz" and value.dtype.is_floating() and kind.is_floating():
        return _towards_zero(value, kind)
    return tensor(current().compute("cast", [value.handle], value.shape, kind), kind)


def _towards_zero(value: tensor, kind: dtype) -> tensor:
    """Round a float to a narrower type towards zero: round to nearest, then step back where the result is further from zero."""
    near = cast(value, kind)
    if kind.primitive_bitwidth >= value.dtype.primitive_bitwidth:
        return near
    bits = dtypes.int8 if kind.primitive_bitwidth == 8 else dtypes.int16
    too_far = cast(abs_(cast(near, value.dtype)) > abs_(value), bits)
    return cast(cast(near, bits, bitcast=True) - too_far, kind, bitcast=True)


def _in_f64(given: Any, made: tensor) -> tensor:
    """Return an operand of an operator on f64. As in Triton, a Python float is not rounded to f32 first. A float that a device
    function returned is a tensor of f32.
    """
    value = plain(given)
    return number_tensor(value, float64) if type(value) is float else made


def binary(op: str, x: Any, y: Any) -> tensor:
    """Run an operator on two tensors, pointers or numbers."""
    found = _of_known(op, x, y) if op in OF_INTEGERS else None
    if found is not None:
        return found
    a, b = as_tensor(x), as_tensor(y)
    if a.base is not None or b.base is not None:
        return FUNCTIONS["pointer_math"](op, a, b)  # type: ignore[no-any-return]
    kind = pair_type(x, y, a, b, op in ("truediv", "floordiv", "mod"))
    if op in _COMPARE:
        return math(op, [a, b], kind, int1)
    if kind == float64:
        a, b = _in_f64(x, a), _in_f64(y, b)
    if op == "truediv":
        into = float64 if kind == float64 else float32
        return math("div", [cast(one, into) for one in (a, b)], into)
    if op in ("floordiv", "and", "or", "xor", "shl", "shr") and kind.is_floating():
        remedy = "use tl.floor(x / y)" if op == "floordiv" else "cast to an integer with .to"
        refuse(f"invalid operands of type {a.dtype} and {b.dtype}: {_SYMBOLS.get(op, op)} takes integers; {remedy}")
    if kind.is_bool() and op in _ONE_BIT:
        return _of_one_bit(op, a, b)
    if op == "shr":
        return _shifted_right(a, b, kind, (b if is_number(x) else a).dtype)
    if op in ("floordiv", "mod"):
        return _divided(op, a, b, kind)
    return math(op, [a, b], kind)


def _of_known(op: str, x: Any, y: Any) -> tensor | None:
    """Return what `binary` returns for a known signed integer without axes and a number of 32 bits, or for two such tensors of
    one type; None for other operands. Loops of kernels, such as loops that wait for a lock, do much of this.
    """
    number = x if type(x) is int else y if type(y) is int else None
    given = y if number is x else x
    if type(given) is not tensor or given.base is not None or given._handle is None:
        return None
    kind, tile = given.dtype, given._handle
    if tile.shape != () or tile.value is None or tile.marks is not None or (kind is not int32 and kind is not int64):
        return None
    if number is not None:
        if not -1 << 31 <= number < 1 << 31:
            return None
        one = tile.value.item()
        numbers = (number, one) if number is x else (one, number)
    else:
        if type(y) is not tensor or y.dtype is not kind or y.base is not None or y._handle is None:
            return None
        beside = y._handle
        if beside.shape != () or beside.value is None or beside.marks is not None:
            return None
        numbers = tile.value.item(), beside.value.item()
    return tensor(current().known_integers(op, numbers, into := int1 if op in _COMPARE else kind, number is not None), into)


#: The logical operation that equals each arithmetic operation on integers of one bit, which wraps.
_ONE_BIT = {"add": "xor", "sub": "xor", "mul": "and", "floordiv": "and", "mod": "", "shl": "", "shr": ""}


def _of_one_bit(op: str, a: tensor, b: tensor) -> tensor:
    if _ONE_BIT[op]:
        return math(_ONE_BIT[op], [a, b], int1)
    return math("and", [a, math("not", [a if op == "mod" else b], int1)], int1)


def _shifted_right(a: tensor, b: tensor, kind: dtype, by: dtype) -> tensor:
    """Return `a >> b` in the type `kind`.

    `by` is the type of the left operand, or of the right operand if the left is a Python number. As in Triton, the sign of
    the type `by` decides whether the vacated bits are copies of the highest bit.
    """
    if by.is_int_signed() and kind.is_int_unsigned():
        return math("shr", [a, b], None, kind)
    if by.is_bool() and kind.is_int_signed():
        return math("shr", [cast(a, _UNSIGNED[kind.int_bitwidth]), b], None, kind)
    return math("shr", [a, b], kind)


_UNSIGNED = {one.int_bitwidth: one for one in dtypes.TYPES if one.is_int_unsigned() and not one.is_bool()}


def _divided(op: str, a: tensor, b: tensor, kind: dtype) -> tensor:
    divisor = b.known
    if kind.is_int() and divisor is not None and not np.all(divisor):
        refuse("a division of integers by 0; in Triton its result is not defined")
    return math("div" if op == "floordiv" else "mod", [a, b], kind)


def unary(op: str, x: Any) -> tensor:
    """Run the operator `-x` or `~x`."""
    value = as_tensor(x)
    if value.base is not None:
        refuse("this operator is not defined for a pointer; only + and - with integers are")
    if op == "invert":
        if value.dtype.is_floating():
            refuse(f"~ of {value.dtype}: the operator needs integers or truth values")
        return math("not", [value], value.dtype)
    return value if value.dtype.is_bool() else math("neg", [value], value.dtype)


def function(op: str, x: Any, name: str = "") -> tensor:
    """Run a float function of one operand. With `portable`, only f32 is accepted, as in Triton."""
    value = as_tensor(x)
    if not value.dtype.is_floating():
        refuse(f"tl.{name or op} of {value.dtype}: it takes floats; cast with .to(tl.float32)")
    if current().options.portable and value.dtype not in (float32, float64):
        refuse(f"tl.{name or op} of {value.dtype}: Triton accepts only f32 and f64; cast with .to(tl.float32)")
    return math(op, [value], value.dtype)


def test(op: str, x: Any) -> tensor:
    """Run a test of floats such as `isnan`; the result has truth values."""
    value = as_tensor(x)
    return math(op, [value], value.dtype if value.dtype.is_floating() else float32, int1)


def pair(op: str, x: Any, y: Any) -> tensor:
    """Run a function of two operands of any type."""
    a, b = as_tensor(x), as_tensor(y)
    return math(op, [a, b], pair_type(x, y, a, b))


def _extreme(name: str, x: Any, y: Any, propagate_nan: Any) -> tensor:
    a, b = as_tensor(x), as_tensor(y)
    kind = pair_type(x, y, a, b)
    if not isinstance(propagate_nan, PropagateNan):
        refuse(f"propagate_nan={propagate_nan}: it must be tl.PropagateNan.NONE or tl.PropagateNan.ALL")
    propagates = propagate_nan == PropagateNan.ALL
    return math(f"{name}imum" if propagates else f"f{name}", [a, b], kind)


def pair_type(x: Any, y: Any, a: tensor, b: tensor, divides: bool = False) -> dtype:
    """Return the type to which the two operands are converted."""
    if is_number(x) and not is_number(y):
        return with_number(b.dtype, plain(x), divides)
    if is_number(y) and not is_number(x):
        return with_number(a.dtype, plain(y), divides)
    return common(a.dtype, b.dtype, divides)


def maximum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """Return the larger element of each pair. A NaN loses against a number, unless `propagate_nan` is ALL."""
    return _extreme("max", x, y, propagate_nan)


def minimum(x: Any, y: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """Return the smaller element of each pair. A NaN loses against a number, unless `propagate_nan` is ALL."""
    return _extreme("min", x, y, propagate_nan)


def clamp(x: Any, min: Any, max: Any, propagate_nan: PropagateNan = PropagateNan.NONE) -> tensor:
    """Return `x`, limited to the range from `min` to `max`."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


def where(condition: Any, x: Any, y: Any) -> tensor:
    """Return `x` where the condition is true, and `y` elsewhere. Both operands are evaluated.

    Parameters
    ----------
    condition
        A tensor of truth values.
    x, y
        Tensors or numbers. All operands are broadcast to one shape.
    """
    chosen, a, b = cast(condition, int1), as_tensor(x), as_tensor(y)
    if a.base is not None or b.base is not None:
        return FUNCTIONS["pointer_where"](chosen, a, b)  # type: ignore[no-any-return]
    kind = pair_type(x, y, a, b)
    if kind == float64:
        a, b = _in_f64(x, a), _in_f64(y, b)
    own, shape = current(), spread(chosen, a, b)
    picks: Any = chosen.handle
    if chosen.numel == 1 and chosen.known is not None:
        picked = a if bool(chosen) else b
        return FUNCTIONS["broadcast_to"](cast(picked, kind), shape)  # type: ignore[no-any-return]
    given = [picks, _as_operand(a, kind), _as_operand(b, kind)]
    made = own.compute("where", given, shape, kind, [picks, a.handle, b.handle])
    if made.marks is None and picks.shape == shape:
        made.marks = chosen_zero(picks.value, given[1], given[2])
    return tensor(made, kind)


def fma(x: Any, y: Any, z: Any) -> tensor:
    """Return `x * y + z`."""
    a, b, c = as_tensor(x), as_tensor(y), as_tensor(z)
    kind = pair_type(x, y, a, b)
    kind = with_number(kind, plain(z)) if is_number(z) else common(kind, c.dtype)
    return math("fma", [a, b, c], kind)


def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """Return a tensor of this shape and type in which all elements have one value."""
    kind, size = wanted(dtype), shape_of(shape)
    one = as_tensor(value)
    if kind == float64:
        one = _in_f64(value, one)
    if current().options.portable and kind.is_int_unsigned() and isinstance(plain(value), int) and plain(value) < 0:
        refuse(f"tl.full of {plain(value)} for {kind}: in Triton the value must fit into the type; use a type with a sign")
    if one.numel == 1 and one.known is not None:
        number = _as_operand(one, kind)
        if not size:
            return number_tensor(number, kind)
        return tensor(current().compute("full", [number], size, kind, [one.handle]), kind)
    return FUNCTIONS["broadcast_to"](cast(one, kind), size)  # type: ignore[no-any-return]


def zeros(shape: Any, dtype: Any) -> tensor:
    """Return a tensor of zeros of this shape and type."""
    return full(shape, 0, dtype)


def zeros_like(input: tensor) -> tensor:
    """Return a tensor of zeros with the shape and type of `input`."""
    return full(input.shape, 0, input.dtype)


def full_like(input: tensor, value: Any) -> tensor:
    """Return a tensor of one value with the shape and type of `input`."""
    return full(input.shape, value, input.dtype)


def shape_of(*shape: Any) -> tuple[int, ...]:
    """Return a shape as integers. `f(a, b)` and `f((a, b))` mean the same. An axis that is no positive integer raises
    TritonError.
    """
    shape = tuple(plain(one) for one in shape)
    parts = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    found = tuple(int(one) for one in parts)
    if any(one < 1 for one in found):
        refuse(f"a shape of {list(found)}: the length of each axis must be at least 1")
    check_size(prod(found))
    if current().options.portable and any(one & (one - 1) for one in found):
        refuse(f"a shape of {list(found)}: in Triton each length must be a power of two; pad the tensor and use a mask")
    return found


def check_size(elements: int) -> None:
    """Raise TritonError for more elements than any scratchpad can hold, before the elements fill the memory of the host."""
    room = current().limits().scratchpad_bytes
    if elements > 8 * room:
        refuse(f"a tensor of {elements} elements, and the scratchpad has {room} bytes; use smaller blocks")


def cdiv(x: Any, div: Any) -> Any:
    """Return `x / div`, rounded up to an integer."""
    return (x + div - 1) // div


def abs_(x: Any) -> tensor:
    """Return the absolute value of each element."""
    value = as_tensor(x)
    if value.dtype.is_int_unsigned():
        return value
    return math("abs", [value], value.dtype)


def umulhi(x: Any, y: Any) -> tensor:
    """Return the upper half of the bits of a product of known integers. Integers of 32 or 64 bits are read as unsigned."""
    a, b = as_tensor(x), as_tensor(y)
    kind = pair_type(x, y, a, b)
    return unsigned.upper(cast(a, kind), cast(b, kind), kind)


def logical(op: str, x: Any, y: Any) -> tensor:
    """Run `logical_and` or `logical_or`."""
    return math(op, [cast(x, int1), cast(y, int1)], int1)


FUNCTIONS.update(
    where=where,
    math=math,
    binary=binary,
    unary=unary,
    cast=cast,
    cdiv=cdiv,
    abs=abs_,
    maximum=maximum,
    minimum=minimum,
    logical_and=lambda x, y: logical("and", x, y),
    logical_or=lambda x, y: logical("or", x, y),
    **{
        name: (lambda x, _op=name: function(_op, x))
        for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "sin", "cos", "erf", "floor", "ceil")
    },
)
