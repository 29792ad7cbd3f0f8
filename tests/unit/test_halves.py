"""Layers with experts whose rows are in two halves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq import check_program
from kernbench.cmdq.entries import DmaEntry, TeEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.config import load_config
from kernbench.workloads.blocks.division import EXPERT_PARTS, Blocks
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.blocks.search import tried_halves
from kernbench.workloads.llm.run import run_program
from kernbench.workloads.llm.steps import Job, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.programs import grid_job
from tests.model_cases import SMALL
from tests.unit.test_divisions import ancestors

MACHINE = load_config("single_cube", ["pe.spm.check_overlap=error", "pe.spm.bank_size_bytes=262144"])
ROWS, LAYERS, EXPERTS = 64, 4, 8
LAYER_TYPES = ["full_attention"] * LAYERS
KEYS = {**SMALL["sinks"], "num_local_experts": EXPERTS, "num_hidden_layers": LAYERS, "layer_types": LAYER_TYPES}
HALVES = Blocks(ROWS // 2, ring=4, loads=1, twice=EXPERT_PARTS // 4)  # two of eight experts
PLACES = ["first", "middle", "middle", "last"]


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Programs of a prefill whose layers have their rows in halves or not, and these layers."""

    def programs(tp: int, blocks: Blocks, **keys: Any) -> tuple[BlockPrograms, list[Segment]]:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**KEYS, **keys}))
        job = Job(prompt=ROWS, tokens=1, phases=("prefill",), prefetch_experts=True)
        found = BlockPrograms(load_model(str(path)), Precision(w=8, a=8, kv=8), MACHINE, grid_job(job, Layout(tp)))
        (step,) = found.steps
        found._places[step] = dict(enumerate(PLACES)) if blocks.twice else {}  # type: ignore[arg-type]
        layers = [segment for segment in found.segments(step) if segment.kind == "layer"]
        for segment in layers:
            found._rows[segment.kind, segment.shape, found.batch_of(step)] = blocks  # type: ignore[index]
            found._halves[segment.shape, found.batch_of(step)] = blocks  # type: ignore[index]
        return found, layers

    return programs


def entries_of(programs: BlockPrograms, program: Program) -> list[tuple[int, Any]]:
    """The entries of the first PE, with their numbers."""
    node = programs.places[0].node
    return [(i, one) for i, one in enumerate(program.entries) if getattr(one, "node", node) == node]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_halves_do_the_same_work_without_races(made: Any, tp: int) -> None:
    """`check_overlap` ends a run in which jobs use the same bytes at the same time. Each half loads the mixer,
    the router, and the first experts."""
    macs, loads = [], []
    for blocks in (Blocks(ROWS), HALVES):
        programs, layers = made(tp, blocks)
        products, weights = Counter[str](), Counter[tuple[int, str]]()
        for segment in layers:
            program = programs.segment_program(segment)
            check_program(program, programs.target)
            run_program(program, programs)
            for _, one in entries_of(programs, program):
                if isinstance(one, TeEntry) and not one.meta["phase"].startswith("ATTENTION"):
                    products[one.meta["phase"]] += work_of(one)
                elif isinstance(one, DmaEntry) and one.tensor_role == "weight" and one.meta["phase"] != "NORM":
                    weights[one.meta["layer_id"], one.meta["phase"]] += transfer_of(one, programs.machine).bytes_total
        macs.append(products)
        loads.append(weights)
    assert macs[0] == macs[1]
    for (layer, phase), nbytes in loads[0].items():
        again = loads[1][layer, phase] / nbytes
        assert again == pytest.approx(1.25 if phase.startswith("MLP_") and phase != "MLP_ROUTER" else 2, rel=0.02), phase


@pytest.mark.parametrize("tp", [1, 4])
def test_each_half_goes_through_the_mixer_beside_experts_of_the_other_half(made: Any, tp: int) -> None:
    programs, layers = made(tp, HALVES)
    program = programs.segment_program(layers[1])
    before = ancestors(program)
    products = [(i, one) for i, one in entries_of(programs, program) if isinstance(one, TeEntry)]
    downs = [i for i, one in products if one.meta["phase"] == "MLP_DOWN"]
    outs = [i for i, one in products if one.meta["phase"] == "OUT_PROJ"]
    late, early = outs[: len(outs) // 2], outs[len(outs) // 2 :]
    once, twice = EXPERTS * 3 // 4, EXPERTS // 4
    assert len(downs) == once + 2 * twice
    first, both, last = downs[:twice], downs[twice : twice + once], downs[twice + once :]
    assert [program.entries[i].m for i in (first[0], both[0], last[0])] == [8, 16, 8]
    assert not any(before[down] >> out & 1 for down in first for out in late)
    assert not any(before[out] >> down & 1 for down in downs for out in late)
    assert all(before[down] >> out & 1 for down in both for out in late)
    assert all(before[out] >> down & 1 for down in first + both for out in early)
    assert not any(before[down] >> out & 1 or before[out] >> down & 1 for down in last for out in early)
    assert {program.entries[i].meta["layer_id"] for i in late} == {1}
    assert {program.entries[i].meta["layer_id"] for i in early} == {2}


@pytest.mark.parametrize("tp", [1, 2])
def test_layers_hand_both_halves_to_the_next_layer(made: Any, tp: int) -> None:
    """Each layer loads the rows that the layer before has stored. All keys are stored once, and the late half loads those of
    the early half, which an earlier segment may have stored."""
    programs, layers = made(tp, HALVES)
    stored: set[int] = set()
    caches: dict[int, set[int]] = {number: set() for number in range(LAYERS)}
    for number, segment in enumerate(layers):
        rows: dict[bool, set[int]] = {True: set(), False: set()}
        for _, one in entries_of(programs, programs.segment_program(segment)):
            if not isinstance(one, DmaEntry) or one.tensor_role not in ("activation", "kv"):
                continue
            moved = transfer_of(one, programs.machine)
            lines = {line for at in range(moved.rows) for line in range(*moved.aligned_row(at), 8)}
            if one.tensor_role == "activation":
                assert not rows[moved.write] & lines
                rows[moved.write] |= lines
            elif moved.write:
                assert not caches[one.meta["layer_id"]] & lines
                caches[one.meta["layer_id"]] |= lines
            else:
                assert lines <= caches[one.meta["layer_id"]]
        assert not number or rows[False] == stored
        stored = rows[True]
        assert len(stored) * 8 == ROWS * KEYS["hidden_size"]
    sizes = {len(some) for some in caches.values()}
    assert len(sizes) == 1 and sizes != {0}


def test_more_experts_are_loaded_twice_until_that_costs_cycles() -> None:
    costs = {(4, 4): 90, (4, 6): 80, (4, 8): 85, (4, 5): 82, (4, 7): 79}

    def tried(whole: int) -> dict[tuple[int, int], int | None]:
        found = tried_halves(32, whole, lambda one: costs.get((one.ring, one.twice)))
        return {(one.ring, one.twice): cycles for one, cycles in found}

    assert tried(82) == {(5, 4): None, **costs}
    assert tried(81) == {(5, 4): None, (4, 4): 90}  # much slower than without halves


def test_each_number_of_experts_that_are_loaded_twice_is_tried_once() -> None:
    """Of eight experts, 4/64 to 7/64 are none, and 8/64 to 15/64 are one."""
    took = {4: 90, 8: 80, 16: 85}
    found = list(tried_halves(32, 90, lambda one: took[one.twice], experts=8))
    assert [(one.twice, cycles) for one, cycles in found] == [(4, 90), (8, 80), (16, 85)]


@pytest.mark.parametrize(("first", "middle", "used"), [(130, 89, True), (130, 91, False), (None, 50, False)])
def test_rows_are_in_halves_if_all_equal_layers_take_fewer_cycles(
    made: Any, monkeypatch: pytest.MonkeyPatch, first: int | None, middle: int, used: bool
) -> None:
    """A layer by itself takes 100 cycles, the last one of layers in halves 90. The first one may not fit."""
    programs, layers = made(2, Blocks(ROWS))
    took = {"": 100, "first": first, "middle": middle, "last": 90}
    monkeypatch.setattr(programs, "_cycles", lambda segment, batch, blocks: took[segment.halves])
    monkeypatch.setattr(programs, "_is_prompt", lambda batch: True)
    monkeypatch.setattr("kernbench.workloads.blocks.programs.WORTH", 0)
    monkeypatch.setattr("kernbench.workloads.blocks.programs.SEARCHED", Recomputed())
    programs._places.clear()
    programs._halves.clear()
    again = [segment.halves for segment in programs.segments(programs.steps[0]) if segment.kind == "layer"]
    assert again == (PLACES if used else [""] * LAYERS)
    blocks, compared = programs.compared_blocks(replace(layers[0], halves=again[0]))
    assert bool(blocks.twice) == used and (Blocks(ROWS), 100) in compared


def test_each_group_of_equal_layers_has_its_rows_in_halves(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers, one of another shape, and three layers like the first ones. Their divisions are compared once."""
    layer_types = [*LAYER_TYPES[:3], "sliding_attention", *LAYER_TYPES[:3]]
    programs, layers = made(2, Blocks(ROWS), num_hidden_layers=len(layer_types), layer_types=layer_types)
    took = {"": 100, "first": 110, "middle": 80, "last": 90}
    monkeypatch.setattr(programs, "_cycles", lambda segment, batch, blocks: took[segment.halves])
    monkeypatch.setattr(programs, "_is_prompt", lambda batch: True)
    monkeypatch.setattr("kernbench.workloads.blocks.programs.WORTH", 0)
    monkeypatch.setattr("kernbench.workloads.blocks.programs.SEARCHED", Recomputed())
    programs._places.clear()
    found = [segment.halves for segment in programs.segments(programs.steps[0]) if segment.kind == "layer"]
    assert found == ["first", "middle", "last", "", "first", "middle", "last"]
    _, compared = programs.compared_blocks(layers[0])
    tried = [blocks for blocks, _ in compared if blocks.twice]
    assert tried and len(tried) == len(set(tried))


class Recomputed:
    """Keeps no results."""

    def of(self, target: object, content: object, make: Any) -> Any:
        return make()
