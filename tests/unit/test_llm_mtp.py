"""Blocks that predict further tokens (MTP): their parameters, and what a step with them takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq.entries import DmaEntry, TeEntry
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.run import segment_tally
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.run import job_programs, run_model
from kernbench.workloads.parallel.search import search
from tests.model_cases import SMALL
from tests.oracles.ref_mtp import block_parameters, draft_macs

BITS = Precision(w=8, a=8, kv=8)
JOB = Job(prompt=20, tokens=2, batch=2, predicting=True)
RECORDED = json.loads((Path(__file__).parents[1] / "model_types" / "parameters.json").read_text())


def keys(blocks: int = 1, **other: Any) -> dict[str, Any]:
    return {**SMALL["deepseek"], "num_nextn_predict_layers": blocks, "n_group": 1, "topk_group": 1, **other}


def programs(folder: Path, job: Job = JOB, blocks: int = 1, machine: str = "npu_server", layout: Layout | None = None) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(keys(blocks)))
    return job_programs(load_model(str(path)), BITS, load_config(machine), job, layout or Layout(job.shards))


def test_parameters_of_the_published_model(tmp_path: Path) -> None:
    """DeepSeek-V3: the authors state 11.5 billion parameters beside embedding and head for its block."""
    config = RECORDED["deepseek_v3"][0]["config"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = load_model(str(path)).description
    assert found is not None and found.predicting == 1
    assert found.predicting_parameters == block_parameters(config)
    assert 11.5e9 < found.predicting_parameters < 11.7e9


@pytest.mark.parametrize("blocks", [1, 2])
def test_macs_of_a_step_are_those_of_the_closed_form(blocks: int, tmp_path: Path) -> None:
    """The floor of a step with drafts, less the floor without: one pass of each block over the rows of the step."""
    with_them = programs(tmp_path, blocks=blocks)
    without = programs(tmp_path, replace(JOB, predicting=False), blocks)
    for step in with_them.steps:
        rows = step.tokens * JOB.batch
        seen = JOB.batch * sum(at + 1 for at in range(step.context, step.context + step.tokens))
        more = floor_of(with_them, step).macs - floor_of(without, step).macs
        assert more == blocks * draft_macs(keys(blocks), rows, JOB.batch, seen)


def test_the_projection_reads_both_halves_of_its_weights_once(tmp_path: Path) -> None:
    made = programs(tmp_path)
    step = made.steps[-1]
    (segment,) = (one for one in made.segments(step) if one.kind == "draft")
    entries = [entry for entry in made.segment_program(segment).entries if entry.meta.get("phase") == "MTP_PROJ"]
    hidden = 256
    assert sum(entry.m * entry.n * entry.k for entry in entries if isinstance(entry, TeEntry)) == 2 * 2 * hidden * hidden
    assert sum(entry.num_elements for entry in entries if isinstance(entry, DmaEntry)) == 2 * hidden * hidden
    assert {entry.meta["layer_id"] for entry in entries} == {2}  # behind the two layers


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_step_takes_a_pass_of_each_block_more(blocks: int, tmp_path: Path) -> None:
    """Embedding, block and LM head of each; with all segments in one program, as many cycles."""
    run = run_model(programs(tmp_path, blocks=blocks))
    plain = run_model(programs(tmp_path, replace(JOB, predicting=False), blocks))
    for more, less in zip(run.steps, plain.steps, strict=True):
        made: LlmPrograms = run.programs  # type: ignore[assignment]
        segments = [one for one in made.segments(more.step) if one.layer > made.layers or one.kind == "draft"]
        assert [one.kind for one in segments] == ["embedding", "draft", "head"] * blocks
        assert more.total.cycles - less.total.cycles == sum(segment_tally(made, one).cycles for one in segments)
    whole = run_model(programs(tmp_path, blocks=blocks), reuse=False)
    assert sum(one.total.cycles for one in whole.steps) == sum(one.total.cycles for one in run.steps)


def test_blocks_read_what_is_before_them_and_have_memory_of_their_own(tmp_path: Path) -> None:
    """The first block reads the last layer's output, the second the first block's; each LM head reads its own block."""
    made = programs(tmp_path, blocks=2)
    loads: list[set[int]] = []
    for segment in list(made.segments(made.steps[-1]))[-6:]:
        loads.append({entry.dram_addr for entry in made.segment_program(segment).entries if isinstance(entry, DmaEntry)})
    first_words, first, first_head, second_words, second, second_head = loads
    dram, (one, other) = made.dram, made._draft_stream
    assert dram.input_of(made.layers) in first and dram.input_of(made.layers) not in second
    assert one in first & first_head & second and other in second & second_head and other not in first_head
    assert made._words in first_words & first & second_words & second
    own = [set(memory.caches.values()) for memory, _ in made._draft_memories]
    layers = {address for memory in made._memories for address in memory.caches.values()}
    assert not own[0] & own[1] and not (own[0] | own[1]) & layers
    assert made.dram.end > programs(tmp_path, replace(JOB, predicting=False), 2).dram.end


def test_shards_and_replicas_draft_as_well(tmp_path: Path) -> None:
    """Four PEs: two replicas of one sequence each, which share the experts; a search finds layouts without stages."""
    job = replace(JOB, shards=2, expert_parallel=True)
    both = programs(tmp_path, job, machine="single_cube", layout=Layout(2, 1, 2))
    without = programs(tmp_path, replace(job, predicting=False), machine="single_cube", layout=Layout(2, 1, 2))
    runs = [run_model(one).steps[-1] for one in (both, without)]
    more = floor_of(both, both.steps[-1]).macs - floor_of(without, without.steps[-1]).macs
    assert runs[0].counts["draft"] == 1 and runs[0].total.macs - runs[1].total.macs >= more > 0
    model = load_model(str(tmp_path / "config.json"))
    found = search(model, BITS, load_config("single_cube"), replace(JOB, tokens=1), simulated=1)
    assert found and all(one.layout.pp == 1 for one in found)


def test_models_and_layouts_that_cannot_draft_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no blocks that predict further tokens"):
        programs(tmp_path, blocks=0)
    with pytest.raises(InputError, match="has no blocks that predict further tokens"):
        job_programs(load_model("llama2-7b"), BITS, load_config("npu_server"), JOB, Layout())
    with pytest.raises(InputError, match="run on the PEs that have the embedding and the LM head; take --pp 1"):
        programs(tmp_path, machine="single_cube", layout=Layout(1, 2))
