"""Tensors whose rows lie apart in memory: a tile of a larger matrix, read into one piece or written row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.sim_engine.memory_store import MemoryStore


def span_of(shape: Sequence[int], strides: Sequence[int], dtype: str) -> tuple[int, int]:
    """[B] from a tensor's first element to its lowest byte and past its highest; (0, 0) where it has no elements."""
    if prod(shape) == 0:
        return 0, 0
    run, outer = _runs(shape, strides, dtype)
    ways = [stride * (count - 1) for count, stride in zip(shape[:outer], strides, strict=False)]
    return sum(min(way, 0) for way in ways), sum(max(way, 0) for way in ways) + run * dtype_of(dtype).bits // 8


def strides_of(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """[B] from one index to the next of each axis of a contiguous tensor; elements that are packed count as a byte."""
    found, step = [], dtype_of(dtype).align
    for count in reversed(shape):
        found.append(step)
        step *= count
    return tuple(reversed(found))


def read_strided(store: MemoryStore, space: str, addr: int, shape: Sequence[int], strides: Sequence[int], dtype: str) -> Array:
    """A contiguous copy of a tensor whose axes advance by `strides` bytes; ValueError as `MemoryStore.read`."""
    run, outer = _runs(shape, strides, dtype)
    out = np.empty(tuple(shape), dtype_of(dtype).numpy)
    rows = out.reshape(-1, run)
    for row, offset in zip(rows, _offsets(shape, strides, outer), strict=True):
        row[:] = store.read(space, addr + offset, (run,), dtype)
    return out


def write_strided(store: MemoryStore, space: str, addr: int, data: Array, strides: Sequence[int], dtype: str) -> None:
    """Write a contiguous tensor so that its axes advance by `strides` bytes; ValueError as `MemoryStore.write`."""
    run, outer = _runs(data.shape, strides, dtype)
    for row, offset in zip(data.reshape(-1, run), _offsets(data.shape, strides, outer), strict=True):
        store.write(space, addr + offset, row)


def _runs(shape: Sequence[int], strides: Sequence[int], dtype: str) -> tuple[int, int]:
    """Elements that lie side by side in memory, and how many of the first axes step from one such run to the next.

    The last axis of packed elements always lies side by side: its stride is no whole number of bytes.
    """
    bits = dtype_of(dtype).bits
    run, outer = 1, len(shape)
    while outer and (strides[outer - 1] * 8 == run * bits or shape[outer - 1] == 1 or (bits < 8 and outer == len(shape))):
        outer -= 1
        run *= shape[outer]
    return run, outer


def _offsets(shape: Sequence[int], strides: Sequence[int], outer: int) -> Iterator[int]:
    for index in product(*(range(count) for count in shape[:outer])):
        yield sum(i * stride for i, stride in zip(index, strides, strict=False))
