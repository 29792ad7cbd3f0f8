"""HBM slices as they fill, and what virtual addresses stand for."""

from __future__ import annotations

import pytest

from kernbench import load_config
from kernbench.common.errors import InputError
from kernbench.runtime_api.allocator import AddressSpace, HbmAllocator
from kernbench.runtime_api.pe_set import PeSet

#: Two cubes of two PEs, each with a slice of 4 KiB; the windows of the two stacks are 8 KiB.
SYSTEM = {
    "schema": "kernbench/system/1",
    "sip": {"rows": 1, "cols": 2},
    "cube": {"pes": 2, "hbm": {"channels": 2, "capacity_bytes": 8192, "interleave_bytes": 256}},
}
SLICE = 4096


@pytest.fixture
def places() -> PeSet:
    return PeSet(load_config(SYSTEM))


def test_pes_and_slices_have_names_and_addresses(places: PeSet) -> None:
    assert places.pes == ("sip0.cube0.pe0", "sip0.cube0.pe1", "sip0.cube1.pe0", "sip0.cube1.pe1")
    assert [(one.name, one.base, one.nbytes) for one in places.slices] == [
        ("slice 0 of sip0.cube0.hbm_ctrl", 0, SLICE),
        ("slice 1 of sip0.cube0.hbm_ctrl", SLICE, SLICE),
        ("slice 0 of sip0.cube1.hbm_ctrl", 2 * SLICE, SLICE),
        ("slice 1 of sip0.cube1.hbm_ctrl", 3 * SLICE, SLICE),
    ]
    assert [places.slice_of(pe) for pe in range(4)] == [0, 1, 2, 3]
    assert [places.sip_at(one.base) for one in places.slices] == [0, 0, 0, 0]
    assert places.virtual_base == 1 << 48


def test_an_npu_is_one_pe_with_one_slice() -> None:
    places = PeSet(load_config({"dram": {"capacity_bytes": 1 << 20}}))
    assert places.pes == ("pe0",) and places.slice_of(0) == 0
    assert [(one.name, one.base, one.nbytes) for one in places.slices] == [("the DRAM", 0, 1 << 20)]


def test_tensors_of_a_slice_begin_at_multiples_of_256(places: PeSet) -> None:
    hbm = HbmAllocator(places)
    assert [hbm.in_slice(1, size, "x") for size in (100, 256, 1)] == [SLICE, SLICE + 256, SLICE + 512]
    assert hbm.in_slice(2, 5, "x") == 2 * SLICE


def test_packed_goes_on_in_the_next_slice(places: PeSet) -> None:
    hbm = HbmAllocator(places)
    assert hbm.packed(3000, "a") == [(0, 3000)]
    # 3000 is rounded up to 3072: 1024 bytes are left there, and 476 go to the next slice.
    assert hbm.packed(1500, "b") == [(3072, 1024), (SLICE, 476)]
    assert hbm.packed(SLICE, "c") == [(SLICE + 512, SLICE - 512), (2 * SLICE, 512)]


def test_a_slice_without_room_says_who_holds_it(places: PeSet) -> None:
    hbm = HbmAllocator(places)
    for name, size in (("small", 200), ("large", 2000), ("small", 300)):
        hbm.in_slice(0, size, name)
    with pytest.raises(InputError) as error:
        hbm.in_slice(0, 2000, "more")
    assert str(error.value) == (
        "tensor more: 2,000 bytes do not fit into slice 0 of sip0.cube0.hbm_ctrl: 1,280 of 4,096 are free; "
        "it is held by large (2,000), small (500)"
    )


def test_bytes_at_the_end_of_a_slice_are_reserved_for_queues(places: PeSet) -> None:
    """Up to the last tensor and no further, in the slice that they are in alone."""
    hbm = HbmAllocator(places)
    hbm.in_slice(1, 1024, "x")
    hbm.reserve(SLICE + 1024, 2 * SLICE)
    with pytest.raises(InputError, match=r"1 bytes do not fit into slice 1 of sip0\.cube0\.hbm_ctrl: 0 of 4,096 are free"):
        hbm.in_slice(1, 1, "y")
    assert [hbm.in_slice(number, SLICE, "whole") for number in (0, 2, 3)] == [0, 2 * SLICE, 3 * SLICE]


def test_a_tensor_where_queues_want_to_be_is_named(places: PeSet) -> None:
    hbm = HbmAllocator(places)
    hbm.in_slice(1, 1025, "x")
    with pytest.raises(InputError) as error:
        hbm.reserve(SLICE + 1024, 2 * SLICE)
    assert str(error.value) == (
        "slice 1 of sip0.cube0.hbm_ctrl: 3,072 bytes at its end are wanted for queues, and 2,816 are free; "
        "it is held by x (1,025)"
    )


def test_a_full_machine_names_the_largest(places: PeSet) -> None:
    hbm = HbmAllocator(places)
    for i in range(6):
        hbm.packed(1000 + i, f"t{i}")
    with pytest.raises(InputError) as error:
        hbm.packed(20_000, "huge")
    assert str(error.value) == (
        "tensor huge: 20,000 bytes do not fit into slice 0 of sip0.cube0.hbm_ctrl and those behind it: 10,240 are free; "
        "it is held by t5 (1,005), t4 (1,004), t3 (1,003), t2 (1,002) and 2 more"
    )
    with pytest.raises(InputError, match="no memory is in use: use a smaller tensor"):
        HbmAllocator(places).in_slice(0, SLICE + 1, "one")


def test_windows_hold_pieces_one_behind_the_other(places: PeSet) -> None:
    space = AddressSpace(places)
    base = space.virtual_base
    assert space.add([(SLICE, 100), (0, 50)], "a") == [base, base + 100]
    assert space.add([(512, 8)], "b") == [base + 256]
    assert space.physical(base + 90, 20) == [(SLICE + 90, 10), (0, 10)]
    assert space.physical(base + 149, 1) == [(49, 1)]
    assert space.physical(base + 256, 8) == [(512, 8)]


def test_neighbouring_pieces_of_a_slice_are_one_run(places: PeSet) -> None:
    space = AddressSpace(places)
    base = space.virtual_base
    space.add([(0, 256), (256, 256), (SLICE - 256, 256), (SLICE, 256)], "a")
    # The last two touch, but a slice ends between them.
    assert space.physical(base, 1024) == [(0, 512), (SLICE - 256, 256), (SLICE, 256)]


def test_physical_addresses_stay_and_are_cut_at_slices(places: PeSet) -> None:
    space = AddressSpace(places)
    assert space.physical(10, 20) == [(10, 20)]
    assert space.physical(SLICE - 4, 8) == [(SLICE - 4, 4), (SLICE, 4)]
    assert space.physical(4 * SLICE + 8, 8) == [(4 * SLICE + 8, 8)]  # behind the last slice: for others to refuse


def test_bytes_in_no_tensor_are_refused(places: PeSet) -> None:
    space = AddressSpace(places)
    base = space.virtual_base
    with pytest.raises(InputError) as error:
        space.physical(base, 4)
    assert str(error.value) == (
        "address: 4 bytes at 0x1000000000000: 0x1000000000000 is in no tensor; check the shape and the strides of the access"
    )
    space.add([(0, 100)], "weights")
    with pytest.raises(InputError) as error:
        space.physical(base + 90, 20)
    assert str(error.value) == (
        "address: 20 bytes at 0x100000000005a: 0x1000000000064 is in no tensor; the tensor below it is weights; "
        "check the shape and the strides of the access"
    )


def test_windows_end_with_slices(places: PeSet) -> None:
    """A piece from one slice to the next but one."""
    space = AddressSpace(places)
    (start,) = space.add([(SLICE - 256, SLICE + 512)], "t")
    assert space.window(start - 1) is None
    assert space.window(start) == (start, start + 256, SLICE - 256)
    assert space.window(start + 256) == (start + 256, start + 256 + SLICE, SLICE)
    assert space.window(start + 256 + SLICE) == (start + 256 + SLICE, start + 512 + SLICE, 2 * SLICE)
    assert space.physical(start + 255, 2) == [(SLICE - 1, 1), (SLICE, 1)]
    assert space.physical(start + 256, SLICE) == [(SLICE, SLICE)]
