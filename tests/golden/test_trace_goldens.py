"""Traces of three small programs, pinned line by line, and one of them worked out by hand.

The lines are in `tests/golden/traces`. They are made again by `KB_REGOLD=1 pytest tests/golden/test_trace_goldens.py`,
looked at, and never edited by hand. Files of an older version of the schema stay, so that old files are known to load.

By hand: `two_loads`. Both transfers start in cycle 0, and their head latency (`t_setup_cycles`) is 1. The channel moves
32 bytes a cycle, so two members have 16 each, which is one line; a bank has one port. Transfer 0 writes lines 0
and 1, transfer 1 lines 2 and 3: banks 0 and 1 both. By docs/model, sharing.md and banks_and_arbiters.md:

cycle 0: both start, and are in their head latency.
cycle 1: both are members with a carry of 16 and ask bank 0. Transfer 0 is granted and moves 16 B. Transfer 1 is denied, so
    it is held; `backpressure_cycles` is 1, so in P7 of this cycle it goes out.
cycle 2: transfer 0 is the only member, with 32 B a cycle; it asks bank 1 and moves its last 16 B. Transfer 1 asks bank 0
    again (penalty 1), is granted and moves 16 B: served after 1 cycle, and back in.
cycle 3: transfer 0 has ended. Transfer 1 is a member with a carry of 0 + 32; it asks bank 1 and moves its last 16 B.
cycle 4: transfer 1 has ended. END completes in P2, so the run has 4 cycles.

Members: two in cycle 1, one in 2 and in 3. Bank 0 was asked three times and granted twice, bank 1 was asked and granted
twice. 64 B of DRAM at 20 pJ, 64 B of the scratchpad at 1 pJ.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kernbench import load_config, load_program
from kernbench.cmdq import check_program
from kernbench.trace import open_trace
from kernbench.trace.events import encode
from tests.oracles.ref_trace import reference_trace
from tests.trace_systems import parsed

FOLDER = Path(__file__).parent / "traces"
CASES = ("two_loads", "layer_slice", "kv_queue")
LEVELS = ("full", "access")

#: `two_loads` at `full`: event, cycle, and of its fields those that are not plain from the program.
BY_HAND: list[tuple[str, int, dict[str, Any]]] = [
    ("JOB_ISSUE", 0, {"job_id": 0}),
    ("JOB_ISSUE", 0, {"job_id": 1}),
    ("CMD_START", 0, {"cmd_id": 0}),
    ("DMA_START", 0, {"tx_id": 0, "src_addr": 0, "dst_addr": 0, "size_bytes": 32, "head_cycles": 1, "weight": 1}),
    ("CMD_START", 0, {"cmd_id": 1}),
    ("DMA_START", 0, {"tx_id": 1, "src_addr": 64, "dst_addr": 32, "size_bytes": 32, "head_cycles": 1}),
    ("DRAM_TX_START", 1, {"tx_id": 0, "size_bytes": 32}),
    ("DRAM_TX_START", 1, {"tx_id": 1, "size_bytes": 32}),
    ("STALL_EVENT", 1, {"job_id": 1, "reason": "bank_conflict", "channel": 0, "bank_id": 0, "by_job": 0}),
    ("SRAM_CONFLICT", 1, {"bank_id": 0, "access_type": "WRITE", "num_requests": 2, "allowed": 1, "cmd_id": 1}),
    ("STALL_EVENT", 1, {"job_id": 1, "reason": "backpressure", "channel": 0}),
    ("DRAM_TX_SUSPEND", 2, {"tx_id": 1, "reason": "backpressure"}),
    ("SRAM_ACCESS", 2, {"job_id": 0, "addr": 0, "size_bytes": 32, "bank_id": 0, "conflict": False, "cycles": 2}),
    ("MEM_ACCESS_EVENT", 2, {"tx_id": 0, "dram_addr": 0, "spm_addr": 0, "size_bytes": 32, "cycles": 2}),
    ("RESUME_EVENT", 2, {"job_id": 1, "reason": "bank_conflict", "duration_cycles": 1}),
    ("RESUME_EVENT", 2, {"job_id": 1, "reason": "backpressure", "duration_cycles": 1}),
    ("CMD_END", 3, {"cmd_id": 0}),
    ("JOB_DONE", 3, {"job_id": 0, "latency_cycles": 3}),
    ("DMA_END", 3, {"tx_id": 0, "latency_cycles": 3}),
    ("ENGINE_EVENT", 3, {"job_id": 0, "start_cycle": 0, "end_cycle": 3, "bytes": 32}),
    ("DRAM_TX_END", 3, {"tx_id": 0}),
    ("DRAM_TX_RESUME", 3, {"tx_id": 1}),
    ("SRAM_ACCESS", 3, {"job_id": 1, "addr": 32, "size_bytes": 32, "bank_id": 0, "conflict": True, "cycles": 3}),
    ("MEM_ACCESS_EVENT", 3, {"tx_id": 1, "dram_addr": 64, "spm_addr": 32, "size_bytes": 32, "cycles": 3}),
    ("BANDWIDTH_SAMPLE", 3, {"read_bytes": 64, "write_bytes": 0, "busy_cycles": 3, "member_cycles": 4, "window_cycles": 4}),
    ("ENGINE_SAMPLE", 3, {"unit": "dma0", "busy_cycles": 4, "backpressure_cycles": 0, "bank_conflict_cycles": 0}),
    ("BANK_SAMPLE", 3, {"requests": [3, 2], "grants": [2, 2], "denials": [1, 0]}),
    ("ENERGY_SAMPLE", 3, {"dram_pj": 1280.0, "noc_pj": 0.0, "spm_pj": 64.0, "mac_pj": 0.0, "ve_pj": 0.0, "static_pj": 0.0}),
    ("POWER_STATE", 3, {"unit": "te0", "state": "IDLE"}),
    ("POWER_STATE", 3, {"unit": "ve0", "state": "IDLE"}),
    ("CMD_END", 4, {"cmd_id": 1, "tenant_id": 1}),
    ("JOB_DONE", 4, {"job_id": 1, "latency_cycles": 4}),
    ("DMA_END", 4, {"tx_id": 1, "latency_cycles": 4}),
    ("TOKEN", 4, {"token_idx": 7, "start_cycle": 0, "latency_cycles": 4, "phase": "decode"}),
    ("ENGINE_EVENT", 4, {"job_id": 1, "start_cycle": 0, "end_cycle": 4, "bytes": 32}),
    ("DRAM_TX_END", 4, {"tx_id": 1}),
    ("CMD_START", 4, {"cmd_id": 2, "unit": "control"}),
    ("CMD_END", 4, {"cmd_id": 2, "status": "OK"}),
    ("MARKER", 4, {"cmd_id": 2, "marker": "done"}),
]
#: Where `access` differs: each request by itself.
ACCESSES_BY_HAND = [
    (1, {"job_id": 0, "addr": 0, "size_bytes": 16, "conflict": False, "cycles": 1}),
    (2, {"job_id": 0, "addr": 16, "size_bytes": 16, "conflict": False, "cycles": 1}),
    (2, {"job_id": 1, "addr": 32, "size_bytes": 16, "conflict": True, "cycles": 2}),
    (3, {"job_id": 1, "addr": 48, "size_bytes": 16, "conflict": False, "cycles": 1}),
]


def case_of(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return case


def lines_of(name: str, level: str) -> bytes:
    case = case_of(name)
    lines = reference_trace(case["machine"], case["program"], level, case["window"])
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_lines_are_pinned(name: str, level: str) -> None:
    file = FOLDER / f"{name}.{level}.jsonl"
    made = lines_of(name, level)
    if os.environ.get("KB_REGOLD"):
        file.write_bytes(made)
    assert made.split(b"\n") == file.read_bytes().split(b"\n")


@pytest.mark.parametrize("name", CASES)
def test_cases_are_valid_programs(name: str) -> None:
    case = case_of(name)
    check_program(load_program(case["program"]), load_config(case["machine"]))


def test_two_loads_by_hand() -> None:
    events = [e for e in parsed(lines_of("two_loads", "full").splitlines()) if e["event_type"] != "CMD_ENQUEUE"]
    assert [(e["event_type"], e["t_cycle"]) for e in events[1:-1]] == [(name, t) for name, t, _ in BY_HAND]
    for event, (_, _, fields) in zip(events[1:-1], BY_HAND, strict=True):
        assert {name: event.get(name) for name in fields} == fields, event
    assert events[-1]["counters"]["dma0"]["busy"] == events[-1]["cycles"] == 4
    assert events[-1]["energy_pj"]["total"] == 64 * 20 + 64
    accesses = [e for e in parsed(lines_of("two_loads", "access").splitlines()) if e["event_type"] == "SRAM_ACCESS"]
    assert [e["t_cycle"] for e in accesses] == [t for t, _ in ACCESSES_BY_HAND]
    for event, (_, fields) in zip(accesses, ACCESSES_BY_HAND, strict=True):
        assert {name: event[name] for name in fields} == fields


def test_the_cases_show_every_wait_and_way_to_end() -> None:
    events = [e for name in CASES for e in parsed(lines_of(name, "access").splitlines())]
    reasons = {(e["event_type"], e.get("reason")) for e in events if "reason" in e}
    waits = ("queue_full", "priority_deferred", "backpressure", "bank_conflict")
    assert reasons >= {(kind, reason) for kind in ("STALL_EVENT", "RESUME_EVENT") for reason in waits}
    assert {("DRAM_TX_SUSPEND", "fifo"), ("DRAM_TX_SUSPEND", "backpressure")} <= reasons
    assert {e["code"] for e in events if "code" in e} >= {"LOW_UTIL", "OVERLAP", "MAX_CYCLES"}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.jsonl")), ids=lambda file: file.name)
def test_files_of_every_version_load(file: Path) -> None:
    """Nothing is skipped, nothing is broken, and what is read is what is written."""
    trace = open_trace(file)
    lines = file.read_bytes().splitlines()
    records = list(trace)
    assert trace.broken is None and trace.skipped == 0 and trace.end is not None
    assert trace.end.events == len(lines) - 2
    assert [encode(record) for record in records] == lines[1:-1]
