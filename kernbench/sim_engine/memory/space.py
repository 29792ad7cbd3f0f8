"""One address space of a MemoryStore: disjoint arrays by address, and the bytes that a pending result will fill.

The arrays belong to the writers (no copy), and are never changed here. A write over part of an array leaves the rest of
it as a copy, so that neither sees the other's changes from then on. The remaining bytes are a view only if arrays are not
changed meanwhile, as in a replay. Rows that are written into the middle of an array go into such a copy, which only the store
uses: reads of it are copied, until one reads all of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from kernbench.common.dtypes import INT4, Array, pack_i4
from kernbench.sim_engine.memory.keys import TOP, Keys
from kernbench.sim_engine.memory.ranges import RangeMap

_START = attrgetter("start")


def stored_bytes(array: Array) -> int:
    """Bytes of an array in memory, where elements of i4 are packed."""
    return array.size // 2 if array.itemsize == 1 and array.dtype == INT4 else array.nbytes


def bytes_of(array: Array, start: int = 0, end: int | None = None) -> NDArray[np.uint8]:
    """The bytes `[start, end)` of an array in memory: a view, but of i4."""
    if array.dtype == INT4:
        return pack_i4(array.reshape(-1)[2 * start : None if end is None else 2 * end])
    return array.reshape(-1).view(np.uint8)[start:end]


class Sheet:
    """Bytes `[start, end)` that strided writes fill piece by piece, such as a matrix that is stored in tiles."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.data: NDArray[np.uint8] | None = None  #: the bytes, from the first write on
        self.written: NDArray[np.bool_] | None = None  #: whether each byte has a value


class Space(dict[int, Array]):
    """`{address: array}`, the arrays disjoint as ranges of bytes. Bytes of an open sheet are in no array: the first access
    other than a strided write makes arrays of what was written to the sheet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.starts = Keys()  #: the keys in order
        self.owned: set[int] = set()  #: keys of arrays that were made here and are not shared
        self.tensors: dict[int, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}  #: last write at an address
        self.changed: set[int] = set()  #: keys whose array is not the tensor that was last written there
        self.pending = RangeMap()  #: bytes without a value, and the op that will write it
        self.constant = False  #: whether the arrays are not changed, so that the rest of an array can be a view
        self.sheets: list[Sheet] = []  #: the open sheets, disjoint and in order of address

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Open sheets for ranges of bytes, which are disjoint and in order, where none of the bytes is known or pending."""
        self.close_sheets(0, TOP)
        for start, end in ranges:
            if self._block_at(start) is None and not self.starts.within(start, end) and not self.pending.over(start, end):
                self.sheets.append(Sheet(start, end))

    def sheet(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]] | None:
        """The bytes `[start, end)` for strided writes, and whether each has a value; None if no open sheet has them all."""
        i = bisect_right(self.sheets, start, key=_START) - 1
        if i < 0 or self.sheets[i].end < end:
            return None
        one = self.sheets[i]
        if one.data is None or one.written is None:
            one.data, one.written = np.empty(one.end - one.start, np.uint8), np.zeros(one.end - one.start, np.bool_)
        low, high = start - one.start, end - one.start
        return one.data[low:high], one.written[low:high]

    def close_sheets(self, start: int, end: int) -> None:
        """Make arrays of what was written to the sheets that have bytes of `[start, end)`."""
        if not self.sheets or end <= self.sheets[0].start or start >= self.sheets[-1].end:
            return
        first = max(bisect_right(self.sheets, start, key=_START) - 1, 0)
        last = bisect_left(self.sheets, end, key=_START)
        if first < last and self.sheets[first].end <= start:
            first += 1
        closed = self.sheets[first:last]
        del self.sheets[first:last]
        for sheet in closed:
            if sheet.data is None or sheet.written is None:
                continue
            edges, whole = [0, sheet.data.size], bool(sheet.written.all())
            if not whole:
                edges = np.flatnonzero(np.diff(sheet.written, prepend=False, append=False)).tolist()
            for low, high in zip(edges[::2], edges[1::2], strict=True):
                self.put(sheet.start + low, sheet.data if whole else sheet.data[low:high].copy())
                self.owned.add(sheet.start + low)
                self.changed.add(sheet.start + low)
                del self.tensors[sheet.start + low]  # it is no tensor that was written

    def fork(self) -> Space:
        """A copy of the dictionary with the same arrays."""
        self.close_sheets(0, TOP)
        self.owned.clear()  # two have seen them now
        new = Space()
        new.update(self)
        new.starts, new.tensors, new.changed = self.starts.copy(), dict(self.tensors), set(self.changed)
        new.pending = self.pending.copy()
        return new

    def put(self, addr: int, array: Array) -> None:
        """Store an array of at least one byte, which replaces earlier values."""
        self._put(addr, array, stored_bytes(array), (array.shape, array.dtype))

    def put_tensor(self, addr: int, array: Array, nbytes: int, tensor: tuple[tuple[int, ...], np.dtype[np.generic]]) -> None:
        """`put` of an array whose size, shape and type are known."""
        self._put(addr, array, nbytes, tensor)

    def put_rows(self, addrs: Sequence[int], rows: Array) -> None:
        """Store each row of an array of two axes, which has at least one byte, at its own address."""
        nbytes = stored_bytes(rows) // len(rows)
        tensor = (rows.shape[1:], rows.dtype)
        for addr, row in zip(addrs, rows, strict=True):
            self._put(addr, row, nbytes, tensor)

    def _put(self, addr: int, array: Array, nbytes: int, tensor: tuple[tuple[int, ...], np.dtype[np.generic]]) -> None:
        if self.sheets:
            self.close_sheets(addr, addr + nbytes)
        old = self.get(addr)
        if old is not None and stored_bytes(old) == nbytes:
            if self.owned:
                self.owned.discard(addr)
        else:
            self._clear(addr, addr + nbytes)
            self.starts.add(addr)
        self[addr] = array
        self.tensors[addr] = tensor
        if self.changed:
            self.changed.discard(addr)
        if self.pending.held:
            self.pending.remove(addr, addr + nbytes)

    def own(self, start: int, end: int) -> NDArray[np.uint8] | None:
        """The bytes `[start, end)`, to be written to: part of one array, which is copied first where others have seen it.

        None if no single array has them all.
        """
        if self.sheets:
            self.close_sheets(start, end)
        found = self._block_at(start)
        if found is None:
            return None
        key, array = found
        if key + stored_bytes(array) < end:
            return None
        if key not in self.owned:
            array = self[key] = bytes_of(array) if array.dtype == INT4 else bytes_of(array).copy()
            self.owned.add(key)
            self.changed.add(key)
        return bytes_of(array, start - key, end - key)

    def _clear(self, start: int, end: int) -> None:
        """Take the bytes `[start, end)`, at least one, out of the arrays that have some of them."""
        first = self._block_at(start)
        keys = self.starts.within(start + 1, end)
        if first is None and not keys:
            return
        if first is not None:
            keys.insert(0, first[0])
        rest = [part for key in keys for part in self._outside(key, start, end)]
        for key in keys:
            del self[key]
            self.owned.discard(key)
        self.starts.discard(keys)
        for key, array, owned in rest:
            self.starts.add(key)
            self[key] = array
            self.changed.add(key)
            if owned:
                self.owned.add(key)

    def _outside(self, key: int, start: int, end: int) -> list[tuple[int, Array, bool]]:
        """The parts of the array at `key` before `start` and from `end` on, as bytes, and whether the store owns them."""
        array = self[key]
        stop = key + stored_bytes(array)
        data = bytes_of(array)
        parts = [(key, data[: start - key])] if key < start else []
        if end < stop:
            parts.append((end, data[end - key :]))
        if key in self.owned or array.dtype == INT4:
            return [(addr, part, True) for addr, part in parts]
        # A view keeps the whole array in memory, so less than half of it is copied.
        views = [self.constant and 2 * part.nbytes >= data.nbytes for _, part in parts]
        return [(addr, part if view else part.copy(), not view) for (addr, part), view in zip(parts, views, strict=True)]

    def _block_at(self, addr: int) -> tuple[int, Array] | None:
        """The array that holds the byte at `addr`, and its address."""
        key = self.starts.before(addr)
        if key is None:
            return None
        array = self[key]
        return (key, array) if key + stored_bytes(array) > addr else None

    def gather(self, start: int, end: int) -> NDArray[np.uint8] | None:
        """The bytes `[start, end)`: a view where one array has them all, else a copy; None if some were not written."""
        if self.sheets:
            self.close_sheets(start, end)
        found = self._block_at(start)
        if found is None:
            return None
        key, array = found
        stop = key + stored_bytes(array)
        if stop >= end:
            data = bytes_of(array, start - key, end - key)
            if key not in self.owned:
                return data
            if key < start or end < stop:
                return data.copy()
            self.owned.discard(key)
            return data
        out = np.empty(end - start, np.uint8)
        at = start
        for one in [key, *self.starts.within(start + 1, end)]:
            if one > at:
                return None
            data = bytes_of(self[one], at - one, end - one)
            out[at - start : at - start + data.size] = data
            at += data.size
        return out if at == end else None

    def tensor(self, start: int, end: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array | None:
        """The bytes `[start, end)` as elements of whole bytes, which are no i4, as `gather` has them."""
        if self.sheets:
            self.close_sheets(start, end)
        found = self._block_at(start)
        if found is not None:
            key, array = found
            if key not in self.owned and key + array.nbytes >= end:
                own, size = array.dtype, array.itemsize
                if (own is dtype or own == dtype) and (start - key) % size == 0:
                    flat = array if array.ndim == 1 else array.reshape(-1)
                    part = flat[(start - key) // size : (end - key) // size]
                    return part if part.shape == shape else part.reshape(shape)
                if size > 1 or own != INT4:
                    return np.ndarray(shape, dtype, array, start - key)  # a view, made by one call
        data = self.gather(start, end)
        return None if data is None else data.view(dtype).reshape(shape)

    def window(self, start: int, end: int) -> NDArray[np.uint8] | None:
        """The bytes `[start, end)` if one array has them all, else None; for reading only, not to be kept."""
        if self.sheets:
            self.close_sheets(start, end)
        found = self._block_at(start)
        if found is None or found[0] + stored_bytes(found[1]) < end:
            return None
        return bytes_of(found[1], start - found[0], end - found[0])

    def missing(self, start: int, end: int) -> int | None:
        """The first byte of `[start, end)` that has no value; None if all have."""
        if self.sheets:
            self.close_sheets(start, end)
        if self.pending.held:
            waiting = self.pending.over(start, end)
            if waiting:
                first = self.missing(start, waiting[0][0])
                return waiting[0][0] if first is None else first
        at = start
        while at < end:
            found = self._block_at(at)
            if found is None:
                return at
            at = found[0] + stored_bytes(found[1])
        return None
