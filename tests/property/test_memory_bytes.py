"""A MemoryStore is bytes: random writes, reads and forks against a plain bytearray that knows no arrays."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernbench.common.dtypes import DTYPES, dtype_of, nbytes_of
from kernbench.sim_engine.memory.ranges import RangeMap
from kernbench.sim_engine.memory.strides import mark_strided, read_strided, write_strided
from kernbench.sim_engine.memory_store import MemoryStore

SIZE = 96  # [B] of each space
SPACES = ("hbm", "tcm")
UNWRITTEN, PENDING = -1, -2

dtypes = st.sampled_from(sorted(DTYPES))
spaces = st.sampled_from(SPACES)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[int, tuple[int, ...], str]:
    """(address, shape, dtype) of a tensor inside a space, aligned."""
    name = draw(dtypes)
    shape = draw(st.sampled_from([(1,), (2,), (4,), (6,), (2, 2), (3, 2), (1, 4), (2, 4), (2, 2, 2), (8,), ()]))
    if name == "i4" and int(np.prod(shape)) % 2:
        shape = (4,)
    align = dtype_of(name).align
    last = (SIZE - nbytes_of(shape, name)) // align
    return draw(st.integers(0, last)) * align, shape, name


@st.composite
def apart(draw: st.DrawFn) -> tuple[int, tuple[int, int], int, str]:
    """(address, shape, stride, dtype) of rows that lie apart in a space, in either direction."""
    dtype = draw(st.sampled_from(["f32", "bf16", "i8", "i4"]))
    shape = draw(st.sampled_from([(2, 4), (3, 2), (4, 2), (1, 6)]))
    align, row = dtype_of(dtype).align, nbytes_of(shape[1:], dtype)
    stride = row + align * draw(st.integers(0, 3))
    whole = stride * (shape[0] - 1) + row
    addr = draw(st.integers(0, (SIZE - whole) // align)) * align
    return (addr + stride * (shape[0] - 1), shape, -stride, dtype) if draw(st.booleans()) else (addr, shape, stride, dtype)


def places(rows: tuple[int, tuple[int, int], int, str]) -> list[int]:
    return [rows[0] + i * rows[2] for i in range(rows[1][0])]


def cut(data: bytes, rows: int) -> list[bytes]:
    return [data[i * len(data) // rows : (i + 1) * len(data) // rows] for i in range(rows)]


class Oracle:
    """Bytes of the spaces: numbers from 0 to 255, or why there is none."""

    def __init__(self) -> None:
        self.spaces = {space: [UNWRITTEN] * SIZE for space in SPACES}

    def copy(self) -> Oracle:
        new = Oracle()
        new.spaces = {space: list(data) for space, data in self.spaces.items()}
        return new


def made(data: bytes, shape: tuple[int, ...], dtype: str) -> Any:
    """An array of these bytes, by numpy's own means."""
    if dtype == "i4":
        halves = [half - 16 if half > 7 else half for byte in data for half in (byte & 15, byte >> 4)]
        return np.array(halves, np.int8).astype(dtype_of("i4").numpy).reshape(shape)
    return np.frombuffer(data, dtype_of(dtype).numpy).reshape(shape).copy()


def raw(array: Any) -> bytes:
    if array.dtype == dtype_of("i4").numpy:
        halves = [int(value) & 15 for value in array.reshape(-1)]
        return bytes(low | high << 4 for low, high in zip(halves[::2], halves[1::2], strict=True))
    return bytes(array.tobytes())


class Bytes(RuleBasedStateMachine):
    """Stores and oracles side by side; a fork is another pair."""

    @initialize(constant=st.booleans())
    def begin(self, constant: bool) -> None:
        self.pairs = [(MemoryStore(), Oracle())]
        self.scopes = ExitStack()
        if constant:  # as in a replay; stores that are forked from this one copy the rest of an array
            self.scopes.enter_context(self.pairs[0][0].constant())
        self.written: list[tuple[Any, bytes]] = []

    @rule(which=st.integers(0, 3), space=spaces, tensor=tensors(), seed=st.integers(0, 255))
    def write(self, which: int, space: str, tensor: tuple[int, tuple[int, ...], str], seed: int) -> None:
        addr, shape, dtype = tensor
        data = bytes((seed + 37 * i) % 256 for i in range(nbytes_of(shape, dtype)))
        if dtype == "bool":
            data = bytes(byte & 1 for byte in data)
        store, oracle = self.pairs[which % len(self.pairs)]
        array = made(data, shape, dtype)
        store.write(space, addr, array)
        oracle.spaces[space][addr : addr + len(data)] = list(data)
        assert store.read(space, addr) is array
        self.written.append((array, data))

    @rule(which=st.integers(0, 3), space=spaces, addr=st.integers(0, SIZE - 1), nbytes=st.integers(1, 24))
    def pend(self, which: int, space: str, addr: int, nbytes: int) -> None:
        store, oracle = self.pairs[which % len(self.pairs)]
        end = min(addr + nbytes, SIZE)
        store.mark_pending(space, addr, end - addr, 5)
        oracle.spaces[space][addr:end] = [PENDING] * (end - addr)

    @rule(which=st.integers(0, 3), space=spaces, tensor=tensors())
    def read(self, which: int, space: str, tensor: tuple[int, tuple[int, ...], str]) -> None:
        addr, shape, dtype = tensor
        store, oracle = self.pairs[which % len(self.pairs)]
        data = oracle.spaces[space][addr : addr + nbytes_of(shape, dtype)]
        assert store.has(space, addr, len(data)) == (min(data) >= 0)
        assert bool(store.pending(space, addr, len(data))) == (PENDING in data)
        if min(data) < 0:
            with pytest.raises(ValueError, match="pending" if PENDING in data else "never written"):
                store.read(space, addr, shape, dtype)
            return
        found = store.read(space, addr, shape, dtype)
        assert found.shape == shape and found.dtype == dtype_of(dtype).numpy and raw(found) == bytes(data)
        self.written.append((found, bytes(data)))

    @rule(which=st.integers(0, 3), space=spaces, rows=apart(), seed=st.integers(0, 255))
    def write_rows(self, which: int, space: str, rows: tuple[int, tuple[int, int], int, str], seed: int) -> None:
        addr, shape, stride, dtype = rows
        store, oracle = self.pairs[which % len(self.pairs)]
        data = bytes((seed + 29 * i) % 256 for i in range(nbytes_of(shape, dtype)))
        write_strided(store, space, addr, made(data, shape, dtype), (stride, dtype_of(dtype).align), dtype)
        for place, row in zip(places(rows), cut(data, shape[0]), strict=True):
            oracle.spaces[space][place : place + len(row)] = list(row)

    @rule(which=st.integers(0, 3), space=spaces, rows=apart())
    def pend_rows(self, which: int, space: str, rows: tuple[int, tuple[int, int], int, str]) -> None:
        addr, shape, stride, dtype = rows
        store, oracle = self.pairs[which % len(self.pairs)]
        mark_strided(store, space, addr, shape, (stride, dtype_of(dtype).align), dtype, 5)
        nbytes = nbytes_of(shape[1:], dtype)
        for place in places(rows):
            oracle.spaces[space][place : place + nbytes] = [PENDING] * nbytes

    @rule(which=st.integers(0, 3), space=spaces, rows=apart())
    def read_rows(self, which: int, space: str, rows: tuple[int, tuple[int, int], int, str]) -> None:
        addr, shape, stride, dtype = rows
        store, oracle = self.pairs[which % len(self.pairs)]
        nbytes = nbytes_of(shape[1:], dtype)
        data = [byte for place in places(rows) for byte in oracle.spaces[space][place : place + nbytes]]
        strides = (stride, dtype_of(dtype).align)
        if min(data) < 0:
            with pytest.raises(ValueError, match=r"pending|never written"):
                read_strided(store, space, addr, shape, strides, dtype)
            return
        found = read_strided(store, space, addr, shape, strides, dtype)
        assert raw(found) == bytes(data)
        self.written.append((found, bytes(data)))

    @precondition(lambda self: len(self.pairs) < 4)
    @rule(which=st.integers(0, 3))
    def fork(self, which: int) -> None:
        store, oracle = self.pairs[which % len(self.pairs)]
        self.pairs.append((store.snapshot(), oracle.copy()))

    def teardown(self) -> None:
        if hasattr(self, "scopes"):
            self.scopes.close()

    @invariant()
    def writers_arrays_are_never_changed(self) -> None:
        assert all(raw(array) == data for array, data in getattr(self, "written", []))

    @invariant()
    def arrays_are_disjoint_and_in_order(self) -> None:
        for store, _ in getattr(self, "pairs", []):
            for space in store._storage.values():
                assert list(space.starts) == sorted(space) and space.owned <= set(space)
                ends = [key + len(raw(space[key])) for key in space.starts]
                assert all(end <= start for end, start in zip(ends, list(space.starts)[1:], strict=False))


Bytes.TestCase.settings = settings(max_examples=70, stateful_step_count=40, deadline=None)
test_a_store_is_bytes = Bytes.TestCase


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3) | st.none()), max_size=20))
def test_ranges_hold_what_a_list_of_bytes_holds(steps: list[tuple[int, int, int | None]]) -> None:
    ranges = RangeMap()
    plain: list[int | None] = [None] * 40
    for one, other, value in steps:
        start, end = sorted((one, other))
        if value is None:
            ranges.remove(start, end)
        else:
            ranges.put(start, end, value)
        plain[start:end] = [value] * (end - start)
        found = ranges.over(0, 40)
        shown: list[int | None] = [None] * 40
        for low, high, kept in found:
            assert low < high
            shown[low:high] = [kept] * (high - low)
        assert shown == plain
        cut = ranges.over(start, end)
        assert all(start <= low < high <= end for low, high, _ in cut)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.permutations([0, 1, 2]),
    st.integers(0, 2),
    st.sampled_from(["f32", "i16", "i8"]),
)
def test_strided_tensors_are_numpys_views(shape: list[int], order: list[int], gap: int, dtype: str) -> None:
    """Any order of the axes in memory, with gaps between rows: the tensor that numpy sees through such strides."""
    item = dtype_of(dtype).align
    strides, step = [0] * len(shape), item
    for axis in [one for one in order if one < len(shape)]:
        strides[axis] = step
        step = step * shape[axis] + gap * item
    buffer = (np.arange(step) * 7 % 251).astype(np.uint8)
    view = np.ndarray(tuple(shape), dtype_of(dtype).numpy, buffer.copy(), 0, tuple(strides))
    store = MemoryStore()
    store.write("hbm", 0, buffer)
    found = read_strided(store, "hbm", 0, shape, strides, dtype)
    assert found.tobytes() == view.tobytes()
    new = np.frombuffer(bytes(reversed(found.tobytes())), found.dtype).reshape(found.shape)
    write_strided(store, "hbm", 0, new, strides, dtype)
    view[...] = new
    assert store.read("hbm", 0, (step,), "u8").tobytes() == view.base.tobytes()  # type: ignore[union-attr]
