"""Kernels with composite ops and queues on random systems: every walk, with and without threads, steps and traces, says the
same, and traces keep the laws.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.cmdq import Program
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from kernbench.triton_emu.kernel_system import kernel_system
from kernbench.triton_emu.launch import PeWork
from tests.cache_strategies import give_cache
from tests.machine_strategies import Draw, drawn_routers
from tests.property.test_why import check_commands, check_path
from tests.queues import idle, now, ring
from tests.row_strategies import controllers, row_buffers
from tests.sampled import sampled_from
from tests.system_roads import PlainRoads
from tests.systems_of_pes import system_machines

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
ROOM = 3 << 16  # [B] of a slice and of an SRAM: a multiple of every alignment
KINDS = ("load", "load", "store", "math", "dot", "gemm", "elements", "send", "send", "send", "idle", "wait")


class Step(NamedTuple):
    """What one rank does: `kind` says how the numbers are used."""

    kind: str
    rank: int
    i: int
    j: int
    n: int
    flag: bool
    channel: str


steps = st.builds(
    Step, sampled_from(KINDS), st.integers(0, 3), st.integers(0, 7), st.integers(0, 7), st.integers(1, 8), st.booleans(),
    sampled_from(["act_weight", "kv_load"]),
)  # fmt: skip
plans = st.lists(steps, min_size=2, max_size=14)


@st.composite
def systems(draw: Draw) -> dict[str, Any]:
    """A system with room for tiles and slots, with rows, controllers, routers or caches, and queues of few slots."""
    system: dict[str, Any] = draw(system_machines()) | {"control": {}}
    system["max_cycles"] = draw(sampled_from([60_000, 60_000, 60_000, 777]))
    hbm, pe, mesh = system["cube"]["hbm"], system["pe"], system["cube"]["mesh"]
    hbm["capacity_bytes"] = (hbm.get("slices") or system["cube"]["pes"]) * ROOM
    system["cube"]["sram"]["bytes"] = ROOM
    spm = pe["spm"] = {"num_banks": 4, "bank_width_bytes": 16, **pe.get("spm", {}), "check_overlap": "none"}
    width, banks = spm["bank_width_bytes"], spm["num_banks"]
    spm["bank_size_bytes"] = -(-(1 << 16) // (width * banks)) * width
    kind = draw(sampled_from(["fluid", "fluid", "row_buffer_v1", "row_buffer_v2", "flit", "flit"]))
    if kind.startswith("row"):
        size, burst = draw(sampled_from([64, 32, 16])), draw(sampled_from([1, 2, 4]))
        system["allocation"] = kind
        hbm |= {"interleave_bytes": size * draw(sampled_from([1, 2, 3])), "bus_width_bytes": size, "dram_burst_cycles": burst}
        hbm["peak_bw_bytes_per_cycle"] = 256
        if kind == "row_buffer_v2":
            hbm["controller"] = draw(controllers(size))
        else:
            hbm["row_buffer"] = draw(row_buffers(size, burst))
    if kind == "flit":
        mesh |= {"model": "flit", "flit": drawn_routers(draw, width, mesh["link"]["bytes_per_cycle"], 2)}
    elif draw(st.booleans()):
        cached: dict[str, Any] = {}
        give_cache(draw, cached)
        system["cube"]["llc"] = cached["llc"] | ({"write": "through"} if kind.startswith("row") else {})
    pe["scheduler"] = {"cycles": draw(st.integers(0, 3)), "queue_depth": draw(sampled_from([1, 2, 3, 8, 64]))}
    pe["ipcq"] = {
        "cycles": draw(st.integers(1, 3)),
        "credit_cycles": draw(st.integers(1, 4)),
        "max_concurrent": draw(sampled_from([1, 2, 4])),
        "weight": draw(sampled_from([1, 3])),
        "slots": draw(st.integers(1, 3)),
        "slot_bytes": 1024,
        "tier": draw(sampled_from(["tcm", "tcm", "sram", "hbm"])),
    }
    port = draw(sampled_from([{}, {"bytes_per_cycle": 1}, {"bytes_per_cycle": 7.5}, {"bytes_per_cycle": 64}]))
    pe["fetch_store"] = {"cycles": draw(st.integers(0, 3)), **port}
    return system


def kernel(plan: list[Step], places: list[int], seen: list[tuple[int, int]], tl: Any) -> None:
    """The steps of one rank; it receives what its neighbour in the west sends."""
    base, ranks = places[tl.rank], len(places)
    tiles, done = [tl.load(base, (8, 8), "f32")], []
    for kind, rank, i, j, n, flag, channel in plan:
        if kind == "send" and tl.rank == (rank + 1) % ranks:
            tiles.append((tl.recv_async if flag else tl.recv)("W", (8, 8), "f32"))
        if rank % ranks != tl.rank:
            continue
        one, two, there = tiles[-1 - i % len(tiles)], tiles[-1 - j % len(tiles)], places[j % ranks]
        if kind == "load":
            tiles.append(tl.load(there + 256 * i, (8, 8), "f32", wait=flag, channel=channel))
        elif kind == "store":
            tl.store(there + 256 * i, one, wait=flag)
        elif kind == "math":
            tiles.append(tl.exp(one) if flag else one + two)
        elif kind == "dot":
            tiles.append(tl.dot(one, two))
        elif kind == "gemm":
            a, b = tl.ref(base + 256 * i, (8, n), "f32"), tl.ref(there, (n, 8), "f32")
            form: dict[str, Any] = {"tile": (n, 4, 3) if flag else None, "buffers": 1 + i % 3}
            form["epilogue"] = ["exp"] if i % 2 else []
            done.append(tl.composite("gemm", a, b, base + 4096 + 256 * j, **form))
        elif kind == "elements":
            a = tl.ref(base + 256 * i, (n, 16), "f32")
            form = {"tile": (1, n) if flag else None, "buffers": 1 + i % 3}
            done.append(tl.composite("math", a, a, out_ptr=base + 8192 + 512 * j, math_op="add", **form))
        elif kind == "send":
            tl.send("E", one)
        elif kind == "idle":
            idle(tl, 7 * n)
        elif done:
            tl.wait(done[i % len(done)])
        tiles = tiles[-5:]
        seen.append((tl.rank, now(tl)))


class Ran(NamedTuple):
    said: dict[str, Any]  #: the result, the times of ops, and the cycles in which ranks went on
    trace: bytes


def run(
    config: SystemConfig, plan: list[Step], *, walk: str = "fast", skip: bool = True, threads: int = 1, step: int = 0,
    level: str = "",
) -> Ran:  # fmt: skip
    """A launch on some PEs. `step`: look at it after so many cycles, again and again. `level`: of a trace."""
    pes = config.pe_names[:: max(1, len(config.pe_names) // 3)][:4]
    resolver, align = PlainRoads(config).resolver, 64 * config.pe.dma.alignment_bytes
    slices = [[int(part.strip("sipcube")) for part in pe.split(".")] for pe in pes]
    places = [-(-resolver.address(sip, cube, pe % config.slices) // align) * align for sip, cube, pe in slices]
    plan = [one._replace(rank=one.rank % len(pes)) for one in plan]
    store = MemoryStore()
    for place in set(places):
        store.write("hbm", place, np.ones(8192, np.float32))
    log, seen = OpLogger(store), list[tuple[int, int]]()
    system = kernel_system(
        config, lambda: system.host.launch("it", [PeWork(pe, kernel, (plan, places, seen)) for pe in pes]), store=store, log=log
    )
    machine = Machine(config, Program("kernels"), system.components, whole=True, walk=walk, threads=threads)
    system.bind(machine)
    system.queues.install(replace(ring(len(pes)), pes=pes))
    sink = io.BytesIO()
    tracing = machine.trace(sink, TraceOptions(level, 64)) if level else None
    while step and machine.status == "running":
        machine.step(step, skip=skip)
        machine.peek()
    machine.run(skip=skip)
    if tracing is not None:
        tracing.close()
    assert machine.failure() is None, machine.failure()
    times = [(one.t_start, one.t_end, one.op_name) for one in log]
    return Ran({"result": machine.result().to_dict(), "times": times, "seen": sorted(seen)}, sink.getvalue())


def check(system: dict[str, Any], plan: list[Step], folder: Path, level: str) -> None:
    config = load_config(system, kind=SystemConfig)
    plain = run(config, plan, walk="plain", skip=False, level=level)
    assert run(config, plan, level=level) == plain
    for how in ({}, {"skip": False}, {"threads": 3}, {"step": 97}, {"walk": "plain"}):
        assert run(config, plan, **how).said == plain.said, how
    file = folder / "t.jsonl"
    file.write_bytes(plain.trace)
    report = validate(open_trace(file))
    assert report.valid, report.violations
    why = explain(open_trace(file))
    check_path(why)
    if "row" not in system.get("allocation", ""):  # there, nobody is to blame while rows open and close
        check_commands(why.history, routers="flit" in system["cube"]["mesh"])


@settings(RELAXED, max_examples=6)
@given(systems(), plans, st.sampled_from(["full", "access"]))
def test_kernels_say_the_same_in_every_run(
    tmp_path_factory: pytest.TempPathFactory, system: dict[str, Any], plan: list[Step], level: str
) -> None:
    check(system, plan, tmp_path_factory.mktemp("kernels"), level)


@pytest.mark.nightly
@settings(RELAXED, max_examples=500)
@given(systems(), plans, st.sampled_from(["full", "access"]))
def test_kernels_say_the_same_in_every_run_for_long(
    tmp_path_factory: pytest.TempPathFactory, system: dict[str, Any], plan: list[Step], level: str
) -> None:
    check(system, plan, tmp_path_factory.mktemp("kernels"), level)
