"""What tiles of pointers cost: the transfers that they become, and cycles; tuning, checks, and launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kernbench
import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.runtime_api.triton.run import KernelRun


def loaded(addresses: object, n: int = 4096, dtype: str = "float32", mask: object = None) -> KernelRun:
    """A kernel that loads at the elements that a function gives, and stores one."""

    @triton.jit
    def kernel(x_ptr, out_ptr):
        where = addresses() if callable(addresses) else addresses
        x = tl.load(x_ptr + where, mask=mask(where) if callable(mask) else None)
        tl.debug_barrier()
        tl.store(out_ptr, tl.max(x.reshape(x.numel), 0))

    return kernel[(1,)](np.zeros(n, dtype), np.zeros(1, np.float32))



def rows(run: KernelRun) -> list[tuple[int, int, int, int]]:
    """(offset, bytes of a row, stride, rows) of the transfers of the only load; none where it is no gather."""
    log = [one for one in run.engine.op_log if one.op_name == "dma_read"]
    lanes = log[0].params.get("lanes")
    return [] if lanes is None else list(lanes.rows)


def test_a_contiguous_tile_is_one_transfer() -> None:
    run = loaded(lambda: tl.arange(0, 1024))
    assert rows(run) == [] and run.engine.op_log is not None
    read = next(one for one in run.engine.op_log if one.op_name == "dma_read").params
    assert read["nbytes"] == 4096 and read["src_strides"] is None


def test_a_tile_of_a_matrix_is_rows() -> None:
    run = loaded(lambda: tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 16)[None, :])
    read = next(one for one in run.engine.op_log if one.op_name == "dma_read").params
    assert read["src_strides"] == (256, 4) and rows(run) == []


def test_a_transposed_tile_travels_in_order_of_address() -> None:
    """16 x 16 f32 of a matrix with 64 columns: 16 rows of 64 bytes, 256 apart, whichever axis comes first."""
    run = loaded(lambda: tl.arange(0, 16)[None, :] * 64 + tl.arange(0, 16)[:, None])
    assert rows(run) == [(0, 64, 256, 16)]


@pytest.mark.parametrize(("columns", "loaded_bytes"), [(128, [1024]), (64, [512, 512])])
def test_rows_of_a_gather_move_from_the_channels_of_their_addresses(columns: int, loaded_bytes: list[int]) -> None:
    """A PE has two channels, 256 bytes of each at a time: rows 512 bytes apart are in one, and rows 256 bytes apart in both."""
    run = loaded(lambda: tl.arange(0, 16)[None, :] * columns + tl.arange(0, 16)[:, None])
    assert rows(run) == [(0, 64, 4 * columns, 16)]
    counters = run.engine.machine.result().counters
    found = [counts["bytes"] for name, counts in counters.items() if "hbm_ctrl.ch" in name and counts["bytes"]]
    stored = 64  # the line of the only result, in the first channel
    assert found == [loaded_bytes[0] + stored, *loaded_bytes[1:]]


def test_a_mask_moves_only_its_lanes() -> None:
    run = loaded(lambda: tl.arange(0, 1024), mask=lambda places: places < 100)
    assert rows(run) == [(0, 400, 0, 1)]
    two = loaded(lambda: tl.arange(0, 1024), mask=lambda places: (places < 8) | (places >= 1000))
    assert rows(two) == [(0, 32, 0, 1), (4000, 96, 0, 1)]


def test_lanes_of_one_address_travel_once() -> None:
    assert rows(loaded(lambda: tl.arange(0, 1024) // 64)) == [(0, 64, 0, 1)]


def test_scattered_lanes_are_transfers_each() -> None:
    """0, 1, 4, 9: the first two touch; the others are two rows 20 bytes apart. 16 and 25 are two rows more."""
    run = loaded(lambda: tl.arange(0, 4) * tl.arange(0, 4))
    assert rows(run) == [(0, 8, 0, 1), (16, 4, 20, 2)]
    assert rows(loaded(lambda: tl.arange(0, 6) * tl.arange(0, 6)))[1:] == [(16, 4, 20, 2), (64, 4, 36, 2)]


def test_strided_and_scattered_loads_take_longer() -> None:
    """1024 elements: in one piece, every 16th (a row of 4 bytes each, widened to 64), and all over the tensor."""
    mixed = (np.arange(1024) * 397) % 16384
    plain, strided = loaded(lambda: tl.arange(0, 1024), 16384), loaded(lambda: tl.arange(0, 1024) * 16, 16384)
    scattered = loaded(lambda: tl.arange(0, 1024) * 397 % 16384, 16384)
    assert np.unique(mixed).size == 1024
    assert plain.cycles < strided.cycles < scattered.cycles
    assert strided.cycles > 2 * plain.cycles


@triton.autotune(
    configs=[triton.Config({"BLOCK": size}, num_warps=4) for size in (16, 256, 1024, 1 << 30)], key=["n"]
)
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + places, tl.load(x_ptr + places) * 2)
    else:
        tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n) * 2, mask=places < n)


def test_autotune_takes_the_fewest_cycles() -> None:
    n = 4096
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    run = tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    cycles = {config.kwargs["BLOCK"]: taken for config, taken in tuned.timings}
    able = {size: taken for size, taken in cycles.items() if taken is not None}
    assert tuned.best_config is not None and run.cycles == min(able.values()) == able[tuned.best_config.kwargs["BLOCK"]]
    assert set(able) == {16, 256, 1024} and np.all(out == 2)  # no scratchpad has room for 2 ** 30


@triton.jit
def total(x_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(tl.load(x_ptr + places), 0))


@triton.jit
def safe(x_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + places), 0))


@triton.jit
def safe_and_kept(x_ptr, out_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + places), 0))  # noqa: F841


def test_an_atomic_op_without_a_user_of_its_result_returns_nothing_over_the_network() -> None:
    """The frame of the kernel says whether the result is used; since Python 3.11, it points behind the call instruction."""
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    with kernbench.machine("single_cube") as runs:
        safe[(4,)](x, out, BLOCK=16)
        safe_and_kept[(4,)](x, out, BLOCK=16)
    dropped, kept = runs
    assert out[0] == 128
    assert dropped.cycles < kept.cycles


def test_races_are_found_with_both_lines() -> None:
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    with kernbench.machine("single_cube", check="memory,races") as runs:
        total[(4,)](x, out, BLOCK=16)
        out[:] = 0
        safe[(4,)](x, out, BLOCK=16)
    unsafe, guarded = runs
    assert out[0] == 64 and guarded.races == []
    text = str(unsafe.races[0])
    line = total.fn.__code__.co_firstlineno + 3
    assert text.startswith("race on out_ptr, element 0 (0x") and text.count(f"test_triton_timing.py:{line}") == 2


def test_views_share_memory_and_are_written_in_place() -> None:
    """Rows 1 and 2 of one array: the kernel moves one over the other, through their own pointers."""

    @triton.jit
    def kernel(a_ptr, b_ptr, stride):
        places = tl.arange(0, 4) * stride
        tl.store(b_ptr + places, tl.load(a_ptr + places))

    whole = np.arange(24, dtype=np.int32).reshape(3, 8)
    kernel[(1,)](whole[1, ::2], whole[2, ::2], 2)
    assert whole[2].tolist() == [8, 17, 10, 19, 12, 21, 14, 23]
    frozen = np.zeros(8, np.int32)
    frozen.flags.writeable = False
    with pytest.raises(triton.TritonError, match="kernel stores to b_ptr, an array that cannot be written to; pass a copy"):
        kernel[(1,)](whole[1, ::2], frozen[::2], 2)


def test_what_lies_between_the_elements_of_a_view_is_memory_too() -> None:
    """As on a GPU, where a view is a pointer into the storage that it is a view of; what follows the view is outside."""

    @triton.jit
    def kernel(a_ptr, out_ptr, n, SIZE: tl.constexpr):
        places = tl.arange(0, SIZE)
        held = places < n
        tl.store(out_ptr + places, tl.load(a_ptr + places, mask=held, other=0), mask=held)
        tl.store(a_ptr + places, tl.load(a_ptr + places, mask=held) * 10, mask=held)

    whole, out = np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32)
    kernel[(1,)](whole[::2], out, 7, SIZE=8)
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 7, 0] and whole.tolist() == [10, 20, 30, 40, 50, 60, 70, 8]
    columns = np.arange(12, dtype=np.float32).reshape(3, 4)
    kernel[(1,)](columns[:, 1:3], out, 8, SIZE=8)  # from element 1 to element 10; eight of them
    assert columns.ravel().tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80, 9, 10, 11]
    with pytest.raises(triton.TritonError, match="outside"):
        kernel[(1,)](whole[::2], out, 8, SIZE=8)


def test_views_whose_elements_do_not_lie_evenly() -> None:
    pairs = np.zeros(4, [("value", "f4"), ("flag", "u1")])
    with pytest.raises(triton.TritonError) as caught:
        total[(1,)](pairs["value"], np.zeros(1, np.float32), BLOCK=4)
    text = "total: argument x_ptr: its elements of 4 B are 5 B apart, and pointers count whole elements; make a copy of it"
    assert str(caught.value) == text
    raw = np.zeros(12, np.uint8)
    with pytest.raises(triton.TritonError) as caught:
        total[(1,)](raw[:8].view(np.float32), raw[2:6].view(np.float32), BLOCK=2)
    text = "total: arguments x_ptr and out_ptr share memory whose elements overlap; pass copies of them"
    assert str(caught.value) == text


def test_arguments_that_no_machine_has() -> None:
    with pytest.raises(triton.TritonError) as caught:
        total[(1,)](np.ones(4, np.complex64), np.zeros(1, np.float32), BLOCK=4)
    assert str(caught.value) == "total: argument x_ptr: elements of complex64 are not on these machines; cast it first"
    with pytest.raises(triton.TritonError) as caught:
        total[(1,)](np.ones(4, np.float32), BLOCK=4)
    assert str(caught.value) == "total: missing a required argument: 'out_ptr'; the parameters are x_ptr, out_ptr, BLOCK"
    with pytest.raises(triton.TritonError, match="the grid \\(-1,\\) is not valid; it must be one to three integers"):
        total[(-1,)](np.ones(4, np.float32), np.zeros(1, np.float32), BLOCK=4)


def test_machines_differ_and_runs_repeat() -> None:
    x = np.ones(1024, np.float32)

    def cycles(name: str) -> int:
        with kernbench.machine(name):
            return safe[(8,)](x, np.zeros(1, np.float32), BLOCK=128).cycles

    assert cycles("npu_server") == cycles("npu_server") and cycles("npu_server") != cycles("single_cube")


def test_a_trace_is_of_the_same_run(tmp_path: Path) -> None:
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    run = safe[(4,)](x, out, BLOCK=16)
    run.trace(tmp_path / "t.jsonl")
    assert f'"cycles":{run.timing.cycles},' in (tmp_path / "t.jsonl").read_text().splitlines()[-1].replace(" ", "")


def test_a_bench_launches_a_kernel() -> None:
    from kernbench.runtime_api import bench
    from kernbench.sim_engine.engine import GraphEngine

    @bench(name="doubled", description="a Triton kernel in a bench", reference=lambda inputs, params: {"out": inputs["x"] * 2})
    def run(ctx):  # type: ignore[no-untyped-def]
        x = ctx.from_numpy(np.ones(64, np.float32), name="x")
        out = ctx.empty((64,), "f32", name="out")
        ctx.launch("tuned", tuned.base, x, out, 64, 64, True, grid=1)
        ctx.output("out", out)

    engine = GraphEngine("single_cube")
    engine.run(run)
    assert engine.activity.verify()


def test_a_product_reads_a_transposed_matrix_as_it_lies() -> None:
    @triton.jit
    def kernel(x_ptr, out_ptr, moves: tl.constexpr):
        places = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
        x = tl.load(x_ptr + places)
        y = tl.dot(x.T, x) if not moves else x.T + x
        tl.store(out_ptr + places, y)

    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    for moves, expected in ((False, x.T @ x), (True, x.T + x)):
        out = np.zeros((16, 16), np.float32)
        run = kernel[(1,)](x, out, moves)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
        assert any(one.op_name == "permute" for one in run.engine.op_log or ()) == moves
