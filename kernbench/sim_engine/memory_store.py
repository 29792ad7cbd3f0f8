"""Contents of memories (seed ADR-0052 D6, seed ADR-0020 D7): byte-addressed; no copy where a request is one stored array.

A MemoryStore knows no time and no machine: a space is a name, an address a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.common.dtypes import INT4, Array, dtype_of, nbytes_of, unpack_i4
from kernbench.sim_engine.memory.space import Space, bytes_of, stored_bytes

LAST = (1 << 62) - 1  # address


class MemoryStore:
    """The contents of all memories: arrays by the name of the memory and the byte address, which has at most 62 bits.

    >>> from kernbench.sim_engine.memory_store import MemoryStore
    >>> store = MemoryStore()
    >>> store.write("hbm", 64, np.arange(4, dtype=np.int32))
    >>> store.read("hbm", 68, (2,), "i32").tolist()
    [1, 2]
    """

    def __init__(self) -> None:
        self._storage: dict[str, Space] = {}
        self._constant = False
        self._name: str | None = None  # of the space from which a tensor was read last
        self._last: Space | None = None

    def write(self, space: str, addr: int, data: Array) -> None:
        """Store a reference to `data` at `[addr, addr + nbytes)`. Later changes of the array are visible until part of it is
        overwritten.

        Elements of i4 are packed, two in a byte. ValueError for an array that is not contiguous or does not fill whole bytes,
        and for an address that is not a multiple of the element size.
        """
        size = data.itemsize
        if not data.flags.c_contiguous:
            raise ValueError(f"{space}[{addr:#x}]: a strided array is not one range of bytes; make a contiguous copy of it")
        if addr < 0 or addr % size or addr > LAST:
            _check_address(space, addr, size)
        if size == 1 and data.dtype == INT4 and data.size % 2:
            raise ValueError(f"{space}[{addr:#x}]: {data.size} elements of i4 do not fill whole bytes")
        if data.size:
            self._space(space).put(addr, data)

    def write_tensor(
        self, space: str, addr: int, data: Array, nbytes: int, tensor: tuple[tuple[int, ...], np.dtype[Any]]
    ) -> None:
        """`write` of a contiguous array of this shape and type, whose size is known to be `nbytes`; 0: it is not known."""
        if nbytes == 0 or addr < 0 or addr % tensor[1].itemsize or addr > LAST:
            self.write(space, addr, data)
        else:
            self._space(space).put_tensor(addr, data, nbytes, tensor)

    def write_rows(self, space: str, addrs: Sequence[int], rows: Array) -> None:
        """`write` of each row of an array of two axes, which has at least one byte, at its own address."""
        size = rows.itemsize
        if not rows.flags.c_contiguous or (size == 1 and rows.dtype == INT4) or any(addr < 0 or addr % size for addr in addrs):
            for addr, row in zip(addrs, rows, strict=True):
                self.write(space, addr, row)
        elif rows.size:
            self._space(space).put_rows(addrs, rows)

    @contextmanager
    def constant(self) -> Iterator[None]:
        """The arrays of the store are not changed meanwhile, so the rest of a partly overwritten array can be a view."""
        self._constant = True
        for space in self._storage.values():
            space.constant = True
        try:
            yield
        finally:
            self._constant = False
            for space in self._storage.values():
                space.constant = False

    def read(self, space: str, addr: int, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Array:
        """The tensor at `addr`: the stored array itself, a view of it, or a copy where several writes made the bytes.

        Without `shape` and `dtype` it is the tensor last written at this very address. `dtype` reinterprets its bytes,
        `shape` alone reshapes it; with both the request is that range of bytes, wherever it begins. Elements of i4 are
        unpacked. Raises ValueError if the bytes do not make that shape, were never written, or are pending.
        """
        if shape is not None and dtype is not None:
            return self.tensor(space, addr, tuple(shape), dtype_of(dtype).numpy)
        tensor = self._storage[space].tensors.get(addr) if space in self._storage else None
        if tensor is None:
            raise ValueError(
                f"{space}[{addr:#x}]: no tensor begins at this address; to read bytes inside a tensor, give shape and dtype"
            )
        own_shape, own_dtype = tensor
        if dtype is not None:
            whole = self._typed(space, addr, own_shape, own_dtype)
            wanted = dtype_of(dtype)
            if wanted.numpy == whole.dtype:
                return whole
            return _reinterpreted(whole, dtype, f"{space}[{addr:#x}]")
        if shape is not None and prod(shape) != prod(own_shape):
            have, want = prod(own_shape) * own_dtype.itemsize, prod(shape) * own_dtype.itemsize
            raise ValueError(f"{space}[{addr:#x}]: the tensor here has {have} bytes, and shape {tuple(shape)} takes {want}")
        return self._typed(space, addr, own_shape if shape is None else tuple(shape), own_dtype)

    def tensor(self, space: str, addr: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """The tensor at `addr`: `read` with a shape and the type that its elements have in numpy."""
        memory = self._last if space is self._name else self._known(space)
        if memory is not None and not memory.pending.held:
            arrays: dict[int, Array] = memory
            written = memory.tensors.get(addr)  # attributes of an array would take longer
            if written is not None and written[1] is dtype and (not memory.changed or addr not in memory.changed):
                array = arrays.get(addr)
                if array is not None and same_lengths(written[0], shape):
                    return array
        return self._typed(space, addr, shape, dtype)

    @contextmanager
    def expected(self, ranges: Mapping[str, Sequence[tuple[int, int]]]) -> Iterator[None]:
        """Strided writes will fill these ranges of the spaces, which are disjoint and in order: where no byte has a value
        yet, the rows of the writes are collected in one array each.
        """
        for space, found in ranges.items():
            self._space(space).expect(found)
        try:
            yield
        finally:
            for space in ranges:
                self._space(space).close_sheets(0, LAST)

    def knows(self, space: str) -> bool:
        """Whether anything was ever written in a space, or is pending there."""
        return space in self._storage

    def has(self, space: str, addr: int, nbytes: int = 1) -> bool:
        """Whether these bytes have a value: all were written, and none is pending."""
        return space in self._storage and self._storage[space].missing(addr, addr + nbytes) is None

    def snapshot(self) -> MemoryStore:
        """A copy of the store with the same arrays: a write to one is not visible in the other."""
        new = MemoryStore()
        new._storage = {name: space.fork() for name, space in self._storage.items()}
        return new

    def mark_pending(self, space: str, addr: int, nbytes: int, op_id: int) -> None:
        """The record `op_id` will give these bytes their value: until something is written there they have none."""
        if nbytes <= 0:
            return
        _check_address(space, addr, 1)
        memory = self._space(space)
        memory.close_sheets(addr, addr + nbytes)
        memory.pending.put(addr, addr + nbytes, op_id)

    def pending(self, space: str, addr: int, nbytes: int) -> list[int]:
        """The records that will write bytes of this range, in order, each once; empty if all bytes are known."""
        if space not in self._storage:
            return []
        return sorted({op_id for _, _, op_id in self._storage[space].pending.over(addr, addr + nbytes)})

    def rows_to_write(self, space: str, start: int, end: int) -> NDArray[np.uint8] | None:
        """The bytes `[start, end)` for writing, not shared with readers; None if no single array has them all."""
        return self._storage[space].own(start, end) if space in self._storage else None

    def sheet_to_write(self, space: str, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]] | None:
        """The bytes `[start, end)` for writing, and the marks of those that are written; None if no open sheet has them all."""
        memory = self._storage.get(space)
        return None if memory is None or not memory.sheets else memory.sheet(start, end)

    def rows_to_read(self, space: str, start: int, end: int) -> NDArray[np.uint8] | None:
        """The bytes `[start, end)` to copy from; None if no single array has them all, or some are pending."""
        memory = self._storage.get(space)
        if memory is None or (memory.pending.held and memory.pending.over(start, end)):
            return None
        return memory.window(start, end)

    def rows_written(self, space: str, starts: Iterable[int], nbytes: int) -> None:
        """Mark this many bytes from each address on as written, by `rows_to_write`."""
        pending = self._storage[space].pending
        if pending.held:
            for start in starts:
                pending.remove(start, start + nbytes)

    def _known(self, name: str) -> Space | None:
        """A space in which something was written or is pending; None for another one."""
        memory = self._storage.get(name)
        if memory is not None:
            self._name, self._last = name, memory
        return memory

    def _space(self, name: str) -> Space:
        memory = self._storage.get(name)
        if memory is None:
            memory = self._storage[name] = Space()
            memory.constant = self._constant
        return memory

    def _typed(self, space: str, addr: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """The tensor of these bytes; ValueError if some have no value."""
        count = prod(shape)
        if count == 0:
            return np.empty(shape, dtype)
        size = dtype.itemsize
        packed, nbytes = size == 1 and dtype == INT4, count * size
        if packed:
            try:
                nbytes = nbytes_of(shape, "i4")
            except ValueError as error:
                raise ValueError(f"{space}[{addr:#x}]: {error}") from None
        if addr < 0 or addr % size or addr > LAST:
            _check_address(space, addr, size)
        memory = self._storage.get(space)
        if memory is not None and not (memory.pending.held and memory.pending.over(addr, addr + nbytes)):
            array = memory.get(addr) if addr not in memory.owned else None
            if array is not None and array.dtype == dtype and stored_bytes(array) == nbytes:
                return array if array.shape == shape else array.reshape(shape)
            if not packed:
                array = memory.tensor(addr, addr + nbytes, shape, dtype)
                if array is not None:
                    return array
            else:
                data = memory.gather(addr, addr + nbytes)
                if data is not None:
                    return unpack_i4(data, shape)
        raise ValueError(self._absent(space, addr, nbytes))

    def _absent(self, space: str, addr: int, nbytes: int) -> str:
        text = f"{space}[{addr:#x}]: of the {nbytes} bytes from here on"
        waited = self.pending(space, addr, nbytes)
        if waited:
            return f"{text} some are pending until op {waited[0]} is computed"
        memory = self._storage.get(space)
        first = addr if memory is None else memory.missing(addr, addr + nbytes)
        return f"{text} the one at {first:#x} was never written"


def same_lengths(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes are equal: a comparison of tuples would take longer."""
    if shape is other:
        return True
    if len(shape) != len(other):
        return False
    for axis in range(len(shape)):  # noqa: SIM110  # a generator would cost more than the comparison
        if shape[axis] != other[axis]:
            return False
    return True


def _check_address(space: str, addr: int, align: int) -> None:
    if addr < 0:
        raise ValueError(f"{space}: the address {addr} is negative")
    if addr > LAST:
        raise ValueError(f"{space}[{addr:#x}]: the address has more than 62 bits")
    if addr % align:
        raise ValueError(f"{space}[{addr:#x}]: the address is not a multiple of the element size, {align} bytes")


def _reinterpreted(array: Array, dtype: str, where: str) -> Array:
    """The bytes of an array as other elements, its last axis longer or shorter; a view, but to and from i4."""
    wanted = dtype_of(dtype)
    data = bytes_of(array)
    bits = data.size * 8
    row = (array.shape[-1] if array.ndim else 1) * dtype_of(array.dtype).bits
    if row % wanted.bits or bits % wanted.bits:
        raise ValueError(f"{where}: rows of {row // 8} bytes do not hold whole elements of {wanted.name}")
    shape = (*array.shape[:-1], row // wanted.bits)
    return unpack_i4(data, shape) if wanted.numpy == INT4 else data.view(wanted.numpy).reshape(shape)
