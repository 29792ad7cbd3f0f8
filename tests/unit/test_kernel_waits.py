"""What a kernel waits for, and until when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.config import load_config
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu.errors import StrictWaitError
from tests.kernels import EASY, Run, at, easy

A = np.arange(256, dtype=np.float32).reshape(16, 16)
FOUR = {1024 * i: A + i for i in range(4)}  # each 16 cycles from memory


def lasted(kernel: Any, **how: Any) -> int:
    """Cycles of a kernel, without the cycle in which it was launched."""
    run = Run(kernel, memory=FOUR, **how).run()
    assert run.launch.end is not None and run.launch.start is not None
    return run.launch.end - run.launch.start


def test_a_load_is_waited_for() -> None:
    def two(tl: Any) -> None:
        tl.load(0, (16, 16), "f32")
        tl.load(1024, (16, 16), "f32")

    assert lasted(two) == 32


def test_loads_without_wait_share_the_memory() -> None:
    """Both are in flight at once: a latency of 100 is there once, the bandwidth is shared."""

    def two(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32", wait=False)
        b = tl.load(1024, (16, 16), "f32", wait=False)
        tl.wait(a, b)

    slow = easy(dram={"t_setup_cycles": 100})
    assert lasted(two, config=slow) == 132


def test_the_end_of_a_program_waits_for_its_commands() -> None:
    def leaves(tl: Any) -> None:
        tl.load(0, (16, 16), "f32", wait=False)

    assert lasted(leaves) == 16
    assert lasted(leaves, programs=(0, 1, 2), grid=(3,)) == 48


def test_a_use_waits_and_the_wait_is_counted() -> None:
    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32", wait=False)
        tl.dot(a, a)

    run = Run(kernel, memory=FOUR).run()
    assert run.launch.end == 1 + 16 + 1
    assert run.system.runners["pe0"].implicit_waits == 1


def test_a_strict_wait_refuses_the_use_and_names_both_lines() -> None:
    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32", wait=False)
        tl.dot(a, a)

    error = Run(kernel, memory=FOUR, strict_wait=True).fail()
    assert isinstance(error, StrictWaitError) and error.exit_code == 5
    assert str(error) == (
        f"{at(kernel, 2)}: t1 is used, but what makes it ({at(kernel, 1)}) has not ended in cycle 1; "
        "call tl.wait on it first, or run without strict waits"
    )

    def waits(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32", wait=False)
        tl.wait(a)
        b = tl.dot(a, a)
        tl.wait(b)
        tl.store(4096, b)

    run = Run(waits, memory=FOUR, strict_wait=True).run()
    assert run.system.runners["pe0"].implicit_waits == 0


def test_looking_at_a_load_on_its_way_waits_for_it() -> None:
    def kernel(tl: Any) -> None:
        assert tl.load(1024, (16, 16), "f32", wait=False)[0, 0] == 1

    assert lasted(kernel) == 16


def test_compute_and_loads_overlap() -> None:
    """A product of 64 cycles behind which four loads of 16 come."""

    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32")
        wide = tl.zeros((16, 1024), "f32")  # 16384 elements by 64 lanes: 256 cycles
        tl.wait(wide)
        product = tl.dot(a, wide)  # 16 * 16 * 1024 / 4096 = 64
        for i in range(4):
            tl.load(1024 * i, (16, 16), "f32")
        tl.wait(product)

    assert lasted(kernel) == 16 + 256 + 64


def test_wait_without_arguments_waits_for_all() -> None:
    def kernel(tl: Any) -> None:
        tl.load(0, (16, 16), "f32", wait=False)
        tl.store(4096, tl.load(1024, (16, 16), "f32"))
        before = tl._runner.now
        tl.wait()
        assert not tl._runner.scheduler.open and tl._runner.now > before

    lasted(kernel)


def test_a_full_queue_holds_the_kernel() -> None:
    issued = []

    def kernel(tl: Any) -> None:
        tiles = []
        for _ in range(65):
            tiles.append(tl.load(0, (16, 16), "f32", wait=False))
            issued.append(tl._runner.now)

    Run(kernel, memory=FOUR, config=easy(dma={"max_concurrent_transfers": 1})).run()
    # 64 commands have room; the next is issued when the first has ended.
    assert issued == [1] * 64 + [17]


def test_scalar_work_takes_its_cycles() -> None:
    def kernel(tl: Any) -> None:
        i = tl.arange(4)
        j = i * 2 + 1
        assert j.tolist() == [1, 3, 5, 7] and tl._runner.now == start + 14

    run = Run(kernel, memory=FOUR)
    run.system.runners["pe0"].scalar_cycles = 7
    start = 1
    run.run()
    assert run.launch.end == 15


def test_what_a_kernel_waits_for_is_shown() -> None:
    def kernel(tl: Any) -> None:
        a = tl.load(0, (16, 16), "f32")
        tl.wait(tl.dot(a, a))
        tl.store(4096, a)

    run = Run(kernel, memory=FOUR)
    states = []
    for _ in range(40):
        run.machine.step()
        states.append(run.system.states()[0])
    assert (states[0].launch, states[0].line, states[0].waits) == ("kernel", "", "")
    assert (states[1].line, states[1].waits, states[1].since) == (at(kernel, 1), "the load of t1", 1)
    assert (states[17].line, states[17].waits, states[17].in_flight) == (at(kernel, 2), "tl.wait(t2)", 0)
    assert (states[20].line, states[20].waits, states[20].in_flight) == ("", "the program's last commands", 1)
    assert (states[39].launch, states[39].waits, states[39].in_flight) == ("", "", 0)


def test_a_load_overtakes_a_store_in_time_and_not_in_data() -> None:
    """Loads of KV go first: one issued after a store of the same bytes starts before it, and still brings what was stored."""
    config = load_config({**EASY, "dma": {"max_concurrent_transfers": 1}})

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        busy = tl.load(1024, (16, 16), "f32", wait=False)
        tl.store(2048, x + 1.0)
        late = tl.load(2048, (16, 16), "f32", wait=False, channel="kv_load")
        tl.wait(busy, late)
        tl.store(8192, late * 2.0)

    run = Run(kernel, memory=FOUR, config=config).run()
    assert run.log is not None
    store = next(one for one in run.log if one.op_name == "dma_write")
    late = [one for one in run.log if one.op_name == "dma_read"][2]
    assert late.params["src_addr"] == 2048 and late.dependency_ids == [store.op_id]
    replayed = DataExecutor(run.log).run().store
    np.testing.assert_array_equal(replayed.read("hbm", 8192, (16, 16), "f32"), (A + 1) * 2)


@pytest.mark.parametrize("wrong", [3, None, "x"])
def test_what_can_be_waited_for(wrong: Any) -> None:
    def kernel(tl: Any) -> None:
        tl.wait(wrong)

    text = str(Run(kernel, memory=FOUR).fail())
    name = type(wrong).__name__
    assert text == f"{at(kernel, 1)}: tl.wait takes tensors and what tl.store returns, and not a {name}"
