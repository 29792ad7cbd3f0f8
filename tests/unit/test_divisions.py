"""Divisions of a layer on several PEs: parts of the rows, slices of columns, shares of latent vectors, and more weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernbench.cmdq import check_program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import DmaEntry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import flat_address, regions_of, transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config import load_config
from kernbench.config.kinds import as_npu
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpRecord
from kernbench.workloads.blocks.division import Blocks
from kernbench.workloads.blocks.programs import SEARCHED, BlockPrograms, programs_of
from kernbench.workloads.blocks.search import tried_blocks
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.layer.projections import PartialRows
from kernbench.workloads.limit import StoppedError
from kernbench.workloads.llm.reductions import additions
from kernbench.workloads.llm.run import run_program
from kernbench.workloads.llm.steps import ComparedPlanners, Job, LlmPrograms, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.programs import ParallelPrograms, grid_job
from tests.model_cases import SMALL

MACHINE = load_config("single_cube", ["pe.spm.check_overlap=error", "pe.spm.bank_size_bytes=262144"])
ROWS = 64
KEYS = SMALL["qwen3"]
MODELS = {"heads": KEYS, "experts": {**SMALL["sinks"], "num_local_experts": 8}, "latent": SMALL["deepseek"]}
PLAIN = Blocks(ROWS)
DIVISIONS = [
    Blocks(ROWS, part_rows=16),
    Blocks(ROWS, part_rows=24, slices=4),
    Blocks(ROWS, ring=4, extra=2, slices=2),
    Blocks(ROWS, ring=4, extra=1, slices=8, part_rows=16, shares_latents=1),
    Blocks(ROWS, part_rows=16, slices=2, loads=1, ahead=1, halved=2, part_router=1, tiles=3),
    Blocks(ROWS, ring=4, part_rows=16, part_products=1, loads=1),
    Blocks(ROWS, ring=5, part_rows=24, part_products=1),
]


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Programs of a prefill whose layers have given blocks; and its last layer."""

    def programs(name: str, tp: int, blocks: Blocks, bits: int = 8) -> tuple[BlockPrograms, Segment]:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(MODELS[name]))
        job = Job(prompt=ROWS, tokens=1, phases=("prefill",), prefetch_experts=name != "heads")
        bits_of_all = Precision(w=bits, a=bits, kv=bits)
        found = BlockPrograms(load_model(str(path)), bits_of_all, MACHINE, grid_job(job, Layout(tp)))
        (step,) = found.steps
        layers = [segment for segment in found.segments(step) if segment.kind == "layer"]
        for segment in layers:
            found._rows[segment.kind, segment.shape, found.batch_of(step)] = blocks  # type: ignore[index]
        return found, layers[-1]

    return programs


@pytest.mark.parametrize("blocks", DIVISIONS, ids=lambda one: ",".join(map(str, astuple(one))))
@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_divisions_do_the_same_work_without_races(made: Any, name: str, tp: int, blocks: Blocks) -> None:
    """`check_overlap` ends a run in which jobs use the same bytes at the same time. PEs that share latent vectors multiply
    less, because each makes those of its own rows. Parts of fewer than 128 rows compute fewer scores that are masked."""
    found = []
    for one in (PLAIN, blocks):
        programs, segment = made(name, tp, one)
        program = programs.segment_program(segment)
        check_program(program, programs.target)
        products = [entry for entry in program.entries if isinstance(entry, TeEntry)]
        macs = sum(work_of(entry) for entry in products if not entry.meta["phase"].startswith("ATTENTION"))
        found.append((run_program(program, programs).bytes, macs))
    (plain, macs), (divided, fewer) = found
    saved = 0
    if name == "latent" and blocks.shares_latents:
        keys = MODELS[name]
        each = keys["q_lora_rank"] + keys["kv_lora_rank"] + keys["qk_rope_head_dim"]
        saved = (tp - 1) * ROWS * keys["hidden_size"] * each
    assert (divided, fewer) == (plain, macs - saved)


@pytest.mark.parametrize("name", MODELS)
def test_the_attention_of_a_part_does_not_wait_for_the_sum_of_an_earlier_part(made: Any, name: str) -> None:
    programs, segment = made(name, 4, Blocks(ROWS, part_rows=16))
    program = programs.segment_program(segment)
    before, node = ancestors(program), programs.places[0].node
    found: dict[str, list[int]] = {"ATTENTION_APPLY": [], "OUT_PROJ": [], "ALL_REDUCE": [], "MLP_GATE_UP": [], "MLP_ROUTER": []}
    for i, entry in enumerate(program.entries):
        if getattr(entry, "node", None) == node and isinstance(entry, TeEntry | PairEntry) and entry.meta["phase"] in found:
            found[entry.meta["phase"]].append(i)
    sums = set(found["ALL_REDUCE"][: len(found["ALL_REDUCE"]) * 4 // 5])  # of the parts, before that of the network
    assert not any(before[i] >> send & 1 for i in found["ATTENTION_APPLY"] for send in sums)
    products = [sum(before[send] >> i & 1 for i in found["OUT_PROJ"]) for send in sorted(sums)]
    assert products[0] == len(found["OUT_PROJ"]) // 4  # the first sum waits for the products of the first part only
    network = found["MLP_ROUTER"] or found["MLP_GATE_UP"]
    assert all(before[network[0]] >> i & 1 for i in found["OUT_PROJ"])


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_scores_run_only_some_parts_ahead(made: Any, name: str, ahead: int) -> None:
    programs, segment = made(name, 4, Blocks(ROWS, ring=4, part_rows=16, ahead=ahead))
    program = programs.segment_program(segment)
    before, node = ancestors(program), programs.places[0].node
    found: dict[str, list[int]] = {"ATTENTION_SCORE": [], "OUT_PROJ": []}
    for i, entry in enumerate(program.entries):
        if getattr(entry, "node", None) == node and isinstance(entry, TeEntry) and entry.meta["phase"] in found:
            found[entry.meta["phase"]].append(i)
    parts = {}
    for phase, some in found.items():
        each = len(some) // 4
        parts[phase] = [some[at : at + each] for at in range(0, len(some), each)]
    for number, scores in enumerate(parts["ATTENTION_SCORE"]):
        for score in scores:
            behind = [any(before[score] >> i & 1 for i in outputs) for outputs in parts["OUT_PROJ"]]
            assert number < ahead or behind[number - ahead]
            assert not any(behind[max(0, number - ahead + 1) :])


def test_a_router_in_parts_waits_only_for_the_sum_of_its_part(made: Any) -> None:
    programs, segment = made("experts", 2, Blocks(ROWS, ring=4, part_rows=16, part_router=1))
    program, node = programs.segment_program(segment), programs.places[0].node
    before = ancestors(program)
    found: dict[str, list[int]] = {"OUT_PROJ": [], "MLP_ROUTER": []}
    for i, entry in enumerate(program.entries):
        if getattr(entry, "node", None) == node and isinstance(entry, TeEntry) and entry.meta["phase"] in found:
            found[entry.meta["phase"]].append(i)
    outputs = found["OUT_PROJ"]
    assert len(found["MLP_ROUTER"]) == len(outputs) == 4
    for number, router in enumerate(found["MLP_ROUTER"]):
        assert before[router] >> outputs[number] & 1 and not any(before[router] >> i & 1 for i in outputs[number + 1 :])


def test_the_last_slice_is_halved(made: Any) -> None:
    """The sum of the last slice has no products to run beside, so it is small."""
    programs, segment = made("experts", 2, Blocks(ROWS, slices=2, halved=2))
    program, node = programs.segment_program(segment), programs.places[0].node
    products = [
        one for one in program.entries
        if isinstance(one, TeEntry) and one.node == node and one.meta["phase"] == "MLP_DOWN"
    ]  # fmt: skip
    hidden = MODELS["experts"]["hidden_size"]
    widths = dict.fromkeys(one.n for one in products)
    assert list(widths) == [hidden // 2, hidden // 4, hidden // 8]
    assert sum(one.n for one in products) == hidden * len(products) / 4


def paced(made: Any, blocks: Blocks, sizes: Sequence[int], *, network: bool = False) -> list[set[int]]:
    """Of loads of weights with these sizes [64 KiB], those that each of them waits for, directly or not, by number."""
    programs, segment = made("heads", 2, blocks)
    emits, batch = programs._emitters(segment, Program("loads")), programs.batch_of(segment.step)
    layer = programs._layers(segment, emits, batch, blocks)[0]
    if network:
        layer.extend_weights()
    emit, jobs = layer.emit, list[int]()
    for nbytes in sizes:
        jobs.append(emit.load("weight", 8, Span(0, 1, nbytes << 16, nbytes << 16), len(jobs) << 18))
        layer._delay(jobs[-1], nbytes << 16, None)
    found: list[set[int]] = []
    for job in jobs:
        direct = {jobs.index(one) for one in emit.program.entries[job].deps_before}
        found.append(direct.union(*(found[one] for one in direct)))
    return found


@pytest.mark.parametrize("loads", [1, 3])
def test_with_few_loads_in_progress_weights_of_the_mixer_arrive_in_order(made: Any, loads: int) -> None:
    """A small load that began after a large one may end before it. All loads behind both then wait for the large one, too, not
    only some of them."""
    waits = paced(made, Blocks(ROWS, ring=4, loads=loads), (8, *[1] * 30))
    assert all((some == set(range(len(some)))) == (loads == 1) for some in waits[-10:])


def test_weights_arrive_in_order_until_the_ring_is_full_and_the_network_has_begun(made: Any) -> None:
    """Weights of experts must not delay those of the mixer. Later, many transfers at a time keep the DRAM busy."""
    blocks, sizes = Blocks(ROWS, ring=4, loads=1), [1] * 150
    ordered, both = paced(made, blocks, sizes), paced(made, blocks, sizes, network=True)
    different = next(number for number, some in enumerate(both) if some != ordered[number])
    half = as_npu(MACHINE).spm.size_bytes // 2 >> 16
    assert half - 8 < different < half + 16
    assert len(both[-1]) < len(ordered[-1]) == max(ordered[-1]) + 1


def test_more_tiles_keep_more_bytes_of_weights_in_progress(made: Any) -> None:
    few, many = (paced(made, Blocks(ROWS, ring=4, tiles=tiles), [1] * 60) for tiles in (1, 4))
    assert len(few[-1]) - len(many[-1]) >= 3


@pytest.mark.parametrize("rows", [16, 24])
def test_parts_with_products_go_through_the_layer_by_themselves(made: Any, rows: int) -> None:
    """A product of a part waits for the sums of this part, and for no sum of a later part. Weights are loaded once."""
    programs, segment = made("heads", 4, Blocks(ROWS, ring=4, part_rows=rows, part_products=1, loads=1))
    program = programs.segment_program(segment)
    before, node, count = ancestors(program), programs.places[0].node, ceil_div(ROWS, rows)
    of_node = [(i, entry) for i, entry in enumerate(program.entries) if getattr(entry, "node", None) == node]
    found = {
        phase: [(i, one) for i, one in of_node if isinstance(one, TeEntry | PairEntry) and one.meta["phase"] == phase]
        for phase in ("QKV_PROJ", "OUT_PROJ", "MLP_GATE_UP", "MLP_DOWN")
    }
    ofs = {"QKV_PROJ": 3, "OUT_PROJ": 1, "MLP_GATE_UP": 2, "MLP_DOWN": 1}
    assert {phase: len(some) for phase, some in found.items()} == {phase: each * count for phase, each in ofs.items()}
    assert sorted(one.m for _, one in found["MLP_DOWN"]) == sorted(min(rows, ROWS - at) for at in range(0, ROWS, rows))
    outputs = [i for i, _ in found["OUT_PROJ"]]
    for number in range(count):
        for gate_or_up in found["MLP_GATE_UP"][number::count]:
            assert [bool(before[gate_or_up[0]] >> i & 1) for i in outputs] == [part <= number for part in range(count)]
    outs = sorted((out.addr, out.nbytes) for *_, out in (regions_of(one, programs.machine) for _, one in found["MLP_GATE_UP"]))
    assert all(at + nbytes <= behind for (at, nbytes), (behind, _) in pairwise(outs))
    loads = [one for _, one in of_node if isinstance(one, DmaEntry) and one.tensor_role == "weight"]
    assert len({one.dram_addr for one in loads}) == len(loads)


def test_experts_in_a_large_ring_still_wait_for_the_router(made: Any) -> None:
    """A search may give weights more space without loading them ahead of the router."""
    waiting = []
    for blocks in (PLAIN, Blocks(ROWS, ring=4, part_rows=16)):
        programs, segment = made("experts", 2, blocks)
        programs.job = replace(programs.job, prefetch_experts=False)
        program = programs.segment_program(segment)
        before, experts = ancestors(program), ("MLP_GATE_UP", "MLP_DOWN")
        routers = [i for i, one in enumerate(program.entries) if isinstance(one, VeEntry) and one.meta["phase"] == "MLP_ROUTER"]
        loads = [i for i, one in enumerate(program.entries) if isinstance(one, DmaEntry) and one.meta["phase"] in experts]
        waiting.append([any(before[i] >> router & 1 for router in routers) for i in loads])
    assert waiting[0] == waiting[1] and sum(waiting[0]) > len(waiting[0]) / 2  # all but the biases


@pytest.mark.parametrize(("cycles", "used"), [((100, 90), "parts"), ((90, 100), "layers"), ((90, 90), "layers")])
def test_of_both_planners_the_faster_one_plans_a_searched_job(
    cycles: tuple[int, int], used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cycles`: of a step with the planner of layers, and with layers that are lowered part by part."""
    took = {LlmPrograms: cycles[0], BlockPrograms: cycles[1]}
    monkeypatch.setattr("kernbench.workloads.blocks.programs.step_cycles", lambda programs, step: took[type(programs)])
    job = Job(prompt=16, tokens=3, search_divisions=True)
    found = programs_of(load_model("llama2-7b"), Precision(), MACHINE, grid_job(job, Layout(2)))
    assert isinstance(found, BlockPrograms) == (used == "parts")
    assert found.compared == ComparedPlanners(whole=4 * cycles[0], divided=4 * cycles[1])  # one prefill and three decode steps


@pytest.mark.parametrize("faster", [1, 2])
def test_one_planner_plans_all_micro_batches_and_replicas_of_a_stage(faster: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each planner has the weights at addresses of its own. `faster`: sequences for which layers are faster part by part."""
    monkeypatch.setattr(
        "kernbench.workloads.blocks.programs.step_cycles",
        lambda programs, step: 90 if isinstance(programs, BlockPrograms) == (programs.job.batch == faster) else 100,
    )
    job = Job(prompt=16, tokens=1, batch=6, layers=2, search_divisions=True)
    programs = ParallelPrograms(load_model("llama2-7b"), Precision(), MACHINE, job, Layout(2, 2, 2, 2))
    assert programs.sizes == [2, 1]
    stages = [programs.stage(*at) for at in ((0, 2), (0, 1), (1, 2), (1, 1), (0, 2, 1), (0, 1, 1))]
    assert {isinstance(one, BlockPrograms) for one in stages} == {faster == 2}


def test_a_job_that_only_the_planner_of_layers_can_plan_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> BlockPrograms:
        raise InputError(Problem("scratchpad", "too small"))

    monkeypatch.setattr("kernbench.workloads.blocks.programs.BlockPrograms", refused)
    job = Job(prompt=16, tokens=1, layers=1, phases=("prefill",), search_divisions=True)
    found = programs_of(load_model("llama2-7b"), Precision(), MACHINE, grid_job(job, Layout(2)))
    assert found.compared is not None and found.compared.divided is None and "too small" in found.compared.refusal


def test_a_search_needs_several_pes() -> None:
    with pytest.raises(InputError, match="it divides layers between the PEs of --tp; take --tp 2 or more"):
        programs_of(load_model("llama2-7b"), Precision(), MACHINE, Job(prompt=16, tokens=1, search_divisions=True))


def test_queued_sums_of_parts_go_one_behind_another(made: Any) -> None:
    """Sums that share the links equally would all end late."""
    programs, segment = made("heads", 4, Blocks(ROWS, ring=4, part_rows=16, part_products=1))
    program = programs.segment_program(segment)
    before, node = ancestors(program), programs.places[0].node
    sends = [
        i for i, one in enumerate(program.entries)
        if isinstance(one, PairEntry) and one.node == node and one.meta["phase"] == "ALL_REDUCE"
    ]  # fmt: skip
    sums = [sends[at : at + len(sends) // 8] for at in range(0, len(sends), len(sends) // 8)][:4]  # of the attention
    for earlier, later in pairwise(sums):
        assert all(before[job] >> same & 1 for same, job in zip(earlier, later, strict=True))


def ancestors(program: Program) -> list[int]:
    """For each entry, the set of those that end before it begins, as bits."""
    found: list[int] = []
    for waits in predecessors(program.entries):
        found.append(0)
        for i in waits:
            found[-1] |= found[i] | 1 << i
    return found


def test_later_weights_use_the_bytes_of_the_mixer(made: Any) -> None:
    """With more weights, those of experts lie behind the ring too, where queries and keys were."""
    ends = {}
    for extra in (0, 2):
        programs, segment = made("experts", 2, Blocks(ROWS, ring=4, extra=extra))
        entries = programs.segment_program(segment).entries
        loads = [one for one in entries if isinstance(one, DmaEntry) and one.tensor_role == "weight"]
        places = [transfer_of(one, programs.machine).spm_addr for one in loads if one.meta["phase"] == "MLP_GATE_UP"]
        ends[extra] = max(places) / programs.machine.spm.size_bytes
    assert ends[0] < 0.51 < ends[2]


def test_a_matrix_that_does_not_stay_in_the_ring_of_weights_does_not_fit(made: Any) -> None:
    """Tiles of the output projection are used by all parts, so the ring must hold all of them."""
    programs, segment = made("heads", 2, Blocks(ROWS, part_rows=16))
    small = programs.machine.spm.model_copy(update={"bank_size_bytes": 4096})
    programs.machine = programs.machine.model_copy(update={"spm": small})
    assert programs._cycles(segment, programs.batch_of(segment.step), Blocks(ROWS, part_rows=16)) is None


def test_a_search_stops_at_the_limit_of_cycles(made: Any) -> None:
    """Before, all divisions took the limit, and the first one was used."""
    programs, segment = made("experts", 2, PLAIN)
    programs.target = programs.target.model_copy(update={"max_cycles": 1000})
    with pytest.raises(StoppedError, match="layer 1, prefill of 64 tokens after 0: stopped at max_cycles = 1,000"):
        programs._cycles(segment, programs.batch_of(segment.step), PLAIN)


def test_a_search_says_when_it_has_compared_a_division(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search may take half a minute, in which the command shows that it works."""
    programs, segment = made("experts", 2, PLAIN)
    programs._rows.clear()
    SEARCHED.clear()
    monkeypatch.setattr(programs, "_is_searched", lambda *_: True)
    monkeypatch.setattr("kernbench.common.kept_results.kept_result", lambda kind, key, form, make: make())
    seen: list[int] = []
    programs.on_compared = lambda: seen.append(1)
    _, compared = programs.compared_blocks(segment)
    assert len(seen) == len(compared) > 1
    seen.clear()
    programs._rows.clear()
    programs.segment_program(segment)
    assert not seen  # the result is known


def test_a_search_keeps_each_value_that_saves_cycles(made: Any) -> None:
    """Of each kind of value, the first ones that fit are tried until one costs cycles."""
    _, segment = made("latent", 4, PLAIN)
    first, best = Blocks(ROWS, ring=4, part_rows=128), Blocks(ROWS, ring=5, part_rows=128, extra=3)
    last = replace(best, slices=8, tiles=3)
    costs = {
        Blocks(ROWS, ring=4): 100, first: 90, Blocks(ROWS, ring=4, part_rows=64): 91,
        replace(first, shares_latents=1): 90, replace(first, ahead=2): 92,
        replace(first, ring=6): 85, replace(first, ring=5): 88, replace(first, ring=6, extra=2): 86, best: 80,
        replace(best, extra=2): 85, replace(best, slices=4): 75, replace(best, slices=8): 70,
        replace(best, slices=8, halved=2): 71, replace(best, slices=8, loads=1): 71,
        replace(best, slices=8, part_router=1): 73, last: 69, replace(last, tiles=4): 70,
        replace(last, ahead=2): 68, replace(last, ahead=2, part_rows=64): 67, replace(last, ahead=2, part_rows=48): 69,
        replace(last, ahead=2, part_rows=64, slices=4, halved=4): 72,
        replace(last, ahead=2, part_rows=64, ring=6, extra=0): 74,
    }  # fmt: skip
    found = dict(tried_blocks(Blocks(ROWS, ring=4), segment.shape, costs.get, parts=True))
    assert {blocks: cycles for blocks, cycles in found.items() if cycles is not None} == costs
    assert next(blocks for blocks, cycles in found.items() if cycles is None) == Blocks(ROWS, ring=7, part_rows=128)
    alone = dict(tried_blocks(Blocks(ROWS, ring=4), segment.shape, costs.get, parts=False))
    assert all(cycles is None for blocks, cycles in alone.items() if blocks != Blocks(ROWS, ring=4))


def test_more_weights_than_there_is_room_for_are_not_tried(made: Any) -> None:
    _, segment = made("experts", 2, PLAIN)
    cycles = {Blocks(ROWS, ring=4): 100}
    found = tried_blocks(Blocks(ROWS, ring=4), segment.shape, cycles.get, parts=False, room=lambda: 2)
    assert [blocks.extra for blocks, _ in found if blocks.extra] == [5, 2, 1]


def test_a_layer_that_does_not_fit_says_how_many_more_weights_would(made: Any) -> None:
    """A search then tries no more than that."""
    programs, segment = made("experts", 2, PLAIN)
    small = programs.machine.spm.model_copy(update={"bank_size_bytes": 1 << 15})
    programs.machine = programs.machine.model_copy(update={"spm": small})
    fits = []
    for extra in range(1, 8):
        fits.append(programs._cycles(segment, programs.batch_of(segment.step), Blocks(ROWS, ring=4, extra=extra)) is not None)
        assert fits[-1] or programs._room_for_more < extra
    assert fits[0] and not fits[-1] and programs._room_for_more == sum(fits)


def test_sums_in_pairs_wait_for_fewer_additions(made: Any) -> None:
    """Additions that wait for each other may each wait for a softmax of another part."""
    for count in range(1, 9):
        values, depth = dict.fromkeys(range(count + 1), 1), dict.fromkeys(range(count + 1), 0)
        for place, other in additions(0, range(1, count + 1), pairs=True):
            values[place] += values[other]
            depth[place] = 1 + max(depth[place], depth[other])
        assert values[0] == count + 1
        assert depth[0] == count.bit_length()
    assert list(additions(0, [1, 2, 3], pairs=False)) == [(0, 1), (0, 2), (0, 3)]
    programs, segment = made("heads", 4, Blocks(ROWS, part_rows=16))
    program, node = programs.segment_program(segment), programs.places[0].node
    adds = [
        one for one in program.entries
        if isinstance(one, VeEntry) and one.node == node and one.meta["phase"] == "ALL_REDUCE"
    ]  # fmt: skip
    before, numbers = ancestors(program), {entry.id: number for number, entry in enumerate(program.entries)}
    of_part = [numbers[one.id] for one in adds[:3]]
    assert [[bool(before[i] >> j & 1) for j in of_part] for i in of_part] == [[False] * 3, [False] * 3, [True, True, False]]


class Numbers:
    """The records of a program with numbers, for Phase 2: products, additions and transfers of the phases behind attention and
    activation, whose results are random numbers.

    Each PE has a scratchpad of its own, at a multiple of 2 ** 32 in one space. A tile of weights has its columns one after the
    other, as in DRAM.
    """

    PHASES = "OUT_PROJ", "MLP_DOWN", "ALL_REDUCE"
    MADE = "ATTENTION_APPLY", "MLP_ACTIVATION"

    def __init__(self, programs: BlockPrograms, program: Program) -> None:
        self.random, self.store, self.records = np.random.default_rng(7), MemoryStore(), list[OpRecord]()
        self.config, self._scratch = programs.machine, 1 << 50
        self._weights: dict[int, Array] = {}
        self.sums: dict[tuple[int, int], dict[str, Array]] = {}
        self._shadow: dict[str, Array] = {}
        self.base = {place.node: at << 32 for at, place in enumerate(programs.places)}
        for node in self.base:
            self._shadow[str(node)] = np.zeros(self.config.spm.size_bytes, np.uint8)
        machine = Machine(programs.target, program)
        machine.run()
        times = machine.time_table()
        self.products: list[tuple[str, str, int, Array]] = []  # node, phase, place and values of each product, in program order
        for entry, (_, _, start, end) in zip(program.entries, times.tolist(), strict=True):
            if getattr(entry, "node", None) is not None:
                self._record(entry, float(start), float(end))

    def _record(self, entry: Any, start: float, end: float) -> None:
        phase, node = entry.meta.get("phase"), str(entry.node)
        at, config = self.base[entry.node], self.config
        if phase in self.MADE and isinstance(entry, TeEntry | VeEntry):
            if entry.op == "softmax":
                return
            written = regions_of(entry, config)[-1]
            values = self.random.integers(-2, 3, written.nbytes // 2).astype(np.float16)
            self._shadow[node][written.addr : written.addr + written.nbytes] = values.view(np.uint8)
            self._copy(start, end, "hbm", self._new(values), "tcm", at + written.addr, values.size)
        elif phase not in self.PHASES:
            return
        elif isinstance(entry, TeEntry):
            ifm, wgt, ofm = regions_of(entry, config)
            sizes = {"shape_a": (entry.m, entry.k), "shape_b": (entry.n, entry.k), "shape_out": (entry.m, entry.n)}
            places = {"src_a_addr": at + ifm.addr, "src_b_addr": at + wgt.addr, "dst_addr": at + ofm.addr}
            spaces = {"src_a_space": "tcm", "src_b_space": "tcm", "dst_space": "tcm"}
            dtypes = {"dtype_in": "f16", "dtype_out": "f16", "transpose_b": True}
            self._add(start, end, "gemm", "gemm_f16", {**sizes, **places, **spaces, **dtypes})
            x, w = (self._shadow[node][one.addr : one.addr + one.nbytes].view(np.float16) for one in (ifm, wgt))
            product = x.reshape(entry.m, entry.k).astype(np.float64) @ w.reshape(entry.n, entry.k).T.astype(np.float64)
            self.products.append((node, str(phase), ofm.addr, product))
        elif isinstance(entry, VeEntry):
            first, second, out = regions_of(entry, config)
            shape, places = (first.nbytes // 2,), [at + first.addr, at + second.addr]
            given = {
                "input_addrs": places,
                "input_shapes": [shape] * 2,
                "input_spaces": ["tcm"] * 2,
                "input_dtypes": ["f16"] * 2,
            }
            self._add(
                start,
                end,
                "math",
                "add",
                {**given, "dst_addr": at + out.addr, "dst_space": "tcm", "shape_out": shape, "dtype": "f16"},
            )
        elif isinstance(entry, PairEntry):
            spm = config.spm
            source = at + flat_address(entry.spm_bank, entry.spm_offset, spm)
            target = self.base[entry.peer] + flat_address(entry.peer_bank, entry.peer_offset, spm)
            self._copy(start, end, "tcm", source, "tcm", target, entry.num_elements)
        elif isinstance(entry, DmaEntry) and entry.tensor_role == "weight":
            moved = transfer_of(entry, config)
            count = moved.bytes_total // 2
            if entry.dram_addr not in self._weights:
                self._weights[entry.dram_addr] = self.random.integers(-2, 3, count).astype(np.float16)
            values = self._weights[entry.dram_addr]
            self._shadow[node][moved.spm_addr : moved.spm_addr + 2 * count] = values.view(np.uint8)
            self._copy(start, end, "hbm", self._new(values), "tcm", at + moved.spm_addr, count)

    def _new(self, values: Array) -> int:
        """The address of these values in a memory of their own."""
        self._scratch += 1 << 24
        self.store.write("hbm", self._scratch, values)
        return self._scratch

    def _copy(self, start: float, end: float, space: str, source: int, to: str, target: int, count: int) -> None:
        params = {
            "src_space": space,
            "src_addr": source,
            "dst_space": to,
            "dst_addr": target,
            "shape": (count,),
            "dtype": "f16",
        }
        self._add(start, end, "memory", "dma_read", params)

    def _add(self, start: float, end: float, kind: str, name: str, params: dict[str, Any]) -> None:
        self.records.append(OpRecord(start, end, "pe", kind, name, params, op_id=len(self.records)))

    def sums_of(self, phase: str) -> Iterator[tuple[int, Array]]:
        """The place of each product of a phase, and the sum of the products of all PEs there."""
        by_node = [[one for one in self.products if one[0] == str(node) and one[1] == phase] for node in self.base]
        for some in zip(*by_node, strict=True):
            assert len({place for _, _, place, _ in some}) == 1
            yield some[0][2], sum(product for *_, product in some)  # type: ignore[misc]


@pytest.mark.parametrize(
    "blocks", [PLAIN, *DIVISIONS[:2], replace(DIVISIONS[1], slices=8), *DIVISIONS[-3:]],
    ids=lambda one: ",".join(map(str, astuple(one))),
)
@pytest.mark.parametrize("tp", [2, 4])
def test_numbers_of_slices_and_parts_are_the_sums_over_all_pes(made: Any, tp: int, blocks: Blocks) -> None:
    """Phase 2 replays the products, transfers and additions of a program at their simulated times."""
    check_numbers(made, tp, blocks)


@pytest.mark.parametrize("tp", [2, 4])
def test_numbers_of_sums_in_pairs_are_the_sums_over_all_pes(made: Any, tp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernbench.workloads.blocks.layer.PartialRows", lambda *a, **k: PartialRows(*a, **{**k, "pairs": True}))
    check_numbers(made, tp, DIVISIONS[1])


def check_numbers(made: Any, tp: int, blocks: Blocks) -> None:
    """Replay the products, transfers and additions of a layer, and compare the sums behind its down projection."""
    programs, segment = made("heads", tp, blocks, bits=16)
    program = programs.segment_program(segment)
    numbers = Numbers(programs, program)
    after = DataExecutor(numbers.records, numbers.store).run().store
    sums = list(numbers.sums_of("MLP_DOWN"))
    parts = ceil_div(ROWS, blocks.part_rows) if blocks.part_products else 1
    assert len(sums) >= max(parts, blocks.slices)
    assert len({place for place, _ in sums}) == len(sums)  # so that all can be read at the end
    loads = [entry for entry in program.entries if isinstance(entry, DmaEntry) and entry.meta["phase"] == "MLP_DOWN"]
    for node in numbers.base:  # the slices are, or each part multiplies, all columns of the matrix, in order
        moved = [transfer_of(entry, programs.machine) for entry in loads if entry.node == node]
        assert all(one.dram_end == other.dram_start for one, other in pairwise(moved))
        assert sum(one.bytes_total for one in moved) == 2 * KEYS["hidden_size"] * KEYS["intermediate_size"] // tp
    for place, expected in sums:
        for at in numbers.base.values():
            assert (after.read("tcm", at + place, expected.shape, "f16") == expected.astype(np.float16)).all()
