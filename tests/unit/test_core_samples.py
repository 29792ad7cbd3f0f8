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


@given(NUMBERS, NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=2))
def test_numbers_and_texts_are_whole(cycle: int, length: int, rows: list[tuple[int, int]]) -> None:
    lines, count, works = samples().lines(cycle, length, np.array(rows, dtype=np.int64))
    named = zip(("A", LONG), rows, strict=True)
    want = [f"at {cycle} of {name}, in {length}: {a} + {b}.\n" for name, (a, b) in named if a or b]
    assert lines.decode() == "".join(want)
    assert count == len(want)
    assert works == bytes(bool(a or b) for a, b in rows)


def test_rows_that_are_left_out_are_still_said_to_work() -> None:
    lines, count, works = samples(b"\0\1").lines(7, 4, np.array([[1, 0], [0, 0]], dtype=np.int64))
    assert (lines, count, works) == (b"", 0, b"\1\0")


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (3, 2)])
def test_numbers_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"^{shape[0]} x {shape[1]} numbers, where 2 x 2 are written$"):
        samples().lines(0, 1, np.ones(shape, dtype=np.int64))


def test_units_and_what_is_kept_belong_together() -> None:
    with pytest.raises(ValueError, match=r"^2 units, and 3 bytes that say which are kept$"):
        samples(b"\1\1\1")
