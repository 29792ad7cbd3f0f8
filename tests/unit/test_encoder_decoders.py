"""Models with an encoder: bytes and MACs of every segment equal closed forms of the keys, and accesses are ordered."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kernbench as kb
from kernbench.cmdq import check_program
from kernbench.cmdq.entries import DmaEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.config import load_config
from kernbench.config.document import data_document
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.blocks.work import layer_work
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job, Segment
from kernbench.workloads.models.files import load_model, model_of
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.routing import EVEN
from tests.oracles.ref_encoder import decoder_layer, encoder_layer, front
from tests.workload_programs import accesses_of, dram_accesses, scratchpad_accesses, tiny_machine, unordered

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "model_types" / "parameters.json").read_text(encoding="utf-8")
)
_SAME = {"d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 256, "decoder_ffn_dim": 192, "vocab_size": 300}  # fmt: skip
_T5 = {"d_model": 128, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "d_kv": 64, "d_ff": 256, "vocab_size": 300}
SMALL: dict[str, dict[str, Any]] = {
    "whisper": {"model_type": "whisper", **_SAME, "num_mel_bins": 16, "max_source_positions": 40, "max_target_positions": 64},
    "bart": {"model_type": "bart", **_SAME, "max_position_embeddings": 64},
    "t5": {"model_type": "t5", **_T5, "feed_forward_proj": "relu"},
    "gated": {"model_type": "t5", **_T5, "feed_forward_proj": "gated-gelu"},
}
SOURCE, PROMPT, BATCH = 40, 5, 3


@cache
def programs(name: str, kib: int = 1280) -> BlockPrograms:
    model = model_of(data_document(SMALL[name], "config.json"), name)
    job = Job(prompt=PROMPT, tokens=1, batch=BATCH, source=SOURCE)
    return BlockPrograms(model, uniform_precision(), load_config(tiny_machine(kib)), job)


def counted(made: BlockPrograms, segment: Segment) -> Counter[str]:
    """What the entries of a segment move and compute."""
    program = made.segment_program(segment)
    check_program(program, made.target)
    assert unordered(program, accesses_of(program, made.machine, scratchpad_accesses)) == []
    assert unordered(program, accesses_of(program, made.machine, dram_accesses)) == []
    found: Counter[str] = Counter()
    for entry in program.entries:
        if entry.engine == "te":
            found["macs"] += work_of(entry)
        elif isinstance(entry, DmaEntry):
            found[entry.tensor_role] += transfer_of(entry, made.machine).bytes_total
    return found


@pytest.mark.parametrize("name", SMALL)
def test_segments_move_and_compute_what_the_closed_form_says(name: str) -> None:
    made, config = programs(name), SMALL[name]
    prefill, decode = made.steps
    kinds = [segment.kind for segment in made.segments(prefill)]
    assert kinds == ["source", "encoder", "encoder", "embedding", "layer", "layer", "head"]
    assert [segment.kind for segment in made.segments(decode)] == ["embedding", "layer", "layer", "head"]
    for step, context, tokens in ((prefill, 0, PROMPT), (decode, PROMPT, 1)):
        for segment in made.segments(step):
            found = counted(made, segment)
            if segment.kind == "source":
                assert found["macs"] == front(config, BATCH, SOURCE)
            elif segment.kind == "encoder":
                want = encoder_layer(config, SOURCE, BATCH, last=segment.layer == 1)
                assert (found["weight"], found["kv"], found["macs"]) == want
            elif segment.kind == "layer":
                want = decoder_layer(config, SOURCE, tokens, context, BATCH)
                assert (found["weight"], found["kv"], found["macs"]) == want


@pytest.mark.parametrize("kind", ["whisper", "t5", "bart"])
def test_work_of_published_models_equals_its_closed_form(kind: str) -> None:
    machine = load_config("npu_server")
    for case in RECORDED[kind]:
        config = case["config"]
        job = Job(prompt=100, tokens=1, batch=2, source=600)
        made = BlockPrograms(model_of(data_document(config, "config.json"), kind), uniform_precision(), machine, job)
        prefill, decode = made.steps
        shapes = made.encoder_shapes(prefill)
        for number, shape in enumerate(shapes):
            work = layer_work(shape, made.source_batch, EVEN)
            assert (work.weights, work.kv, work.macs) == encoder_layer(config, 600, 2, last=number == len(shapes) - 1)
        for shape in made.shapes:
            first, later = (layer_work(shape, made.batch_of(step), EVEN) for step in (prefill, decode))  # type: ignore[arg-type]
            want = decoder_layer(config, 600, 100, 0, 2)
            assert (first.weights, first.kv) == want[:2] and first.macs <= want[2]
            assert (later.weights, later.kv, later.macs) == decoder_layer(config, 600, 1, 100, 2)
        assert floor_of(made, prefill).macs > sum(layer_work(shape, made.source_batch, EVEN).macs for shape in shapes)


@pytest.mark.parametrize("name", ["whisper", "t5"])
def test_reuse_gives_the_same_cycles_above_the_floor(name: str) -> None:
    made = programs(name)
    once, whole = run_llm(made), run_llm(made, reuse=False)
    assert [step.total.cycles for step in once.steps] == [step.total.cycles for step in whole.steps]
    for step in once.steps:
        floor = floor_of(made, step.step)
        assert 0 < floor.dram_cycles <= step.total.cycles and 0 < floor.macs <= step.total.macs


def test_blocks_of_rows_compute_the_same_products() -> None:
    """On a small scratchpad rows go through in blocks: weights are loaded again, products are the same."""
    wide, narrow = programs("t5"), programs("t5", 64)
    for number, segment in enumerate(wide.segments(wide.steps[0])):
        if segment.kind == "encoder":
            other = list(narrow.segments(narrow.steps[0]))[number]
            one, two = counted(wide, segment), counted(narrow, other)
            assert two["macs"] == one["macs"] and two["weight"] > one["weight"]


def test_two_pes_share_both_stacks(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL["whisper"]), encoding="utf-8")
    machine = load_config("single_cube")
    found = []
    for shards in (1, 2):
        job = Job(prompt=4, tokens=1, batch=2, shards=shards)
        made = BlockPrograms(load_model(str(file)), uniform_precision(), machine, job)
        run = run_llm(made)
        assert list(run.steps[0].kinds) == ["source", "encoder", "embedding", "layer", "head"]
        found.append([sum(step.kinds[kind].macs for step in run.steps if kind in step.kinds) for kind in ("encoder", "layer")])
    assert found[0] == found[1]
    cycles = sum(step.total.cycles for step in run.steps)
    assert kb.llm(file, "single_cube", prompt=4, tokens=1, batch=2, tp=2).cycles == cycles
