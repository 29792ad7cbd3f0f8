"""Plans for systolic arrays: by the array alone, with the cycles of the products that are emitted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kernbench.cmdq.entries import TeEntry
from kernbench.components.service import systolic_body
from kernbench.config import load_config
from kernbench.workloads.graphs.graph import Product
from kernbench.workloads.graphs.planner import product_cycles
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.sizes import Sizes
from kernbench.workloads.layer.buffers import ATTENTION, DOWN, GATE_UP, OUT, STAGES, LayerBuffers, even_split
from kernbench.workloads.layer.bytes import stage_products
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.llm_cases import CASES, LlmCase
from tests.unit.test_onnx_runs import MODELS, graph_of
from tests.workload_programs import tiny_machine

STAGE_OF = {
    "QKV_PROJ": ATTENTION, "ATTENTION_SCORE": ATTENTION, "ATTENTION_APPLY": ATTENTION, "OUT_PROJ": OUT,
    "MLP_ROUTER": GATE_UP, "MLP_GATE_UP": GATE_UP, "MLP_DOWN": DOWN,
}  # fmt: skip
SERVER = {"te.timing": "systolic", "te.rows": 128, "te.cols": 128}


def array(rows: int = 24, cols: int = 40, dataflow: str = "ws", **more: Any) -> dict[str, Any]:
    """A section `te` of systolic arrays."""
    return {"timing": "systolic", "rows": rows, "cols": cols, "dataflow": dataflow, **more}


def test_macs_a_cycle_are_those_of_the_timing() -> None:
    macs = load_config({"te": {"macs_per_cycle": 100, "f_w": {4: 2}, "f_a": {16: "1/2"}}}).te
    assert [macs.rate(w, a) for w, a in ((8, 8), (4, 8), (4, 16))] == [100, 200, 100]
    cells = load_config({"te": array(macs_per_cycle=100, f_w={4: 2})}).te
    assert [cells.rate(w, a) for w, a in ((8, 8), (4, 8), (1, 64))] == [960] * 3


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
def test_no_product_is_faster_than_the_cells(dataflow: str) -> None:
    te = load_config({"te": array(5, 3, dataflow)}).te
    for m, n, k in ((1, 1, 1), (5, 3, 5), (64, 30, 50), (7, 200, 3)):
        assert systolic_body(te, m, n, k, 8, 8) >= m * n * k / te.rate(8, 8)


#: A case of each kind, and nightly all; that of a window is the short one.
DAILY = ("plain", "window", "post", "experts", "layernorm_tight", "batch_tight", "mixed")
SOME = [name if name in DAILY else pytest.param(name, marks=pytest.mark.nightly) for name in CASES]


@pytest.mark.parametrize("name", SOME)
def test_the_products_that_a_plan_counts_are_those_emitted(name: str) -> None:
    case = CASES[name]
    programs = LlmCase(case.model, {**case.machine, "te": array()}, case.job, case.precision).programs()
    for step in programs.steps:
        for segment in programs.segments(step):
            if segment.kind != "layer":
                continue
            shape = segment.shape
            plan = programs.plan(shape, step)
            buffers = LayerBuffers(shape, programs.machine, step.tokens, step.context, case.job.batch, case.job.page_tokens)
            wanted = {
                stage: stage_products(buffers, plan.tile_cols, plan.kv_tile_tokens, stage, plan.block_tokens[stage])
                for stage in STAGES
            }
            made: dict[int, Counter[tuple[int, int, int]]] = {stage: Counter() for stage in STAGES}
            for entry in programs.segment_program(segment).entries:
                if isinstance(entry, TeEntry):
                    made[STAGE_OF[str(entry.meta["phase"])]][entry.m, entry.n, entry.k] += 1
            assert made == wanted


@pytest.mark.parametrize("name", MODELS)
def test_so_are_those_of_a_graph(name: str) -> None:
    made = GraphProgram(graph_of(*MODELS[name]), load_config({**tiny_machine(48), "te": array(engines=1)}), 8)
    te, emitted = made.machine.te, Counter[int]()
    for entry in made.program.entries:
        if isinstance(entry, TeEntry):
            emitted[int(entry.meta["layer_id"])] += systolic_body(te, entry.m, entry.n, entry.k, 8, 8)
    counted, sizes = Counter[int](), Sizes(made.lowered, made.machine)
    for (node, work), size in zip(made.lowered.jobs, made.plan.sizes, strict=True):
        if isinstance(work, Product):
            counted[node] += product_cycles(work, sizes, size)
    assert counted == emitted


@pytest.mark.parametrize("dataflow", ["ws", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("os", "is"))])
def test_what_the_timing_does_not_use_changes_no_plan_and_no_bound(dataflow: str) -> None:
    """`te.macs_per_cycle` decided plans and bounds of arrays that do not have it: 3.19 G cycles became 2.01 G by it."""
    found = []
    for changes in ({}, {"te.macs_per_cycle": 65536}, {"te.macs_per_cycle": 1, "te.f_w": {4: 8}, "te.f_a": {8: "1/8"}}):
        machine = load_config("npu_server", {**SERVER, "te.dataflow": dataflow, **changes})
        job = Job(prompt=64, tokens=1, layers=1)
        programs = LlmPrograms(load_model("llama3-8b"), uniform_precision(), machine, job)
        plans = [programs.plan(programs.shapes[0], step) for step in programs.steps]
        shapes = [(plan.block_tokens, plan.tile_cols, plan.kv_tile_tokens, plan.least_cycles) for plan in plans]
        found.append((shapes, [floor_of(programs, step) for step in programs.steps]))
    assert found[0] == found[1] == found[2]
    prefill = found[0][1][0]
    assert prefill.mac_cycles == pytest.approx(prefill.macs / (4 * 128 * 128), rel=1e-5)


@pytest.mark.parametrize(
    ("dataflow", "before", "cycles"),
    [("ws", 3_880_924, 2_165_250), ("os", 1_629_283, 928_203), ("is", 5_487_452, 1_739_941)],
)
def test_plans_fill_the_arrays(dataflow: str, before: int, cycles: int) -> None:
    """`before`: cycles of a prefill with plans by `macs_per_cycle`."""
    machine = load_config("npu_server", {**SERVER, "te.dataflow": dataflow})
    job = Job(prompt=256, tokens=1, layers=1, phases=("prefill",))
    run = run_llm(LlmPrograms(load_model("llama3-8b"), uniform_precision(), machine, job))
    assert run.steps[0].kinds["layer"].cycles == cycles < 0.6 * before


def test_tiles_are_whole_passes_where_columns_are() -> None:
    assert even_split(4096, 300) == 304 - 16 and even_split(4096, 300, 128) == 256
    assert even_split(4096, 100, 128) == even_split(4096, 100) and even_split(200, 300, 128) == 200
    assert even_split(4096, 5, 128) == 4 and even_split(4096, 2000, 100) == 1600
