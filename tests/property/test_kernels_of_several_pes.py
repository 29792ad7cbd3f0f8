"""Random kernels on several PEs over the same bytes: what Phase 2 computes is what memory held when Phase 1 looked at it.

The oracle computes at once: a store writes a shadow of the memory when it is issued, a load reads it when it completes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernbench.config import load_config
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.launch import PeWork
from kernbench.triton_emu.memory.side import MemorySide
from tests.kernels import Run

SIZE = 4  # of a tile's rows and columns
SLOT = SIZE * SIZE * 2  # [byte] tiles of 64 begin at multiples of it
SLOTS = 6
MEMORY = 1024
STRIDE = 40  # of rows that lie apart
RESULTS = 1 << 16

ops = st.one_of(
    st.tuples(st.just("load"), st.integers(0, SLOTS - 1), st.sampled_from(["act_weight", "kv_load"]), st.booleans()),
    st.tuples(st.just("store"), st.integers(0, 3), st.integers(0, SLOTS - 1), st.booleans()),
    st.tuples(st.just("math"), st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("wait"), st.integers(0, 3), st.just(0), st.booleans()),
)
programs = st.lists(st.lists(ops, max_size=12), min_size=2, max_size=4)
machines = st.fixed_dictionaries(
    {
        "pe.dma.max_concurrent_transfers": st.integers(1, 4),
        "pe.dma.engines": st.integers(1, 2),
        "pe.scheduler.cycles": st.integers(0, 2),
        "cube.hbm.t_setup_cycles": st.sampled_from([0, 13, 50]),
    }
)


class Shadow(MemorySide):
    """The memory as it would be if everything were computed at once, in the place of the run's own side of it."""

    def __init__(self, run: Run, values: NDArray[np.float32]) -> None:
        runners = run.system.runners.values()
        own = next(iter(runners)).memory
        super().__init__(own.store, own.log, own.translation)
        for runner in runners:
            runner.memory = self
        self.bytes = np.zeros(RESULTS * 2, np.uint8)
        self.bytes[: values.nbytes] = values.view(np.uint8)
        self.tiles: dict[int, Any] = {}

    def view(self, addr: int, strides: Any) -> NDArray[np.float32]:
        data = self.bytes[addr : addr + 512].view(np.float32)
        return np.lib.stride_tricks.as_strided(data, (SIZE, SIZE), strides or (SIZE * 4, 4))

    def store_issued(self, msg: Any) -> None:
        self.view(msg.dst_addr, msg.dst_strides)[:] = self.tiles[id(msg.handle)]
        super().store_issued(msg)

    def load_ended(self, msg: Any) -> Any:
        self.tiles[id(msg.handle)] = self.view(msg.src_addr, msg.src_strides).copy()
        return super().load_ended(msg)


def kernel(ops: list[Any], base: int, kept: list[Any], shadow: list[Shadow], tl: Any) -> None:
    tiles = [tl.load(0, (SIZE, SIZE), "f32")]
    kept += tiles  # ids in the shadow are those of living tiles
    for op, i, j, flag in ops:
        strides = (STRIDE, 4) if flag else None
        one = tiles[-1 - i % len(tiles)]
        if op == "load":
            tiles.append(tl.load(i * SLOT, (SIZE, SIZE), "f32", strides=strides, wait=False, channel=j))
        elif op == "store":
            tl.wait(one)
            tl.store(j * SLOT, one, strides=strides, wait=False)
        elif op == "math":
            two = tiles[-1 - j % len(tiles)]
            tl.wait(one, two)
            result = tl.minimum(tl.add(one, two), 9.0)
            known = shadow[0].tiles
            known[id(result)] = np.minimum(known[id(one)] + known[id(two)], 9)
            tiles.append(result)
        else:
            tl.wait(one)
        kept += tiles[-1:]
        tiles = tiles[-4:]
    for k, tile in enumerate(tiles):
        tl.wait(tile)
        tl.store(base + k * 256, tile)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs, machines, st.integers(0, 2))
def test_phase_2_computes_what_was_there(programs: list[list[Any]], keys: dict[str, Any], seed: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 4, MEMORY // 4).astype(np.float32)
    kept: list[Any] = []
    shadow: list[Shadow] = []

    def body(host: Any) -> None:
        pes = list(run.system.runners)
        for turn in range(2):  # two launches, one behind the other on each PE
            work = [
                PeWork(pe, kernel, (ops, RESULTS + (turn * 4 + i) * 2048, kept, shadow))
                for i, (pe, ops) in enumerate(zip(pes, programs, strict=False))
            ]
            host.launch(f"launch {turn}", work)

    config = load_config({"schema": "kernbench/system/1"}, overrides=[f"{key}={value}" for key, value in keys.items()])
    run = Run(body=body, memory={0: values}, config=config)
    shadow.append(Shadow(run, values))
    run.run()
    want = shadow[0].bytes
    for batching, threads in ((True, 1), (False, 4)):
        store = DataExecutor(run.log, threads=threads, batching=batching).run().store  # type: ignore[arg-type]
        assert np.array_equal(store.read("hbm", 0, (MEMORY,), "u8"), want[:MEMORY])
        for base in range(RESULTS, RESULTS + 8 * 2048, 256):
            if store.has("hbm", base):
                assert np.array_equal(store.read("hbm", base, (64,), "u8"), want[base : base + 64])
