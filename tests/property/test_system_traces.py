"""Traces of programs on random systems: lawful at every level, the same however they are run, and explained to the cycle.

Moves between scratchpads, of SRAMs and of the host are in them: flows without a DRAM channel, transfers without a scratchpad.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.property.test_trace import Lines, assert_same, trace_of
from tests.property.test_why import check_commands, check_path
from tests.systems_of_pes import System, systems_of_pes
from tests.trace_systems import named, parsed

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
LEVELS = st.sampled_from(["summary", "full", "access"])


def check_traces(system: System, folder: Path) -> None:
    """Every level is lawful; `full` and `access` explain the run, and tell of every line that a bank granted."""
    for level in ("summary", "full", "access"):
        lines = trace_of(system, TraceOptions(level, 64))
        file = folder / f"{level}.jsonl"
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        report = validate(open_trace(file))
        assert report.valid, report.violations
        if level != "summary":
            why = explain(open_trace(file))
            check_path(why)
            check_commands(why.history)
        if level == "access":
            check_grants(parsed(lines))


def check_grants(events: list[dict[str, Any]]) -> None:
    """Each served request of a move between scratchpads touches each of its lines once, on both sides: so many grants have the
    lines' banks."""
    meta, end = events[0], events[-1]
    if end["status"] != "done":
        return  # what is granted and not yet served is in the counters alone
    between = {start["job_id"] for start in named(events, "DMA_START") if start["direction"] == "SRAM_TO_SRAM"}
    accesses = named(events, "SRAM_ACCESS")
    others = {access["unit"] for access in accesses if access["job_id"] not in between}
    shapes = {unit["unit"]: unit for unit in meta["units"] if unit["component"] == "SRAM" and unit["unit"] not in others}
    found = {name: Counter[int]() for name in shapes}
    for access in (access for access in accesses if access["unit"] in shapes):
        shape = shapes[access["unit"]]
        width, in_bank = shape["bank_width_bytes"], shape["bank_size_bytes"] // shape["bank_width_bytes"]
        lines = range(access["addr"] // width, (access["addr"] + access["size_bytes"] - 1) // width + 1)
        touched = [line % shape["num_banks"] if shape["map"] == "interleaved" else line // in_bank for line in lines]
        assert access["bank_id"] == touched[0]
        found[access["unit"]].update(touched)
    for name, counts in found.items():
        grants = end["counters"][name]["grants"]
        assert [counts[bank] for bank in range(len(grants))] == grants, name


@settings(RELAXED, max_examples=15)
@given(systems_of_pes())
def test_traces_of_systems_are_lawful_and_explained(tmp_path_factory: pytest.TempPathFactory, system: System) -> None:
    check_traces(system, tmp_path_factory.mktemp("systems"))


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(systems_of_pes())
def test_traces_of_systems_for_long(tmp_path_factory: pytest.TempPathFactory, system: System) -> None:
    check_traces(system, tmp_path_factory.mktemp("systems"))


@settings(RELAXED, max_examples=12)
@given(systems_of_pes(), LEVELS, st.integers(1, 2**63))
def test_stepping_skipping_and_order_of_lists_write_the_same(system: System, level: str, shuffle: int) -> None:
    options = TraceOptions(level, 64)
    want = trace_of(system, options)
    assert_same(trace_of(system, options, skip=False), want)
    assert_same(trace_of(system, options, shuffle=shuffle), want)
    assert_same(trace_of(system, options, shuffle=shuffle, walk="plain"), want)


#: Two PEs of one bank each, at one router; a line is 16 B and a link carries 16 B a cycle.
SMALL: dict[str, Any] = {
    "schema": "kernbench/system/1",
    "cube": {"pes": 2, "mesh": {"rows": 1, "cols": 1, "router_cycles": 0}, "hbm": {"width_mm": 0, "height_mm": 0}},
    "pe": {
        "link": {"bytes_per_cycle": 16, "mm": 0},
        "spm": {"num_banks": 1, "bank_width_bytes": 16, "bank_size_bytes": 1024, "backpressure_cycles": 2},
        "te": {"engines": 1, "macs_per_cycle": 1, "init_cycles": 0, "finalize_cycles": 0},
        "dma": {"alignment_bytes": 16},
    },
}
SEND = {"opcode": "DMA_SEND_TILE", "node": "sip0.cube0.pe0", "peer": "sip0.cube0.pe1", "tensor_role": "activation", "qbits": 8,
        "num_elements": 48, "spm_bank": 0, "spm_offset": 64, "peer_bank": 0, "peer_offset": 128}  # fmt: skip
BACK = SEND | {"node": "sip0.cube0.pe1", "peer": "sip0.cube0.pe0", "spm_offset": 256, "peer_offset": 512}


def test_a_launch_that_no_engine_follows(tmp_path: Path) -> None:
    """The run uses no DMA engine, TE or VE, so samples of queues have no values."""
    launch = {"opcode": "LAUNCH", "node": "sip0.cube0.m_cpu"}
    program = {"metadata": {"version": "1.0", "name": "launch"}, "cmdq": [launch]}
    check_traces(({"schema": "kernbench/system/1"}, program), tmp_path)


def test_a_send_by_hand() -> None:
    """Three lines of 16 B over links without latency: a member from cycle 0 on, with 16 B a cycle, one line in 0, 1, 2."""
    lines, machine = Lines(), Machine(load_config(SMALL), load_program({"metadata": {"version": "1.0"}, "cmdq": [SEND]}))
    tracing = machine.trace(lines, TraceOptions("full", 64))
    machine.run()
    tracing.close()
    events = parsed(lines.all())
    start = named(events, "DMA_START")[0]
    told = {name: start[name] for name in ("direction", "src_addr", "dst_addr", "size_bytes", "head_cycles", "peer")}
    assert told == {"direction": "SRAM_TO_SRAM", "src_addr": 64, "dst_addr": 128, "size_bytes": 48, "head_cycles": 0,
                    "peer": "sip0.cube0.pe1.pe_tcm"}  # fmt: skip
    assert named(events, "JOB_ISSUE")[0]["job_type"] == "DMA_SEND"
    assert [(e["t_cycle"], e["unit"], e["addr"], e["access_type"], e["size_bytes"], e["cycles"])
            for e in named(events, "SRAM_ACCESS")] == [
        (2, "sip0.cube0.pe0.pe_tcm", 64, "READ", 48, 3), (2, "sip0.cube0.pe1.pe_tcm", 128, "WRITE", 48, 3)]  # fmt: skip
    assert not named(events, "MEM_ACCESS_EVENT", "DRAM_TX_START", "DRAM_TX_END")
    links = ("sip0.cube0.pe0.pe_dma-sip0.cube0.r0c0", "sip0.cube0.r0c0-sip0.cube0.pe1.pe_dma")
    for kind, cycle in (("NOC_TX_START", 0), ("NOC_TX_END", 3)):
        assert [(e["t_cycle"], e["channel"], e["unit"]) for e in named(events, kind)] == [(cycle, 0, link) for link in links]
    assert events[-1]["cycles"] == 3


def test_who_held_a_send_and_in_which_scratchpad(tmp_path: Path) -> None:
    """Two sends against each other want the one bank of both scratchpads: job 0 is first by its DMA engine, in both.

    cycle 0: both ask both banks. Job 0 is served. Job 1 is denied in both and is held, once; pe0 stands first, and its
        scratchpad is the other one of job 1, which pe1 runs.
    cycle 1: job 1 has been held for `backpressure_cycles`, so in P7 it goes out: no member from cycle 2 on.
    cycle 3: job 0 is over, and job 1 gets what it asked for in cycle 0: a member again from 4 on, with lines in 4 and 5.
    """
    lines, machine = Lines(), Machine(load_config(SMALL), load_program({"metadata": {"version": "1.0"}, "cmdq": [SEND, BACK]}))
    tracing = machine.trace(lines, TraceOptions("full", 64))
    machine.run()
    tracing.close()
    events = parsed(lines.all())
    waits = ("t_cycle", "job_id", "reason", "scratchpad", "by_job", "channel", "duration_cycles")
    assert [tuple(e.get(name) for name in waits) for e in named(events, "STALL_EVENT", "RESUME_EVENT")] == [
        (0, 1, "bank_conflict", "sip0.cube0.pe0.pe_tcm", 0, None, None),
        (1, 1, "backpressure", None, None, None, None),
        (3, 1, "bank_conflict", None, None, None, 3),
        (3, 1, "backpressure", None, None, None, 2),
    ]
    conflicts = [(e["t_cycle"], e["unit"], e["access_type"], e["cmd_id"]) for e in named(events, "SRAM_CONFLICT")]
    assert conflicts == [(0, "sip0.cube0.pe0.pe_tcm", "WRITE", 1), (0, "sip0.cube0.pe1.pe_tcm", "READ", 1)]
    assert events[-1]["cycles"] == 6
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines.all()))
    link, pad = "sip0.cube0.pe1.pe_dma-sip0.cube0.r0c0", "sip0.cube0.pe0.pe_tcm"
    spans = explain(open_trace(file)).story(1).spans
    assert [(s.start, s.end, *((p.cause, p.resource) for p in s.parts)) for s in spans] == [
        (0, 1, ("transfer", link)), (1, 2, ("bank", pad)), (2, 4, ("backpressure", pad)),
        (4, 6, ("transfer", link))]  # fmt: skip
