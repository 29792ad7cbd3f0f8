"""Math ops of a replay, by name: operands in, the rounded result out.

They are computed in f32 if an operand is a float (in f64 if one is f64), else in i64, which is truncated afterwards. Truth
values stay truth values in logic and are 0 and 1 in arithmetic. Integer division truncates toward zero as in C. The remainder
has the sign of the dividend, and a division by 0 gives 0. Shifts beyond 63 bits are those by 63.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.halves import F16, combined
from kernbench.common.vector_ops import ARITY, REDUCTIONS, SCANS, VECTOR_OPS
from kernbench.sim_engine.replay.bessel import BESSEL
from kernbench.sim_engine.replay.fused import fused, tf32

Move: TypeAlias = Callable[[Sequence[Array], Sequence[Any], tuple[int, ...], str], Array]


def _reshape(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return x[0].reshape(shape)


def _permute(x: Sequence[Array], axes: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return np.asarray(np.transpose(x[0], tuple(axes)))


def _slice(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    axis, start, stop, step = how
    return np.asarray(x[0][(slice(None),) * axis + (slice(start, stop, step),)])


def _concat(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return np.concatenate(list(x), how[0])


def _flip(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return np.flip(x[0], how[0])


def _gather(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return np.asarray(np.take_along_axis(x[0], widen(x[1]).astype(np.int64), how[0]))


def _sort(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    axis, descending = how
    wide = widen(x[0])
    order = np.argsort(wide, axis, kind="stable")
    return np.asarray(np.take_along_axis(x[0], np.flip(order, axis) if descending else order, axis))


def _histogram(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    values = widen(x[0]).reshape(-1)
    if len(x) > 1:
        values = values[x[1].reshape(-1) != 0]
    inside = values[(values >= 0) & (values < shape[0])]
    return np.bincount(inside, minlength=shape[0]).astype(dtype_of(dtype).numpy)


def _bitcast(x: Sequence[Array], how: Sequence[Any], shape: tuple[int, ...], dtype: str) -> Array:
    return x[0].view(dtype_of(dtype).numpy)


#: Ops that move elements and compute nothing: (inputs, numbers, shape and type of the result) -> result.
MOVES: dict[str, Move] = {
    "reshape": _reshape,
    "permute": _permute,
    "slice": _slice,
    "concat": _concat,
    "flip": _flip,
    "gather": _gather,
    "sort": _sort,
    "histogram": _histogram,
    "bitcast": _bitcast,
}


Value: TypeAlias = Any  #: an array of f32, i64 or bool, or a number
_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Value) -> Array:
    kind = np.float64 if getattr(x, "dtype", None) == np.float64 else np.float32
    return np.asarray(_ERF(np.asarray(x, np.float64)), np.float64).astype(kind)


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + np.exp(-x))


def _divide(a: Value, b: Value) -> Value:
    if _is_float(a) or _is_float(b):
        return np.true_divide(a, b)
    size = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.where(b == 0, 0, np.where((a < 0) ^ (b < 0), -size, size))


def _remainder(a: Value, b: Value) -> Value:
    return np.fmod(a, b) if _is_float(a) or _is_float(b) else np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def _is_float(value: Value) -> bool:
    return isinstance(value, float) or getattr(value, "dtype", None) in (np.float32, np.float64)


_NUMPY = (np.ndarray, np.generic)


def _float_of(values: Sequence[Value]) -> Any:
    """The type in which floats are computed: f64 if an array or a number of numpy is f64, else f32."""
    return np.float64 if any(isinstance(one, _NUMPY) and one.dtype == np.float64 for one in values) else np.float32


def _shift(shift: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda a, b: shift(np.asarray(a, np.int64), np.clip(b, 0, 63))


#: Functions of one operand, an array of f64 if the operand of the op is f64, and otherwise of f32. The result is computed in
#: this type, and then rounded to the type of the op.
FLOAT: dict[str, Callable[[Value], Value]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x * np.float32(math.sqrt(0.5)))),
    "tf32": tf32,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log1p": np.log1p,
    "log10": np.log10,
    "expm1": np.expm1,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "cbrt": np.cbrt,
    "trunc": np.trunc,
    "rint": np.rint,
    "round_away": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    **BESSEL,
    "isnan": np.isnan,
    "isinf": np.isinf,
}
#: Ops on numbers. The operands have one type, f32, f64 or i64; an op with a single operand also gets arrays of bool.
ARITHMETIC: dict[str, Callable[..., Value]] = {
    "copy": lambda x: x,
    "cast": lambda x: x,
    "transpose": lambda x: np.swapaxes(x, -1, -2),
    "neg": lambda x: -x,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "floor": np.floor,
    "ceil": np.ceil,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": _remainder,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "fma": fused,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "full": lambda x: x,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
}
#: Ops on truth values or integers.
LOGIC: dict[str, Callable[..., Value]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
}
#: `max_num` and similar ops ignore NaN if another operand is a number.
_NUMBERS: dict[str, Callable[..., Value]] = {
    "max_num": np.fmax.reduce,
    "min_num": np.fmin.reduce,
    "argmax_num": lambda x, axis, keepdims: np.argmax(np.where(np.isnan(x), -np.inf, x), axis, keepdims=keepdims),
    "argmin_num": lambda x, axis, keepdims: np.argmin(np.where(np.isnan(x), np.inf, x), axis, keepdims=keepdims),
    "xor_sum": lambda x, axis, keepdims: np.bitwise_xor.reduce(x, axis=axis, keepdims=keepdims),
}


def evaluate(op: str, operands: Sequence[Value], odd: bool = False) -> Value:
    """An elementwise op on arrays of f32, i64 or bool and on numbers, broadcast as numpy does; the result is again of those.

    `odd`: an `fma` is rounded to odd, so that a narrower type is rounded to once.
    Raises ValueError for an op that is none of these, for another number of operands, and for shapes that do not fit.
    """
    if op not in ARITY:
        raise ValueError(f"there is no math op {op}; there are {', '.join(VECTOR_OPS)}")
    if len(operands) != ARITY[op]:
        raise ValueError(f"{op} takes {ARITY[op]} operands, and not {len(operands)}")
    if op == "where":
        return np.where(operands[0], *_alike(operands[1:]))
    if op == "fma":
        x, y, z = _alike(operands)
        return fused(x, y, z, odd)
    if op in LOGIC:
        return LOGIC[op](*operands)
    if op in FLOAT:
        return FLOAT[op](np.asarray(operands[0], _float_of(operands)))
    return ARITHMETIC[op](*(_alike(operands) if len(operands) > 1 else [_number(op, operands[0])]))


def _alike(operands: Sequence[Value]) -> list[Value]:
    """Operands in one type: f32 (or f64) if one of them is a float, else i64."""
    wanted: Any = _float_of(operands) if any(_is_float(one) for one in operands) else np.int64
    return [one.astype(wanted, copy=False) if isinstance(one, np.ndarray) else wanted(one) for one in operands]


def _number(op: str, value: Value) -> Value:
    """A single operand: truth values become numbers, unless they are only moved."""
    if op in ("copy", "cast", "transpose", "full") or getattr(value, "dtype", None) != np.bool_:
        return value
    return value.astype(np.int64)


def reduce(
    op: str, x: Array, axis: int | None, keep_dims: bool, mask: Array | None, round_sum: Callable[[Array], Array] | None
) -> Array:
    """A reduction of `x` over `axis` (None: all axes), of the lanes where `mask` is true.

    Without lanes, a sum is 0, a product is 1, and a maximum is the smallest value. `round_sum` is applied to a sum after each
    addition along the axis; without it sums are f32 in numpy's order, of integers exact.
    """
    if x.dtype == np.bool_ and op not in ("any", "all"):
        x = x.astype(np.int64)
    kept: Array | None = None
    if mask is not None:
        kept = np.broadcast_to(mask, x.shape)
        x = np.where(kept, x, _identity(op, x.dtype))
    if op == "mean":
        counts = np.sum(np.ones(x.shape, np.bool_) if kept is None else kept, axis, keepdims=keep_dims)
        wide = x.astype(_float_of([x]), copy=False)
        return np.asarray(_sum(wide, axis, keep_dims, round_sum) / counts, wide.dtype)
    if op == "sum":
        return _sum(x, axis, keep_dims, round_sum)
    if op in _NUMBERS:
        return np.asarray(_NUMBERS[op](x, axis=axis, keepdims=keep_dims))
    return np.asarray(getattr(np, op)(x, axis, keepdims=keep_dims))


def _identity(op: str, dtype: np.dtype[Any]) -> Any:
    """The neutral element of this reduction."""
    if op in ("max", "argmax", "min", "argmin"):
        low = op in ("max", "argmax")
        if dtype in (np.float32, np.float64):
            return dtype.type(-np.inf if low else np.inf)
        return np.iinfo(np.int64).min if low else np.iinfo(np.int64).max
    return dtype.type(1 if op in ("prod", "all") else 0)


def _sum(x: Array, axis: int | None, keep_dims: bool, round_sum: Callable[[Array], Array] | None) -> Array:
    if round_sum is None:
        return np.asarray(np.sum(x, axis, dtype=x.dtype, keepdims=keep_dims))
    rows = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    total = np.zeros(rows.shape[1:], x.dtype)
    for row in rows:
        total = widen(round_sum(total + row))
    if not keep_dims:
        return total
    return total.reshape((1,) * x.ndim) if axis is None else np.expand_dims(total, axis)


def scan(op: str, x: Array, axis: int | None, eps: float = 0.0) -> Array:
    """An op on whole rows along an axis (None: the last) that keeps the shape. `eps` is added to the variance, or the mean of
    squares, of a norm."""
    along = -1 if axis is None else axis
    if op in ("cumsum", "cumprod"):
        x = x.astype(np.int64) if x.dtype == np.bool_ else x
        return np.asarray(getattr(np, op)(x, along, dtype=x.dtype))
    x = x.astype(_float_of([x]), copy=False)
    if op == "softmax":
        raised = np.exp(x - np.max(x, along, keepdims=True))
        return np.asarray(raised / np.sum(raised, along, keepdims=True))
    if op == "layernorm":
        x = x - np.mean(x, along, keepdims=True)
    squares = np.mean(x * x, along, keepdims=True)
    return np.asarray(x / np.sqrt(squares + x.dtype.type(eps)))


_PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def plain_pair(params: Mapping[str, Any]) -> Callable[[Array, Array], Array] | None:
    """The function for an op on exactly two arrays of one float type and shape, with a result of the same; else None.

    In the same way as `run_math`. The caller has disabled numpy's warnings about overflows.
    """
    dtype, shape = params["dtype"], tuple(params["shape_out"])
    pair, kind = _PAIRS.get(params.get("math_op") or params.get("op") or ""), dtype_of(dtype)
    alike = all(tuple(one) == shape for one in params.get("input_shapes", ())) and all(
        one == dtype for one in params.get("input_dtypes") or ()
    )
    if pair is None or kind.kind != "float" or kind.saturates or params.get("masked") or not alike:
        return None
    compute, to = pair, kind.numpy
    if to == F16:
        return lambda x, y: combined(compute, x, y)
    into = np.float64 if dtype == "f64" else np.float32

    def made(x: Array, y: Array) -> Array:
        wide: Array = compute(x.astype(into, copy=False), y.astype(into, copy=False))
        return wide.astype(to, copy=False)

    return made


def run_math(params: Mapping[str, Any], name: str, inputs: Sequence[Array]) -> Array:
    """The result of a record named `name` on its inputs in memory, contiguous, of `shape_out` and `dtype`.

    Raises ValueError if the result has another shape, or if an index or an axis does not exist.
    """
    op = params.get("math_op") or params.get("op") or name
    if op in MOVES:
        how = list((params.get("scalars") or {}).values())
        try:
            moved = MOVES[op](inputs, how, tuple(params["shape_out"]), params["dtype"])
        except (IndexError, TypeError) as error:  # TypeError: an axis that is None, True or False
            raise ValueError(str(error)) from None
        return np.ascontiguousarray(moved).reshape(moved.shape)
    wide = [widen(one) for one in inputs]
    mask = wide.pop() != 0 if params.get("masked") else None
    with np.errstate(all="ignore"):
        if op in REDUCTIONS:
            result = reduce(op, wide[0], params.get("axis"), params.get("keep_dims", False), mask, rounding(params))
        elif op in SCANS:
            result = scan(op, wide[0], params.get("axis"), *(params.get("scalars") or {}).values())
        else:
            odd = op == "fma" and params["dtype"] not in ("f32", "f64")
            scalars = params.get("scalars") or {}
            if params["dtype"] == "f64":
                scalars = {i: np.float64(one) if isinstance(one, float) else one for i, one in scalars.items()}
            result = evaluate(op, _operands(wide, scalars), odd)
            if mask is not None:
                result = evaluate("where", [mask, result, params.get("other", 0)])
        shape = tuple(params["shape_out"])
        result = np.asarray(result)
        if op in REDUCTIONS and result.size == prod(shape):
            result = result.reshape(shape)
        return np.ascontiguousarray(narrow(_spread(result, shape), params["dtype"])).reshape(shape)


def _spread(result: Array, shape: tuple[int, ...]) -> Array:
    if result.shape == shape:
        return result
    try:
        return np.broadcast_to(result, shape)
    except ValueError:
        raise ValueError(f"its result has the shape {result.shape}, and not {shape}") from None


def rounding(params: Mapping[str, Any]) -> Any:
    """The rounding of a sum after each addition; None for f32 and for exact sums."""
    wanted = params.get("dtype_acc")
    if not wanted or wanted in ("f32", "f64") or dtype_of(wanted).kind != "float":
        return None
    return lambda values: narrow(values, wanted)


def _operands(arrays: list[Array], scalars: Mapping[int, Any]) -> list[Any]:
    """All operands in order: scalars at their positions, arrays in between."""
    left = iter(arrays)
    return [scalars[i] if i in scalars else next(left) for i in range(len(arrays) + len(scalars))]
