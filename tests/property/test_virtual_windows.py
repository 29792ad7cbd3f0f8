"""Virtual windows against a dictionary of single bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kernbench import load_config
from kernbench.common.errors import InputError
from kernbench.runtime_api.allocator import AddressSpace, HbmAllocator
from kernbench.runtime_api.pe_set import PeSet
from tests.unit.test_runtime_allocator import SLICE, SYSTEM

PLACES = PeSet(load_config(SYSTEM))
#: A tensor's pieces: slice and bytes; few enough that all fit.
TENSORS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200)), min_size=1, max_size=4), min_size=1, max_size=6)


@given(TENSORS, st.data())
def test_every_byte_is_where_it_was_put(tensors: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    hbm, space = HbmAllocator(PLACES, 64), AddressSpace(PLACES)
    byte: dict[int, int] = {}  # of virtual addresses, the physical ones
    for number, wanted in enumerate(tensors):
        pieces = [(hbm.in_slice(place, size, "x"), size) for place, size in wanted]
        for (physical, size), virtual in zip(pieces, space.add(pieces, f"t{number}"), strict=True):
            for i in range(size):
                assert virtual + i not in byte
                byte[virtual + i] = physical + i
    assert len(set(byte.values())) == len(byte)
    start = data.draw(st.sampled_from(sorted(byte) or [space.virtual_base]))
    nbytes = data.draw(st.integers(1, 300))
    expected = [byte.get(start + i, -1) for i in range(nbytes)]
    window = space.window(start)
    if window is not None:
        low, high, first = window
        assert all(byte[at] == first + at - low for at in range(low, high))
        assert first // SLICE == (first + high - low - 1) // SLICE
        assert (low <= start < high) == (start in byte)
    try:
        runs = space.physical(start, nbytes)
    except InputError:
        assert -1 in expected
        return
    assert [physical + i for physical, size in runs for i in range(size)] == expected
    assert all(physical // SLICE == (physical + size - 1) // SLICE for physical, size in runs)
    joins = [(a, b) for a, b in pairwise(runs) if sum(a) == b[0]]
    assert all(b[0] % SLICE == 0 for _, b in joins)  # runs are as long as slices allow
