"""Tensor parallelism: what the reductions of a layer compute, byte by byte, and in which order its jobs may run."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest

import kernbench
from kernbench.ccl.patterns import torus_all_reduce
from kernbench.ccl.rings import grid_of
from kernbench.ccl.schedule import replayed
from kernbench.cmdq.entries import Entry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import flat_address
from kernbench.cmdq.system import lower_system
from kernbench.config import load_config
from kernbench.config.kinds import as_npu
from kernbench.workloads import planner
from kernbench.workloads.llm import steps
from kernbench.workloads.llm.known import Known
from kernbench.workloads.llm.reductions import ALGORITHMS, Reduction, reduction_program
from kernbench.workloads.llm.run import run_program
from kernbench.workloads.llm.shards import shard_locations
from kernbench.workloads.llm.steps import Job, LlmPrograms, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.llm_cases import tiny_model


def programs_of(shards: int, reduction: Reduction = "direct") -> LlmPrograms:
    model = tiny_model("parts", heads=8, kv_heads=4)
    return LlmPrograms(
        model,
        uniform_precision(),
        load_config("single_cube", ["pe.spm.check_overlap=error"]),
        Job(prompt=13, tokens=1, shards=shards, reduction=reduction),
    )


@pytest.mark.parametrize("way", ALGORITHMS)
@pytest.mark.parametrize("shards", [2, 4, 8])
def test_a_reduction_leaves_the_sum_of_all_parts_everywhere(shards: int, way: Reduction) -> None:
    """Sends and adds are carried out in the order of the program, on random bytes; a sum is modulo 256."""
    programs = programs_of(shards, way)
    spm = programs.machine.spm
    entries = programs.segment_program(list(programs.segments(programs.steps[0]))[1]).entries
    reductions = [list(run) for is_one, run in groupby(entries, lambda e: e.meta.get("phase") == "ALL_REDUCE") if is_one]
    assert len(reductions) == 2  # behind the output projection, and behind the down projection
    random = np.random.default_rng(shards)
    for reduction in reductions:
        before = {place.node: random.integers(0, 256, spm.size_bytes, dtype=np.uint8) for place in programs.places}
        memory = {node: data.copy() for node, data in before.items()}
        summed = 0
        for entry in reduction:
            carry_out(entry, memory, programs)
        for entry in reduction:
            if isinstance(entry, VeEntry):
                at = flat_address(entry.out_bank, entry.out_offset, spm)
                want = sum(data[at : at + entry.length].astype(np.int64) for data in before.values()) % 256
                assert all((data[at : at + entry.length] == want).all() for data in memory.values())
                summed += entry.length
        each = shards * (shards - 1).bit_length() if way == "recursive_doubling" else shards - 1
        assert summed == each * 13 * 192  # every PE adds all others' parts of its chunk; doubling adds all rows in each step


def test_a_ring_sends_to_the_next_one_only_and_as_many_bytes() -> None:
    """Two reductions of 13 x 192 bytes over 4 PEs: each sends 2 x 3 chunks of a quarter. No two jobs in flight overlap."""
    sent = {}
    for way in ALGORITHMS[:2]:
        programs = programs_of(4, way)
        program = programs.segment_program(list(programs.segments(programs.steps[0]))[1])
        sends = [entry for entry in program.entries if isinstance(entry, PairEntry)]
        sent[way] = sum(entry.num_elements for entry in sends)
        assert run_program(program, programs).cycles > 0
        if way == "ring":
            order = [place.node for place in programs.places]
            assert all(order.index(e.peer) == (order.index(e.node) + 1) % 4 for e in sends)
    assert sent == {"direct": 2 * 2 * 3 * 13 * 192, "ring": 2 * 2 * 3 * 13 * 192}


def test_auto_is_the_fastest_alone() -> None:
    programs = programs_of(8, "auto")
    for elements in (192, 40 * 192):
        cycles = {way: programs.reduction_cycles(elements, 8, way) for way in ALGORITHMS}
        assert cycles[programs.reduction_of(elements, 8)] == min(cycles.values()) and len(set(cycles.values())) > 1  # type: ignore[index]


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 7, 9, 12])
def test_a_torus_adds_on_grids_of_any_shape(ranks: int) -> None:
    """Grids of two axes, of one axis (2, 3 and 7 ranks), and with sides that differ."""
    schedule = torus_all_reduce(ranks, far=False)
    inputs = [np.arange(500, dtype=np.int64) * (rank + 1) for rank in range(ranks)]
    for found in replayed(schedule, inputs, 1 << 15):
        assert (found == np.arange(500) * ranks * (ranks + 1) // 2).all()
    rows, cols = grid_of(ranks)
    for one in (message for step in schedule.direct_steps for message in step):
        (row, col), (other, column) = divmod(one.source, cols), divmod(one.target, cols)
        far = ((row - other) % rows, (other - row) % rows), ((col - column) % cols, (column - col) % cols)
        assert sum(map(min, far)) == 1  # to a neighbour on the torus


def test_a_torus_of_chips_adds_with_all_links_at_once() -> None:
    """Each link between neighbours carries nearly as many bytes; with `direct`, some links carry three times as many."""
    machine = load_config("tpuv6e_2x4")
    found = {}
    for way in ("direct", "torus"):
        program = reduction_program(as_npu(machine), shard_locations(machine, 8), 1 << 23, 8, way, {})  # type: ignore[arg-type]
        result = kernbench.simulate(program, machine)
        links = [row["bytes"] for name, row in result.counters.items() if name.count("io_noc") == 2 and row["bytes"]]
        found[way] = result.cycles, len(links), max(links) / min(links)
    assert found["torus"][0] < found["direct"][0] / 2
    assert found["torus"][1:] == (24, pytest.approx(1.1, rel=0.02)) and found["direct"][2] > 3


def carry_out(entry: Entry, memory: dict[str | None, np.ndarray], programs: LlmPrograms) -> None:
    """What a send or an add does to the bytes of the scratchpads."""
    spm = programs.machine.spm
    if isinstance(entry, PairEntry):
        source = flat_address(entry.spm_bank, entry.spm_offset, spm)
        target = flat_address(entry.peer_bank, entry.peer_offset, spm)
        memory[entry.peer][target : target + entry.num_elements] = memory[entry.node][source : source + entry.num_elements]
    elif isinstance(entry, VeEntry) and entry.in2_bank is not None and entry.in2_offset is not None:
        places = [(entry.in_bank, entry.in_offset), (entry.in2_bank, entry.in2_offset), (entry.out_bank, entry.out_offset)]
        one, two, out = (flat_address(*place, spm) for place in places)
        data = memory[entry.node]
        data[out : out + entry.length] = data[one : one + entry.length] + data[two : two + entry.length]


def test_every_pe_keeps_to_its_own_slice() -> None:
    """Each transfer with DRAM is of channels of the own slice: four DMA engines take part."""
    programs = programs_of(4)
    plan = lower_system(programs.segment_program(list(programs.segments(programs.steps[0]))[1]), programs.target)
    assert len(plan.dma) == 4
    config = load_config("single_cube")
    places, view = shard_locations(config, 8), as_npu(config)
    assert [place.node for place in places] == [f"sip0.cube0.pe{i}" for i in range(8)]
    steps = [b.dram_base - a.dram_base for a, b in pairwise(places)]
    assert steps == [view.dram.capacity_bytes] * 7 and view.dram.channels == 2


def layer_of_eight() -> tuple[LlmPrograms, Segment]:
    """A layer of a prompt of three blocks on eight PEs, which check that no two jobs in flight overlap."""
    model = tiny_model("in_turn", heads=8, kv_heads=8, hidden=1024, ffn=4096, post_norms=True)
    machine = load_config("single_cube", ["pe.spm.check_overlap=error"])
    programs = LlmPrograms(model, uniform_precision(), machine, Job(prompt=384, tokens=1, phases=("prefill",), shards=8))
    return programs, next(segment for segment in programs.segments(programs.steps[0]) if segment.kind == "layer")


def test_stages_in_turn_give_the_tensor_engines_work_during_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, layer = layer_of_eight()
    program = programs.segment_program(layer)
    jobs = [entry.meta for entry in program.entries if isinstance(entry, TeEntry) and entry.node == programs.places[0].node]
    stages = {"QKV_PROJ": "a", "OUT_PROJ": "o", "MLP_GATE_UP": "g", "MLP_DOWN": "d"}
    order = [f"{stages[meta['phase']]}{meta['block_id']}" for meta in jobs if meta["phase"] in stages]
    assert [name for name, _ in groupby(order)] == ["a0", "a1", "o0", "a2", "o1", "g0", "o2", "g1", "d0", "g2", "d1", "d2"]

    in_turn = run_program(program, programs)
    monkeypatch.setattr(planner, "_in_turn", lambda *_: None)
    monkeypatch.setattr(steps, "PLANS", Known(1))
    programs, layer = layer_of_eight()
    staged = run_program(programs.segment_program(layer), programs)
    assert programs.plan(layer.shape, layer.step).in_turn is None
    assert in_turn.macs == staged.macs
    assert in_turn.cycles * 5 < staged.cycles * 4


def test_stages_go_in_turn_on_a_board_because_its_links_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are loaded twice, which takes less than the sums over the links. As bytes of DRAM, the sums would count a
    sixteenth."""
    job = Job(prompt=512, tokens=1, phases=("prefill",), shards=8, layers=1, reduction="torus")
    machine = load_config("tpuv6e_2x4")
    cycles = {}
    for simulated in (True, False):
        monkeypatch.setattr(steps, "PLANS", Known(1))
        programs = LlmPrograms(load_model("llama3.1-405b"), uniform_precision(), machine, job)
        if not simulated:
            monkeypatch.setattr(LlmPrograms, "sums_of", lambda *_: None)
        layer = next(segment for segment in programs.segments(programs.steps[0]) if segment.kind == "layer")
        assert (programs.plan(layer.shape, layer.step).in_turn is not None) == simulated
        cycles[simulated] = run_program(programs.segment_program(layer), programs).cycles
        said = planner.compared_plans(layer.shape, programs.machine, 512, 0, summed=programs.sums_of(layer.shape))
        verdicts = {said[0].verdict, *(one.verdict.partition("faster, ")[2] for one in said[1:])} - {""}
        assert verdicts == ({"used: block by block, in turn", "but waits longer for sums"} if simulated else {"used"})
    assert cycles[True] < cycles[False] * 0.95
