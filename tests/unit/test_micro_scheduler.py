"""A micro-scheduler divides commands into jobs (docs/model/jobs.md)."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import Machine, Program, load_config, load_program, simulate
from kernbench.bounds.summary import summarise
from kernbench.cmdq import jobs
from kernbench.common.errors import InputError
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import summarise_run

PRODUCT: dict[str, Any] = {"opcode": "TE_GEMM_TILE", "m": 64, "n": 64, "k": 64, "qbits_weight": 8, "qbits_activation": 8}
PRODUCT |= {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 4096, "ofm_bank": 0, "ofm_offset": 8192}
COPY: dict[str, Any] = {"opcode": "VE_COPY_TILE", "length": 100, "qbits_activation": 8}
COPY |= {"in_bank": 0, "in_offset": 0, "out_bank": 1, "out_offset": 0}
TE = {"macs_per_cycle": 1024, "init_cycles": 3, "finalize_cycles": 2, "spm_traffic": False}
VE = {"lanes": 10, "ops_per_lane": 1, "init_cycles": 3, "finalize_cycles": 2, "spm_traffic": False}


def machine(issue_width: int = 0, **limits: int) -> dict[str, Any]:
    return {"control": {"issue_width": issue_width, "micro_scheduler": limits}, "te": TE, "ve": VE, "dram": {"channels": 1}}


def program(*entries: dict[str, Any]) -> Program:
    return load_program({"metadata": {"version": "1.0", "name": "jobs"}, "cmdq": list(entries)})


def run(of: Program, **limits: int) -> Result:
    return simulate(of, load_config(machine(**limits)))


def times(result: Result) -> list[tuple[int | None, int | None, int | None]]:
    return [(one.issue, one.start, one.end) for one in result.entries]


def test_a_command_is_its_jobs_in_order() -> None:
    """One job: 3 + 256 + 2 cycles. Eight of 32 x 32 x 32: 3 + 32 + 2 each, one after the other."""
    assert times(run(program(PRODUCT))) == [(0, 0, 261)]
    result = run(program(PRODUCT), tile_m=32, tile_n=32, tile_k=32)
    assert times(result) == [(0, 0, 8 * 37)]
    assert (result.counters["te0"]["jobs"], result.counters["te0"]["macs"]) == (8, 64**3)


def test_limits_that_no_command_reaches_change_nothing() -> None:
    of = program(PRODUCT, COPY)
    plain = simulate(of, load_config({name: part for name, part in machine().items() if name != "control"}))
    assert run(of, tile_m=64, tile_n=64, tile_k=64, chunk_elements=100).to_dict() == plain.to_dict() | {"machine": "machine"}


def test_the_last_tiles_are_smaller() -> None:
    """Rows of 40 and 24: bodies of ceil(40 * 4096 / 1024) and ceil(24 * 4096 / 1024) cycles."""
    assert times(run(program(PRODUCT), tile_m=40)) == [(0, 0, 160 + 96 + 2 * 5)]


SUMS: dict[str, Any] = COPY | {"opcode": "VE_SUM_TILE", "length": 25, "batch": 9}


LIMITS: list[dict[str, int]] = [{}, {"tile_m": 40}, {"tile_m": 7, "tile_n": 30, "tile_k": 64}, {"chunk_elements": 24}]


@pytest.mark.parametrize("limits", [*LIMITS, {"tile_k": 5, "chunk_elements": 60}])
def test_a_program_may_have_so_many_jobs_and_no_more(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of jobs is known before they are made: a program that fits in one megabyte may have billions."""
    of, config = program(PRODUCT, COPY, SUMS, {"opcode": "NOP"}), load_config(machine(**limits))
    made = len(jobs.jobs_of(of, config.spm, config.control.micro_scheduler).command)
    monkeypatch.setattr(jobs, "MAX_JOBS", made)
    assert simulate(of, config).status == "done"
    monkeypatch.setattr(jobs, "MAX_JOBS", made - 1)
    with pytest.raises(InputError, match=rf"at most {made - 1} jobs together, and these have {made}; command \d"):
        simulate(of, config)


def test_billions_of_jobs_are_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"these have 262145; command 0.*alone has 262144; choose larger tiles"):
        run(program(PRODUCT, COPY), tile_m=1, tile_n=1, tile_k=1)


def test_elements_are_divided_anywhere_and_rows_are_not() -> None:
    """A copy of 100 elements in chunks of 40: 4 + 4 + 2 cycles. Sums of 4 rows of 25 elements in chunks of a row."""
    assert times(run(program(COPY), chunk_elements=40)) == [(0, 0, 4 + 4 + 2 + 3 * 5)]
    rows = {**COPY, "opcode": "VE_SUM_TILE", "length": 25, "batch": 4}
    whole, row = (run(program({**rows, "batch": batch})).cycles for batch in (4, 1))
    assert run(program(rows), chunk_elements=40).cycles == 4 * row
    assert run(program(rows), chunk_elements=100).cycles == whole


def test_what_waits_for_a_command_waits_for_its_last_job() -> None:
    """By deps_before, by deps_after, by a barrier and by END."""
    of = program(
        {**PRODUCT, "id": 7, "deps_after": [9]},
        {**COPY, "id": 8, "deps_before": [7]},
        {**COPY, "id": 9, "ve_id": 1},
        {"opcode": "BARRIER", "id": 10, "wait_for": [7]},
        {**PRODUCT, "id": 11, "te_id": 1},
        {"opcode": "END", "id": 12},
    )
    result = simulate(of, load_config({**machine(tile_k=32), "ve": {**VE, "engines": 2}, "te": {**TE, "engines": 2}}))
    end = 2 * (128 + 5)
    assert times(result) == [(0, 0, end), (end,) * 2 + (end + 15,), (end,) * 2 + (end + 15,), (end,) * 3,
                             (end, end, 2 * end), (2 * end,) * 3]  # fmt: skip


def test_the_issue_width_counts_jobs() -> None:
    """Of four jobs and a copy one is issued a cycle: the copy follows the jobs of the command before it."""
    of = program(PRODUCT, COPY)
    result = simulate(of, load_config(machine(1, tile_m=16)))
    assert [one.issue for one in result.entries] == [0, 4]


@pytest.mark.parametrize(("until", "cycle"), [("start:0", 1), ("end:0", 4 * 69)])
def test_a_run_stops_at_the_first_start_and_the_last_end(until: str, cycle: int) -> None:
    made = Machine(load_config(machine(tile_m=16)), program(PRODUCT, PRODUCT))
    assert made.run(until=until) and made.cycle == cycle
    assert made.result().entries[0].start == 0


def test_only_the_last_tile_of_a_depth_writes_results() -> None:
    """Bytes of operands: two inputs and two weights of half the depth, and one output."""
    joules = {"energy": {"spm_pj_per_byte": 1, "dram_pj_per_byte": 0, "static_mw": 0}, "te": {**TE, "spm_traffic": True}}
    for limits, nbytes in (({}, 3 * 4096), ({"tile_k": 32}, 3 * 4096), ({"tile_m": 32}, 4 * 4096), ({"tile_n": 32}, 4 * 4096)):
        result = simulate(program(PRODUCT), load_config({**machine(**limits), **joules}))
        assert result.metrics["energy_pj"]["spm"] == nbytes


def test_bounds_know_that_jobs_of_a_command_follow_each_other() -> None:
    of = program(PRODUCT, {**COPY, "deps_before": [0]})
    config = load_config(machine(tile_m=16, chunk_elements=50))
    found, result = summarise(of, config), simulate(of, config)
    assert found.bounds.critical_path == result.cycles == 4 * 69 + 2 * 10
    assert (found.bounds.path, found.jobs["te0"], found.entries) == ((0, 1), 4, 2)


def test_waits_and_warnings_name_commands() -> None:
    """A deadlock, an overlap and the summary of a run: no job has a name of its own there."""
    gate = {"opcode": "BARRIER", "id": 2, "wait_for": [4]}
    stuck = program(gate, {**PRODUCT, "id": 3}, {**COPY, "id": 4, "deps_before": [3]})
    waiting = run(stuck, tile_m=16, chunk_elements=10).waiting
    assert [(one["id"], one["waits_for"]) for one in waiting] == [(2, [4]), (3, [2]), (4, [3])]
    both = program({**PRODUCT, "id": 3}, {**PRODUCT, "id": 4, "te_id": 1})
    given = {**machine(tile_m=16), "te": {**TE, "engines": 2}, "spm": {"check_overlap": "warn"}}
    warned = simulate(both, load_config(given)).warnings
    assert [(one["entry"], one["with"]) for one in warned] == [(4, 3)] * 4  # each job of the second, beside one of the first
    assert "(id 4, TE_GEMM_TILE, job 0 of 4)" in warned[0]["message"]
    made = Machine(load_config(machine(tile_m=16)), program(PRODUCT, {**PRODUCT, "id": 5}))
    made.run()
    summary = summarise_run(made.result(), made.program, made.plan)
    assert [(wait.id, wait.since, wait.until) for wait in summary.waits] == [(5, 0, 4 * 69)]


def test_commands_of_a_system_are_divided() -> None:
    of = program({**PRODUCT, "node": "sip0.cube0.pe3"})
    whole, parts = (simulate(of, load_config("single_cube", [f"control.micro_scheduler.tile_m={rows}"])) for rows in (64, 16))
    assert (whole.counters["sip0.cube0.pe3.pe_gemm"]["jobs"], parts.counters["sip0.cube0.pe3.pe_gemm"]["jobs"]) == (1, 4)


def test_a_host_and_a_micro_scheduler_are_refused_together() -> None:
    for config in ("npu_server", "single_cube"):
        with pytest.raises(InputError, match=r"control\.micro_scheduler.*not allowed together with control\.mmio"):
            load_config(config, ["control.mmio.write_cycles=1", "control.micro_scheduler.tile_m=1"])


def test_a_command_that_is_wrong_is_refused_as_a_whole() -> None:
    with pytest.raises(InputError, match=r"cmdq\[0\].*te_id"):
        run(program({**PRODUCT, "te_id": 5}), tile_m=16)
