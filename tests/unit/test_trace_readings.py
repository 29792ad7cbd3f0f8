"""Readings of docs/model/traces.md one by one, on programs that are small enough to see through, in the reference's traces."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.oracles.ref_trace import reference_trace
from tests.trace_systems import Event, named, parsed

#: One line a cycle and member, no traffic of engines, bank and port enough.
MACHINE: dict[str, Any] = {
    "dma": {"alignment_bytes": 16},
    "te": {"engines": 1, "macs_per_cycle": 1, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
    "ve": {"engines": 1, "lanes": 1, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
}
WIDE = {"bus_width_bytes": 64, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 64}


def load(nbytes: int = 16, line: int = 0, **more: Any) -> dict[str, Any]:
    """A load of whole lines to the scratchpad's line `line`, of 16 banks."""
    at = {"spm_bank": line % 16, "spm_offset": line // 16 * 16}
    fixed = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0}
    return {**fixed, **at, "num_elements": nbytes, **more}


def gemm(cycles: int) -> dict[str, Any]:
    """A TE job of so many cycles."""
    places = {f"{name}_{part}": 0 for name in ("ifm", "wgt", "ofm") for part in ("bank", "offset")}
    return {"opcode": "TE_GEMM_TILE", "m": 1, "n": cycles, "k": 1, "qbits_weight": 8, "qbits_activation": 8, **places}


def copy(cycles: int) -> dict[str, Any]:
    """A VE job of so many cycles."""
    places = {f"{name}_{part}": 0 for name in ("in", "out") for part in ("bank", "offset")}
    return {"opcode": "VE_COPY_TILE", "length": cycles, "qbits_activation": 8, **places}


def events_of(*entries: dict[str, Any], window: int = 1024, until: int | None = None, **machine: Any) -> list[Event]:
    program = {"metadata": {"version": "1.0"}, "cmdq": list(entries)}
    return parsed(reference_trace({**MACHINE, **machine}, program, window=window, until=until))


def ends(events: list[Event]) -> dict[int, str]:
    return {e["cmd_id"]: e["status"] for e in named(events, "CMD_END")}


@pytest.mark.parametrize(("cycles", "warned"), [(4, True), (5, False)])
def test_low_util_is_less_than_half(cycles: int, warned: bool) -> None:
    events = events_of(gemm(cycles), copy(20), window=10)
    warnings = [(e["t_cycle"], e["unit"], e["msg"]) for e in named(events, "WARN")]
    assert warnings == ([(9, "te0", "te0 worked in 4 of 10 cycles, less than half")] if warned else [])


@pytest.mark.parametrize(("setup", "first"), [(1, 159), (2, 179)])
def test_a_channel_is_saturated_at_95_percent_in_eight_windows(setup: int, first: int) -> None:
    """With 1 cycle of setup the first window of 20 moves 19 of 20 lines: exactly 95%. One WARN, however long it lasts."""
    events = events_of(load(4800), window=20, dram={"t_setup_cycles": setup})
    saturated = [e for e in named(events, "WARN") if e["code"] == "CHANNEL_SATURATED"]
    assert [(e["t_cycle"], e["unit"]) for e in saturated] == [(first, "dram.ch0")]
    assert saturated[0]["msg"].endswith("in each of 8 windows of 20 cycles, 320 bytes in the last")


def test_high_conflict_is_more_than_a_quarter_of_one_a_cycle() -> None:
    """Many small runs, so that windows lie on both sides of either threshold, and some on it."""
    seen = set()
    for transfers, window, burst in product((1, 2, 3), (2, 4, 5, 12), (2, 4, 8)):
        loads = [load(128, line=64 * k) for k in range(transfers)]
        spm = {"num_banks": 4, "bank_size_bytes": 8192, "backpressure_cycles": 100}
        events = events_of(*loads, window=window, dram={"dram_burst_cycles": burst}, spm=spm)
        bad = set()
        for sample in named(events, "BANK_SAMPLE"):
            requests, denials = sum(sample["requests"]), sum(sample["denials"])
            if sample["window_cycles"] != window:
                continue
            seen.add((min(max(requests - window, -1), 1), min(max(4 * denials - requests, -1), 1)))
            if requests >= window and denials > requests / 4:
                bad.add(sample["t_cycle"])
        assert {e["t_cycle"] for e in named(events, "WARN") if e["code"] == "HIGH_CONFLICT"} == bad
    assert seen >= {(-1, -1), (0, -1), (1, -1), (1, 0), (1, 1), (-1, 1)}


def test_a_conflict_blames_the_first_that_got_the_port() -> None:
    """Three loads ask bank 0 at once, and it has two ports: the third waits for the first."""
    dram = {"bus_width_bytes": 48, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 48}
    events = events_of(load(), load(line=16), load(line=32), dram=dram, spm={"ports": 2})
    (stall,) = named(events, "STALL_EVENT")
    assert (stall["job_id"], stall["by_job"], stall["bank_id"], stall["channel"]) == (2, 0, 0, 0)
    (conflict,) = named(events, "SRAM_CONFLICT")
    assert (conflict["num_requests"], conflict["allowed"], conflict["cmd_id"]) == (3, 2, 2)


def test_a_conflict_names_the_lowest_bank() -> None:
    """A load of two members' share asks banks 2 and 3; the copy that wants banks 0 to 3 is denied both."""
    ve = {"engines": 1, "lanes": 64, "init_cycles": 0, "finalize_cycles": 0}
    wide = {"bus_width_bytes": 32, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 32}
    events = events_of(load(32, line=2), copy(64), dram=wide, ve=ve, spm={"read_ports": 1, "write_ports": 1})
    (stall,) = named(events, "STALL_EVENT")
    assert (stall["unit"], stall["bank_id"], stall["by_job"]) == ("ve0", 2, 0) and "channel" not in stall
    names = ("bank_id", "access_type", "num_requests", "stalled_clients")
    conflicts = [tuple(e[name] for name in names) for e in named(events, "SRAM_CONFLICT")]
    assert conflicts == [(2, "WRITE", 2, ["VE"]), (3, "WRITE", 2, ["VE"])]


def test_a_full_queue_blames_its_oldest_transfer() -> None:
    events = events_of(load(64), load(64, line=4), load(64, line=8), dma={"queue_depth_per_master": 2, "alignment_bytes": 16})
    (stall,), (resume,) = named(events, "STALL_EVENT"), named(events, "RESUME_EVENT")
    assert (stall["reason"], stall["t_cycle"], stall["job_id"], stall["by_job"]) == ("queue_full", 0, 2, 0)
    assert resume["duration_cycles"] == resume["t_cycle"] - stall["t_cycle"] == 8  # the first: 4 lines, one in two cycles


def test_control_commands_stand_in_the_order_of_issue() -> None:
    """Command 0 waits for 1 and 2, so it comes with the second pass; all are in phase 2 of cycle 0."""
    nop = {"opcode": "NOP"}
    events = events_of({**nop, "deps_before": [2, 1, 2]}, {**nop, "marker": 7}, nop, {"opcode": "END"})
    assert events[1]["deps"] == [1, 2] and "deps" not in events[4]
    rest = [(e["event_type"], e["cmd_id"]) for e in events[5:-1]]
    assert rest == [
        *(("CMD_START", 1), ("CMD_END", 1), ("MARKER", 1), ("CMD_START", 2), ("CMD_END", 2)),
        *(("CMD_START", 0), ("CMD_END", 0), ("CMD_START", 3), ("CMD_END", 3)),
    ]
    assert events[-1]["cycles"] == 0 and events[-1]["events"] == 13


def test_a_token_is_over_with_its_last_command() -> None:
    first = {**copy(5), "token_idx": 1, "phase": "decode"}
    last = {**gemm(9), "token_idx": 1, "phase": "apply", "deps_before": [0]}
    events = events_of(first, last, {"opcode": "NOP", "token_idx": 2})
    names = ("token_idx", "t_cycle", "start_cycle", "latency_cycles", "phase")
    tokens = [tuple(e.get(name) for name in names) for e in named(events, "TOKEN")]
    assert tokens == [(2, 0, 0, 0, None), (1, 14, 0, 14, "apply")]


def test_a_deadlock_closes_every_command() -> None:
    stuck = {"opcode": "BARRIER", "wait_for": [2]}
    events = events_of(copy(3), stuck, {"opcode": "NOP"})
    (error,) = named(events, "ERROR")
    assert (error["component"], error["code"], error["t_cycle"]) == ("CPU", "DEADLOCK", 3)
    assert error["msg"].endswith("2 commands are not complete, the first is cmdq[1] (id 1, BARRIER)")
    assert ends(events) == {0: "OK", 1: "DEADLOCK", 2: "DEADLOCK"}
    assert [e["event_type"] for e in events[-4:]] == ["ERROR", "CMD_END", "CMD_END", "TRACE_END"]


def test_a_failure_names_both_and_closes_every_command() -> None:
    """The second load would overwrite what the first still loads; the copy of the same cycle never starts."""
    events = events_of(load(64), load(64, deps_before=[2]), {"opcode": "NOP"}, copy(3), spm={"check_overlap": "error"})
    (error,) = named(events, "ERROR")
    assert (error["component"], error["code"], error["t_cycle"]) == ("DMA", "OVERLAP", 0)
    assert (error["cmd_id"], error["job_id"]) == (1, 2)  # issued in the second pass
    assert "cmdq[1] (id 1, DMA_LOAD_TILE) may not start while cmdq[0] (id 0, DMA_LOAD_TILE) still runs" in error["msg"]
    assert ends(events) == {0: "CANCELLED", 1: "ERROR", 2: "OK", 3: "CANCELLED"}
    assert [e["cmd_id"] for e in named(events, "CMD_START")] == [2, 0]
    assert events[-1]["status"] == "failed" and not named(events, "ENERGY_SAMPLE")


def test_an_interrupted_run_ends_before_that_cycle() -> None:
    events = events_of(load(64), until=2)
    assert (events[-1]["status"], events[-1]["cycles"], ends(events)) == ("interrupted", 2, {0: "CANCELLED"})
    assert not named(events, "ERROR") and sum(e["size_bytes"] for e in named(events, "SRAM_ACCESS")) == 32


def test_a_run_across_requests_knows_its_first_asking() -> None:
    """Two rows of 24 bytes are three lines with a row's end in the second: that request belongs to both runs."""
    rows = {"rows": 2, "row_elements": 24, "stride_bytes": 32}
    entry = {name: value for name, value in load().items() if name != "num_elements"}
    events = events_of({**entry, **rows}, dma={"alignment_bytes": 8}, dram={"t_setup_cycles": 0})
    names = ("t_cycle", "dram_addr", "spm_addr", "size_bytes", "cycles")
    runs = [tuple(e[name] for name in names) for e in named(events, "MEM_ACCESS_EVENT")]
    assert runs == [(1, 0, 0, 24, 2), (2, 32, 24, 24, 2)]
    parts = [(e["t_cycle"], e["addr"], e["size_bytes"], e["bank_id"]) for e in named(events, "SRAM_ACCESS")]
    assert parts == [(0, 0, 16, 0), (1, 16, 8, 1), (1, 24, 8, 1), (2, 32, 16, 2)]
