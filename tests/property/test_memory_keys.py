"""Keys in runs against a sorted list, with runs so short that they are cut and joined all the time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim_engine.memory import keys as keys_module
from kernbench.sim_engine.memory.keys import Keys
from kernbench.sim_engine.memory.ranges import RangeMap

NUMBERS = st.integers(0, 60)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "LIMIT", 3)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.lists(NUMBERS, max_size=8, unique=True)), max_size=12), NUMBERS, NUMBERS)
def test_keys_are_a_sorted_list(steps: list[tuple[bool, list[int]]], start: int, end: int) -> None:
    keys, known = Keys(), set[int]()
    for adds, numbers in steps:
        if adds:
            for one in set(numbers) - known:
                keys.add(one)
            known |= set(numbers)
        else:
            keys.discard([one for one in numbers if one in known])
            known -= set(numbers)
        for now in (keys, keys.copy()):
            assert list(now) == sorted(known)
            assert now.before(start) == max((one for one in known if one <= start), default=None)
            assert now.within(start, end) == sorted(one for one in known if start <= one < end)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), NUMBERS, NUMBERS), max_size=25))
def test_ranges_are_a_value_a_byte(steps: list[tuple[int, int, int]]) -> None:
    ranges = RangeMap()
    bytes_: dict[int, int] = {}
    for value, start, end in steps:
        if value:
            ranges.put(start, end, value)
            bytes_ |= dict.fromkeys(range(start, end), value)
        else:
            ranges.remove(start, end)
            bytes_ = {at: one for at, one in bytes_.items() if not start <= at < end}
        found = ranges.over(0, 100)
        assert {at: one for first, last, one in found for at in range(first, last)} == bytes_
        assert all(last <= first for (_, last, _), (first, _, _) in pairwise(found))
        assert len(ranges) == len(found)
