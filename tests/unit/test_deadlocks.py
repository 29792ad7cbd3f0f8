"""Runs in which nothing can ever happen again although jobs are in flight: they end at once, and say who waits for what."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from kernbench import NEVER, Component, Machine, load_config, load_program
from kernbench.cli.summary import deadlock_table
from kernbench.cmdq.plan import plan_npu
from kernbench.sim_engine.recording import TraceOptions
from tests.contract.runs import gemm, load, machine, new, program
from tests.unit.test_row_buffers import machine as rows_machine


class Keeps(Component):
    """Takes every job of its engine, and ends none."""

    def step(self, now: int) -> int:
        return NEVER

    def accept(self, job: Any, now: int) -> int:
        return NEVER


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("rule", ["shared_bw_v1", "max_min_v1", "fifo_v1"])
def test_a_transfer_that_a_component_keeps(rule: str, skip: bool) -> None:
    """The other engine's transfer ends at 64, and no job waits for that engine, so in cycle 64 nothing happens."""
    described = machine(allocation=rule, dma={"engines": 2}, dram={"bus_width_bytes": 8, "dram_burst_cycles": 1})
    run = new(described, program(load(), load(dma_id=1), gemm(deps_before=[0])), lambda: {"dma0": Keeps()})
    run.run(skip=skip)
    result = run.result()
    assert (result.status, result.cycles) == ("deadlock", 64)
    assert result.waiting == [
        {"id": 0, "opcode": "DMA_LOAD_TILE", "waits_for": [], "since": 0, "reason": "component dma0"},
        {"id": 2, "opcode": "TE_GEMM_TILE", "waits_for": [0], "since": 0, "reason": "dependency"},
    ]


def stuck(rule: str, change: dict[str, Any], config: dict[str, Any]) -> Machine:
    """A machine whose tables are changed behind the checks: no file can say this, and no rule leads there."""
    loaded, parsed = load_config(config | {"allocation": rule}), load_program(program(load(), load(dram_addr=4096)))
    plan = plan_npu(parsed, loaded)
    return Machine(loaded, parsed, plan=msgspec.structs.replace(plan, machine=plan.machine | change))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("level", [None, "summary", "full"])
@pytest.mark.parametrize("rule", ["shared_bw_v1", "max_min_v1", "fifo_v1"])
def test_transfers_that_are_never_admitted(rule: str, level: str | None, skip: bool) -> None:
    config = load_config(machine(allocation=rule))
    table = plan_npu(load_program(program(load())), config).machine["dma"]
    none = [engine | {"max_concurrent": 0} for engine in table]
    run = stuck(rule, {"dma": none}, machine())
    if level is not None:
        run.trace(io.BytesIO(), TraceOptions(level))
    run.run(skip=skip)
    assert (run.status, run.cycle) == ("deadlock", 1)
    assert [(wait["since"], wait["reason"]) for wait in run.result().waiting] == [(0, "queue of dma0")] * 2


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("level", [None, "summary", "full"])
@pytest.mark.parametrize("refi", [0, 1000])
def test_bursts_that_are_never_given(refi: int, level: str | None, skip: bool) -> None:
    """A controller with no place for a burst: it fills its queue in cycle 0, and only rows and refreshes would go on."""
    config = rows_machine(t_refi=refi)
    table = plan_npu(load_program(program(load())), load_config(config)).machine["devices"]
    run = stuck("row_buffer_v1", {"devices": table | {"room": 0}}, config)
    if level is not None:
        run.trace(io.BytesIO(), TraceOptions(level))
    run.run(skip=skip)
    result = run.result()
    assert (result.status, result.cycles) == ("deadlock", 1)
    assert [(wait["since"], wait["reason"]) for wait in result.waiting] == [(0, "the bus of dram.ch0")] * 2
    shown = io.StringIO()
    Console(file=shown, width=100).print(deadlock_table(result))
    assert "the bus of dram.ch0" in shown.getvalue()
