"""Engines that share experts: they compute each step together, with batches of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.cmdq.entries import TeEntry
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.serving import (
    Arrivals,
    ContinuousBatching,
    Deployment,
    EngineOptions,
    ExactTimer,
    Fleet,
    FormulaTimer,
    Instance,
    Request,
    RoundRobin,
    Scenario,
    Sharers,
    State,
    StepBatch,
    TableTimer,
    Workload,
    batching,
    machine_step,
    simulate_fleet,
)
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.blocks.timer import StepTimer
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.run import job_programs, run_model
from tests.model_cases import SMALL
from tests.oracles import ref_contexts as oracle
from tests.unit.test_llm_contexts import layer_of, sent_bytes

MS = 1_000_000
BITS = Precision(w=8, a=8, kv=8)
MACHINE = load_config("single_cube")
KEYS = {**SMALL["shared"], "num_experts": 8, "decoder_sparse_step": 1, "num_hidden_layers": 1}
EXPERTS, TOP_K, HIDDEN = 8, KEYS["num_experts_per_tok"], KEYS["hidden_size"]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("models") / "config.json"
    path.write_text(json.dumps(KEYS))
    return load_model(str(path))


def timed(batch: StepBatch) -> int:
    return 10 * MS if batch.chunks else MS


def served(requests: list[Request], *, share: bool, **given: Any) -> Any:
    """Two engines: a step with a prefill takes 10 ms, any other one 1 ms."""
    timer = FormulaTimer(timed)
    sharers = Sharers(timer) if share else None
    options = EngineOptions(num_gpu_blocks=100, max_model_len=400, **given)
    return simulate_fleet(requests, Fleet([Instance(batching(options), timer, sharers=sharers) for _ in "ab"], RoundRobin()))


@pytest.mark.parametrize(("share", "ends"), [(True, [21, 21]), (False, [12, 16])])
def test_engines_that_share_experts_wait_for_each_other(share: bool, ends: list[int]) -> None:
    """The second request comes in the middle of the first step, and its prompt delays the tokens of the other engine.

    Together: [0, 10) prompt 0; [10, 20) token 2 of request 0 and prompt 1; [20, 21) the last tokens.
    """
    requests = [Request(0, arrival_ns=0, prompt=32, output=3), Request(1, arrival_ns=5 * MS, prompt=32, output=2)]
    result = served(requests, share=share)
    assert [one.last_token_ns for one in requests] == [end * MS for end in ends]
    assert requests[1].scheduled_ns == (10 if share else 5) * MS and result.end_ns == max(ends) * MS


def test_all_requests_end_whatever_the_engines_have_to_do() -> None:
    """Engines run out of blocks, preempt, and are idle, with and without scheduling ahead."""
    for ahead in (False, True):
        requests = [Request(i, arrival_ns=i * i * MS // 3, prompt=20 + 9 * i, output=1 + 7 * (i % 3)) for i in range(11)]
        options = EngineOptions(num_gpu_blocks=12, max_model_len=176, async_scheduling=ahead)
        timer = FormulaTimer(timed)
        group = Sharers(timer)
        instances = [Instance(ContinuousBatching(options), timer, sharers=group) for _ in range(3)]
        result = simulate_fleet(requests, Fleet(instances, RoundRobin()))
        assert result.count(State.FINISHED) == 11 and all(one.steps for one in instances)


def test_engines_that_share_experts_have_no_stages() -> None:
    with pytest.raises(InputError, match="one step at a time"):
        served([], share=True, pipeline_parallel_size=2)


@pytest.mark.parametrize("tp", [1, 2])
def test_a_step_is_that_of_kbsim_llm(mixture: Model, tp: int) -> None:
    job = Job(prompt=48, tokens=1, batch=6, expert_parallel=True)
    run = run_model(job_programs(mixture, BITS, MACHINE, job, Layout(tp, 1, 2)))
    timer = StepTimer(mixture, BITS, MACHINE, shards=tp, expert_parallel=True, sharers=2)
    for step in run.steps:
        assert timer.step_cycles([Sequences(step.step.tokens, step.step.context, 3)]) == step.total.cycles
    with pytest.raises(InputError, match="each of the 2 replicas"):
        timer.replicas_cycles([[Sequences(1)]])


@pytest.mark.parametrize("replicas", [
    [[Sequences(1, 40, 5)], [Sequences(1, 7)]], [[Sequences(13), Sequences(1, 30, 2)], [Sequences(1, 64, 3)]],
])  # fmt: skip
def test_rows_of_unequal_replicas_go_to_the_experts(mixture: Model, replicas: list[list[Sequences]]) -> None:
    """Each row goes to `top_k` experts, over links where another PE has them; attention is that of each replica alone."""
    job = Job(prompt=1, tokens=1, batch=2, expert_parallel=True, sharers=2)
    programs = BlockPrograms(mixture, BITS, MACHINE, job, batches=[Batch(tuple(one)) for one in replicas])
    phase = programs.steps[0].phase
    segment, owned = layer_of(programs, phase), [sum(one.tokens * one.count for one in some) for some in replicas]
    sent = sent_bytes(programs, segment)
    assert sent["EXPERT_DISPATCH"] == sent["EXPERT_COMBINE"] == oracle.dispatched_rows(EXPERTS, TOP_K, owned) * HIDDEN
    products = [one for one in programs.segment_program(segment).entries if isinstance(one, TeEntry)]
    macs = dict.fromkeys(("routed", "scores"), 0)
    width, shared = KEYS["moe_intermediate_size"], KEYS["shared_expert_intermediate_size"]
    for one in products:
        name = str(one.meta["phase"])
        if name.startswith(("MLP_GATE", "MLP_DOWN")):
            macs["routed"] += one.m * one.n * one.k
        elif one.opcode == "TE_QKT_TILE":
            macs["scores"] += one.m * one.n * one.k
    assert macs["routed"] == sum(owned) * HIDDEN * (3 * (TOP_K * width + shared) + 1)  # the shared network has a gate
    alone = 0
    for some in replicas:
        one = BlockPrograms(mixture, BITS, MACHINE, Job(prompt=1, tokens=1), batches=[Batch(tuple(some))])
        entries = one.segment_program(layer_of(one, one.steps[0].phase)).entries
        alone += sum(e.m * e.n * e.k for e in entries if isinstance(e, TeEntry) and e.opcode == "TE_QKT_TILE")
    assert macs["scores"] == alone > 0


def test_replicas_with_the_same_batches_take_as_long_in_a_table(mixture: Model) -> None:
    """The table counts the fullest batch for all; `exact` simulates each, and one without requests has a token."""
    step = machine_step(mixture, MACHINE, w=8, a=8, kv=8, dp=2, ep=True)
    assert step.sharers == 2
    both = [StepBatch([(Request(i, arrival_ns=0, prompt=16, output=2), 16)]) for i in range(2)]
    exact, table = ExactTimer(step), TableTimer(step)
    assert exact.replicas_ns(both) == exact.device_ns(both[0]) == table.replicas_ns(both)
    some = [both[0], StepBatch()]
    assert exact.replicas_ns(some) == round(step.replicas_ns([[Sequences(16)], [Sequences(1)]])) < exact.replicas_ns(both)
    assert table.replicas_ns(some) == table.replicas_ns(both)
    error = table.error()
    assert error is not None and error.steps == 3 and error.worst > 0.01  # the replica that has nothing to do


def test_copies_of_a_mixture_share_its_experts(mixture: Model) -> None:
    load = Workload(arrivals=Arrivals(request_rate=20000.0), num_prompts=8, random_input_len=12, random_output_len=3)
    blocks, ends = {}, {}
    for ep in (False, True):
        made = Scenario(
            model=mixture, machine=MACHINE, workload=load, w=8, a=8, kv=8, dp=2, ep=ep, max_model_len=64, exact=True,
            energy=True,
        )  # fmt: skip
        done = Deployment(scenario=made).run()
        assert done.engines == 2 and done.result.count(State.FINISHED) == 8
        energy = done.energy()
        assert energy is not None and energy["joules"] > 0
        blocks[ep], ends[ep] = done.options.num_gpu_blocks, done.result.end_ns
    assert blocks[True] > blocks[False]  # each PE has half of the experts
    assert ends[True] != ends[False]
    with pytest.raises(InputError, match="share experts compute each step together, and have one stage"):
        machine_step(mixture, MACHINE, dp=2, ep=True, pp=2)


@pytest.mark.parametrize("energy", [False, True])
def test_steps_of_a_run_are_compared_with_those_of_all_copies(mixture: Model, tmp_path: Path, *, energy: bool) -> None:
    load = Workload(arrivals=Arrivals(request_rate=20000.0), num_prompts=6, random_input_len=12, random_output_len=2)
    made = Scenario(
        model=mixture, machine=MACHINE, workload=load, w=8, a=8, kv=8, dp=2, ep=True, max_model_len=64, tables=tmp_path,
        sample=99, energy=energy,
    )  # fmt: skip
    found = Deployment(scenario=made).run().to_dict()
    assert found["table"]["error"]["steps"] > 2 and (found["energy"] is not None) == energy
