"""Ops that move elements and do not change them: they work on elements as they lie in memory, so no bit of one is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, widen

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


#: (inputs, numbers, shape and type of the result) -> result
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
