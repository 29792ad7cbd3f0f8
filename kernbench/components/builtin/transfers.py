"""The transfers of tensors: evenly spaced rows, each widened to the alignment (docs/model/bytes.md) and divided at the end of a
memory.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple, Protocol

from kernbench.common.dtypes import dtype_of


class Rows(NamedTuple):
    """One transfer. `offset` is relative to a tensor's address, or an address itself. All values are bytes, except the number
    of rows."""

    offset: int
    row_bytes: int
    stride: int
    rows: int

    @property
    def end(self) -> int:
        """The first byte after the transfer."""
        return self.offset + self.row_bytes + self.stride * (self.rows - 1)


Memory = tuple[int, int, tuple[int, ...]]  #: first byte, end, and the job parameters of the route


class MemoryRoutes(Protocol):
    """The memories that the DMA engines of a PE reach."""

    last: list[Memory]  #: the last results of `of`, for reading and for writing

    def of(self, address: int, write: bool) -> tuple[int, tuple[int, ...]]:
        """The end of the memory that contains an address, and the job parameters of the route to it.

        ValueError, with the existing memories, for an address in no memory.
        """


class OneMemory:
    """The DRAM of one NPU, as far as transfers that are aligned to `align` reach."""

    def __init__(self, nbytes: int, align: int) -> None:
        self._nbytes = nbytes
        self._align = align
        self._end = nbytes // align * align
        self.last: list[Memory] = [(0, self._end, ())] * 2

    def of(self, address: int, write: bool) -> tuple[int, tuple[int, ...]]:
        if 0 <= address < self._end:
            return self._end, ()
        if 0 <= address < self._nbytes:
            raise ValueError(beyond(self._align, 0, self._end))
        raise ValueError(f"the memory has {self._nbytes} bytes")


def beyond(align: int, start: int, end: int) -> str:
    """Why a byte of a memory outside [start, end) cannot be moved."""
    return f"transfers are aligned to {align} bytes, and those inside the memory are in [{start:#x}, {end:#x})"


def cut(rows: Rows, memory_routes: MemoryRoutes, write: bool) -> list[tuple[Rows, tuple[int, ...]]]:
    """The transfers of rows at their addresses; no transfer crosses the end of a memory, and each has its route."""
    end, route = memory_routes.of(rows.offset, write)
    if rows.end <= end:
        return [(rows, route)]
    if rows.rows > 1:
        first, rest = Rows(*rows[:3], 1), Rows(rows.offset + rows.stride, *rows[1:3], rows.rows - 1)
        inside = (end - rows.offset - rows.row_bytes) // rows.stride + 1  # rows before the end
        if inside > 1:
            first, rest = Rows(*rows[:3], inside), Rows(rows.offset + inside * rows.stride, *rows[1:3], rows.rows - inside)
        return cut(first, memory_routes, write) + cut(rest, memory_routes, write)
    inside = end - rows.offset
    return [(Rows(rows.offset, inside, 0, 1), route), *cut(Rows(end, rows.row_bytes - inside, 0, 1), memory_routes, write)]


def footprint(first: int, row_bytes: int, stride: int, rows: int, align: int) -> int:
    """[byte] The transferred bytes: every row is widened separately to multiples of `align`."""
    if rows == 1:
        return -(-(first + row_bytes) // align) * align - first // align * align
    if stride % align == 0:
        return rows * footprint(first, row_bytes, 0, 1, align)
    return sum(footprint(first + i * stride, row_bytes, 0, 1, align) for i in range(rows))


@cache
def rows_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> tuple[Rows, ...]:
    """A strided tensor as transfers of evenly spaced rows, in the order of its elements."""
    bits = dtype_of(dtype).bits
    run, outer = 1, len(shape)
    while outer and (strides[outer - 1] * 8 == run * bits or shape[outer - 1] == 1 or (bits < 8 and outer == len(shape))):
        outer -= 1
        run *= shape[outer]
    row_bytes = -(-run * bits // 8)
    if outer == 0:
        return (Rows(0, row_bytes, 0, 1),)
    if strides[outer - 1] < row_bytes:  # rows that overlap, or are in reverse order, are transferred one by one
        outer += 1
        count, stride = 1, 0
    else:
        count, stride = shape[outer - 1], strides[outer - 1]
    found = []
    for k in range(prod(shape[: outer - 1])):
        offset = 0
        for size, step in zip(reversed(shape[: outer - 1]), reversed(strides[: outer - 1]), strict=True):
            k, i = divmod(k, size)
            offset += i * step
        found.append(Rows(offset, row_bytes, stride, count))
    return tuple(found)
