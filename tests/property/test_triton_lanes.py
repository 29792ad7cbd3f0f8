"""Gathers and scatters against a slow oracle: one element after the other, through the machine and by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench.triton as triton
import kernbench.triton.language as tl
from kernbench.common.lanes import Lanes
from kernbench.sim_engine.memory.strides import read_lanes, write_lanes
from kernbench.sim_engine.memory_store import MemoryStore


@triton.jit
def copy_kernel(from_ptr, to_ptr, x_ptr, out_ptr, mask_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.load(mask_ptr + lanes) != 0
    x = tl.load(x_ptr + tl.load(from_ptr + lanes), mask=mask, other=-1)
    tl.store(out_ptr + tl.load(to_ptr + lanes), x, mask=mask)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["int8", "float16", "int64"])
def test_any_addresses_and_masks(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    n, lanes = 512, 128
    x, out = rng.integers(-99, 99, n).astype(dtype), np.full(n, 7, dtype)
    spread = int(rng.integers(1, 5))
    source = (np.arange(lanes) * spread + rng.integers(0, 3)) % n if seed % 2 else rng.integers(0, n, lanes)
    target = rng.permutation(n)[:lanes]
    mask = (rng.random(lanes) < 0.7).astype(np.int8)
    expected = out.copy()
    for lane in range(lanes):
        if mask[lane]:
            expected[target[lane]] = x[source[lane]]
    copy_kernel[(4,)](source.astype(np.int32), target.astype(np.int32), x, out, mask, BLOCK=32)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("seed", range(20))
def test_rows_cover_each_byte_once_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1, 2, 4, 8]))
    at = rng.integers(0, 60, int(rng.integers(1, 40))) * size
    lanes = Lanes((at.size,), size, at.astype(np.int64).tobytes())
    covered = [
        first + i * stride + byte for first, nbytes, stride, count in lanes.rows for i in range(count) for byte in range(nbytes)
    ]
    assert covered == sorted({int(one) + byte for one in at for byte in range(size)})


@pytest.mark.parametrize("rmw", ["add", "fmax", ""])
def test_lanes_at_one_place_act_in_turn(rmw: str) -> None:
    rng = np.random.default_rng(len(rmw))
    places, values = rng.integers(0, 8, 50), rng.integers(-9, 9, 50).astype(np.int32)
    expected = np.zeros(8, np.int32)
    for place, value in zip(places, values, strict=True):
        old = expected[place]
        expected[place] = old + value if rmw == "add" else max(old, value) if rmw else value
    store = MemoryStore()
    store.write("hbm", 64, np.zeros(8, np.int32))
    lanes = Lanes((50,), 4, (places * 4).astype(np.int64).tobytes())
    write_lanes(store, "hbm", 64, values, lanes, rmw)
    np.testing.assert_array_equal(store.read("hbm", 64, (8,), "i32"), expected)
    np.testing.assert_array_equal(read_lanes(store, "hbm", 64, lanes, "i32"), expected[places])
