"""What is said of a program before it runs: waits, depth, bytes, work, lower bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernbench.bounds import lower_bounds, summarise
from kernbench.bounds.program import plan_bounds
from kernbench.cmdq import Entry, Program, load_program
from kernbench.cmdq.dependencies import predecessors
from kernbench.config import load_config
from kernbench.workloads.llm.emitted import Emitted

CASES = Path(__file__).resolve().parents[3] / "shared" / "data" / "model_cases.jsonl"
ONE_CHANNEL: dict[str, Any] = {"dma": {"alignment_bytes": 32}}  # 16 bytes per cycle
TILE: dict[str, Any] = {"tensor_role": "weight", "qbits": 8, "spm_bank": 0, "spm_offset": 0}
TE: dict[str, Any] = {
    "qbits_weight": 8,
    "qbits_activation": 8,
    "ifm_bank": 0,
    "ifm_offset": 0,
    "wgt_bank": 0,
    "wgt_offset": 0,
    "ofm_bank": 0,
    "ofm_offset": 0,
}
VE: dict[str, Any] = {"qbits_activation": 8, "in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}


def test_predecessors_are_of_all_three_kinds() -> None:
    program = Program()
    program.nop(deps_after=[2, 2])
    program.nop(deps_before=[0, 0])
    program.barrier(wait_for=[1], deps_before=[1, 0])
    program.nop(deps_before=[99, 3])  # 99 does not exist, and 3 is itself: not in the graph
    program.end()
    assert predecessors(program.entries) == [(), (0,), (0, 1), (), ()]


def test_a_chain_and_what_limits_it() -> None:
    program = Program("chain")
    load = program.dma_load(**TILE, dram_addr=0, num_elements=1600)  # 100 cycles
    gemm = program.te_gemm(**TE, m=64, n=64, k=64, deps_before=[load])  # 8 + 64 + 4
    program.dma_load(**TILE, dram_addr=1600, num_elements=160)  # 10 cycles, waits for nothing
    last = program.ve_copy(**VE, length=640, deps_before=[gemm])  # 8 + 10 + 4
    program.end()
    bounds = lower_bounds(program, load_config(ONE_CHANNEL))
    assert (bounds.critical_path, bounds.path, bounds.depth) == (198, (load, gemm, last), 4)
    assert bounds.dram == {"dram.ch0": 110}
    assert bounds.engines == {"dma0": 28, "te0": 76, "ve0": 22}  # the DMA engine has four at a time: ceil(110 / 4)
    assert (bounds.cycles, bounds.limit, bounds.links, bounds.stuck) == (198, "critical path", {}, ())


def test_engines_take_one_job_at_a_time() -> None:
    program = Program()
    for _ in range(3):
        program.te_gemm(**TE, m=64, n=64, k=64)
    program.te_gemm(**TE, m=64, n=64, k=64, te_id=1)
    bounds = lower_bounds(program, load_config({}))
    assert bounds.engines == {"te0": 3 * 76, "te1": 76}
    assert (bounds.cycles, bounds.limit) == (228, "te0")
    slow = lower_bounds(program, load_config({"te": {"period": 3}}))
    assert slow.engines == {"te0": 3 * 76 * 3 - 2, "te1": 76 * 3 - 2}
    assert slow.critical_path == 75 * 3 + 1


def test_periods_delay_starts() -> None:
    program = Program()
    load = program.dma_load(**TILE, dram_addr=0, num_elements=32)  # 2 cycles
    program.dma_load(**TILE, dram_addr=0, num_elements=32, deps_before=[load])
    config = load_config({"dma": {"alignment_bytes": 32, "period": 5}})
    assert lower_bounds(program, config).critical_path == 7  # 0..2, then 5..7


def test_a_barrier_orders_what_follows_it() -> None:
    program = Program()
    load = program.dma_load(**TILE, dram_addr=0, num_elements=1600)
    program.barrier(wait_for=[load])
    program.te_gemm(**TE, m=64, n=64, k=64)  # names nothing that it waits for
    bounds = lower_bounds(program, load_config(ONE_CHANNEL))
    assert (bounds.critical_path, bounds.path, bounds.depth) == (176, (0, 1, 2), 3)


def test_what_can_never_be_issued_is_named_and_counts_in_no_bound() -> None:
    program = Program()
    program.dma_load(**TILE, dram_addr=0, num_elements=1600)
    program.barrier(wait_for=[2])
    program.te_gemm(**TE, m=64, n=64, k=64)  # after the barrier that waits for it
    program.end()
    bounds = lower_bounds(program, load_config(ONE_CHANNEL))
    assert bounds.stuck == (1, 2, 3)
    assert (bounds.cycles, bounds.engines, bounds.path) == (100, {"dma0": 25}, (0,))


def test_head_latency_and_links() -> None:
    noc = {"link_bytes_per_cycle": 8, "hop_latency_cycles": 3, "dma_at": [[1, 1]], "dram_at": [[0, 0], [0, 1]]}
    config = load_config({**ONE_CHANNEL, "dram": {"channels": 2, "t_setup_cycles": 7}, "noc": noc})
    program = Program()
    program.dma_load(**TILE, dram_addr=0, num_elements=512)  # 256 bytes of each channel
    bounds = lower_bounds(program, config)
    # both come down the link from (0, 1): 512 / 8 = 64 cycles, after 7 + 2 * 3 of head latency
    assert bounds.links == {"noc.r0c0-r0c1": 32, "noc.r0c1-r1c1": 64}
    assert bounds.dram == {"dram.ch0": 16, "dram.ch1": 16}
    assert bounds.critical_path == 13 + 64
    store = Program()
    store.dma_store(**TILE, dram_addr=0, num_elements=256)  # the other way: along the row first
    assert lower_bounds(store, config).links == {"noc.r1c1-r1c0": 32, "noc.r1c0-r0c0": 32}


def test_a_row_of_banks_limits_a_flow() -> None:
    config = load_config({**ONE_CHANNEL, "spm": {"num_banks": 2, "bank_width_bytes": 2}})
    program = Program()
    program.dma_load(**TILE, dram_addr=0, num_elements=400)
    assert lower_bounds(program, config).critical_path == 104  # 416 aligned bytes, 4 a cycle


def test_an_empty_program() -> None:
    bounds = lower_bounds(Program(), load_config({}))
    assert (bounds.cycles, bounds.path, bounds.depth, bounds.limit) == (0, (), 0, "critical path")


def test_a_summary_counts_entries_bytes_and_work() -> None:
    program = Program("sum")
    program.dma_load(**TILE, dram_addr=10, num_elements=300)
    program.dma_store(**TILE, dram_addr=256, num_elements=64, dma_id=1)
    program.te_gemm(**TE, m=2, n=3, k=5, te_id=1)
    program.ve_copy(**VE, length=7, batch=2)
    program.end()
    summary = summarise(program, load_config({"dma": {"engines": 2}, "dram": {"channels": 2}}))
    assert (summary.name, summary.entries) == ("sum", 5)
    assert summary.opcodes == {"DMA_LOAD_TILE": 1, "DMA_STORE_TILE": 1, "TE_GEMM_TILE": 1, "VE_COPY_TILE": 1, "END": 1}
    assert summary.jobs == {"dma0": 1, "dma1": 1, "te0": 0, "te1": 1, "ve0": 1, "ve1": 0}
    assert summary.dram_read == {"dram.ch0": 256, "dram.ch1": 64}  # [0, 320)
    assert summary.dram_written == {"dram.ch0": 0, "dram.ch1": 64}
    assert (summary.asked_bytes, summary.moved_bytes) == (364, 384)
    assert (summary.macs, summary.ops) == ({"te0": 0, "te1": 30}, {"ve0": 14, "ve1": 0})
    assert summary.bounds == lower_bounds(program, load_config({"dma": {"engines": 2}, "dram": {"channels": 2}}))


def cases() -> list[Any]:
    if not CASES.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="../shared/data/model_cases.jsonl is not there"))]
    found = map(json.loads, CASES.read_text().splitlines())
    return [pytest.param(case, id=case["name"]) for case in found if case["expected"]["status"] == "done"]


@pytest.mark.parametrize("case", cases())
def test_no_run_ends_before_its_bound(case: dict[str, Any]) -> None:
    """Cycles, and bytes and work to the last one, against an independent implementation of the model."""
    summary = summarise(load_program(case["program"]), load_config(case["machine"]))
    expected, counters = case["expected"], case["expected"]["counters"]
    assert summary.bounds.cycles <= expected["cycles"]
    assert {name: summary.dram_read[name] + summary.dram_written[name] for name in summary.dram_read} == {
        name: counters[name]["bytes"] for name in summary.dram_read
    }
    assert summary.macs == {name: counters[name]["macs"] for name in summary.macs}
    assert summary.ops == {name: counters[name]["ops"] for name in summary.ops}
    assert summary.jobs == {name: counters[name]["jobs"] for name in summary.jobs}
    assert summary.bounds.stuck == ()


def part_of(program: Program, entries: list[Entry]) -> Program:
    """Some entries, without what they say of others."""
    ids = {entry.id for entry in entries}

    def kept(named: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in named if one in ids)

    replaced = msgspec.structs.replace
    return Program("part", [replaced(e, deps_before=kept(e.deps_before), deps_after=kept(e.deps_after)) for e in entries])


@pytest.mark.parametrize("case", cases())
def test_each_entry_ends_no_earlier_than_its_own_bound(case: dict[str, Any]) -> None:
    """The part of the program up to any entry is bounded too: take each entry with what it waits for."""
    program, config = load_program(case["program"]), load_config(case["machine"])
    ends = {entry_id: end for entry_id, _, _, end in case["expected"]["entries"]}
    waits = predecessors(program.entries)
    for entry in program.entries:
        if entry.opcode == "END":
            continue
        wanted, stack = set(), [entry.index]
        while stack:
            index = stack.pop()
            if index not in wanted:
                wanted.add(index)
                stack += waits[index]
        part = part_of(program, [program.entries[i] for i in sorted(wanted) if program.entries[i].opcode != "BARRIER"])
        assert lower_bounds(part, config).critical_path <= max(ends[program.entries[i].id] for i in wanted)


def test_bounds_of_machines_that_share_a_plan_are_those_of_each_alone() -> None:
    """What follows from a program alone is kept with its plan; the bandwidth and the setup are of the machine."""
    program = Program("shared")
    loads = [program.dma_load(**TILE, dram_addr=k << 12, num_elements=1600 + 64 * k) for k in range(3)]
    program.te_gemm(**TE, m=64, n=64, k=64, deps_before=loads)
    program.end()
    shared = Emitted("bounds of machines that share a plan", lambda: program, load_config(ONE_CHANNEL))
    found = []
    for rate in (4, 7, 16):
        config = load_config({**ONE_CHANNEL, "dram": {"peak_bw_bytes_per_cycle": rate}})
        found.append(plan_bounds(program, shared.plan(config)))
        assert found[-1] == lower_bounds(program, config)
    assert len({bounds.critical_path for bounds in found}) == 3
