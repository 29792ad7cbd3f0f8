"""Kernels on systems: the way of a launch, PEs by name, copies of the host, several memories."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.common.errors import InputError
from kernbench.components.builtin.pe_math import PeMath
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.config import SystemConfig, load_config
from kernbench.policy.routing.resolver import address_map
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.triton_emu import kernel_system as assembly
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run, at

A = np.arange(256, dtype=np.float32).reshape(16, 16)
TESTS = Path(__file__).parents[1]


def system(**overrides: Any) -> SystemConfig:
    keys = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
    return load_config({"schema": "kernbench/system/1", "system": {"sips": 2}}, keys, kind=SystemConfig)


def adds(out: int, tl: Any) -> None:
    x = tl.load(0, (16, 16), "f32")
    tl.store(out + 1024 * tl.program_id(), x + float(tl.program_id()))


def test_a_launch_goes_through_its_m_cpu() -> None:
    def body(host: Any) -> None:
        host.launch("adds", [PeWork(pe, adds, (4096,), (i,), (2,)) for i, pe in enumerate(names)])

    names = ["sip0.cube0.pe2", "sip1.cube0.pe0"]
    run = Run(body=body, memory={0: A}, config=system(pe__cpu__cycles=7))
    run.run()
    reach = run.machine.plan.reach
    assert reach is not None
    for name in names:
        m_cpu = f"{name.rpartition('.')[0]}.m_cpu"
        path = reach.places.router.find_node_path(m_cpu, f"{name}.pe_cpu")
        way = reach.launch_cycles(m_cpu) + reach.places.router.route(path).cycles
        assert run.launch.per_pe[name].start == way + 7
    assert run.launch.start == min(one.start for one in run.launch.per_pe.values())
    assert run.launch.end == max(one.end for one in run.launch.per_pe.values() if one.end is not None)
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    for i in range(2):
        assert np.array_equal(store.read("hbm", 4096 + 1024 * i, (16, 16), "f32"), A + i)
    assert {one.component_id for one in run.log} == {  # type: ignore[union-attr]
        f"{name}.{part}" for name in names for part in ("pe_dma", "pe_math")
    }


@pytest.mark.parametrize("cycles", [0, 1, 5])
def test_a_command_is_so_long_in_the_scheduler(cycles: int) -> None:
    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        y = tl.load(0, (16, 16), "f32")
        tl.dot(x, y)

    def body(host: Any) -> None:
        host.launch("it", [PeWork("sip0.cube0.pe0", kernel)])

    run = Run(body=body, memory={0: A}, config=system(pe__scheduler__cycles=cycles)).run()
    first, second, third = run.log  # type: ignore[misc]
    assert first.t_start == run.launch.start + cycles  # type: ignore[operator]
    assert second.t_start == first.t_end + cycles and third.t_start == second.t_end + cycles


def test_scratchpads_have_addresses_of_their_own() -> None:
    found = {}

    def kernel(tl: Any) -> None:
        found[tl._runner.pe.name] = tl.load(0, (16, 16), "f32").addr

    def body(host: Any) -> None:
        host.launch("it", [PeWork(pe, kernel) for pe in run.system.runners])

    config = system()
    run = Run(body=body, memory={0: A}, config=config)
    run.run()
    tcm = address_map(config).tcm
    assert list(found.values()) and found == {
        pe: tcm.address(i, 0) for i, pe in enumerate(run.system.runners)
    }


def test_a_transfer_over_the_end_of_a_slice_is_two_jobs() -> None:
    """512 bytes before the end of the first slice, 512 behind it: one load, one record, two transfers."""
    config = system()
    end = address_map(config).slice_bytes

    def kernel(tl: Any) -> None:
        x = tl.load(end - 512, (16, 16), "f32")
        assert x.tolist() == A.tolist()
        tl.store(end - 512, x * 2.0, strides=(64, 4))

    run = Run(kernel, memory={end - 512: A}, config=config).run()
    assert [one.op_name for one in run.log] == ["dma_read", "mul", "dma_write"]  # type: ignore[union-attr]
    channels = [name for name, counts in run.machine.result().counters.items() if ".ch" in name and counts["bytes"]]
    assert len(channels) == 2
    store = DataExecutor(run.log).run().store  # type: ignore[arg-type]
    assert np.array_equal(store.read("hbm", end - 512, (16, 16), "f32"), A * 2)


class Windows:
    """Addresses from 2**40 on stand for pieces of 1 KiB at 4 KiB each."""

    def physical(self, address: int, nbytes: int) -> list[tuple[int, int]]:
        if address < 1 << 40:
            return [(address, nbytes)]
        runs = []
        while nbytes:
            window, offset = divmod(address - (1 << 40), 1024)
            part = min(nbytes, 1024 - offset)
            runs.append((4096 * window + offset, part))
            address, nbytes = address + part, nbytes - part
        return runs

    def window(self, address: int) -> tuple[int, int, int] | None:
        if address < 1 << 40:
            return None
        number = (address - (1 << 40)) // 1024
        return (1 << 40) + 1024 * number, (1 << 40) + 1024 * (number + 1), 4096 * number


def test_virtual_addresses_are_translated() -> None:
    def kernel(tl: Any) -> None:
        x = tl.load((1 << 40) + 1024, (16, 16), "f32")
        assert x.tolist() == A.tolist()
        tl.store((1 << 40) + 2048, x)
        tl.load((1 << 40) + 1536, (16, 16), "f32")

    run = Run(kernel, memory={4096: A}, translation=Windows())
    error = run.fail()
    assert np.array_equal(run.store.read("hbm", 8192), A)
    assert isinstance(error, KernelError)
    assert str(error) == (
        f"{at(kernel, 4)}: the 1024 bytes at 0x10000000600 are not contiguous (0x1200 is followed by 0x2000); "
        "move contiguous ranges separately"
    )


@pytest.mark.parametrize("write", [True, False])
def test_the_host_copies_through_an_endpoint(write: bool) -> None:
    """64 KiB in two pieces share their slice's one channel of 16 B a cycle, after the latency of PCIe and the way there."""
    times = []

    def body(host: Any) -> None:
        copy = host.copy("sip0.io0.pcie_ep", [(0, 32768), (65536, 32768)], write=write)
        host.wait(copy)
        times.append((copy.issued, copy.start, copy.end, host.cycle))

    Run(body=body, memory={}, config=system()).run()
    ((issued, start, end, seen),) = times
    assert (issued, start) == (0, 0) and seen == end
    assert 65536 / 16 + 250 < end < 65536 / 16 + 500


def test_launches_on_one_pe_follow_each_other() -> None:
    def kernel(tl: Any) -> None:
        for _ in range(20):  # until the second launch has come
            tl.load(0, (16, 16), "f32")

    def body(host: Any) -> None:
        first = host.launch("first", [PeWork("sip0.cube0.pe0", kernel)])
        host.launch("second", [PeWork("sip0.cube0.pe0", kernel)])
        host.wait(first)
        host.launch("third", [PeWork("sip0.cube0.pe1", kernel)])

    run = Run(body=body, memory={0: A}, config=system()).run()
    first, second, third = run.system.launches
    assert first.end is not None and second.start is not None
    # The processor is free in the cycle after the one in which it tells the first launch's end, and takes 10 for the next.
    assert second.start == first.end + 1 + 10
    assert third.issued == first.end + 1


class SlowScheduler(PeScheduler):
    """Takes so many more cycles for every command."""

    @dataclass(frozen=True)
    class Spec:
        more: int = 0

    def issue(self, msg: Any, now: int, line: str) -> Any:
        self._cycles = 1 + self.spec.more
        return super().issue(msg, now, line)


class NoScheduler:
    """Not derived from the built-in one."""

    Spec = None

    def step(self, now: int) -> int:
        return now


@pytest.mark.parametrize("more", [0, 7])
def test_a_class_of_the_user_takes_the_place_of_the_scheduler(more: int) -> None:
    """A load and a store that waits for it: two commands, each `more` cycles later."""

    def kernel(tl: Any) -> None:
        tl.store(1 << 20, tl.load(0, (64,), "f32"))

    memory = {0: np.ones(64, np.float32)}

    def cycles(*overrides: str) -> int:
        config = load_config("single_cube", list(overrides), kind=SystemConfig, allow_code=TESTS)
        return Run(kernel, memory=memory, config=config).run().machine.cycle

    impl = "components.pe_scheduler.impl=tests.unit.test_kernel_systems:SlowScheduler"
    assert cycles(impl, f"components.pe_scheduler.more={more}") == cycles() + 2 * more


class ListedMath(PeMath):
    """Says its jobs by `orders`, as a class of its own: they go to the core as lists, and not as numbers."""

    def orders(self, msg: Any) -> Any:
        LISTED.append(msg.op)
        return super().orders(msg)


LISTED: list[str] = []


def test_math_as_numbers_is_math_as_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one, two and three operands, a number among them, in place and over an axis: the same cycles and the same log."""

    def kernel(tl: Any) -> None:
        x = tl.load(0, (16, 16), "f32")
        y = tl.exp(x)
        z = tl.where(x > y, x * 0.5, y)
        tl.add(z, y, out=z)
        tl.store(1 << 20, z + tl.sum(z, axis=1, keep_dims=True))

    def run() -> tuple[int, list[Any]]:
        found = Run(kernel, memory={0: A}, config=load_config("single_cube", kind=SystemConfig)).run()
        assert found.log is not None
        return found.machine.cycle, [pickle.dumps((one.t_start, one.t_end, one.op_name, dict(one.params))) for one in found.log]

    as_numbers = run()
    LISTED.clear()
    monkeypatch.setattr(assembly, "PeMath", ListedMath)
    assert run() == as_numbers
    assert LISTED == ["exp", "gt", "mul", "where", "add", "sum", "add"]


def test_a_scheduler_that_is_none_is_refused() -> None:
    impl = "components.pe_scheduler.impl=tests.unit.test_kernel_systems:NoScheduler"
    config = load_config("single_cube", [impl], kind=SystemConfig, allow_code=TESTS)
    with pytest.raises(InputError, match=r"must be derived from kernbench\.components\.builtin\.pe_scheduler:PeScheduler"):
        Run(lambda tl: None, config=config)
