"""A memory store that collects the rows of strided writes in sheets has the same bytes as one that does not."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.dtypes import dtype_of
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.memory.strides import read_strided, write_strided
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpRecord, row_of
from kernbench.sim_engine.replay.sheets import filled_ranges

SIZE = 96  # bytes
KINDS = ("u8", "i16", "f32")


def outcome(action: Any) -> Any:
    """What an access gives: bytes, a value, or the text of its error."""
    try:
        found = action()
    except ValueError as error:
        return str(error)
    return found.tobytes() if isinstance(found, np.ndarray) else found


def ranges(draw: random.Random) -> list[tuple[int, int]]:
    edges = sorted(draw.sample(range(SIZE + 1), 2 * draw.randint(1, 3)))
    return list(zip(edges[::2], edges[1::2], strict=True))


def strided(draw: random.Random) -> tuple[int, tuple[int, int], str, tuple[int, int]]:
    kind = draw.choice(KINDS)
    size = dtype_of(kind).align
    rows, columns = draw.randint(1, 4), draw.randint(1, 3)
    stride = size * draw.randint(1, 8)
    return size * draw.randint(0, SIZE // size), (rows, columns), kind, (stride, size)


def access(draw: random.Random) -> Any:
    """A function of a store, which gives the same for equal stores."""
    way = draw.choice(["strided"] * 4 + ["write", "read", "read_strided", "has", "pending", "snapshot"])
    addr, shape, kind, strides = strided(draw)
    data = np.frombuffer(draw.randbytes(dtype_of(kind).align * shape[0] * shape[1]), dtype_of(kind).numpy).reshape(shape)
    nbytes, op_id = draw.randint(1, 16), draw.randint(0, 5)
    if way == "strided":
        return lambda store: write_strided(store, "hbm", addr, data, strides, kind)
    if way == "write":
        return lambda store: store.write("hbm", addr, data)
    if way == "read":
        return lambda store: store.read("hbm", addr, shape, kind)
    if way == "read_strided":
        return lambda store: read_strided(store, "hbm", addr, shape, strides, kind)
    if way == "has":
        return lambda store: store.has("hbm", addr, nbytes)
    if way == "pending":
        return lambda store: store.mark_pending("hbm", addr, nbytes, op_id)
    return lambda store: [outcome(lambda at=at: store.snapshot().read("hbm", at, (1,), "u8")) for at in range(0, SIZE, 7)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_each_access_gives_the_same_with_sheets_and_without(seed: int) -> None:
    draw = random.Random(seed)
    plain, collecting = MemoryStore(), MemoryStore()
    accesses = [access(draw) for _ in range(draw.randint(1, 25))]
    before = draw.randint(0, 3)
    for one in accesses[:before]:
        assert outcome(lambda one=one: one(plain)) == outcome(lambda one=one: one(collecting))
    with collecting.expected({"hbm": ranges(draw)}):
        for one in accesses[before:]:
            assert outcome(lambda one=one: one(plain)) == outcome(lambda one=one: one(collecting))
    for at in range(2 * SIZE):
        assert outcome(lambda at=at: plain.read("hbm", at, (1,), "u8")) == outcome(
            lambda at=at: collecting.read("hbm", at, (1,), "u8")
        )


def store_record(addr: int, shape: tuple[int, int], kind: str, strides: tuple[int, int], op_id: int) -> OpRecord:
    params = {
        "src_addr": 0, "dst_addr": addr, "src_space": "tcm", "dst_space": "hbm", "shape": shape, "dtype": kind,
        "nbytes": dtype_of(kind).align * shape[0] * shape[1], "dst_strides": strides,
    }  # fmt: skip
    return OpRecord(float(op_id), op_id + 1.0, "pe", "memory", "dma_write", params, [], op_id)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_ranges_of_a_log_are_disjoint_and_have_whole_writes(seed: int) -> None:
    draw = random.Random(seed)
    writes = [strided(draw) for _ in range(draw.randint(1, 8))]
    found = filled_ranges([row_of(store_record(*one, op_id)) for op_id, one in enumerate(writes)]).get("hbm", [])
    assert all(start < end for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    for addr, shape, kind, strides in writes:
        end = addr + (shape[0] - 1) * strides[0] + shape[1] * dtype_of(kind).align
        assert all((start <= addr and end <= stop) or end <= start or stop <= addr for start, stop in found)


def test_tiles_beside_each_other_become_one_array() -> None:
    """A matrix of 4 x 8 elements, stored in four tiles of 2 x 4, beside a tile that is stored alone."""
    store = MemoryStore()
    tile = np.arange(8, dtype=np.float16).reshape(2, 4)
    store.write("tcm", 0, tile)
    places = [0, 8, 32, 40, 1 << 20]
    log = [store_record(at, (2, 4), "f16", (16, 2), op_id) for op_id, at in enumerate(places)]
    replayed = DataExecutor(log, store, threads=1).run().store
    assert sorted(replayed._storage["hbm"])[:2] == [0, 32]  # the upper and the lower half
    whole = np.block([[tile, tile], [tile, tile]])
    assert replayed.read("hbm", 0, (4, 8), "f16").tolist() == whole.tolist()
