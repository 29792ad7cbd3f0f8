"""Math ops of a replay: operands in, the rounded result out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.sim_engine.replay.math_ops import MOVES, REDUCTIONS, SCANS, evaluate, reduce, scan

_PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def plain_pair(params: Mapping[str, Any]) -> Callable[[Array, Array], Array] | None:
    """How an op that takes two arrays of one float type and shape, and no more, and makes another, is computed; else None.

    As `run_math` does it. Numpy has been told to say nothing of overflows.
    """
    dtype, shape = params["dtype"], tuple(params["shape_out"])
    pair, kind = _PAIRS.get(params.get("math_op") or params.get("op") or ""), dtype_of(dtype)
    alike = all(tuple(one) == shape for one in params.get("input_shapes", ())) and all(
        one == dtype for one in params.get("input_dtypes") or ()
    )
    if pair is None or kind.kind != "float" or kind.saturates or params.get("masked") or not alike:
        return None
    compute, to = pair, kind.numpy

    def made(x: Array, y: Array) -> Array:
        wide: Array = compute(x.astype(np.float32, copy=False), y.astype(np.float32, copy=False))
        return wide.astype(to, copy=False)

    return made


def run_math(params: Mapping[str, Any], name: str, inputs: Sequence[Array]) -> Array:
    """The result of a record named `name` on its inputs in memory, contiguous, of `shape_out` and `dtype`.

    Raises ValueError where the result does not have that shape.
    """
    op = params.get("math_op") or params.get("op") or name
    if op in MOVES:
        moved = MOVES[op](inputs, list((params.get("scalars") or {}).values()), tuple(params["shape_out"]), params["dtype"])
        return np.ascontiguousarray(moved).reshape(moved.shape)
    wide = [widen(one) for one in inputs]
    mask = wide.pop() != 0 if params.get("masked") else None
    with np.errstate(all="ignore"):
        if op in REDUCTIONS:
            result = reduce(op, wide[0], params.get("axis"), params.get("keep_dims", False), mask, rounding(params))
        elif op in SCANS:
            result = scan(op, wide[0], params.get("axis"), *(params.get("scalars") or {}).values())
        else:
            odd = op == "fma" and params["dtype"] != "f32"
            result = evaluate(op, _operands(wide, params.get("scalars") or {}), odd)
            if mask is not None:
                result = evaluate("where", [mask, result, params.get("other", 0)])
        shape = tuple(params["shape_out"])
        result = np.asarray(result)
        if op in REDUCTIONS and result.size == prod(shape):
            result = result.reshape(shape)
        return np.ascontiguousarray(narrow(_spread(result, shape), params["dtype"])).reshape(shape)


def _spread(result: Array, shape: tuple[int, ...]) -> Array:
    try:
        return np.broadcast_to(result, shape)
    except ValueError:
        raise ValueError(f"its result has the shape {result.shape}, and not {shape}") from None


def rounding(params: Mapping[str, Any]) -> Any:
    """How a sum is rounded after each addition; None where it is f32, or exact."""
    wanted = params.get("dtype_acc")
    if not wanted or wanted == "f32" or dtype_of(wanted).kind != "float":
        return None
    return lambda values: narrow(values, wanted)


def _operands(arrays: list[Array], scalars: Mapping[int, Any]) -> list[Any]:
    """All operands in their places: scalars where they say, arrays in between."""
    left = iter(arrays)
    return [scalars[i] if i in scalars else next(left) for i in range(len(arrays) + len(scalars))]
