"""The core's lines of samples: which rows are written, and every number as Python writes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_core import Samples

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 18).flatmap(lambda n: st.sampled_from([10**n - 1, 10**n, -(10**n)]))
LONG = "a text that is longer than the pieces that are copied at once, and ends behind them"


def samples(kept: bytes = b"\1\1") -> Samples:
    return Samples(b"at ", [b" of A", b" of " + LONG.encode()], [b", in ", b": ", b" + ", b".\n"], kept)


ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=2)


def window(cycle: int, length: int, rows: list[tuple[int, int]]) -> str:
    named = zip(("A", LONG), rows, strict=True)
    return "".join(f"at {cycle} of {name}, in {length}: {a} + {b}.\n" for name, (a, b) in named if a or b)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, ROWS), max_size=3))
def test_numbers_and_texts_are_whole(windows: list[tuple[int, int, list[tuple[int, int]]]]) -> None:
    cycles, lengths = [cycle for cycle, _, _ in windows], [length for _, length, _ in windows]
    numbers = np.array([rows for *_, rows in windows], dtype=np.int64).reshape(-1, 2)
    for found, (cycle, length, rows) in zip(samples().windows(cycles, lengths, numbers), windows, strict=True):
        lines, count, works = found
        assert lines.decode() == window(cycle, length, rows)
        assert count == sum(bool(a or b) for a, b in rows)
        assert works == bytes(bool(a or b) for a, b in rows)


def test_lines_without_the_length_of_the_window() -> None:
    found = Samples(b"at ", [b" of A"], [b": ", b" + ", b".\n"], b"\1", timed=False)
    assert found.windows([7], [4], np.array([[1, 2]])) == [(b"at 7 of A: 1 + 2.\n", 1, b"\1")]


def test_rows_that_are_left_out_are_still_said_to_work() -> None:
    assert samples(b"\0\1").windows([7], [4], np.array([[1, 0], [0, 0]], dtype=np.int64)) == [(b"", 0, b"\1\0")]


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (3, 2), (4, 2)])
def test_numbers_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"^{shape[0]} x {shape[1]} numbers, where 2 x 2 are written$"):
        samples().windows([0], [1], np.ones(shape, dtype=np.int64))


def test_units_and_what_is_kept_belong_together() -> None:
    with pytest.raises(ValueError, match=r"^2 units, and 3 bytes that say which are kept$"):
        samples(b"\1\1\1")
