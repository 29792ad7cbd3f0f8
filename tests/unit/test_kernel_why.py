"""Why kernels take as long as they do: the path goes on through launches, messages and credits to what came before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.ccl import measure
from kernbench.ccl.call import Queues
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.registry import read_registry
from kernbench.cli.tracing import traced
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.why import Why, explain
from kernbench.trace.why.spans import Stories
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run, easy
from tests.queues import SCHEDULER, idle, line, queued, row

FULL = TraceOptions("full")
CUBE = load_config("single_cube", kind=SystemConfig)
ALGORITHMS = [
    ("all_reduce", "ring"), ("all_reduce", "bidirectional"), ("all_reduce", "halving_doubling"), ("all_reduce", "hierarchical"),
    ("all_to_all", None), ("broadcast", None), ("reduce", None), ("send_recv", None), ("barrier", None),
]  # fmt: skip


def collective(path: Path, name: str, algorithm: str | None, count: int, queues: Queues) -> Why:
    """A collective of eight ranks, traced."""
    entry = read_registry().find(name, algorithm)
    asked = measure.CclRequest(CUBE, group_of(CUBE, shape_for(CUBE, 8)), entry, "f16", queues, check=False)
    measure.row(asked, count, around=lambda machine: traced(machine, path, FULL))
    return explain(open_trace(path))


def waits(why: Why) -> list[int]:
    """[cycle] From what made each command of a kernel ready to its submission."""
    stories = Stories(why.history)
    jobs = [command for command in why.history.commands if command.opcode != "KERNEL" and command.job is not None]
    return [command.job.issue - (stories.ready(command) or 0) for command in jobs if command.job is not None]


@pytest.mark.parametrize(("slots", "tier"), [(16, "tcm"), (1, "tcm"), (2, "hbm"), (1, "sram")])
@pytest.mark.parametrize(("name", "algorithm"), ALGORITHMS)
def test_each_command_of_a_collective_comes_soon_after_what_it_waited_for(
    name: str, algorithm: str | None, slots: int, tier: str, tmp_path: Path
) -> None:
    """A command of a kernel that does nothing but wait and send is late by latencies of its way at most, not by a message's."""
    why = collective(tmp_path / "run.jsonl", name, algorithm, 8192, Queues(slots, 4096, tier))
    assert max(waits(why)) <= 32
    assert why.history.cycles == sum(stretch.end - stretch.start for stretch in why.path)


def explained(run: Run, path: Path) -> Why:
    """A run, traced."""
    with traced(run.machine, path, FULL):
        run.run()
    return explain(open_trace(path))


def after(why: Why, opcode: str) -> list[str | None]:
    """What made commands of an opcode ready: its opcode, and the place among those with it."""
    places: dict[int, str] = {}
    for command in why.history.commands:
        same = sum(one.startswith(command.opcode) for one in places.values())
        places[command.id] = f"{command.opcode} {same}"
    made = [why.story(command.id).after for command in why.history.commands if command.opcode == opcode]
    return [None if one is None else places[one.id] for one in made]


def test_where_slots_are_few_the_path_goes_through_who_let_them_go(tmp_path: Path) -> None:
    """One slot, and a receiver whose product needs each message: the next one waits for that product."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tile = tl.load(0, (64, 64), "f16")
            for _ in range(4):
                tl.send("E", tile)
            return
        for _ in range(4):
            message = tl.recv("W", (64, 64), "f16")
            done = tl.dot(message, message)
            del message
            tl.wait(done)

    run = queued(kernel, line(2), memory={0: np.ones((64, 64), np.float16)}, slots=1, slot_bytes=8192)
    why = explained(run, tmp_path / "run.jsonl")
    assert after(why, "IPCQ_SEND") == ["DMA_LOAD_TILE 0", "TE_GEMM_TILE 0", "TE_GEMM_TILE 1", "TE_GEMM_TILE 2"]
    assert after(why, "TE_GEMM_TILE") == [f"IPCQ_SEND {number}" for number in range(4)]
    second = next(command for command in why.history.commands[::-1] if command.opcode == "IPCQ_SEND")
    assert [part.cause for part in why.story(second.id).spans[0].parts] == ["ipcq"]
    assert {"ipcq", "work", "transfer"} <= {cost.cause for cost in why.costs}


def test_a_slot_that_the_kernel_lets_go_is_let_go_after_what_it_waited_for_last(tmp_path: Path) -> None:
    """The receiver keeps the message for long after its product, while a store that nobody waits for ends."""

    def kernel(tl: Any) -> None:
        tile = tl.load(0, (64, 64), "f16")
        if tl.rank == 0:
            tl.send("E", tile)
            tl.send("E", tile)
            return
        message = tl.recv("W", (64, 64), "f16")
        tl.store(1 << 20, tile)
        tl.wait(tl.dot(message, message))
        idle(tl, 2000)
        del message
        tl.recv("W", (64, 64), "f16")

    run = queued(kernel, line(2), memory={0: np.ones((64, 64), np.float16)}, slots=1, slot_bytes=8192)
    why = explained(run, tmp_path / "run.jsonl")
    store = next(command for command in why.history.commands if command.opcode == "DMA_STORE_TILE")
    product = next(command for command in why.history.commands if command.opcode == "TE_GEMM_TILE")
    assert store.end is not None and product.end is not None and product.end < store.end
    assert after(why, "IPCQ_SEND") == ["DMA_LOAD_TILE 0", "TE_GEMM_TILE 0"]


def test_a_message_that_was_there_is_not_what_the_receiver_waited_for(tmp_path: Path) -> None:
    """The receiver works for long before it asks: what it issues then comes after its own work."""

    def kernel(tl: Any) -> None:
        tile = tl.load(0, (64, 64), "f16")
        if tl.rank == 0:
            tl.send("E", tile)
            return
        product = tile
        for _ in range(4):
            product = tl.dot(tile, tile)
            tl.wait(product)
        message = tl.recv("W", (64, 64), "f16")
        tl.wait(tl.exp(message))

    run = queued(kernel, line(2), memory={0: np.ones((64, 64), np.float16)}, slots=1, slot_bytes=8192)
    assert after(explained(run, tmp_path / "run.jsonl"), "VE_EXP_TILE") == ["TE_GEMM_TILE 3"]


def products(tl: Any) -> None:
    tile = tl.load(0, (64, 64), "f16")
    tl.wait(tl.dot(tile, tile))


def nothing(tl: Any) -> None:
    """A launch without commands."""


def test_a_launch_begins_after_the_one_before_it_on_its_pe(tmp_path: Path) -> None:
    """All are launched at once; the second and fourth have to wait for the PE, and the third has nothing to do."""

    def body(host: Any) -> None:
        for number, kernel in enumerate((products, products, nothing, products)):
            host.launch(f"it{number}", [PeWork("sip0.cube0.pe0", kernel)])

    why = explained(Run(body=body, memory={0: np.ones((64, 64), np.float16)}, config=row(2)), tmp_path / "run.jsonl")
    assert after(why, "DMA_LOAD_TILE") == ["LAUNCH 0", "TE_GEMM_TILE 0", "TE_GEMM_TILE 1"]
    assert max(len(command.deps) for command in why.history.commands) == 2  # launches that do nothing add none


def test_what_the_host_launches_after_a_wait_comes_after_what_it_waited_for(tmp_path: Path) -> None:
    """On a system the launch waits for it; one NPU has no launches, and the kernel itself does."""

    def launched(first: str, second: str, config: Any) -> Why:
        def body(host: Any) -> None:
            host.wait(host.launch("first", [PeWork(first, products)]))
            host.launch("second", [PeWork(second, products)])

        run = Run(body=body, memory={0: np.ones((64, 64), np.float16)}, config=config)
        return explained(run, tmp_path / "run.jsonl")

    system = launched("sip0.cube0.pe0", "sip0.cube0.pe1", row(2))
    assert after(system, "LAUNCH") == [None, "TE_GEMM_TILE 0"] and after(system, "DMA_LOAD_TILE") == ["LAUNCH 0", "LAUNCH 1"]
    assert after(launched("pe0", "pe0", easy()), "DMA_LOAD_TILE") == [None, "TE_GEMM_TILE 0"]


def test_copies_of_the_host_are_on_the_path_of_what_waits_for_them(tmp_path: Path) -> None:
    def body(host: Any) -> None:
        host.wait(host.copy("sip0.io0.pcie_ep", [(0, 1024)], write=True))
        host.launch("it", [PeWork("sip0.cube0.pe0", products)])

    config = load_config({"schema": "kernbench/system/1"}, kind=SystemConfig)
    why = explained(Run(body=body, memory={0: np.ones((64, 64), np.float16)}, config=config), tmp_path / "run.jsonl")
    assert after(why, "LAUNCH") == ["HOST_COPY_TILE 0"]


@pytest.mark.parametrize(("flag", "tier", "busy"), [(0, "tcm", 0), (300, "tcm", 0), (300, "tcm", 2000), (300, "sram", 0)])
def test_the_flag_of_a_message_is_a_wait_of_its_own(flag: int, tier: str, busy: int, tmp_path: Path) -> None:
    """The receiver waits until the flag has come, unless it was busy until then. Of slots in SRAM, the load waits."""

    def kernel(tl: Any) -> None:
        if tl.rank == 0:
            tl.send("E", tl.load(0, (64, 64), "f16"))
            return
        idle(tl, busy)
        message = tl.recv("W", (64, 64), "f16")
        tl.wait(tl.dot(message, message))

    config = row(2, pe__ipcq__protocols=f"{{ll128: {{cycles: {flag}}}}}")
    ones = {0: np.ones((64, 64), np.float16)}
    run = queued(kernel, line(2), memory=ones, slots=1, slot_bytes=8192, config=config, tier=tier, protocol="ll128")
    why = explained(run, tmp_path / "run.jsonl")
    waiter = next(one for one in why.history.commands if one.opcode == ("TE_GEMM_TILE" if tier == "tcm" else "IPCQ_RECV"))
    sent = next(one for one in why.history.commands if one.opcode == "IPCQ_SEND")
    spans = [(span.cycles, part.cause) for span in why.story(waiter.id).spans for part in span.parts]
    flags = [cycles for cycles, cause in spans if cause == "flag"]
    assert flags == ([flag] if flag and not busy else [])
    assert sum(cost.cycles for cost in why.costs if cost.cause == "flag") == sum(flags)
    assert any(group.name == "flags of messages between PEs" for group in why.groups) is bool(flags)
    if flags and tier == "tcm":
        assert waiter.job is not None and sent.end is not None
        assert waiter.job.issue == sent.end + flag + SCHEDULER
