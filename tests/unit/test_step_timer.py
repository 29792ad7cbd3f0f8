"""Steps of any batch, and the experts that tokens choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.document import data_document
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.programs import BlockPrograms, programs_of
from kernbench.workloads.blocks.timer import StepTimer
from kernbench.workloads.blocks.work import layer_work
from kernbench.workloads.llm.run import CYCLES, run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model, model_of
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.routing import Routing, routing_of
from tests.model_cases import SMALL
from tests.workload_programs import tiny_machine

MODEL = model_of(data_document(SMALL["qwen3"], "config.json"), "qwen3")
MACHINE = load_config(tiny_machine(640))


def timer() -> StepTimer:
    return StepTimer(MODEL, uniform_precision(), MACHINE)


def test_a_batch_of_equal_sequences_takes_what_the_job_takes() -> None:
    job = Job(prompt=40, tokens=1, batch=3, phases=("decode",))
    want = run_llm(BlockPrograms(MODEL, uniform_precision(), MACHINE, job)).steps[0].total.cycles
    made = timer()
    assert made.step_cycles([Sequences(1, 40, 3)]) == want
    assert made.step_cycles([Sequences(1, 40), Sequences(1, 40, 2)]) == want and made.simulated == 1


def test_a_mixed_step_shares_its_weights() -> None:
    """It takes more than either part, and less than both in sequence: weights are loaded once."""
    made = timer()
    decodes, chunk = [Sequences(1, 30, 2), Sequences(1, 90)], [Sequences(16, 8)]
    both = made.step_cycles([*decodes, *chunk])
    assert max(made.step_cycles(decodes), made.step_cycles(chunk)) < both
    assert both < made.step_cycles(decodes) + made.step_cycles(chunk)
    assert both == made.step_cycles([*chunk, *reversed(decodes)])


def test_bytes_and_macs_of_a_mixed_step_add_up() -> None:
    """Cache bytes and scores are those of the sequences alone; weights are there once."""
    batch = Batch((Sequences(1, 30, 2), Sequences(16, 8)))
    programs = BlockPrograms(MODEL, uniform_precision(), MACHINE, Job(prompt=1, tokens=1), batches=[batch])
    shape: Any = programs.shapes[0]
    groups = batch.groups, batch.groups[:1], batch.groups[1:]
    whole, one, two = (layer_work(shape, Batch(some), Routing()) for some in groups)
    assert whole.kv == one.kv + two.kv and whole.macs == one.macs + two.macs and whole.weights == one.weights


def test_buckets_are_exact_at_their_corners_and_near_between_them() -> None:
    made = timer()
    corner = [Sequences(1, 64, 4)]
    assert made.bucketed_cycles(corner) == made.step_cycles(corner)
    between = [Sequences(1, 80, 2), Sequences(1, 112), Sequences(24, 96)]
    assert made.bucketed_cycles(between) == pytest.approx(made.step_cycles(between), rel=0.15)


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(InputError, match="it must have at least one sequence"):
        timer().step_cycles([])
    with pytest.raises(InputError, match="tokens = 0, but it must be an integer of at least 1"):
        Sequences(0)


def test_part_by_part_is_near_the_planner_of_layers() -> None:
    """Llama-3-8B decodes a token, one layer: both are bound by the same bytes."""
    model, machine = load_model("llama3-8b"), load_config("npu_server")
    job = Job(prompt=512, tokens=1, layers=1, phases=("decode",))
    planned, parts = (made(model, uniform_precision(), machine, job) for made in (LlmPrograms, BlockPrograms))
    cycles = [run_llm(programs).steps[0].kinds["layer"].cycles for programs in (planned, parts)]
    assert cycles[1] == pytest.approx(cycles[0], rel=0.03)


def test_routings_give_each_token_its_experts(tmp_path: Path) -> None:
    for text in ("even", "uniform", "zipf:1.2"):
        rows = routing_of(text, seed=3).rows(8, 2, 100)
        assert sum(rows) == 200 and max(rows) <= 100
        assert rows == routing_of(text, seed=3).rows(8, 2, 100)
    assert routing_of("uniform", 1).rows(8, 2, 100) != routing_of("uniform", 2).rows(8, 2, 100)
    zipf = routing_of("zipf:2").rows(8, 1, 4000)
    assert zipf[0] / 4000 == pytest.approx(1 / sum(1 / n**2 for n in range(1, 9)), abs=0.03)
    path = tmp_path / "shares.yaml"
    path.write_text("shares: [1, 0, 3, 0]\n")
    assert routing_of(str(path)).rows(4, 2, 10) == (10, 0, 10, 0)
    with pytest.raises(InputError, match="the model has 8 experts, so the file must have a share for each"):
        routing_of(str(path)).rows(8, 2, 10)
    for wrong in ("zipf:-1", "zipf:x", "random"):
        with pytest.raises(InputError, match="it must be one of even, uniform, zipf:S, FILE"):
            routing_of(wrong)


def test_rare_experts_are_chosen_without_end_of_draws(tmp_path: Path) -> None:
    """One expert is chosen by every token; the second one of each token is drawn among the others, by their own shares."""
    assert routing_of("zipf:100").rows(4, 2, 50) == (50, 50, 0, 0)
    path = tmp_path / "r.yaml"
    path.write_text("shares: [1, 1.0e-9, 3.0e-9, 0]\n", encoding="utf-8")
    always, one, three, never = routing_of(str(path)).rows(4, 2, 4000)
    assert (always, never) == (4000, 0) and one + three == 4000 and 900 < one < 1100


def test_the_distinct_experts_of_a_step_follow_from_the_routing() -> None:
    """Sixteen tokens that all want the same two experts load two of four; even routing loads all."""
    model = model_of(data_document(SMALL["shared"], "config.json"), "shared")
    loaded = {}
    for routing in (Routing(), Routing("file", shares=(1.0, 1.0, 0.0, 0.0))):
        job = Job(prompt=16, tokens=1, phases=("prefill",), routing=routing)
        programs = programs_of(model, uniform_precision(), MACHINE, job)
        run = run_llm(programs)
        loaded[routing.kind] = run.steps[0].kinds["layer"].bytes["weights"]
    assert loaded["even"] - loaded["file"] == 2 * 3 * 256 * 128 // 2  # one of two layers has experts, two of them not in use


def test_whole_experts_over_pes() -> None:
    """Four PEs with an expert each load as many bytes of experts as four shares of each, and the model fits the same PEs."""
    model = model_of(data_document(SMALL["lightning"], "config.json"), "m")
    machine = load_config("single_cube")
    runs = []
    for whole in (False, True):
        job = Job(prompt=16, tokens=1, phases=("prefill",), shards=4, expert_parallel=whole)
        runs.append(run_llm(BlockPrograms(model, uniform_precision(), machine, job)).steps[0].total)
    assert runs[0].bytes["weights"] == runs[1].bytes["weights"] and runs[0].macs == runs[1].macs


def test_a_timer_knows_only_cycles_and_they_are_those_of_a_run() -> None:
    """Of a decode, a prefill, and both; the head of as many sequences is simulated once for all contexts."""
    made = timer()
    for some in ([Sequences(1, 70, 3)], [Sequences(20, 5)], [Sequences(1, 33), Sequences(12, 8), Sequences(1, 71)]):
        batch = Batch(tuple(sorted(some)))
        programs = BlockPrograms(MODEL, uniform_precision(), MACHINE, Job(prompt=1, tokens=1), batches=[batch])
        assert made.step_cycles(some) == run_llm(programs).steps[0].total.cycles
    made.step_cycles([Sequences(1, 200, 3)])
    before = len(CYCLES)
    made.step_cycles([Sequences(1, 201, 3)])
    assert len(CYCLES) == before + 2  # the embedding and a layer, but not the head
