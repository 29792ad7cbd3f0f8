"""How tensors become transfers: rows, alignment, and the ends of memories; each against bytes counted one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kernbench.components.builtin.transfers import Memory, Rows, cut, footprint, rows_of

sizes = st.integers(1, 40)


class Slices:
    """Memories of so many bytes, one behind the other; the way to one is its number."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self.last: list[Memory] = [(0, 0, ())] * 2

    def of(self, address: int, write: bool) -> tuple[int, tuple[int, ...]]:
        number = address // self._nbytes
        return (number + 1) * self._nbytes, (number,)


def bytes_of(rows: Rows) -> list[int]:
    return [rows.offset + i * rows.stride + j for i in range(rows.rows) for j in range(rows.row_bytes)]


@given(st.integers(0, 300), sizes, st.integers(0, 30), st.integers(1, 12), st.integers(8, 200))
def test_cut_rows_are_the_same_bytes_in_the_same_order(first: int, row: int, gap: int, count: int, size: int) -> None:
    rows = Rows(first, row, row + gap, count)
    pieces = cut(rows, Slices(size), False)
    assert [byte for piece, _ in pieces for byte in bytes_of(piece)] == bytes_of(rows)
    for piece, way in pieces:
        assert {byte // size for byte in bytes_of(piece)} == {way[0]}


def test_rows_in_one_memory_stay_one_transfer() -> None:
    rows = Rows(10, 4, 8, 5)  # the last ends with byte 46
    assert cut(rows, Slices(46), True) == [(rows, (0,))]
    # Four rows end with byte 38, the fifth begins with byte 42.
    assert cut(rows, Slices(42), True) == [(Rows(10, 4, 8, 4), (0,)), (Rows(42, 4, 8, 1), (1,))]


@given(st.integers(0, 200), sizes, st.integers(0, 30), st.integers(1, 9), st.sampled_from([1, 16, 32]))
def test_what_travels_is_every_row_widened(first: int, row: int, gap: int, count: int, align: int) -> None:
    stride = row + gap
    lines = [(first + i * stride + j) // align for i in range(count) for j in range(row)]
    distinct = sum(len(set(lines[i * row : (i + 1) * row])) for i in range(count))
    assert footprint(first, row, stride, count, align) == distinct * align


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_strided_tensors_are_rows_in_the_order_of_their_elements(shape: list[int], data: st.DataObject) -> None:
    strides = tuple(data.draw(st.sampled_from([2, 4, 6, 16, 50])) for _ in shape)
    places = [sum(i * step for i, step in zip(index, strides, strict=True)) for index in product(*map(range, shape))]
    found = [byte for rows in rows_of(tuple(shape), strides, "f16") for byte in bytes_of(rows)]
    assert found == [place + half for place in places for half in (0, 1)]
