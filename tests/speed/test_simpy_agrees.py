"""The SimPy model of the speed benchmark runs the same rules: every job starts and ends where the core and the oracle say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("simpy")

from kernbench_core import Core, Status
from tests.oracles.reference import simulate
from tests.speed.measure import core_jobs, engine_ticks
from tests.speed.simpy_model import SimpyMachine
from tests.speed.simpy_tables import plan
from tests.speed.workloads import LOADS, Jobs, Load, cmdq, core_tables, jobs_for, npu_machine

# The traffic per cycle of the benchmark's loads in smaller jobs; a tile of 6 KiB is on two channels.
SMALL: dict[str, Any] = {"tiles": (1 << 10, 2 << 10, 6 << 10), "gemm": 64, "macs_per_cycle": 2048, "length": 4096}
SHORT = {
    "dram": replace(LOADS["dram"], **SMALL | {"macs_per_cycle": 256, "length": 2048}),
    "compute": replace(LOADS["compute"], **SMALL),
    "conflict": replace(LOADS["conflict"], **SMALL),
    # Aged requests, penalties, backpressure and pieces that are no whole lines, all often.
    "harsh": replace(LOADS["conflict"], **SMALL, name="harsh", spm_step=4, penalty=3, max_wait=4, backpressure=5),
}
JOBS = Jobs(transfers=6, gemms=2, vectors=2)


def finished(load: Load, pes: int, jobs: Jobs, *, skip: bool) -> Core:
    core = Core(*core_tables(load, pes, jobs))
    core.run(1 << 40, skip=skip)
    assert core.status == Status.DONE
    return core


def modelled(load: Load, pes: int, jobs: Jobs) -> SimpyMachine:
    model = SimpyMachine(plan(*core_tables(load, pes, jobs)))
    model.run()
    return model


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("pes", [1, 3, 16])
def test_jobs_and_counters_are_those_of_the_core(name: str, pes: int) -> None:
    jobs = Jobs(3, 1, 1) if pes == 16 else JOBS
    model = modelled(SHORT[name], pes, jobs)
    for skip in (False, True):
        core = finished(SHORT[name], pes, jobs, skip=skip)
        assert model.entries() == core_jobs(core)
        counters = core.counters()
        resources = [(resource.busy, resource.member_cycles) for resource in model.resources]
        assert resources == [(resource["busy"], resource["member_cycles"]) for resource in counters["resources"]]
        assert [spm.grants for spm in model.scratchpads] == [sum(spm["grants"]) for spm in counters["spm"]]
        assert [spm.denials for spm in model.scratchpads] == [sum(spm["denials"]) for spm in counters["spm"]]


@pytest.mark.parametrize("name", SHORT)
def test_jobs_of_one_pe_are_those_of_the_oracle(name: str) -> None:
    expected = simulate(npu_machine(SHORT[name], 1), cmdq(SHORT[name], JOBS, range(1)))
    model = modelled(SHORT[name], 1, JOBS)
    assert model.entries() == [(entry["start"], entry["end"]) for entry in expected["entries"]]


@pytest.mark.parametrize(("burst_cycles", "pes"), [(1, 3), (4, 6)])
def test_jobs_on_two_narrow_banks_are_those_of_the_core(burst_cycles: int, pes: int) -> None:
    """A row of banks holds less than a flow's share: runs of pieces are cut, carries are capped, many requests age at once."""
    machine, program = core_tables(replace(SHORT["harsh"], burst_cycles=burst_cycles), pes, Jobs(3, 1, 1))
    tables = (machine | {"spm": [spm | {"banks": 2, "line": 4} for spm in machine["spm"]]}, program)
    core, model = Core(*tables), SimpyMachine(plan(*tables))
    core.run(1 << 40, skip=False)
    model.run()
    assert core.status == Status.DONE
    assert model.entries() == core_jobs(core)


def denied(load: Load) -> float:
    """The part of all askings that is denied in the first cycles of eight PEs."""
    core = Core(*core_tables(load, 8, jobs_for(load, 8, 2000)))
    core.run(2000)
    spms = core.counters()["spm"]
    return sum(sum(spm["denials"]) for spm in spms) / sum(sum(spm["requests"]) for spm in spms)


def test_loads_have_the_conflicts_that_they_are_named_for() -> None:
    assert denied(LOADS["dram"]) < 0.02
    assert denied(LOADS["compute"]) < 0.02
    assert denied(LOADS["conflict"]) > 0.2


def test_the_harsh_load_reaches_backpressure() -> None:
    core = Core(*core_tables(SHORT["harsh"], 1, JOBS))
    assert core.run(1 << 40, stall=True), "no transfer was ever stalled, and nothing but backpressure stalls one here"


@pytest.mark.parametrize("name", SHORT)
def test_groups_share_nothing(name: str) -> None:
    """The first eight PEs run as if there were no others."""
    alone, beside = (core_jobs(finished(SHORT[name], pes, JOBS, skip=False)) for pes in (8, 16))
    assert beside[: len(alone)] == alone


@pytest.mark.parametrize(("load", "pes"), [("dram", 1), ("compute", 8), ("conflict", 16)])
def test_jobs_for_keeps_every_engine_busy(load: str, pes: int) -> None:
    core = Core(*core_tables(LOADS[load], pes, jobs_for(LOADS[load], pes, 2000)))
    core.run(2000)
    counters = core.counters()
    assert [engine["idle"] for engine in counters["dma"] + counters["compute"]] == [0] * 3 * pes


def test_engine_ticks_count_jobs_and_busy_resources() -> None:
    jobs = [(0, 10), (4, None), (None, None)]
    assert engine_ticks(jobs, [3, 0, 7], 12) == 10 + 8 + 3 + 7


def test_pes_must_fill_their_groups() -> None:
    with pytest.raises(ValueError, match=r"pes = 12: it must be from 1 to 8, or a multiple of 8"):
        core_tables(LOADS["dram"], 12, Jobs(1, 1, 1))


@pytest.mark.parametrize(
    ("change", "name"),
    [({"allocation": 1}, "allocation"), ({"overlap": 1}, "overlap"), ({"issue_width": 2}, "issue_width")],
)
def test_what_simpy_does_not_model_is_refused(change: dict[str, Any], name: str) -> None:
    machine, program = core_tables(LOADS["dram"], 1, Jobs(1, 1, 1))
    with pytest.raises(ValueError, match=f"{name}: not modelled in SimPy"):
        plan(machine | change, program)
