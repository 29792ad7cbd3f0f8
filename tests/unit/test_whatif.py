"""What-if: each freed machine is valid, and what is freed never limits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kernbench.analysis.case import BenchCase, Demand, ModelCase, program_work
from kernbench.analysis.whatif import LEVERS, RESOURCES, free, what_if
from kernbench.cmdq import Program, load_program
from kernbench.common.errors import InputError
from kernbench.config import NpuConfig, load_config, preset_names
from kernbench.runtime_api.discovery import load_bench
from kernbench.sim_engine.machine import simulate
from kernbench.sim_engine.result import Result
from kernbench.workloads.llm.params import checked_params, llm_programs
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.models.files import load_model
from tests.oracles.ref_dma import DmaJob, Flow
from tests.oracles.ref_engines import te_work, ve_work
from tests.oracles.ref_geometry import Scratchpad
from tests.oracles.ref_machine import completed
from tests.strategies import systems

System = tuple[dict[str, Any], dict[str, Any]]
RANDOM = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)


def run_freed(system: System, *resources: str) -> tuple[Result, dict[str, Any], Program]:
    """A run with something freed, the machine as the oracles read it, and the program."""
    config, program = load_config(system[0]), load_program(system[1])
    changed, _ = free(config, resources, Demand.of(program))
    return simulate(program, changed), completed(changed.to_dict()), program


def lengths(result: Result, kind: str) -> dict[int, int]:
    """Cycles of the jobs of a kind of engine that are over, by their place in the program."""
    control = ("NOP", "BARRIER", "END")
    kinds = {i: "" if e.opcode in control else e.opcode[:2].lower() for i, e in enumerate(result.entries)}
    kinds = {i: name if name in ("te", "ve", "") else "dma" for i, name in kinds.items()}
    mine = {i: e for i, e in enumerate(result.entries) if kinds[i] == kind}
    return {i: e.end - e.start for i, e in mine.items() if e.start is not None and e.end is not None}


def requests(flow: Flow, row: int) -> int:
    """How many requests a flow makes that is given a row of banks a cycle."""
    count = 0
    while flow.next < len(flow.pieces):
        flow.carry, flow.den = row, 1
        flow.ask(count, row)
        count += 1
    return count


@RANDOM
@given(systems())
def test_without_banks_nothing_is_denied(system: System) -> None:
    result, _, _ = run_freed(system, "banks")
    assert not any(result.counters["spm"]["denials"])


@RANDOM
@given(systems())
def test_without_dma_limits_every_transfer_starts_when_it_is_issued(system: System) -> None:
    result, _, program = run_freed(system, "dma")
    times = [times for times, entry in zip(result.entries, program.entries, strict=True) if entry.engine == "dma"]
    assert all(time.start in (time.issue, None) for time in times if result.status != "failed")
    for name, count in result.counters.items():
        assert not name.startswith("dma") or (count["queue_full"], count["priority_deferred"]) == (0, 0)


@RANDOM
@given(systems())
def test_without_memory_limits_a_transfer_takes_its_requests(system: System) -> None:
    result, machine, _ = run_freed(system, "dram", "noc", "banks")
    row = machine["spm"]["num_banks"] * machine["spm"]["bank_width_bytes"]
    for i, length in lengths(result, "dma").items():
        job = DmaJob(system[1]["cmdq"][i], 0, machine)
        assert job.head == machine["dram"]["t_setup_cycles"]
        assert length == job.head + max(requests(flow, row) for flow in job.flows)


@RANDOM
@given(systems())
def test_without_te_and_ve_limits_a_body_is_as_short_as_can_be(system: System) -> None:
    result, machine, _ = run_freed(system, "te", "ve", "banks")
    spm = Scratchpad(machine["spm"])
    for kind, work in (("te", te_work), ("ve", ve_work)):
        for i, length in lengths(result, kind).items():
            entry = system[1]["cmdq"][i]
            fixed = machine[kind]["init_cycles"] + machine[kind]["finalize_cycles"]
            assert length == work(entry, 0, machine[kind], spm).total
            op = entry["opcode"].removeprefix("VE_").removesuffix("_TILE")
            if kind == "te" or op not in ("SUM", "MAX", "MIN", "LAYERNORM", "RMSNORM", "SOFTMAX"):
                assert length == fixed + 1
            else:
                rows = -(-entry.get("batch", 1) // machine["ve"].get("reduction_trees", 1))
                tree = (entry["length"] - 1).bit_length() + rows - 1
                assert length == fixed + (2 * (1 + tree) if op == "SOFTMAX" else 1 + tree)


@RANDOM
@given(systems())
def test_freeing_is_a_machine_and_frees_no_more_twice(system: System) -> None:
    config, program = load_config(system[0]), load_program(system[1])
    changed, changes = free(config, list(RESOURCES), Demand.of(program))
    assert isinstance(changed, NpuConfig) and changes
    assert changed == load_config(changed.to_dict())
    for name in RESOURCES:
        assert free(changed, [name], Demand.of(program))[1] == {}
    kept = {"schema", "freq_ghz", "max_cycles", "control", "kv_layouts", "energy"}
    before, after = config.to_dict(), changed.to_dict()
    assert {key: before[key] for key in kept} == {key: after[key] for key in kept}
    assert before["dram"]["t_setup_cycles"] == after["dram"]["t_setup_cycles"]


def gemm() -> Program:
    """A load, then a product of 8 + 64 + 4 cycles."""
    program = Program("one")
    loaded = program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=4096, spm_bank=0, spm_offset=0)
    places = dict.fromkeys(("ifm_bank", "ifm_offset", "wgt_bank", "wgt_offset", "ofm_bank", "ofm_offset"), 0)
    shape = {"m": 64, "n": 64, "k": 64, "qbits_weight": 8, "qbits_activation": 8}
    program.te_gemm(**shape, **places, deps_before=[loaded])
    return program


def test_cycles_saved_are_counted_by_hand() -> None:
    config = load_config({"te": {"spm_traffic": False}})
    found = what_if(program_work(gemm(), config))
    assert found.base.cycles == 4096 // 16 + 8 + 64 + 4
    saved = {one.resources[0]: one.saved for one in found.each}
    # DRAM: a row of 256 B a cycle instead of 16 B; TE: a body of one cycle instead of 64
    assert saved == {"dma": 0, "noc": 0, "dram": 256 - 16, "banks": 0, "te": 63, "ve": 0}
    assert (found.all.saved, found.all.cycles) == (240 + 63, 16 + 13)
    assert [one.changes for one in found.each if one.resources == ("noc",)] == [{}]


def test_one_resource_is_all_of_them() -> None:
    found = what_if(program_work(gemm(), load_config({})), ["te", "te"])
    assert len(found.each) == 1 and found.all is found.each[0]


def test_a_run_that_does_not_end_has_nothing_to_save() -> None:
    found = what_if(program_work(gemm(), load_config({"max_cycles": 100})), ["te", "dram"])
    assert found.base.status == "aborted"
    assert [(one.status, one.saved) for one in found.each] == [("aborted", None), ("done", None)]


def test_freed_dram_is_no_fifo_and_keeps_wider_ones() -> None:
    program = gemm()
    config = load_config({"allocation": "fifo_v1", "dram": {"peak_bw_bytes_per_cycle": "1e6", "bus_width_bytes": 9_000_000}})
    changed, changes = free(config, ["dram"], Demand.of(program))
    assert changed.allocation == changes["allocation"] == "shared_bw_v1"
    assert changed.dram.capacity == 1_000_000
    systolic = load_config({"te": {"timing": "systolic", "rows": 4, "cols": 4, "dataflow": "ws"}, "dram": {"period": 7}})
    changed, _ = free(systolic, ["te", "dram"], Demand.of(program))
    assert (changed.te.timing, changed.te.rows, changed.dram.period) == ("macs", None, 1)


@pytest.mark.parametrize("system", [False, True])
def test_freed_dram_has_neither_device_nor_controller_and_the_device_is_what_to_change(system: bool) -> None:
    dram = {"device": "hbm3_6400", "policy": "throughput"}
    machine: dict[str, Any] = {"schema": "kernbench/system/1", "cube": {"hbm": dram}} if system else {"dram": dram}
    config = load_config({**machine, "allocation": "row_buffer_v2"})
    found = what_if(program_work(gemm(), config), ["dram"])
    changed: Any = load_config(config.to_dict(), found.all.changes)
    assert changed.allocation == "shared_bw_v1"
    assert (changed.memory.device, changed.memory.policy, changed.memory.controller) == (None, None, None)
    assert found.all.cycles < found.base.cycles
    assert found.levers == tuple(f"{config.memory_path}{key}" for key in ("channels", "device", "policy"))


def test_a_machine_that_cannot_be_freed_is_refused() -> None:
    weight = {"act_weight": {"max_concurrent": 1, "weight": 2**20 + 1}}
    limits = {"max_concurrent_transfers": 1, "channels": weight}
    config = load_config({"dma": limits, "dram": {"peak_bw_bytes_per_cycle": "1/2000"}})
    program = Program("two")
    for i in range(2):
        program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=1, spm_bank=i, spm_offset=0)
    with pytest.raises(InputError) as error:
        what_if(program_work(program, config), ["dma"])
    assert str(error.value).startswith(
        "whatif: the machine without limits of dma is not valid: machine: dram.peak_bw_bytes_per_cycle"
    )
    assert str(error.value).endswith("needs rates whose terms are 2^31 or more; leave it out of --free")


def test_an_unknown_resource_is_refused() -> None:
    with pytest.raises(InputError) as error:
        what_if(program_work(gemm(), load_config({})), ["fan"])
    assert str(error.value) == 'whatif: free = "fan", but it must be one of dma, noc, dram, llc, banks, te, ve'


@pytest.mark.parametrize("machine", preset_names())
def test_the_keys_to_change_are_keys_of_the_machine(machine: str) -> None:
    config: Any = load_config(machine)
    data = config.to_dict()
    for name, keys in LEVERS.items():
        paths = {"pe": config.pe_path, "memory": config.memory_path, "cache": config.cache_path}
        there = [key for key in keys if _has(data, key.format(**paths))]
        assert there or (name == "noc" and config.pes == 1) or (name == "llc" and config.cache is None), (name, keys)


def _has(data: dict[str, Any], path: str) -> bool:
    for step in path.split("."):
        if step not in data:
            return False
        data = data[step]
    return True


def test_a_bench_is_run_again_on_each_freed_machine() -> None:
    params = {**{name: param.default for name, param in load_bench("gemm").params.items()}, "m": 128, "n": 128, "k": 128}
    work = BenchCase(load_bench("gemm"), params).on(load_config("npu_server"))
    found = what_if(work, ["te", "noc"])
    assert found.base.cycles == work.run().cycles
    for one in found.each:
        changed, _ = free(work.config, one.resources, found.base.demand)
        assert one.cycles == work.run(changed).cycles
    assert found.best.resources == ("te",) and found.sentence.startswith("change te first (te.engines, te.macs_per_cycle)")


def test_a_model_is_what_its_segments_are_one_after_the_other() -> None:
    case = ModelCase(load_model("llama2-7b"), {"prompt": 8, "tokens": 2, "layers": 2})
    work = case.on(load_config("npu_server"))
    whole = run_llm(llm_programs(case.model, load_config("npu_server"), checked_params("test", case.params)))
    found = what_if(work, ["dram"])
    assert found.base.cycles == sum(step.total.cycles for step in whole.steps)
    assert found.all.saved and found.base.cycles - found.all.saved == found.all.cycles
    bounds = sum((step.total.bounds for step in whole.steps), Counter())
    assert found.base.bounds == dict(bounds) and found.base.bound_by == bounds.most_common(1)[0][0]


def test_where_no_limit_costs_a_hundredth_the_program_is_to_be_changed() -> None:
    program = Program("chain")
    for i in range(20):
        program.nop(deps_before=[i - 1] if i else [])
    found = what_if(program_work(program, load_config({})))
    assert found.sentence.endswith("change the program, not the machine") and not found.pays
