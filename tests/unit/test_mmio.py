"""A host writes entries into the command queue by MMIO, and is told of ends by interrupts (docs/model/control.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program, simulate
from kernbench.analysis.tenants import Tenant, share
from kernbench.common.errors import InputError
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sim_engine.summary import summarise_run
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from tests.property.test_trace import trace_of

HOST = {"write_cycles": 3, "latency_cycles": 10, "interrupt_cycles": 5}
COPY: dict[str, Any] = {"opcode": "VE_COPY_TILE", "length": 64, "qbits_activation": 8}
COPY |= {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 1024}  # 13 cycles: 8 + 1 + 4


def machine(**mmio: int) -> dict[str, Any]:
    return {"control": {"mmio": HOST | mmio}, "ve": {"engines": 2, "spm_traffic": False}}


def program(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"version": "1.0", "name": "host"}, "cmdq": list(entries)}


ISA = COPY | {"source": "ISA"}
MMIO = COPY | {"source": "MMIO"}
#: The host writes entry 2 in cycles 0 to 2, entry 3 in cycles 3 to 5, and entry 1 after the interrupt of entry 0.
CASE = program(
    ISA | {"irq_line": 1}, MMIO | {"deps_before": [0]}, {"opcode": "NOP", "source": "MMIO"}, MMIO | {"ve_id": 1}
)


def issues(given: dict[str, Any], of: dict[str, Any]) -> list[int | None]:
    return [entry.issue for entry in simulate(load_program(of), load_config(given)).entries]


def test_the_host_writes_one_entry_at_a_time_and_knows_interrupts_later() -> None:
    assert issues(machine(), CASE) == [0, 13 + 5 + 3 + 10, 0 + 3 + 10, 3 + 3 + 10]


@pytest.mark.parametrize(
    ("key", "moved"),
    [("write_cycles", [0, 1, 1, 2]), ("latency_cycles", [0, 1, 1, 1]), ("interrupt_cycles", [0, 1, 0, 0])],
)
def test_each_time_delays_what_it_is_of(key: str, moved: list[int]) -> None:
    before = issues(machine(), CASE)
    after = issues(machine(**{key: HOST[key] + 1}), CASE)
    assert [late - early for late, early in zip(after, before, strict=True)] == moved  # type: ignore[operator]


def test_a_dependency_without_an_interrupt_is_the_control_units() -> None:
    """The host writes the entry at once: it arrives in cycle 13, and waits in the queue no longer than for its dependency."""
    of = program(ISA | {"length": 6400}, MMIO | {"deps_before": [0]})
    assert issues(machine(), of) == [0, 8 + 100 + 4]


def test_a_busy_host_takes_the_first_entry_in_the_file() -> None:
    """The write of entry 2 lasts up to cycle 40. Both others are known by then, entry 1 last."""
    of = program(ISA | {"irq_line": 0}, MMIO | {"deps_before": [0]}, MMIO, MMIO | {"ve_id": 1})
    assert issues(machine(write_cycles=40, latency_cycles=0), of) == [0, 80, 40, 120]


def test_a_barrier_that_the_host_writes_holds_back_what_is_in_the_queue() -> None:
    of = program({"opcode": "BARRIER", "source": "MMIO"}, ISA)
    assert issues(machine(), of) == [13, 13]


def test_without_the_key_sources_and_interrupts_delay_nothing() -> None:
    assert issues({"ve": machine()["ve"]}, CASE) == [0, 13, 0, 0]


def test_interrupts_that_wait_for_each_other_chain() -> None:
    """Entry 1 is known 5 cycles after the end of entry 0, which waits for the NOP that the host writes first."""
    of = program(ISA | {"irq_line": 1, "deps_before": [2]}, MMIO | {"deps_before": [0]}, {"opcode": "NOP", "source": "MMIO"})
    assert issues(machine(), of) == [13, 13 + 13 + 5 + 13, 13]


def test_a_run_that_waits_only_for_the_host_is_no_deadlock() -> None:
    """No job is in flight in cycles 0 to 12. If the interrupt of entry 1 can never come, the run is a deadlock at once."""
    assert simulate(load_program(program(MMIO)), load_config(machine())).cycles == 13 + 13
    never = program({"opcode": "BARRIER", "wait_for": [2]}, ISA | {"irq_line": 1}, MMIO | {"deps_before": [1]})
    result = simulate(load_program(never), load_config(machine()))
    assert (result.status, result.cycles) == ("deadlock", 0)
    assert [(one["id"], one["reason"]) for one in result.waiting] == [(0, "dependency"), (1, "barrier"), (2, "dependency")]


def test_an_arrival_that_issues_nothing_is_no_event_of_its_cycle() -> None:
    """The entry arrives in cycle 13 behind a barrier that waits for it: cycle 13 is the first in which nothing happens."""
    stuck = program({"opcode": "BARRIER", "wait_for": [1]}, {"opcode": "NOP", "source": "MMIO"})
    result = simulate(load_program(stuck), load_config(machine()))
    assert (result.status, result.cycles) == ("deadlock", 3 + 10)
    events = [json.loads(line) for line in trace_of((machine(), stuck), TraceOptions("full", 64))]
    assert [(one["cmd_id"], one["t_cycle"]) for one in events if one["event_type"] == "CMD_ENQUEUE"] == [(0, 0), (1, 13)]


def test_the_wait_for_the_host_is_told() -> None:
    run = Machine(load_config(machine()), load_program(CASE))
    run.run()
    summary = summarise_run(run.result(), run.program, run.plan, run.arrivals())
    assert [(wait.reason, wait.id, wait.since, wait.until) for wait in summary.waits] == [
        ("enqueue", 1, 13, 31), ("enqueue", 3, 0, 16)
    ]  # fmt: skip


def test_entries_that_the_host_has_not_put_into_the_queue_are_absent() -> None:
    run = Machine(load_config(machine()), load_program(CASE))
    found = []
    for cycle in (13, 14, 16, 17, 31, 32):
        run.step(cycle - run.cycle)
        found.append(run.absent_entries())
    assert found == [{1, 2, 3}, {1, 3}, {1, 3}, {1}, {1}, set()]


def test_the_trace_has_the_enqueue_in_the_cycle_of_the_arrival() -> None:
    events = [json.loads(line) for line in trace_of((machine(), CASE), TraceOptions("full", 64))]
    assert [(one["cmd_id"], one["t_cycle"], one["position"]) for one in events if one["event_type"] == "CMD_ENQUEUE"] == [
        (0, 0, 0), (2, 13, 2), (3, 16, 3), (1, 31, 1)
    ]  # fmt: skip


def test_why_names_the_interrupt_and_the_host(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in trace_of((machine(), CASE), TraceOptions("full", 64))))
    why = explain(open_trace(file))
    assert [(one.command.id if one.command else None, one.after, one.start, one.end) for one in why.path] == [
        (0, "start", 0, 13), (1, "interrupt", 13, 44)
    ]  # fmt: skip
    assert {(cost.cause, cost.cycles) for cost in why.costs} == {("work", 26), ("interrupt", 5), ("enqueue", 13)}


def test_tenants_are_refused_on_a_machine_with_a_host() -> None:
    with pytest.raises(InputError, match=r"control\.mmio"):
        share([Tenant(load_program(CASE))] * 2, load_config(machine()))  # type: ignore[arg-type]


def test_a_write_takes_at_least_a_cycle() -> None:
    with pytest.raises(InputError, match="write_cycles"):
        load_config(machine(write_cycles=0))
