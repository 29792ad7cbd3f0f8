"""The queue of what waits between PEs against `collections.deque`."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from kernbench.components.builtin.fifo import Fifo


@given(st.lists(st.integers(), max_size=5), st.lists(st.one_of(st.none(), st.integers()), max_size=60))
def test_a_fifo_is_a_deque(begin: list[int], steps: list[int | None]) -> None:
    """None: take one, where there is one; else put that number."""
    queue, known = Fifo(begin), deque(begin)
    for step in steps:
        if step is not None:
            queue.put(step)
            known.append(step)
        elif known:
            assert [queue.at(place) for place in range(len(known))] == list(known)
            assert queue.take() == known.popleft()
        assert (queue.count, list(queue)) == (len(known), list(known))
