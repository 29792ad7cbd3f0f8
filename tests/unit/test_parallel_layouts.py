"""Layouts of a model on many PEs: pipelines against an oracle that counts cycles, and against the same job as one program."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.llm import run as llm_run
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.run import TALLIES, LlmRun
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from kernbench.workloads.parallel.fitting import least_bytes
from kernbench.workloads.parallel.layout import Layout, cut_layers, even_parts, least_largest
from kernbench.workloads.parallel.pipeline import Item, run_pipeline
from kernbench.workloads.parallel.programs import HANDED, ParallelPrograms
from kernbench.workloads.parallel.run import job_programs, run_model
from kernbench.workloads.parallel.search import search
from tests.llm_cases import tiny_model
from tests.oracles.ref_pipeline import finished

MODEL = tiny_model("layouts", layers=4, heads=4, kv_heads=4)
MACHINE = load_config("single_cube", ["pe.spm.check_overlap=error"])
BITS = uniform_precision()
MORE = (Layout(2, 2), Layout(1, 4, 1, 2), Layout(2, 2, 2))


def run(layout: Layout, *, reuse: bool = True, **job: int) -> LlmRun:
    request = Job(**{"prompt": 13, "tokens": 2, "batch": 4, **job})
    return run_model(job_programs(MODEL, BITS, MACHINE, request, layout), reuse=reuse)


@st.composite
def pipelines(draw: st.DrawFn) -> list[Item]:
    stages, groups, steps = (draw(st.integers(1, 4)) for _ in range(3))
    number = st.integers(1, 9)
    items = []
    for _ in range(steps):
        for group in range(groups):
            work = tuple(draw(number) for _ in range(stages))
            ways = tuple(draw(number) for _ in range(stages - 1))
            items.append(Item(group, work, ways, draw(number) if stages > 1 else 0))
    return items


@given(pipelines())
def test_a_pipeline_ends_when_the_oracle_does(items: list[Item]) -> None:
    want = finished([(item.group, item.stages, item.hand_offs, item.back) for item in items])
    assert [row[-1] for row in run_pipeline(items).ends] == want


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.data(), st.integers(0, 15), st.integers(0, 15))
def test_layers_are_cut_so_that_the_largest_stage_is_the_least(costs: list[int], data: st.DataObject, a: int, b: int) -> None:
    parts = data.draw(st.integers(1, len(costs)))
    got = least_largest(costs, parts, a, b)
    assert len(got) == parts and sum(got) == len(costs) and min(got) >= 1

    def largest(counts: list[int]) -> int:
        edges = [sum(counts[:i]) for i in range(parts + 1)]
        sums = [sum(costs[low:high]) for low, high in pairwise(edges)]
        sums[0] += a
        sums[-1] += b
        return max(sums)

    every = [[*edges, len(costs)] for edges in combinations(range(1, len(costs)), parts - 1)]
    least = min(largest([high - low for low, high in zip([0, *edges], edges, strict=False)]) for edges in every)
    assert largest(got) == least


def test_one_micro_batch_takes_what_the_same_job_takes_as_one_program() -> None:
    """Nothing runs beside a hand-off, so stages and hand-offs that were simulated alone add up exactly."""
    alone, whole = (run(Layout(1, 2), reuse=reuse, batch=1, tokens=1) for reuse in (True, False))
    assert [one.total.cycles for one in alone.steps] == [one.total.cycles for one in whole.steps]


@pytest.mark.parametrize("layout", [Layout(1, 2), *(pytest.param(one, marks=pytest.mark.nightly) for one in MORE)])
def test_hand_offs_beside_work_cost_a_few_per_cent_more_as_one_program(layout: Layout) -> None:
    """There they share DMA engines, memory and links with the layers. Bytes and MACs are the same."""
    alone, whole = (run(layout, reuse=reuse, tokens=1, batch=4 if layout in MORE else 2) for reuse in (True, False))
    cycles = [sum(one.total.cycles for one in found.steps) for found in (alone, whole)]
    assert cycles[0] <= cycles[1] <= 1.05 * cycles[0]
    moved = [sum((one.total.bytes for one in found.steps), Counter[str]()) for found in (alone, whole)]
    assert moved[0] == moved[1]
    assert sum(one.total.macs for one in alone.steps) == sum(one.total.macs for one in whole.steps)


def test_every_layer_is_in_one_stage_and_only_the_ends_have_tables() -> None:
    programs = job_programs(MODEL, BITS, MACHINE, Job(prompt=13, tokens=1, batch=2), Layout(2, 3))
    assert isinstance(programs, ParallelPrograms)
    numbers = [number for stage in programs.stages for number in range(stage.first, stage.first + stage.count)]
    assert numbers == [0, 1, 2, 3]
    assert [(stage.embedding, stage.head) for stage in programs.stages] == [(True, False), (False, False), (False, True)]
    nodes = [place.node for n in range(3) for place in programs.stage(n, 1).places]
    assert len(set(nodes)) == 6
    one = job_programs(MODEL, BITS, MACHINE, Job(prompt=13, tokens=1, batch=2), Layout(2))
    macs = [sum(step.total.macs for step in run_model(found).steps) for found in (programs, one)]
    assert macs[0] == macs[1]


def test_replicas_share_the_batch() -> None:
    two, one = run(Layout(2, 1, 2)), run(Layout(2), batch=2)
    assert [step.total.cycles for step in two.steps] == [step.total.cycles for step in one.steps]
    assert sum(step.total.macs for step in two.steps) == 2 * sum(step.total.macs for step in one.steps)
    assert report_of(two).tokens_per_s == pytest.approx(2 * (report_of(one).tokens_per_s or 0))
    assert even_parts(7, 3) == [3, 2, 2] and Layout(dp=2, pp=2).micro_sizes(7) == [2, 2]


def test_reductions_and_hand_offs_are_in_the_report() -> None:
    report = report_of(run(Layout(2, 2)))
    for phase in report.phases.values():
        reduce, hand, back = phase.collectives
        assert (reduce.name, reduce.pes, reduce.count) == ("all-reduce", 2, 2 * 2 * 2)  # two a layer and micro-batch
        assert (hand.name, back.name) == ("hand-off", "words back") and back.nbytes == 2 * 4
        assert 0 < reduce.exposed < phase.step_cycles and reduce.each > 0
    assert report.phases["decode"].collectives[1].nbytes == 2 * 192
    assert not report_of(run(Layout(1))).phases["decode"].collectives


def test_what_was_simulated_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that are alike, and another job with the same segments."""
    made = []

    def counted(*given: object, **more: object) -> Machine:
        made.append(given)
        return Machine(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(llm_run, "Machine", counted)
    TALLIES.clear()
    HANDED.clear()
    first = run(Layout(1, 4), prompt=11)
    assert len(made) == first.simulated + len(HANDED) and first.segments == 3 * 4 * 6  # steps, micro-batches, layers and ends
    before = len(made)
    assert run(Layout(1, 4), prompt=11).steps[1].total.cycles == first.steps[1].total.cycles and len(made) == before
    run(Layout(1, 2, 1, 4), prompt=11)
    assert len(made) - before == 2 + 1  # the LM head of both phases on other PEs, and the way back between them


def test_the_search_finds_the_fastest_of_all() -> None:
    machine = load_config("single_cube")
    job = Job(prompt=16, tokens=1, phases=("decode",), layers=2)
    found = search(MODEL, BITS, machine, job, simulated=3)
    ran = [one for one in found if one.report is not None]
    assert [one.cycles for one in ran] == sorted(one.cycles or 0 for one in ran)
    assert ran[0].verdict.startswith("fastest: ") and "slower: " in ran[-1].verdict
    every = search(MODEL, BITS, machine, job, simulated=100)
    assert every[0].layout == ran[0].layout


def test_the_search_for_divisions_refuses_no_layout() -> None:
    """Layouts without shards have no divisions, and are compared with the others as they are."""
    machine, job = load_config("single_cube"), Job(prompt=16, tokens=1, layers=2, batch=2)
    jobs = job, replace(job, search_divisions=True)
    found = [{one.layout: one.cycles for one in search(MODEL, BITS, machine, asked, simulated=100)} for asked in jobs]
    cycles = [{layout: count for layout, count in one.items() if layout.tp == 1} for one in found]
    assert cycles[0] == cycles[1] and None not in cycles[0].values()


def test_llama_3_70b_on_the_pod() -> None:
    """At 4 bits its weights are 35 GB: 16 PEs of 2 GiB do not hold them, however they are cut; 32 do."""
    model, pod = load_model("llama3-70b"), load_config("pod_8sip")
    job, there = Job(prompt=128, tokens=1, phases=("decode",)), 2 << 30
    assert least_bytes(model, BITS, job, Layout(8, 2)) > there and least_bytes(model, BITS, job, Layout(16)) > there
    programs = job_programs(model, BITS, pod, job, Layout(16, 2))
    assert programs.dram.end < there
    told = r"its weights and caches alone take .* GiB per PE with --tp 8 --pp 2; to make the model fit, use --tp 8 --pp"
    with pytest.raises(InputError, match=told):
        job_programs(model, BITS, pod, job, Layout(8, 2))
    counts = [stage.count for stage in cut_layers(model, BITS, 80, Layout(16, 2))]
    assert sum(counts) == 80 and abs(counts[0] - counts[1]) <= 2


@pytest.mark.parametrize(
    ("layout", "batch", "message"),
    [
        (Layout(1, 5), 4, "pp = 5, but layouts runs 4 layers, and each stage of a pipeline needs one; take at most --pp 4"),
        (Layout(1, 1, 5), 4, "dp = 5, but each replica needs a sequence, and the batch has 4"),
        (Layout(1, 2, 1, 5), 4, "micro-batches = 5, but a replica has 4 sequences, and each micro-batch needs one"),
        (Layout(8, 4), 4, "single_cube.yaml has 8 PEs, and 32 are needed; use a larger machine: -c two_sips"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: Layout, batch: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        job_programs(MODEL, BITS, MACHINE, Job(prompt=4, tokens=1, batch=batch), layout)
    assert message in str(caught.value)
