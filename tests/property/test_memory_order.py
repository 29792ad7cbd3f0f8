"""Ranges of bytes in flight against a list that is gone through as a whole."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from kernbench.triton_emu.memory.order import Ranges

#: Short ones, long ones, ranges of no byte; close together, so that they meet.
LENGTHS = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 100, 1024, 4000])
RANGES = st.tuples(st.integers(0, 5000), LENGTHS).map(lambda one: (one[0], sum(one)))


def test_a_range_of_no_byte_is_met_once() -> None:
    held = Ranges()
    held.add(4, 4, msg := SimpleNamespace(op_id=0))
    assert (held.over(3, 5), held.over(0, 8), held.over(4, 5), held.over(3, 4)) == ([msg], [msg], [], [])
    held.remove(4, 4, msg)
    assert held.over(0, 8) == []


@given(st.lists(RANGES, max_size=30), st.data())
def test_ranges_are_a_list(ranges: list[tuple[int, int]], data: st.DataObject) -> None:
    held, known = Ranges(), {}
    for number, (start, end) in enumerate(ranges):
        known[start, number, end] = msg = SimpleNamespace(op_id=number)
        held.add(start, end, msg)
        if data.draw(st.booleans()):
            start, number, end = data.draw(st.sampled_from(sorted(known)))
            held.remove(start, end, known.pop((start, number, end)))
        low, high = data.draw(RANGES)
        if low == high:
            continue
        met = [known[one] for one in sorted(known) if one[0] < high and one[2] > low]
        assert held.over(low, high) == met
        assert held.held == len(known)
