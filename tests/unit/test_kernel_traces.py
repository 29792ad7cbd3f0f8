"""Kernels in traces: what engines did, for which line, and where a kernel waited without saying so."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.exporters.write import Format, export
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.triton_emu.launch import PeWork
from tests.kernels import Run, at

A = np.ones((16, 16), np.float32)


def kernel(tl: Any) -> None:
    x = tl.load(0, (16, 16), "f32", wait=False)
    tl.store(4096, tl.exp(tl.dot(x, x)))


def events(run: Run) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    tracing = run.machine.trace(sink)
    run.run()
    tracing.close()
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_commands_are_named_and_say_their_line() -> None:
    run = Run(kernel, memory={0: A})
    found = events(run)
    issued = {one["cmd_id"]: (one["cmd_type"], one["unit"]) for one in found if one["event_type"] == "CMD_ENQUEUE"}
    assert list(issued.values()) == [
        ("KERNEL", "pe_cpu"),
        ("DMA_LOAD_TILE", "dma0"),
        ("TE_GEMM_TILE", "te0"),
        ("VE_EXP_TILE", "ve0"),
        ("DMA_STORE_TILE", "dma0"),
    ]
    lines = {issued[one["cmd_id"]][0]: one["marker"] for one in found if one["event_type"] == "MARKER" and "value" not in one}
    assert lines == {
        "KERNEL": "kernel",
        "DMA_LOAD_TILE": at(kernel, 1),
        "TE_GEMM_TILE": at(kernel, 2),
        "VE_EXP_TILE": at(kernel, 2),
        "DMA_STORE_TILE": at(kernel, 2),
    }


def test_slices_of_a_viewer_have_the_line(tmp_path: Path) -> None:
    trace, chrome = tmp_path / "kernel.jsonl", tmp_path / "kernel.json"
    trace.write_text("".join(json.dumps(one) + "\n" for one in events(Run(kernel, memory={0: A}))), encoding="utf-8")
    export(open_trace(trace), Format.CHROME, chrome)
    slices = [one for one in json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"] if one["ph"] == "B"]
    found = {(one["cat"], one["name"]): one["args"]["marker"] for one in slices if one["cat"] in ("commands", "jobs")}
    assert found == {
        ("commands", "KERNEL"): "kernel",
        ("commands", "DMA_LOAD_TILE"): at(kernel, 1),
        ("commands", "TE_GEMM_TILE"): at(kernel, 2),
        ("commands", "VE_EXP_TILE"): at(kernel, 2),
        ("commands", "DMA_STORE_TILE"): at(kernel, 2),
        ("jobs", "KERNEL"): "kernel",
        ("jobs", "DMA_READ"): at(kernel, 1),
        ("jobs", "TE_GEMM"): at(kernel, 2),
        ("jobs", "VE_EXP"): at(kernel, 2),
        ("jobs", "DMA_WRITE"): at(kernel, 2),
    }


def test_an_implicit_wait_is_a_marker_of_its_kernel() -> None:
    run = Run(kernel, memory={0: A})
    found = events(run)
    line = int(at(kernel, 2).rpartition(":")[2])
    waits = [one for one in found if one["event_type"] == "MARKER" and str(one["marker"]).startswith("implicit_wait")]
    # The product waits for the load, the exponential for the product, the store for the exponential.
    assert [one["t_cycle"] for one in waits] == [1, 17, 18]
    assert all(one["marker"] == f"implicit_wait={line}" and one["cmd_id"] == 0 for one in waits)
    assert run.system.runners["pe0"].implicit_waits == 3


def test_a_trace_changes_no_cycle() -> None:
    traced, plain = Run(kernel, memory={0: A}), Run(kernel, memory={0: A})
    events(traced)
    plain.run()
    assert (traced.machine.cycle, traced.launch.per_pe) == (plain.machine.cycle, plain.launch.per_pe)


def test_launches_and_copies_of_a_system_are_commands() -> None:
    def body(host: Any) -> None:
        host.wait(host.copy("sip0.io0.pcie_ep", [(0, 1024)], write=True))
        host.launch("it", [PeWork("sip0.cube0.pe1", kernel)])

    config = load_config({"schema": "kernbench/system/1"}, kind=SystemConfig)
    found = events(Run(body=body, memory={0: A}, config=config))
    issued = [(one["cmd_type"], one["unit"]) for one in found if one["event_type"] == "CMD_ENQUEUE"]
    assert issued[:3] == [
        ("HOST_COPY_TILE", "sip0.io0.pcie_ep"),
        ("LAUNCH", "sip0.cube0.m_cpu"),
        ("KERNEL", "sip0.cube0.pe1.pe_cpu"),
    ]


@pytest.mark.parametrize("sips", [(0, 2, 1), (2, 1, 0)])
def test_a_launch_tells_m_cpus_in_the_order_of_their_first_pes(sips: tuple[int, ...]) -> None:
    """Two PEs of one cube on each SIP; the second adds no command."""
    pes = [f"sip{sip}.cube0.pe{number}" for number in range(2) for sip in sips]

    def body(host: Any) -> None:
        host.launch("it", [PeWork(pe, kernel) for pe in pes])

    config = load_config({"schema": "kernbench/system/1", "system": {"sips": 3}}, kind=SystemConfig)
    found = events(Run(body=body, memory={0: A}, config=config))
    issued = [one["unit"] for one in found if one["event_type"] == "CMD_ENQUEUE" and one["cmd_type"] == "LAUNCH"]
    assert issued == [f"sip{sip}.cube0.m_cpu" for sip in sips]


def test_why_goes_back_through_the_commands_of_the_kernel(tmp_path: Path) -> None:
    """A load, a product that waits for it, a store that waits for that: one path, with the launch before it."""

    def kernel(tl: Any) -> None:
        a = tl.load(0, (64, 64), "f16")
        b = tl.dot(a, a)
        tl.wait(b)
        tl.store(1 << 20, b)

    run = Run(kernel, memory={0: np.ones((64, 64), np.float16)}, config=load_config("single_cube", kind=SystemConfig))
    path = tmp_path / "run.jsonl"
    with path.open("wb") as sink:
        tracing = run.machine.trace(sink, TraceOptions("full"))
        run.run()
        tracing.close()
    why = explain(open_trace(path))
    stretches = [(one.command.opcode if one.command else None, one.after) for one in why.path]
    assert stretches == [
        ("LAUNCH", "start"), ("DMA_LOAD_TILE", "dependency"), ("TE_GEMM_TILE", "dependency"), ("DMA_STORE_TILE", "dependency"),
        (None, "idle"),
    ]  # fmt: skip
    assert sum(one.end - one.start for one in why.path) == run.machine.cycle
    issues = {cost.resource for cost in why.costs if cost.cause == "issue"}
    assert issues == {"sip0.cube0.pe0.pe_cpu"}
