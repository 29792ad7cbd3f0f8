"""Gathers and scatters of a MemoryStore: tensors whose elements lie anywhere (`Lanes`)."""

from __future__ import annotations

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.lanes import Lanes, runs
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.replay.math_ops import evaluate


def read_lanes(store: MemoryStore, space: str, addr: int, lanes: Lanes, dtype: str) -> Array:
    """The tensor of these lanes; ValueError as `MemoryStore.read`."""
    return lanes.spread(_gathered(store, space, addr, lanes, dtype), dtype)


def write_lanes(store: MemoryStore, space: str, addr: int, data: Array, lanes: Lanes, rmw: str = "") -> None:
    """Write the lanes of a tensor; of two lanes at one place the later stays. `rmw`: a math op on what is there and the lane.

    ValueError as `MemoryStore.write`, and `read` where there is an `rmw`.
    """
    dtype = dtype_of(data.dtype).name
    moved = lanes.picked(data)
    if rmw:
        # Lanes at one place act one after the other: by their rank among those of the same place.
        for chosen in _turns(lanes):
            part = Lanes((chosen.size,), lanes.itemsize, lanes.at[chosen].tobytes())
            old = _gathered(store, space, addr, part, dtype)
            new = narrow(np.asarray(evaluate(rmw, [widen(old), widen(moved[chosen])])), dtype)
            write_lanes(store, space, addr, np.ascontiguousarray(new), part)
        return
    places, last = np.unique(lanes.at[::-1], return_index=True)
    values = moved[::-1][last]
    if not places.size:
        return
    low, high = lanes.span
    into = store.rows_to_write(space, addr + low, addr + high) if addr % lanes.itemsize == 0 else None
    if into is not None and into.size:
        into.view(values.dtype)[(places - low) // lanes.itemsize] = values
        for first, nbytes in runs(places, lanes.itemsize):
            store.rows_written(space, (addr + first,), nbytes)
        return
    position = 0
    for first, nbytes in runs(places, lanes.itemsize):
        count = nbytes // lanes.itemsize
        store.write(space, addr + first, values[position : position + count].copy())
        position += count


def mark_lanes(store: MemoryStore, space: str, addr: int, lanes: Lanes, op_id: int) -> None:
    """`MemoryStore.mark_pending` of these lanes."""
    for first, nbytes in runs(lanes.at, lanes.itemsize):
        store.mark_pending(space, addr + first, nbytes, op_id)


def _gathered(store: MemoryStore, space: str, addr: int, lanes: Lanes, dtype: str) -> Array:
    """The elements of the lanes that move, flat."""
    found = np.empty(lanes.at.size, dtype_of(dtype).numpy)
    if not found.size:
        return found
    low, high = lanes.span
    data = store.rows_to_read(space, addr + low, addr + high) if addr % lanes.itemsize == 0 else None
    if data is not None and data.size:
        return np.asarray(data.view(found.dtype)[(lanes.at - low) // lanes.itemsize])
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
