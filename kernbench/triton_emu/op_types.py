"""Shapes and element types of results: what `tl` makes of its operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import index
from typing import Any

import numpy as np

from kernbench.common.dtypes import dtype_of
from kernbench.sim_engine.replay.math_ops import FLOAT, LOGIC
from kernbench.triton_emu.errors import KernelError

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
TO_BOOL = frozenset({*COMPARISONS, "any", "all"})
TO_INDEX = frozenset({"argmax", "argmin"})
_BITS = frozenset({"and", "or", "xor", "not", "shl", "shr"})
_LAYOUT = frozenset({"copy", "cast", "transpose", "full"})


@cache
def promoted(dtypes: tuple[str, ...]) -> str:
    """The common type of elements of these types: a float type before an integer type, then the wider type. Two different types
    of one width give f32 or i32."""
    kinds = [dtype_of(one) for one in dtypes]
    best = kinds[0]
    for one in kinds[1:]:
        if one.name == best.name:
            continue
        ranks = {"bool": 0, "int": 1, "float": 2}
        if one.kind != best.kind:
            best = max(best, one, key=lambda kind: ranks[kind.kind])
        elif one.bits != best.bits:
            best = max(best, one, key=lambda kind: kind.bits)
        else:
            best = dtype_of("f32" if one.kind == "float" else "i32" if one.bits < 32 else "i64")
    return best.name


def scalar_type(value: Any, beside: str) -> str:
    """The type of an op on a tensor of type `beside` and a number: the tensor's, unless the number is a float and it is not."""
    if isinstance(value, float) and dtype_of(beside).kind != "float":
        return "f32"
    if isinstance(value, int) and not isinstance(value, bool) and beside == "bool":
        return "i32"
    return beside


def elementwise_type(op: str, dtypes: Sequence[str], scalars: Sequence[Any]) -> str:
    """The type of the result of an elementwise op on tensors of these types and on these numbers. ValueError for an op on the
    bits of a float."""
    if op in TO_BOOL:
        return "bool"
    if op == "where":
        dtypes = dtypes[1:] or ("f32",)
    found = promoted(tuple(dtypes))
    for value in scalars:
        found = scalar_type(value, found)
    if op in _BITS and dtype_of(found).kind == "float":
        raise ValueError(f"{op} takes integers and truth values, and not {found}")
    if op in FLOAT and dtype_of(found).kind != "float":
        return "f32"
    if found == "bool" and op not in LOGIC and op not in _LAYOUT and op != "where":
        return "i32"
    return found


@cache
def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result of an elementwise op on tensors of these shapes; ValueError if the shapes do not fit."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return tuple(int(size) for size in np.broadcast_shapes(*shapes))


def reduced(shape: tuple[int, ...], axis: int | None, keep_dims: bool) -> tuple[int, ...]:
    """The shape of the result of a reduction."""
    if axis is None:
        return (1,) * len(shape) if keep_dims else ()
    middle = (1,) if keep_dims else ()
    return (*shape[:axis], *middle, *shape[axis + 1 :])


@cache
def product_shape(a: tuple[int, ...], b: tuple[int, ...], swap_a: bool, swap_b: bool) -> tuple[int, int, int, tuple[int, ...]]:
    """m, k, n and the shape of a product of matrices or of stacks of them; ValueError if they do not fit."""
    if len(a) < 2 or len(b) < 2:
        raise ValueError("both operands need two axes")
    m, k = (a[-1], a[-2]) if swap_a else (a[-2], a[-1])
    inner, n = (b[-1], b[-2]) if swap_b else (b[-2], b[-1])
    if k != inner:
        raise ValueError(f"a has {k} columns and b has {inner} rows")
    return m, k, n, (*broadcast(a[:-2], b[:-2]), m, n)


def lengths_of(shape: Any, line: str) -> tuple[int, ...]:
    """The lengths of all axes: of an integer, or a sequence of integers, of Python or numpy. KernelError for anything else."""
    try:
        return tuple(index(one) for one in shape) if isinstance(shape, Iterable) else (index(shape),)
    except TypeError:
        raise KernelError(f"{line}: a shape must be an integer or a tuple of integers, and this is {shape!r}") from None
