"""The scratchpad: who has which bytes, for how long, and what reads bytes that nobody wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.common.handles import PendingDataError
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.errors import KernelError, PoisonError, ScratchpadFullError, StrictWaitError
from kernbench.triton_emu.scratchpad import Block, Scratchpad
from tests.kernels import Run, at, easy

A = np.arange(256, dtype=np.float32).reshape(16, 16)
SMALL = easy(spm={"num_banks": 16, "bank_size_bytes": 256})  # 4096 bytes: four tiles of 1024


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(0, 9)), max_size=60))
def test_blocks_are_first_fits_that_never_overlap(steps: list[tuple[bool, int, int]]) -> None:
    pad = Scratchpad(1024, 640, 16)
    held: list[Block] = []
    for take, nbytes, which in steps:
        if take:
            taken = {byte for one in held for byte in range(one.addr, one.addr + one.nbytes)}
            size = -(-nbytes // 16) * 16
            starts = [at for at in range(1024, 1664 - size + 1, 16) if not taken & set(range(at, at + size))]
            block = pad.take(nbytes, ("it", "u8", (), ""))
            assert (None if block is None else block.addr) == (starts[0] if starts else None)
            if block is not None:
                held.append(block)
        elif held:
            del held[which % len(held)]
        block = None
        assert pad.free == 640 - sum(one.nbytes for one in held)
    held.clear()
    assert pad.take(640, ("all", "u8", (), "")) is not None


def test_many_small_blocks_come_and_go() -> None:
    pad = Scratchpad(0, 16 * 300, 16)
    held = [pad.take(16, ("", "u8", (), ""), number) for number in range(300)]
    assert pad.held == 300 and pad.free == 0 and [one.addr for one in held if one] == list(range(0, 4800, 16))
    del held[::2]  # 150 holes
    assert pad.held == 150 and pad.free == 2400 and pad.largest == 16 and pad.take(17, ("", "u8", (), "")) is None
    held.clear()
    assert pad.held == 0 and pad.largest == 4800


def test_a_tile_lives_as_long_as_its_handle() -> None:
    free = []

    def kernel(tl: Any) -> None:
        free.append(tl.limits().free_bytes)
        a = tl.load(0, (16, 16), "f32")
        free.append(tl.limits().free_bytes)
        del a
        free.append(tl.limits().free_bytes)

    Run(kernel, memory={0: A}, config=SMALL).run()
    assert free == [4096, 3072, 4096]


def test_a_tile_lives_as_long_as_a_command_that_uses_it() -> None:
    """The handle is gone at once; the store's bytes are still its own, and the next tile gets others."""
    free = []

    def kernel(tl: Any) -> None:
        done = tl.store(8192, tl.load(0, (16, 16), "f32"))
        free.append(tl.limits().free_bytes)
        other = tl.alloc((16, 16), "f32")
        assert other.addr == 1024
        tl.wait(done)
        free.append(tl.limits().free_bytes)

    Run(kernel, memory={0: A}, config=SMALL).run()
    assert free == [3072, 3072]


def test_programs_begin_with_an_empty_scratchpad() -> None:
    free = []

    def kernel(tl: Any) -> None:
        free.append(tl.limits().free_bytes)
        tl.load(0, (16, 16), "f32", wait=False)

    Run(kernel, memory={0: A}, config=SMALL, programs=(0, 1), grid=(2,)).run()
    assert free == [4096, 4096]


def test_a_tile_is_of_one_program() -> None:
    kept: list[Any] = []

    def kernel(tl: Any) -> None:
        if not kept:
            kept.append(tl.load(0, (16, 16), "f32"))
            return
        assert tl.limits().free_bytes == 4096
        tl.store(8192, kept[0])

    error = Run(kernel, memory={0: A}, config=SMALL, programs=(0, 1), grid=(2,)).fail()
    assert isinstance(error, KernelError)
    assert str(error) == f"{at(kernel, 5)}: t1 ({at(kernel, 2)}) is of another program; its tile went with that"


def test_a_kernel_waits_for_room() -> None:
    """Four tiles fit. The fifth comes when the first store, whose tile nobody else has, is done."""
    issued = []

    def kernel(tl: Any) -> None:
        for i in range(6):
            tl.store(8192 + 1024 * i, tl.zeros((16, 16), "f32"))
            issued.append(tl._runner.now)

    run = Run(kernel, memory={0: A}, config=easy(spm={"num_banks": 16, "bank_size_bytes": 128}, ve={"init_cycles": 0})).run()
    # Two tiles of 1024 B. Zeros take 256 / 64 = 4 cycles. A store moves 256 B alone and 768 in 24 cycles beside the next,
    # which then has 256 left: they end at 33 and 37, and so on every 32 cycles.
    assert issued == [5, 9, 37, 41, 69, 73] and run.launch.end == 101


def test_no_room_names_who_has_it() -> None:
    def full(tl: Any) -> None:
        a = tl.load(0, (16, 32), "f32")
        b = tl.load(0, (8, 32), "f32")
        return tl.exp(a), b

    error = Run(full, memory={0: np.zeros((32, 32), np.float32)}, config=SMALL).fail()
    assert isinstance(error, ScratchpadFullError) and error.exit_code == 5
    assert str(error) == (
        f"{at(full, 3)}: t3 f32[16, 32] takes 2048 bytes, but of the scratchpad's 4096 bytes 1024 are free, the largest "
        f"piece 1024, and no command in flight will free more; it is held by t1 f32[16, 32] of {at(full, 1)} (2048 bytes), "
        f"t2 f32[8, 32] of {at(full, 2)} (1024 bytes); use smaller tiles, or let go of handles"
    )


def test_scratchpad_that_nobody_wrote_is_poison() -> None:
    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32")
        buffer = tl.alloc((16, 16), "f32", name="buffer")
        tl.dot(a, buffer)

    error = Run(kernel, memory={0: A}).fail()
    assert isinstance(error, PoisonError)
    assert str(error) == (
        f"{at(kernel, 3)}: buffer f32[16, 16] is read, but nothing has written it since it was taken in {at(kernel, 2)}; "
        "give it as out= to a load or an op first"
    )


@pytest.mark.parametrize("look", [lambda tl, tile: tl.store(0, tile), lambda tl, tile: tile[0], lambda tl, tile: tl.sum(tile)])
def test_poison_is_refused_wherever_it_is_read(look: Any) -> None:
    assert isinstance(Run(lambda tl: look(tl, tl.alloc((16, 16), "f32")), memory={0: A}).fail(), PoisonError)


def test_a_buffer_is_written_again_and_again() -> None:
    """What still uses it ends first: results are those of the program's order."""

    def kernel(tl: Any) -> None:
        buffer, total = tl.alloc((16, 16), "f32"), tl.zeros((16, 16), "f32")
        for i in range(3):
            tl.load(1024 * i, (16, 16), "f32", out=buffer)
            tl.add(total, buffer, out=total)
        tl.store(8192, total)

    run = Run(kernel, memory={1024 * i: A * (i + 1) for i in range(3)}).run()
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    np.testing.assert_array_equal(store.read("hbm", 8192, (16, 16), "f32"), A * 6)


def _stored(kernel: Any, **how: Any) -> list[int]:
    """What a kernel leaves at 4096, by Phase 2; Phase 1 knows nothing of it."""
    run = Run(kernel, memory={0: np.arange(8, dtype=np.int32)}, **how).run()
    assert run.store.pending("hbm", 4096, 32)
    found: list[int] = DataExecutor(run.log).run().store.read("hbm", 4096, (8,), "i32").tolist()  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("waits", ["", "part", "tile"])
def test_what_is_written_over_a_part_is_written_over_its_tile(waits: str) -> None:
    """Phase 1 no longer knows the tile, and who uses it gets what was written, whether or not the kernel waited."""

    def kernel(tl: Any) -> None:
        tile = tl.load(0, (8,), "i32")
        part = tl.part(tile, 0, 4)
        tl.add(part, 100, out=part)
        if waits:
            tl.wait(part if waits == "part" else tile)
        tl.store(4096, tile)
        assert tile.pending and (tile + 1).pending

    assert _stored(kernel, strict_wait=bool(waits)) == [100, 101, 102, 103, 4, 5, 6, 7]


def test_parts_of_parts_and_parts_that_overlap() -> None:
    def kernel(tl: Any) -> None:
        tile = tl.load(0, (8,), "i32")
        first, second = tl.part(tile, 0, 6), tl.part(tile, 2, 6)
        inner = tl.part(first, 3, 1)
        tl.mul(inner, 100, out=inner)  # 3 of the tile
        tl.add(second, 1, out=second)
        tl.store(4096, first)
        tl.store(4096 + 24, tl.part(tile, 6, 2))

    assert _stored(kernel) == [0, 1, 3, 301, 5, 6, 7, 8]


def test_a_load_into_a_part() -> None:
    """It is pending: what else is written over its bytes would not be known to it."""

    def kernel(tl: Any) -> None:
        tile = tl.load(0, (8,), "i32")
        part = tl.part(tile, 0, 4)
        tl.load(16, (4,), "i32", out=part, wait=False)
        tl.add(tile, 1, out=tile)
        assert part.pending
        tl.store(4096, part)
        tl.store(4096 + 16, part)

    assert _stored(kernel) == [5, 6, 7, 8, 5, 6, 7, 8]


def test_parts_that_are_written_are_not_known() -> None:
    def kernel(tl: Any) -> None:
        tile = tl.load(0, (8,), "i32")
        part = tl.part(tile, 0, 4)
        tl.add(part, 100, out=part)
        print(tile[5])

    error = Run(kernel, memory={0: np.arange(8, dtype=np.int32)}).fail()
    assert isinstance(error, PendingDataError)
    assert str(error).startswith(f"{at(kernel, 3)}: t1 (the result of an op on a part of it) is pending in Phase 1")


def test_an_overlap_on_its_way_is_refused_under_strict_waits() -> None:
    def kernel(tl: Any) -> None:
        tile = tl.load(0, (8,), "i32")
        part = tl.part(tile, 0, 4)
        tl.add(part, 100, out=part)
        tl.store(4096, tile)

    error = Run(kernel, memory={0: np.arange(8, dtype=np.int32)}, strict_wait=True).fail()
    assert isinstance(error, StrictWaitError)
    assert str(error).startswith(f"{at(kernel, 4)}: t1 is used, but what makes it ({at(kernel, 3)}) has not ended")


def test_out_has_the_results_shape_and_type() -> None:
    def kernel(tl: Any) -> None:
        tl.load(0, (16, 16), "f32", out=tl.alloc((8, 32), "f32"))

    error = Run(kernel, memory={0: A}).fail()
    assert isinstance(error, KernelError)
    assert str(error) == f"{at(kernel, 1)}: the result is f32[16, 16], and out is f32[8, 32] (t1, {at(kernel, 1)})"


def test_aligned_rows_have_room_in_the_scratchpad() -> None:
    """Rows of 64 bytes that begin inside an aligned piece travel as 128 bytes each: the tile is as large as what travels."""
    sizes = []

    def kernel(tl: Any) -> None:
        before = tl.limits().free_bytes
        tile = tl.load(32, (4, 16), "f32", strides=(256, 4))
        sizes.append(before - tl.limits().free_bytes)
        assert tile.tolist() == [list(range(64 * i + 8, 64 * i + 24)) for i in range(4)]

    run = Run(kernel, memory={0: np.arange(256, dtype=np.float32)}).run()
    assert sizes == [512] and run.launch.end == 1 + 8
