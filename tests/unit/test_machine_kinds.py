"""An NPU is a system of one PE: both kinds of machine answer the same questions, and what works on one works on both."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import kernbench as kb
from kernbench import InputError, Machine, Program, check_program, load_config, simulate
from kernbench.analysis.whatif import LEVERS, RESOURCES
from kernbench.bounds import lower_bounds, summarise
from kernbench.cmdq.compiled import load_compiled, save_compiled
from kernbench.policy.routing.resolver import address_map
from kernbench.runtime_api.pe_set import PeSet
from kernbench.sim_engine.recording.options import TraceOptions

KINDS = pytest.mark.parametrize("name", ["npu_mobile", "single_cube"])
#: What both kinds of machine answer, beside what their files have in common.
ASKED = ("pe", "pe_path", "memory", "memory_path", "shape", "pes", "pe_names", "slices", "slice_bytes", "slice_channels",
         "sram_bytes", "tcm_bytes", "comm_transfers", "components")  # fmt: skip


def tiles(*, bank: int = 0) -> Program:
    """Loads and a product that either kind of machine runs, on its first PE."""
    program = Program("tiles")
    loads = [
        program.dma_load(tensor_role="weight", qbits=8, dram_addr=k << 16, num_elements=4096, spm_bank=bank + k, spm_offset=0)
        for k in range(2)
    ]
    program.te_gemm(
        m=64, n=64, k=64, qbits_weight=8, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1, wgt_offset=0,
        ofm_bank=2, ofm_offset=0, deps_before=loads,
    )  # fmt: skip
    return program


def test_an_npu_is_its_own_pe() -> None:
    npu, system = load_config("npu_mobile"), load_config("single_cube")
    assert npu.pe is npu and npu.pe_path == "" and dict(npu.components) == {}
    assert system.pe_path == "pe." and {"dma", "spm", "te", "ve"} <= type(system.pe).model_fields.keys()
    assert all(hasattr(npu.pe, name) for name in ("dma", "spm", "te", "ve"))


@KINDS
def test_both_kinds_answer_what_is_asked(name: str) -> None:
    config: Any = load_config(name)
    found = {one: getattr(config, one) for one in ASKED}
    assert len(found["pe_names"]) == found["pes"] and len(found["shape"]) == 3
    assert config.to_dict()[config.memory_path.split(".")[0]] is not None
    assert config.slice_channels * config.slices == config.memory.channels


def test_an_npu_has_one_place_and_one_memory() -> None:
    npu = load_config("npu_mobile")
    places, memories = PeSet(npu), address_map(npu)
    assert places.pes == ("pe0",) and tuple(places.size) == (1, 1, 1) and places.slice_of(0) == 0
    assert [(one.name, one.base, one.nbytes) for one in places.slices] == [("the DRAM", 0, npu.dram.capacity_bytes)]
    assert (memories.sram.count, memories.tcm.count) == (0, 0) and memories.region(memories.hbm.end) is None


def test_views_of_a_pe_are_in_no_file() -> None:
    npu = load_config("npu_mobile")
    assert not set(ASKED) & npu.to_dict().keys() - {"pe"}
    assert npu.digest() == load_config(npu.to_dict()).digest()


@KINDS
def test_programs_are_checked_summarised_and_bounded(name: str) -> None:
    config = load_config(name)
    check_program(tiles(), config)
    cycles = simulate(tiles(), config).cycles
    assert summarise(tiles(), config).entries == 3 and 0 < lower_bounds(tiles(), config).to_dict()["cycles"] <= cycles
    banks = config.pe.spm.num_banks
    for refused in (check_program, summarise, lower_bounds):
        with pytest.raises(InputError, match=rf"spm_bank = {banks}, but the scratchpad has {banks} banks"):
            refused(tiles(bank=banks - 1), config)


@KINDS
@pytest.mark.parametrize("resource", sorted(RESOURCES))
def test_each_resource_can_be_freed(name: str, resource: str, tmp_path: Path) -> None:
    tiles().save(tmp_path / "tiles.json")
    found = kb.whatif(tmp_path / "tiles.json", name, free=[resource])
    (freed,) = found.found.to_dict()["freed"]
    assert freed["status"] == "done" and freed["saved"] >= 0
    if resource in ("dram", "te"):
        assert freed["saved"] > 0


@KINDS
def test_levers_are_keys_of_the_machine(name: str, tmp_path: Path) -> None:
    tiles().save(tmp_path / "tiles.json")
    first = kb.whatif(tmp_path / "tiles.json", name).found.to_dict()["first"]
    config: Any = load_config(name)
    paths = {path for path, _, _ in config.effective()}
    assert first["keys"] and set(first["keys"]) <= paths
    known = {key.format(pe=config.pe_path, memory=config.memory_path) for key in LEVERS[first["resource"]]}
    assert set(first["keys"]) == known & paths


@KINDS
def test_a_run_goes_on_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    whole = simulate(tiles(), config)
    first = Machine(config, tiles())
    first.run(cycles=whole.cycles // 2)
    first.save(tmp_path / "half.ckpt")
    second = Machine(config, tiles())
    second.load(tmp_path / "half.ckpt")
    assert second.cycle == whole.cycles // 2
    second.run()
    assert second.result().to_json() == whole.to_json()


@KINDS
def test_each_level_of_traces_holds_more(name: str) -> None:
    config, events = load_config(name), []
    for level in ("summary", "full", "access"):
        machine, sink = Machine(config, tiles()), BytesIO()
        tracing = machine.trace(sink, TraceOptions(level=level))
        machine.run()
        tracing.close()
        lines = [json.loads(line) for line in sink.getvalue().splitlines()]
        assert lines[0]["level"] == level and lines[-1]["cycles"] == simulate(tiles(), config).cycles
        events.append(len(lines))
    assert events[0] < events[1] < events[2]


@KINDS
@pytest.mark.parametrize("rule", ["shared_bw_v1", "max_min_v1", "fifo_v1"])
def test_each_rule_of_sharing_runs(name: str, rule: str) -> None:
    assert simulate(tiles(), load_config(name, {"allocation": rule})).status == "done"


@KINDS
def test_a_compiled_program_has_its_tables(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    save_compiled(tiles(), config, tmp_path / "tiles.kbp")
    compiled = load_compiled(tmp_path / "tiles.kbp", config)
    assert compiled.lowered is not None and compiled.lowered.machine == config.digest()
    assert simulate(compiled, config).to_json() == simulate(tiles(), config).to_json()


@KINDS
def test_workloads_run_are_freed_and_swept(name: str) -> None:
    run = kb.run("llama2-7b-decode", name)
    assert run.status == "done"
    (found,) = kb.whatif("llama2-7b-decode", name, free=["dram"]).found.to_dict()["freed"]
    assert found["saved"] > 0
    (point,) = kb.sweep("llama2-7b-decode", {"freq_ghz": [1]}, config=name, threads=1).to_frame().rows(named=True)
    assert (point["status"], point["cycles"]) == ("done", run.cycles)
