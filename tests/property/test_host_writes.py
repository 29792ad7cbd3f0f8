"""Entries that a host writes while the queue runs: the core against the reference (docs/model/control.md, Enqueue by MMIO)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench.trace.why import explain
from tests.combined_strategies import give_host
from tests.property.test_differential import RELAXED, System, check_system
from tests.property.test_system_differential import check_system as check_system_of_pes
from tests.property.test_trace import check_checkpoints, compare, trace_of
from tests.property.test_why import check_commands, check_path
from tests.strategies import systems
from tests.system_programs import system_programs
from tests.systems_of_pes import system_machines


@st.composite
def systems_with_a_host(draw: Any) -> System:
    """A machine with a host, and a program of which the host writes some entries and is told of the ends of others."""
    machine, program = draw(systems())
    give_host(draw, machine, program)
    given_keys = draw(st.sets(st.sampled_from(["write_cycles", "latency_cycles", "interrupt_cycles"])))
    machine["control"]["mmio"] = {key: machine["control"]["mmio"][key] for key in sorted(given_keys)}
    return machine, program


@settings(RELAXED, max_examples=24)
@given(systems_with_a_host(), st.data())
def test_core_equals_reference_with_a_host(system: System, data: st.DataObject) -> None:
    """Times, counters, snapshots: plain, fast, and with pieces of each."""
    check_system(system, data)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(systems_with_a_host(), st.data())
def test_core_equals_reference_with_a_host_for_long(system: System, data: st.DataObject) -> None:
    check_system(system, data)


@st.composite
def systems_of_pes_with_a_host(draw: Any) -> System:
    """The same of a system: its one command queue has one host."""
    system = draw(system_machines())
    system["max_cycles"] = 20_000
    program = draw(system_programs(system))
    give_host(draw, system, program)
    return system, program


@settings(RELAXED, max_examples=10)
@given(systems_of_pes_with_a_host(), st.data())
def test_systems_equal_the_reference_with_a_host(system: System, data: st.DataObject) -> None:
    check_system_of_pes(system, data)


def test_commands_in_the_queue_of_a_run_that_fails_in_cycle_0_end() -> None:
    """A store and a load of the same bytes are in the queue from the start: both have a CMD_END, the load's with ERROR."""
    machine = {
        "schema": "kernbench/npu/1",
        "freq_ghz": 1,
        "control": {"mmio": {}},
        "dma": {"engines": 2},
        "dram": {"channels": 1, "capacity_bytes": "256 KiB", "bus_width_bytes": 64, "peak_bw_bytes_per_cycle": 1},
        "spm": {"num_banks": 1, "bank_size_bytes": 2048, "check_overlap": "error"},
    }
    address = {"spm_bank": 0, "spm_offset": 0}
    load = {"opcode": "DMA_LOAD_TILE", "tensor_role": "activation", "qbits": 8, "num_elements": 64, "dram_addr": 0, **address}
    cmdq = [
        {"opcode": "DMA_STORE_TILE", "tensor_role": "activation", "qbits": 8, "num_elements": 64, "dram_addr": 4096, **address},
        {**load, "dma_id": 1},
        {**load, "source": "MMIO"},
    ]
    system = machine, {"metadata": {"version": "1.0", "name": "fails"}, "cmdq": cmdq}
    compare(system, "summary", 64)
    ends = [json.loads(line) for line in trace_of(system, TraceOptions("summary", 64)) if b'"CMD_END"' in line]
    assert [(end["cmd_id"], end["status"]) for end in ends] == [(0, "CANCELLED"), (1, "ERROR")]


@settings(RELAXED, max_examples=30)
@given(systems_with_a_host(), st.sampled_from(["summary", "full", "access"]), st.integers(1, 2**63))
def test_traces_with_a_host(tmp_path_factory: pytest.TempPathFactory, system: System, level: str, shuffle: int) -> None:
    """The trace is that of the reference in every walk, keeps the laws, and the time of each command is explained."""
    compare(system, level, 64)
    lines = trace_of(system, TraceOptions(level, 64), shuffle=shuffle)
    assert lines == trace_of(system, TraceOptions(level, 64), skip=False)
    file = tmp_path_factory.mktemp("host") / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    report = validate(open_trace(file))
    assert report.valid, report.violations
    if level == "summary":
        return
    why = explain(open_trace(file))
    check_path(why)
    check_commands(why.history)


@settings(RELAXED, max_examples=15)
@given(systems_with_a_host(), st.data())
def test_checkpoints_continue_a_trace_with_a_host(
    tmp_path_factory: pytest.TempPathFactory, system: System, data: st.DataObject
) -> None:
    check_checkpoints(system, "full", tmp_path_factory.mktemp("host"), data)
