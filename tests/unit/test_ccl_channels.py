"""Channels of a collective occupy cores: what computes beside it is slower by their share, and so are its own sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.common.errors import InputError
from kernbench.components.service import ve_service
from kernbench.config import SystemConfig, load_config
from kernbench.runtime_api import Context, bench
from kernbench.sim_engine.engine import GraphEngine

CORES = 8
#: Engines that wait for no bank, so that the time of a product is that of its multiplications.
KEYS = ("pe.te.init_cycles=0", "pe.te.finalize_cycles=0", "pe.te.spm_traffic=false", "pe.ve.spm_traffic=false")
MACHINE = load_config("single_cube", [f"pe.cores={CORES}", *KEYS], kind=SystemConfig)


def run(channels: int, *, beside: bool = True) -> tuple[list[int], int, int]:
    """The cycles of each product of rank 0, those in which the collective runs, and those of its longest sum."""

    def many(tl: Any) -> None:
        a, b = tl.full((64, 64), 1.0, "f16"), tl.full((64, 64), 1.0, "f16")
        for _ in range(40):
            tl.wait(tl.dot(a, b))

    def worker(rank: int) -> None:
        dist.init_process_group(backend="kernbench")
        x = dist.from_numpy(np.ones(16384, np.float16))
        work = dist.all_reduce(x, async_op=True)
        if beside:
            dist.launch(many)
        work.wait()
        dist.launch(many)

    @bench(name="beside", description="products beside an all-reduce, and after it")
    def beside_it(ctx: Context) -> None:
        dist.spawn(ctx, worker, ranks=4, algorithms={"all_reduce": "ring"}, channels=channels)

    engine = GraphEngine(MACHINE)
    assert engine.run(beside_it).status == "done"
    mine = [one for one in engine.op_log if one.component_id.startswith("sip0.cube0.pe0.")]
    sums = [one for one in mine if one.op_name == "add"]
    end = max(one.t_end for one in sums)
    gemms = [one for one in mine if one.op_kind == "gemm"]
    lengths = [round(one.t_end - one.t_start) for one in gemms]
    during = sum(one.t_end < end for one in gemms)
    return lengths, during, max(round(one.t_end - one.t_start) for one in sums)


def test_products_beside_a_collective_are_slower_by_the_share_of_its_channels() -> None:
    alone, _, whole = run(0)
    assert len(set(alone)) == 1
    lengths, during, sums = run(2)
    assert during > 10
    assert set(lengths[1:during]) == {-(-alone[0] * CORES // (CORES - 2))}
    assert set(lengths[-40:]) == {alone[0]}  # after it
    time = ve_service(MACHINE.pe.ve, "add", 1024, 1, 16)  # a quarter of a chunk
    assert (whole, sums) == (time.init + time.body + time.finalize, time.init + CORES // 2 * time.body + time.finalize)


def test_more_channels_are_faster_for_the_collective_and_slower_for_the_rest() -> None:
    few, many = run(2), run(6)
    assert many[2] < few[2]
    assert max(many[0]) == -(-min(many[0]) * CORES // (CORES - 6)) > max(few[0])


def test_channels_leave_a_core() -> None:
    with pytest.raises(InputError, match=r"at least one of the 8 cores of a PE \(pe.cores\) must stay free"):
        run(8)
