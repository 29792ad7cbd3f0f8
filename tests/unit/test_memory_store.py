"""MemoryStore: seed ADR-0052 D6 and seed ADR-0020 D7, decision by decision, and the bytes beneath."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.common.dtypes import DTYPES, Array, dtype_of, narrow, nbytes_of, pack_i4, unpack_i4
from kernbench.common.errors import InputError
from kernbench.sim_engine.memory.ranges import RangeMap
from kernbench.sim_engine.memory.strides import read_strided, span_of, write_strided
from kernbench.sim_engine.memory_store import MemoryStore


def counting(count: int, dtype: Any = np.float32) -> Array:
    return np.arange(count).astype(dtype)


def stored(array: Array, addr: int = 0) -> MemoryStore:
    store = MemoryStore()
    store.write("hbm", addr, array)
    return store


def test_adr0052_first_action_a_store_begins_with_no_space() -> None:
    assert MemoryStore()._storage == {}


def test_adr0052_d6_an_array_is_kept_by_space_and_address() -> None:
    array = counting(4)
    store = stored(array, 64)
    assert store._storage == {"hbm": {64: array}}


def test_adr0052_d6_1_a_space_comes_into_being_when_it_is_written() -> None:
    store = MemoryStore()
    for space in ("hbm", "tcm", "sram", "reg"):
        assert not store.has(space, 0)
        store.write(space, 0, counting(1))
        assert store.has(space, 0)
    assert list(store._storage) == ["hbm", "tcm", "sram", "reg"]


def test_adr0052_d6_2_an_address_is_a_number_and_nothing_else() -> None:
    physical, virtual = 0x1000, 1 << 60
    store = stored(counting(4), physical)
    store.write("hbm", virtual, counting(4))
    store.write("hbm", virtual + 4, counting(1))
    assert store.read("hbm", physical).tolist() == [0, 1, 2, 3] and store.read("hbm", virtual).tolist() == [0, 0, 2, 3]


def test_adr0052_d6_3_write_and_read_do_not_copy() -> None:
    array = counting(6)
    store = stored(array)
    assert store.read("hbm", 0) is array
    assert store.read("hbm", 0, (6,), "f32") is array
    array[2] = 9
    assert store.read("hbm", 0, (6,), "f32")[2] == 9


def test_adr0052_d6_3_another_dtype_is_a_view_of_the_same_bytes() -> None:
    array = counting(4)
    for found in (stored(array).read("hbm", 0, dtype="i32"), stored(array).read("hbm", 0, (4,), "i32")):
        assert found.dtype == np.int32 and np.shares_memory(found, array)
        assert found.tolist() == [0, 0x3F800000, 0x40000000, 0x40400000]  # 0.0, 1.0, 2.0 and 3.0 in IEEE 754
    assert stored(counting(4).reshape(2, 2)).read("hbm", 0, dtype="f16").shape == (2, 4)
    assert stored(np.ones((), np.float32)).read("hbm", 0, dtype="u8").tolist() == [0, 0, 0x80, 0x3F]
    assert stored(counting(3)).read("hbm", 0, dtype="f32").tolist() == [0, 1, 2]


def test_adr0052_d6_3_another_shape_of_as_many_bytes_is_a_view() -> None:
    array = counting(6)
    for found in (stored(array).read("hbm", 0, (2, 3)), stored(array).read("hbm", 0, (2, 3), "f32")):
        assert found.shape == (2, 3) and np.shares_memory(found, array)


def test_adr0052_d6_3_another_number_of_bytes_is_refused() -> None:
    store = stored(counting(4))
    with pytest.raises(ValueError, match=r"^hbm\[0x0\]: the tensor here has 16 bytes, and shape \(3,\) takes 12$"):
        store.read("hbm", 0, (3,))
    with pytest.raises(ValueError, match=r"^hbm\[0x0\]: of the 20 bytes from here on the one at 0x10 was never written$"):
        store.read("hbm", 0, (5,), "f32")
    with pytest.raises(ValueError, match=r"^hbm\[0x0\]: rows of 6 bytes do not hold whole elements of f32$"):
        stored(counting(3, np.float16)).read("hbm", 0, dtype="f32")


def test_adr0052_d6_4_has_says_whether_bytes_are_there() -> None:
    store = stored(counting(4), 64)
    assert [store.has("hbm", addr) for addr in (63, 64, 79, 80)] == [False, True, True, False]
    assert store.has("hbm", 64, 16) and not store.has("hbm", 64, 17) and not store.has("tcm", 64)


def test_adr0052_d6_5_a_snapshot_shares_arrays_and_not_writes() -> None:
    array = counting(4)
    store = stored(array)
    store.mark_pending("tcm", 0, 8, 7)
    fork = store.snapshot()
    assert fork.read("hbm", 0) is array and fork.pending("tcm", 0, 8) == [7]
    store.write("hbm", 4, counting(1))
    store.write("sram", 0, counting(1))
    fork.write("tcm", 0, counting(2))
    assert fork.read("hbm", 0).tolist() == [0, 1, 2, 3] and not fork.has("sram", 0)
    assert store.read("hbm", 0).tolist() == [0, 0, 2, 3] and store.pending("tcm", 0, 8) == [7]


def test_adr0020_d7_memory_is_bytes_whoever_wrote_them() -> None:
    store = stored(counting(4, np.int32))
    store.write("hbm", 16, counting(4, np.int32))
    assert store.read("hbm", 8, (4,), "i32").tolist() == [2, 3, 0, 1]
    assert store.read("hbm", 12, (8,), "u8").tolist() == [3, 0, 0, 0, 0, 0, 0, 0]


def test_adr0020_d7_a_part_of_an_array_is_a_view() -> None:
    array = counting(8)
    found = stored(array).read("hbm", 8, (2, 2), "f32")
    assert found.tolist() == [[2, 3], [4, 5]] and np.shares_memory(found, array)


def test_adr0020_d7_a_write_over_a_part_leaves_the_callers_array_alone() -> None:
    array, part = counting(4), np.full(2, 9, np.float32)
    store = stored(array)
    store.write("hbm", 4, part)
    assert array.tolist() == [0, 1, 2, 3]
    assert store.read("hbm", 0).tolist() == [0, 9, 9, 3]
    assert store.read("hbm", 4) is part
    array[:] = 7  # what is left of it was copied
    assert store.read("hbm", 0, (4,), "f32").tolist() == [0, 9, 9, 3]


def test_adr0020_d7_a_write_over_a_whole_array_takes_its_place() -> None:
    store = stored(counting(4))
    store.write("hbm", 0, counting(2))
    store.write("hbm", 0, counting(8, np.int8))
    assert store.read("hbm", 0).tolist() == list(range(8)) and store.read("hbm", 8, (2,), "f32").tolist() == [2, 3]
    store.write("hbm", 0, np.zeros(4, np.float32))
    assert list(store._storage["hbm"]) == [0]


def test_adr0020_d7_what_was_read_stays_as_it_was_read() -> None:
    store = stored(counting(4))
    before = store.read("hbm", 4, (2,), "f32")
    store.write("hbm", 4, np.full(2, 9, np.float32))
    assert before.tolist() == [1, 2]


def test_addresses_have_at_most_62_bits() -> None:
    store, last = MemoryStore(), (1 << 62) - 4
    store.write("hbm", last, counting(1))
    assert store.read("hbm", last, (1,), "f32").tolist() == counting(1).tolist()
    far = 1 << 62
    text = rf"^hbm\[{far:#x}\]: the address has more than 62 bits$"
    with pytest.raises(ValueError, match=text):
        store.write("hbm", far, counting(1))
    with pytest.raises(ValueError, match=text):
        store.read("hbm", far, (1,), "f32")
    with pytest.raises(ValueError, match=text):
        store.mark_pending("hbm", far, 4, 0)


def test_adr0020_d7_strided_arrays_and_odd_addresses_are_refused() -> None:
    store = MemoryStore()
    text = r"^hbm\[0x0\]: a strided array is not one range of bytes; make a contiguous copy of it$"
    with pytest.raises(ValueError, match=text):
        store.write("hbm", 0, counting(8)[::2])
    text = r"^hbm\[0x2\]: the address is not a multiple of the element size, 4 bytes$"
    with pytest.raises(ValueError, match=text):
        store.write("hbm", 2, counting(1))
    store.write("hbm", 0, counting(8, np.int8))
    with pytest.raises(ValueError, match=text):
        store.read("hbm", 2, (1,), "f32")
    with pytest.raises(ValueError, match=r"^hbm: the address -4 is negative$"):
        store.write("hbm", -4, counting(1))


def test_bytes_that_were_never_written_are_refused() -> None:
    store = stored(counting(1))
    store.write("hbm", 8, counting(1))
    with pytest.raises(ValueError, match=r"^hbm\[0x0\]: of the 12 bytes from here on the one at 0x4 was never written$"):
        store.read("hbm", 0, (3,), "f32")
    with pytest.raises(ValueError, match=r"^tcm\[0x0\]: of the 4 bytes from here on the one at 0x0 was never written$"):
        store.read("tcm", 0, (1,), "f32")
    for space, addr in (("hbm", 4), ("tcm", 0)):
        with pytest.raises(ValueError, match=r"no tensor begins at this address; to read bytes inside"):
            store.read(space, addr)


def test_a_tensor_without_elements_is_nowhere_and_everywhere() -> None:
    store = MemoryStore()
    store.write("hbm", 0, np.zeros((0, 4), np.float32))
    assert not store.has("hbm", 0) and store.read("hbm", 0, (0, 4), "f16").shape == (0, 4)


def test_pending_bytes_have_no_value_until_they_are_written() -> None:
    store = stored(counting(8))
    store.mark_pending("hbm", 8, 8, 5)
    store.mark_pending("hbm", 12, 8, 3)
    assert store.pending("hbm", 0, 32) == [3, 5] and store.pending("hbm", 8, 4) == [5] and store.pending("hbm", 20, 12) == []
    assert store.pending("tcm", 0, 4) == []
    assert not store.has("hbm", 8) and store.has("hbm", 0, 8)
    with pytest.raises(ValueError, match=r"^hbm\[0x4\]: of the 8 bytes from here on some are pending until op 5 is computed$"):
        store.read("hbm", 4, (2,), "f32")
    store.write("hbm", 8, np.full(3, 9, np.float32))
    assert store.read("hbm", 0).tolist() == [0, 1, 9, 9, 9, 5, 6, 7] and store.pending("hbm", 0, 32) == []


def test_i4_is_packed_two_a_byte_the_first_in_the_low_half() -> None:
    values = np.array([[1, -2], [7, -8]]).astype(ml_dtypes.int4)
    store = stored(values, 3)
    assert store.read("hbm", 3, (2, 2), "i4") is values
    assert store.read("hbm", 3, (2,), "u8").tolist() == [0xE1, 0x87]
    assert store.read("hbm", 4, (2,), "i4").tolist() == [7, -8]
    assert store.read("hbm", 3, dtype="u8").tolist() == [[0xE1], [0x87]]
    store.write("hbm", 3, np.array([0x2F], np.uint8))
    assert store.read("hbm", 3, (4,), "i4").tolist() == [-1, 2, 7, -8]
    assert store.read("hbm", 3, dtype="i4").tolist() == [-1, 2]
    for action in (lambda: store.write("hbm", 0, values.reshape(-1)[:3]), lambda: store.read("hbm", 3, (3,), "i4")):
        with pytest.raises(ValueError, match=r"3 elements of i4 do not fill whole bytes$"):
            action()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_as_it_was_written(name: str) -> None:
    values = narrow(np.array([[1.0, 0.0], [3.5, 120.0]], np.float32), name)
    assert stored(values).read("hbm", 0, (2, 2), name) is values
    again = MemoryStore()
    again.write("hbm", 8, stored(values).read("hbm", 0, dtype="u8").copy())
    found = again.read("hbm", 8, (2, 2), name)
    assert found.dtype == values.dtype and found.tolist() == values.tolist()
    assert again.read("hbm", 8).nbytes == nbytes_of((2, 2), name)


def test_numbers_are_rounded_into_each_dtype() -> None:
    floats = np.array([465, -1e6, np.inf, np.nan, 2.75], np.float32)
    rounded = {name: narrow(floats, name).astype(np.float32).tolist() for name in ("f16", "bf16", "f8e4m3", "f8e5m2")}
    # f8e4m3 ends at 448 and f8e5m2 at 57344: both saturate. 2.75 lies between 2.5 and 3 (f8e5m2: to even, 3 = 1.1b * 2).
    assert str(rounded["f8e4m3"]) == "[448.0, -448.0, 448.0, nan, 2.75]"
    assert str(rounded["f8e5m2"]) == "[448.0, -57344.0, 57344.0, nan, 3.0]"
    assert str(rounded["f16"]) == "[465.0, -inf, inf, nan, 2.75]"
    assert str(rounded["bf16"]) == "[464.0, -999424.0, inf, nan, 2.75]"
    assert narrow(floats, "i8").tolist() == [127, -128, 127, 0, 2]
    assert narrow(floats, "i4").tolist() == [7, -8, 7, 0, 2]
    assert narrow(floats, "bool").tolist() == [True, True, True, True, True]
    assert narrow(np.array([300, -129]), "i8").tolist() == [44, 127] and narrow(np.array([9, -9]), "i4").tolist() == [-7, 7]


def test_dtypes_go_by_our_names_and_by_numpys() -> None:
    assert dtype_of("bf16") is dtype_of("bfloat16") is dtype_of(ml_dtypes.bfloat16)
    with pytest.raises(InputError) as caught:
        dtype_of("f12")
    names = "f32, f16, bf16, f8e4m3, f8e5m2, f64, f8e4m3fnuz, f8e5m2fnuz, i64, i32, i16, i8, u32, u16, u8, i4, bool"
    assert str(caught.value) == f'dtype: dtype = "f12", but it must be one of {names}'


def test_packing_is_undone_by_unpacking() -> None:
    every = np.arange(256, dtype=np.uint8)
    assert pack_i4(unpack_i4(every, (512,))).tolist() == every.tolist()


def test_a_tile_of_a_matrix_is_read_and_written_row_by_row() -> None:
    matrix = counting(24).reshape(4, 6)
    store = stored(matrix)
    tile = read_strided(store, "hbm", 4 * 7, (2, 3), (24, 4), "f32")
    assert tile.tolist() == matrix[1:3, 1:4].tolist() and not np.shares_memory(tile, matrix)
    assert read_strided(store, "hbm", 0, (6, 4), (4, 24), "f32").tolist() == matrix.T.tolist()
    assert read_strided(store, "hbm", 4 * 23, (3,), (-4,), "f32").tolist() == [23, 22, 21]
    write_strided(store, "hbm", 4 * 7, -tile, (24, 4), "f32")
    wanted = matrix.copy()
    wanted[1:3, 1:4] *= -1
    assert store.read("hbm", 0).tolist() == wanted.tolist()
    assert span_of((2, 3), (24, 4), "f32") == (0, 36) and span_of((3,), (-4,), "f32") == (-8, 4)
    assert span_of((0, 3), (24, 4), "f32") == (0, 0) and span_of((2, 4), (8, 1), "i4") == (0, 10)


def test_packed_rows_lie_apart_too() -> None:
    store = stored(np.array([0x21, 0xFF, 0x43, 0xFF], np.uint8))
    assert read_strided(store, "hbm", 0, (2, 2), (2, 0), "i4").tolist() == [[1, 2], [3, 4]]


def test_ranges_are_cut_by_later_ones() -> None:
    ranges = RangeMap()
    ranges.put(0, 10, "a")
    ranges.put(20, 30, "b")
    ranges.put(5, 25, "c")
    ranges.put(7, 7, "nothing")
    assert ranges.over(0, 100) == [(0, 5, "a"), (5, 25, "c"), (25, 30, "b")] and ranges.over(4, 6) == [(4, 5, "a"), (5, 6, "c")]
    copy = ranges.copy()
    ranges.remove(2, 27)
    assert ranges.over(0, 100) == [(0, 2, "a"), (27, 30, "b")] and len(copy) == 3
    ranges.put(1, 2, "d")
    ranges.put(40, 41, "e")
    ranges.remove(0, 1)
    assert ranges.over(0, 100) == [(1, 2, "d"), (27, 30, "b"), (40, 41, "e")]
