"""Tensors whose rows are not contiguous in memory: a tile of a larger matrix, read into one piece or written row by row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.lanes import Lanes, runs
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.replay.math_ops import evaluate


def span_of(shape: Sequence[int], strides: Sequence[int], dtype: str) -> tuple[int, int]:
    """[B] The offsets of the lowest byte, and of the first byte after the highest, from a tensor's first element; (0, 0) if it
    has no elements."""
    if prod(shape) == 0:
        return 0, 0
    run, outer = _runs(shape, strides, dtype)
    ways = [stride * (count - 1) for count, stride in zip(shape[:outer], strides, strict=False)]
    return sum(min(way, 0) for way in ways), sum(max(way, 0) for way in ways) + run * dtype_of(dtype).bits // 8


def strides_of(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """[B] The distance from one index to the next for each axis of a contiguous tensor; 1 if elements are packed."""
    found, step = [], dtype_of(dtype).align
    for count in reversed(shape):
        found.append(step)
        step *= count
    return tuple(reversed(found))


class _Outline(NamedTuple):
    """The runs of adjacent elements of a strided tensor."""

    outer: tuple[int, ...]  #: leading axes that step from one run to the next
    run: int  #: elements of a run
    low: int  #: [B] from the first element to the lowest byte
    high: int  #: [B] from the first element to the first byte after the highest
    offsets: list[int]  #: [B] from the first element to each run
    disjoint: bool  #: whether the runs certainly share no byte


@lru_cache(maxsize=256)
def _outline(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> _Outline:
    run, outer = _runs(shape, strides, dtype)
    disjoint = _disjoint(shape[:outer], strides, run * dtype_of(dtype).align)
    return _Outline(shape[:outer], run, *span_of(shape, strides, dtype), _offsets(shape, strides, outer), disjoint)


def read_strided(store: MemoryStore, space: str, addr: int, shape: Sequence[int], strides: Sequence[int], dtype: str) -> Array:
    """A contiguous copy of a tensor whose axes advance by `strides` bytes; ValueError in the same cases as
    `MemoryStore.read`."""
    of = _outline(tuple(shape), tuple(strides), dtype)
    data = store.rows_to_read(space, addr + of.low, addr + of.high) if addr % dtype_of(dtype).align == 0 else None
    out = np.empty(tuple(shape), dtype_of(dtype).numpy)
    if data is not None and data.size and dtype_of(dtype).bits >= 8:
        out.reshape(-1).view(np.uint8).reshape(*of.outer, -1)[...] = _apart(data, -of.low, of.outer, strides, of.run, dtype)
        return out
    rows = out.reshape(-1, of.run)
    for row, offset in zip(rows, of.offsets, strict=True):
        row[:] = store.read(space, addr + offset, (of.run,), dtype)
    return out


def write_strided(store: MemoryStore, space: str, addr: int, data: Array, strides: Sequence[int], dtype: str) -> None:
    """Write a contiguous tensor so that its axes advance by `strides` bytes; ValueError in the same cases as
    `MemoryStore.write`."""
    of = _outline(data.shape, tuple(strides), dtype)
    align = dtype_of(dtype).align
    if of.outer and of.disjoint and dtype_of(dtype).bits >= 8 and addr % align == 0:
        sheet = store.sheet_to_write(space, addr + of.low, addr + of.high)
        if sheet is not None:
            np.ndarray(data.shape, data.dtype, sheet[0], -of.low, strides)[...] = data
            _apart(sheet[1], -of.low, of.outer, strides, of.run, dtype)[...] = True
            return
        into = store.rows_to_write(space, addr + of.low, addr + of.high)
        if into is not None and into.size:
            source = data.reshape(-1).view(np.uint8).reshape(*of.outer, -1)
            _apart(into, -of.low, of.outer, strides, of.run, dtype)[...] = source
            store.rows_written(space, (addr + offset for offset in of.offsets), of.run * align)
            return
    store.write_rows(space, [addr + offset for offset in of.offsets], data.reshape(-1, of.run))


def mark_strided(
    store: MemoryStore, space: str, addr: int, shape: Sequence[int], strides: Sequence[int], dtype: str, op_id: int
) -> None:
    """`MemoryStore.mark_pending` for a tensor whose axes advance by `strides` bytes."""
    run, outer = _runs(shape, strides, dtype)
    for offset in _offsets(shape, strides, outer):
        store.mark_pending(space, addr + offset, run * dtype_of(dtype).bits // 8, op_id)


def _apart(data: Array, first: int, outer: Sequence[int], strides: Sequence[int], run: int, dtype: str) -> Array:
    """The runs of a tensor in the bytes of its span, or in the marks of these bytes; the first element is at `first`."""
    nbytes = run * dtype_of(dtype).align
    return np.ndarray((*outer, nbytes), data.dtype, data, first, (*strides[: len(outer)], 1))


def _disjoint(outer: Sequence[int], strides: Sequence[int], nbytes: int) -> bool:
    """Whether runs of `nbytes` certainly share no byte: the step of each axis is larger than the reach of all later axes."""
    reach = nbytes
    for count, stride in sorted(zip(outer, map(abs, strides), strict=False), key=lambda one: one[1]):
        if count > 1 and stride < reach:
            return False
        reach += stride * (count - 1)
    return True


def _runs(shape: Sequence[int], strides: Sequence[int], dtype: str) -> tuple[int, int]:
    """The number of elements that are adjacent in memory, and the number of leading axes that step from one such run to the
    next.

    The elements of the last axis of a packed tensor are always adjacent, because its stride is not a whole number of bytes.
    """
    bits = dtype_of(dtype).bits
    run, outer = 1, len(shape)
    while outer and (strides[outer - 1] * 8 == run * bits or shape[outer - 1] == 1 or (bits < 8 and outer == len(shape))):
        outer -= 1
        run *= shape[outer]
    return run, outer


def _offsets(shape: Sequence[int], strides: Sequence[int], outer: int) -> list[int]:
    """[B] from the first run of a tensor to each of its runs, in the order of their indices."""
    found = [0]
    for count, stride in zip(shape[:outer], strides, strict=False):
        found = [offset + i * stride for offset in found for i in range(count)]
    return found


def read_lanes(store: MemoryStore, space: str, addr: int, lanes: Lanes, dtype: str) -> Array:
    """The tensor of these lanes; ValueError in the same cases as `MemoryStore.read`."""
    return lanes.spread(_gathered(store, space, addr, lanes, dtype), dtype)


def write_lanes(
    store: MemoryStore, space: str, addr: int, data: Array, lanes: Lanes, rmw: str = "", compare: Array | None = None
) -> Array:
    """Write the lanes of a tensor; of two lanes at the same address, the later one is kept. `rmw`: a math op on the old value
    and the lane, `xchg` (stores the lane), or `cas` (stores the lane if the bits of the old value equal those of `compare`).
    With `rmw`, returns the old value for each lane that moves.

    ValueError in the same cases as `MemoryStore.write`, and `read` if there is an `rmw`.
    """
    dtype = dtype_of(data.dtype).name
    moved = lanes.picked(data)
    if rmw:
        before = np.zeros(moved.shape, moved.dtype)
        # Lanes at the same address act in sequence, by their rank among them.
        for chosen in _turns(lanes):
            part = Lanes((chosen.size,), lanes.itemsize, lanes.at[chosen].tobytes())
            old = _gathered(store, space, addr, part, dtype)
            before[chosen] = old
            if rmw == "xchg":
                new = moved[chosen]
            elif rmw == "cas":
                assert compare is not None
                same = _bits_of(old) == _bits_of(lanes.picked(compare)[chosen])
                new = np.where(same, moved[chosen], old)
            else:
                new = narrow(np.asarray(evaluate(rmw, [widen(old), widen(moved[chosen])])), dtype)
            write_lanes(store, space, addr, np.ascontiguousarray(new), part)
        return before
    if lanes.rises:
        places, values = lanes.at, moved
    else:
        places, last = np.unique(lanes.at[::-1], return_index=True)
        values = moved[::-1][last]
    if not places.size:
        return moved
    low, high = lanes.span
    stretches = lanes.runs
    into = store.rows_to_write(space, addr + low, addr + high) if addr % lanes.itemsize == 0 else None
    if into is not None and into.size:
        into.view(values.dtype)[... if lanes.straight else (places - low) // lanes.itemsize] = values
        for first, nbytes in stretches:
            store.rows_written(space, (addr + first,), nbytes)
        return moved
    position = 0
    for first, nbytes in stretches:
        count = nbytes // lanes.itemsize
        store.write(space, addr + first, values[position : position + count].copy())
        position += count
    return moved


def _bits_of(values: Array) -> Array:
    """Elements as integers of their bits."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def mark_lanes(store: MemoryStore, space: str, addr: int, lanes: Lanes, op_id: int) -> None:
    """`MemoryStore.mark_pending` for these lanes."""
    for first, nbytes in lanes.runs:
        store.mark_pending(space, addr + first, nbytes, op_id)


def _gathered(store: MemoryStore, space: str, addr: int, lanes: Lanes, dtype: str) -> Array:
    """The elements of the lanes that move, flat."""
    found = np.empty(lanes.at.size, dtype_of(dtype).numpy)
    if not found.size:
        return found
    low, high = lanes.span
    data = store.rows_to_read(space, addr + low, addr + high) if addr % lanes.itemsize == 0 else None
    if data is not None and data.size:
        there = data.view(found.dtype)
        return there.copy() if lanes.straight else np.asarray(there[(lanes.at - low) // lanes.itemsize])
    places, back = np.unique(lanes.at, return_inverse=True)
    kept = np.empty(places.size, found.dtype)
    position = 0
    for first, nbytes in runs(places, lanes.itemsize):
        count = nbytes // lanes.itemsize
        kept[position : position + count] = store.read(space, addr + first, (count,), dtype)
        position += count
    found[:] = kept[back.reshape(-1)]
    return found


def _turns(lanes: Lanes) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    order = np.argsort(lanes.at, kind="stable")
    places = lanes.at[order]
    first = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1)) if places.size else np.zeros(0, np.intp)
    rank = np.arange(places.size) - np.repeat(first, np.diff(np.concatenate((first, [places.size]))))
    return [np.sort(order[rank == turn]) for turn in range(int(rank.max()) + 1 if rank.size else 0)]
