"""The rules for params of records that were not made by an OpLogger, checked before replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.common.dtypes import DTYPES, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.lanes import Lanes
from kernbench.common.pe_ops import LAYOUTS
from kernbench.common.vector_ops import ARITY, MOVES, SCANS, VECTOR_OPS
from kernbench.sim_engine.memory_store import LAST
from kernbench.sim_engine.op_log import OpRecord
from kernbench.sim_engine.replay.math_ops import LOGIC

LARGEST = 1 << 30  #: [B] of one tensor
RANKS = 32  #: most axes of a tensor, as in numpy
INPUTS = 64  #: most inputs of one op
#: Allowed parameters of an op that moves elements; None for any.
NUMBERS = dict.fromkeys(MOVES, 0) | {"permute": None, "slice": 4, "concat": 1, "flip": 1, "gather": 1, "sort": 2}
ADDRESS = f"it must be an integer from 0 to {LAST}"
SHAPE = f"it must be a list of at most {RANKS} integers from 0 on"
DTYPE = f"it must be one of {', '.join(DTYPES)}"

Params = Mapping[str, Any]


class _Broken(Exception):
    """A rule that a record violates; its arguments are field, value and rule."""


def check_record(record: OpRecord) -> None:
    """Raise InputError if a record's fields or params are not valid for its op."""
    try:
        _fields(record)
        params = record.params
        if record.op_kind not in ("memory", "gemm", "math"):
            return
        for key, value in params.items():  # an array has no truth value and is no key of a table
            _need(value, key == "snapshot" or not isinstance(value, np.ndarray), key, "it must not be an array")
        if record.op_kind == "memory":
            _memory(params)
        elif record.op_kind == "gemm":
            _gemm(params)
        else:
            _math(params, record.op_name)
    except _Broken as broken:
        field, value, rule = broken.args
        where = f"op {record.op_id} ({record.op_name} at {record.component_id})"
        raise InputError(Problem(where, rule, field, value)) from None


def _need(value: Any, holds: bool, field: str, rule: str) -> None:
    if not holds:
        raise _Broken(field, value, rule)


def _fields(record: OpRecord) -> None:
    for name in ("component_id", "op_kind", "op_name"):
        value = getattr(record, name)
        _need(value, isinstance(value, str), name, "it must be text")
    for name in ("t_start", "t_end"):
        value = getattr(record, name)
        _need(value, _is_number(value) and value == value, name, "it must be a number of nanoseconds")
    _need(record.op_id, _is_int(record.op_id), "op_id", "it must be an integer")
    deps: Any = record.dependency_ids
    _need(deps, isinstance(deps, (list, tuple)) and all(map(_is_int, deps)), "dependency_ids", "it must be a list of op ids")
    _need(record.params, isinstance(record.params, Mapping), "params", "it must be a mapping")
    for key in record.params:
        _need(key, isinstance(key, str), "params", "its keys must be texts")


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _required(params: Params, key: str) -> Any:
    if key not in params:
        raise _Broken(key, None, "it is required")
    return params[key]


def _address(params: Params, key: str) -> int:
    value: int = _required(params, key)
    _need(value, _is_int(value) and 0 <= value <= LAST, key, ADDRESS)
    return value


def _space(params: Params, *keys: str) -> None:
    for key in keys:
        value = params.get(key)
        _need(value, value is None or isinstance(value, str), key, "it must be the name of a memory")


def _shape(value: Any, dtype: str, field: str) -> tuple[int, ...]:
    """A shape whose elements of this type fill whole bytes, and not too many."""
    fits = isinstance(value, (list, tuple)) and len(value) <= RANKS and all(_is_int(one) and one >= 0 for one in value)
    _need(value, fits, field, SHAPE)
    bits = prod(value) * dtype_of(dtype).bits
    _need(value, bits <= 8 * LARGEST, field, f"its elements must have at most {LARGEST} bytes")
    _need(value, bits % 8 == 0, field, f"its elements of {dtype} must fill whole bytes")
    return tuple(value)


def _dtype(value: Any, field: str) -> str:
    _need(value, isinstance(value, str) and value in DTYPES, field, DTYPE)
    return str(value)


def _array(value: Any, shape: tuple[int, ...], dtype: str, field: str) -> None:
    """Bytes that Phase 1 stored."""
    if value is not None:
        fits = isinstance(value, np.ndarray) and value.shape == shape and value.dtype == dtype_of(dtype).numpy
        _need(value, fits, field, f"it must be an array of {dtype} of the shape {shape}")


def _truth(params: Params, *keys: str) -> None:
    for key in keys:
        value = params.get(key)
        _need(value, value is None or isinstance(value, (bool, np.bool_)), key, "it must be true or false")


def _memory(params: Params) -> None:
    """Also for a read without a destination, which moves nothing: its size is computed before this is known."""
    if "shape" in params and "dtype" in params:
        dtype = _dtype(params["dtype"], "dtype")
        shape = _shape(params["shape"], dtype, "shape")
    else:
        nbytes = _required(params, "nbytes")
        _need(nbytes, _is_int(nbytes) and 0 <= nbytes <= LARGEST, "nbytes", f"it must be an integer from 0 to {LARGEST}")
        dtype, shape = "u8", (nbytes,)
    for key in ("src_addr", "dst_addr", "virtual_addr", "old_addr", "compare_addr"):
        if params.get(key) is not None:
            _address(params, key)
    _space(params, "src_space", "dst_space")
    for key in ("src_strides", "dst_strides"):
        steps: Any = params.get(key)
        fits = steps is None or (isinstance(steps, (list, tuple)) and len(steps) == len(shape) and all(map(_is_int, steps)))
        _need(steps, fits, key, "it must be a list of integers, one for each axis of the shape")
        _need(steps, all(abs(step) <= LAST >> 8 for step in steps or ()), key, "its steps must be inside of a memory")
    if "snapshot" in params:
        _array(params["snapshot"], shape, dtype, "snapshot")
    lanes = params.get("lanes")
    _need(lanes, lanes is None or isinstance(lanes, Lanes), "lanes", "it must be made by kernbench.common.lanes")
    _need(lanes, lanes is None or params.get("src_space") is not None, "src_space", "it is required of lanes")
    rmw = params.get("rmw", "")
    fits = isinstance(rmw, str) and (rmw in ("", "xchg", "cas") or ARITY.get(rmw) == 2)
    _need(rmw, fits, "rmw", "it must be a math op of two operands, xchg or cas")
    _need(rmw, rmw != "cas" or params.get("compare_addr") is not None, "rmw", "cas needs compare_addr")
    _need(rmw, not rmw or rmw not in LOGIC or dtype_of(dtype).kind != "float", "rmw", "it takes no floats")


def _gemm(params: Params) -> None:
    dtype_in, dtype_out = (_dtype(_required(params, key), key) for key in ("dtype_in", "dtype_out"))
    second = _dtype(params.get("dtype_b") or dtype_in, "dtype_b")
    _accumulated(params)
    shapes = {}
    for key, dtype in (("shape_a", dtype_in), ("shape_b", second)):
        shapes[key] = shape = _shape(_required(params, key), dtype, key)
        _need(params[key], len(shape) >= 2, key, "it must have at least two axes")
    for key in ("layout_a", "layout_b", "layout_out"):
        value = params.get(key, LAYOUTS[0])
        _need(value, value in LAYOUTS, key, f"it must be one of {', '.join(LAYOUTS)}")
    _truth(params, "transpose_a", "transpose_b")
    a, b = shapes["shape_a"], shapes["shape_b"]
    rows, inner = (a[-1], a[-2]) if params.get("transpose_a") else (a[-2], a[-1])
    depth, columns = (b[-1], b[-2]) if params.get("transpose_b") else (b[-2], b[-1])
    _need(params["shape_b"], inner == depth, "shape_b", f"it must fit shape_a, whose rows have {inner} elements")
    _need(params["shape_b"], b[:-2] == a[:-2] or not b[:-2], "shape_b", "its leading axes must be those of shape_a, or none")
    _shape([*a[:-2], rows, columns], dtype_out, "shape_a")
    if "shape_out" in params:
        out = _shape(params["shape_out"], dtype_out, "shape_out")
        _need(params["shape_out"], out == (*a[:-2], rows, columns), "shape_out", f"it must be {[*a[:-2], rows, columns]}")
    tile = params.get("tile_k")
    _need(tile, tile is None or (_is_int(tile) and tile >= 0), "tile_k", "it must be an integer from 0 on")
    for key in ("src_a_addr", "src_b_addr", "dst_addr"):
        _address(params, key)
    _space(params, "src_a_space", "src_b_space", "dst_space", "addr_space")
    if params.get("acc_addr") is not None:
        _address(params, "acc_addr")
        _space({"acc_space": _required(params, "acc_space")}, "acc_space")
        _shape(_required(params, "acc_shape"), _dtype(_required(params, "acc_dtype"), "acc_dtype"), "acc_shape")
    _epilogue(params)


def _accumulated(params: Params) -> None:
    if params.get("dtype_acc"):
        _dtype(params["dtype_acc"], "dtype_acc")


def _epilogue(params: Params) -> None:
    """Ops on a product before it is rounded. Each has a second operand that is a tensor or a number, or no second operand."""
    if "epilogue" not in params:
        return
    steps = params["epilogue"]
    _need(steps, isinstance(steps, (list, tuple)), "epilogue", "it must be a list of steps")
    for i, step in enumerate(steps):
        field = f"epilogue[{i}]"
        _need(step, isinstance(step, Mapping) and all(isinstance(key, str) for key in step), field, "it must be a mapping")
        op = step.get("op")
        _need(op, isinstance(op, str) and op in ARITY and op not in LOGIC, f"{field}.op", "it must be a math op of floats")
        try:
            if "addr" in step:
                _address(step, "addr")
                _space({"space": _required(step, "space")}, "space")
                _shape(_required(step, "shape"), _dtype(_required(step, "dtype"), "dtype"), "shape")
            elif "scalar" in step:
                _need(step["scalar"], _is_number(step["scalar"]), "scalar", "it must be a number")
        except _Broken as broken:
            raise _Broken(f"{field}.{broken.args[0]}", *broken.args[1:]) from None


def _math(params: Params, name: str) -> None:
    dtype = _dtype(_required(params, "dtype"), "dtype")
    shape = _shape(_required(params, "shape_out"), dtype, "shape_out")
    _address(params, "dst_addr")
    _space(params, "dst_space", "addr_space")
    inputs = _inputs(params, dtype)
    _truth(params, "masked", "keep_dims")
    _accumulated(params)
    other = params.get("other", 0)
    _need(other, _is_number(other) or isinstance(other, (bool, np.bool_)), "other", "it must be a number")
    _axis(params)
    op = params.get("math_op") or params.get("op") or name
    field = next((key for key in ("math_op", "op") if params.get(key)), "op_name")
    _need(op, isinstance(op, str) and op in VECTOR_OPS, field, "there is no such math op")
    masked = bool(params.get("masked"))  # then the last input is the mask, and no operand
    least = 0 if op in ARITY else 1 + (op == "gather")
    _need(op, len(inputs) >= least + masked, field, f"it takes at least {least + masked} inputs, and has {len(inputs)}")
    scalars = _scalars(params, len(inputs) - masked, moves=op in MOVES)
    if op in SCANS:
        most = int(op in ("layernorm", "rmsnorm"))
        _need(params.get("scalars"), len(scalars) <= most, "scalars", f"{op} takes at most {most} of them")
    if op in MOVES:
        wanted = NUMBERS[op]
        _need(params.get("scalars"), wanted is None or len(scalars) == wanted, "scalars", f"{op} takes {wanted} of them")
    kinds = {dtype_of(one).kind for one in (inputs[: len(inputs) - masked])}
    floats = "float" in kinds or any(isinstance(one, float) for one in scalars)
    _need(op, not floats or op not in (*LOGIC, "xor_sum", "histogram"), field, "it takes no floats")
    _need(params["shape_out"], op != "histogram" or len(shape) == 1, "shape_out", "a histogram has one axis")


def _inputs(params: Params, dtype: str) -> list[str]:
    """The element types of the inputs; their number must equal that of their addresses, shapes, spaces and snapshots."""
    addresses: Any = params.get("input_addrs", [])
    count = len(addresses) if isinstance(addresses, list) else -1
    _need(addresses, 0 <= count <= INPUTS, "input_addrs", f"it must be a list of at most {INPUTS} addresses")
    for address in addresses:
        _need(address, _is_int(address) and 0 <= address <= LAST, "input_addrs", ADDRESS)
    dtypes = [_dtype(one, "input_dtypes") for one in _each(params, "input_dtypes", count) or [dtype] * count]
    shapes = _each(params, "input_shapes", count)
    _need(params.get("input_shapes"), len(shapes) == count, "input_shapes", f"it must have {count} items")
    found = [_shape(shape, one, "input_shapes") for shape, one in zip(shapes, dtypes, strict=True)]
    for space in _each(params, "input_spaces", count):
        _need(space, isinstance(space, str), "input_spaces", "each must be the name of a memory")
    kept: Sequence[Any] = params.get("input_snapshots") or []
    _need(kept, isinstance(kept, list) and len(kept) in (0, count), "input_snapshots", f"it must have {count} items, or none")
    for one, shape, kind in zip(kept, found, dtypes, strict=False):
        _array(one, shape, kind, "input_snapshots")
    return dtypes


def _each(params: Params, key: str, count: int) -> list[Any]:
    """A list with an item for each input, or none."""
    value = params.get(key)
    fits = value is None or (isinstance(value, (list, tuple)) and len(value) in (0, count))
    _need(value, fits, key, f"it must have {count} items, one for each address")
    return list(value or [])


def _axis(params: Params) -> None:
    axis = params.get("axis")
    _need(axis, axis is None or (_is_int(axis) and abs(axis) <= RANKS), "axis", "it must be the number of an axis")


def _scalars(params: Params, inputs: int, *, moves: bool) -> list[Any]:
    """Operands that are not tensors, by position."""
    given: Any = params.get("scalars") or {}
    _need(given, isinstance(given, Mapping) and len(given) <= INPUTS, "scalars", "it must be a mapping of places to numbers")
    last = len(given) + inputs
    for place, value in given.items():
        _need(place, _is_int(place) and 0 <= place < last, "scalars", f"its keys must be places from 0 to {last - 1}")
        valid: Callable[[Any], bool] = _is_whole if moves else _is_value
        _need(value, valid(value), "scalars", "its values must be numbers")
    return list(given.values())


def _is_value(value: Any) -> bool:
    return (_is_number(value) or isinstance(value, (bool, np.bool_))) and (not _is_int(value) or abs(value) < 1 << 63)


def _is_whole(value: Any) -> bool:
    return (_is_int(value) and abs(value) < 1 << 63) or isinstance(value, (bool, np.bool_)) or value is None
