"""Systolic arrays whose jobs overlap (`te.drain`): cycles computed by hand from docs/model/compute.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import GraphEngine, InputError, Machine, Result, load_config, load_program, simulate
from kernbench.bounds import lower_bounds
from kernbench.cmdq.plan import plan_program
from kernbench.components.service import chained_body
from kernbench.runtime_api import bench
from kernbench.sim_engine.summary import summarise_run
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain

ARRAY = {
    "timing": "systolic", "rows": 8, "cols": 4, "dataflow": "ws", "fill": "overlapped", "drain": "overlapped", "engines": 1,
    "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False,
}  # fmt: skip
PLACES = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
DRAIN = 8 + 4 - 3  # R + C - 3: the last cycle of the stream is the first of the last result


def run(shapes: list[tuple[int, int, int]], te: dict[str, Any] | None = None, **fields: Any) -> Result:
    """Products one after another in the queue of te0; `fields`: of the last product."""
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, **PLACES}
    entries = [{**product, "id": i, "m": m, "n": n, "k": k} for i, (m, n, k) in enumerate(shapes)]
    entries[-1] |= fields
    program = load_program({"metadata": {"version": "1.0", "name": "chain"}, "cmdq": entries})
    config = load_config({"te": {**ARRAY, **(te or {})}})
    result = simulate(program, config)
    assert lower_bounds(program, config).cycles <= result.cycles
    return result


def spans(result: Result) -> list[tuple[int | None, int | None]]:
    return [(entry.start, entry.end) for entry in result.entries]


def test_a_chain_fills_and_drains_once() -> None:
    result = run([(20, 4, 16)] * 3)
    assert spans(result) == [(0, 8 + 40 + DRAIN), (48, 48 + 40 + DRAIN), (88, 88 + 40 + DRAIN)]
    assert result.counters["te0"]["busy"] == result.cycles == 8 + 3 * 40 + DRAIN


def test_a_chain_takes_as_long_as_its_folds_in_one_job() -> None:
    assert run([(20, 4, 16)] * 5).cycles == run([(20, 4, 80)]).cycles


@pytest.mark.parametrize("shape", [(20, 4, 16), (9, 8, 8), (40, 3, 1)])
def test_the_planner_counts_the_cycles_between_two_starts(shape: tuple[int, int, int]) -> None:
    te = load_config({"te": ARRAY}).te
    first, second, _ = spans(run([shape] * 3))
    assert chained_body(te, *shape, 8, 8) == (second[0] or 0) - (first[0] or 0) - 8  # the load of the first is not hidden
    assert chained_body(load_config({"te": {**ARRAY, "drain": "exposed"}}).te, *shape, 8, 8) == (first[1] or 0)


def test_the_summary_names_the_product_that_held_the_array() -> None:
    """The third product starts in cycle 88, when the second leaves the array; only the first has ended."""
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 20, "n": 4, "k": 16, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "chain"}, "cmdq": [{**product, "id": i} for i in range(3)]})
    config = load_config({"te": ARRAY})
    summary = summarise_run(simulate(program, config), program, plan_program(program, config))
    assert [(wait.id, wait.until, wait.behind) for wait in summary.waits] == [(2, 88, 1), (1, 48, 0)]


def test_a_step_shows_what_drains() -> None:
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "id": 5, "m": 20, "n": 4, "k": 8, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [product]})
    machine = Machine(load_config({"te": ARRAY}), program)
    machine.step(30)
    (te,) = [engine for engine in machine.peek().engines if engine.name == "te0"]
    assert (te.activity, te.entry, te.next_event) == ("busy", 5, 28 + DRAIN)
    machine.step(DRAIN)
    assert machine.status == "done"


def test_a_product_alone_takes_as_long_as_without_overlap() -> None:
    alone, exposed = run([(20, 4, 16)]), run([(20, 4, 16)], {"drain": "exposed"})
    assert spans(alone) == spans(exposed) == [(0, 57)]


def test_a_short_stream_hides_only_a_part_of_the_next_load() -> None:
    """The stream of 3 rows hides 3 cycles of the next load, so 5 come after the start."""
    assert spans(run([(3, 4, 8)] * 2)) == [(0, 8 + 3 + DRAIN), (11, 11 + 5 + 3 + DRAIN)]


def test_a_product_that_is_issued_later_loads_beside_the_drain() -> None:
    """A vector job holds the second product back until cycle 30: the array is free since 28, and the load is not hidden."""
    ve = {"opcode": "VE_COPY_TILE", "id": 9, "length": 64 * 18, "qbits_activation": 8, "in_bank": 0, "in_offset": 0,
          "out_bank": 0, "out_offset": 0}  # fmt: skip
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 20, "n": 4, "k": 8, **PLACES}
    queue = [{**product, "id": 0}, ve, {**product, "id": 1, "deps_before": [9]}]
    program = load_program({"metadata": {"version": "1.0", "name": "late"}, "cmdq": queue})
    result = simulate(program, load_config({"te": ARRAY, "ve": {"spm_traffic": False}}))
    assert spans(result) == [(0, 28 + DRAIN), (0, 30), (30, 30 + 28 + DRAIN)]


def test_a_dependent_product_waits_for_the_drain() -> None:
    end = 8 + 40 + DRAIN
    assert spans(run([(20, 4, 16)] * 2, deps_before=[0])) == [(0, end), (end, 2 * end)]


def test_results_of_an_output_stationary_fold_need_the_rows_to_leave() -> None:
    """A depth of 3 streams in 3 cycles, but the next product enters only after 8."""
    assert spans(run([(8, 4, 3)] * 2, {"dataflow": "os"})) == [(0, 3 + DRAIN), (8, 8 + 3 + DRAIN)]


def test_init_belongs_to_the_array_and_finalize_to_the_drain() -> None:
    result = run([(20, 4, 8)] * 2, {"init_cycles": 2, "finalize_cycles": 100})
    assert spans(result) == [(0, 2 + 28 + DRAIN + 100), (30, 30 + 2 + 20 + DRAIN + 100)]


def test_a_slow_operand_port_hides_less() -> None:
    """A fold streams 20 * 8 bytes and holds 32; at 8 B/cycle the stream takes every cycle of the port, and the load 4 more."""
    result = run([(20, 4, 8)] * 2, {"operand_bytes_per_cycle": 8})
    assert spans(result)[1] == (28, 28 + 4 + 20 + DRAIN)


def test_the_operands_stream_while_the_job_holds_the_array() -> None:
    result = run([(20, 4, 16)] * 3, {"spm_traffic": True})
    assert result.cycles == 8 + 3 * 40 + DRAIN
    assert sum(result.counters["spm"]["requests"]) > 0


def test_an_array_of_one_element_hides_a_load_only_while_it_streams() -> None:
    """Load and stream have 3 cycles, but the body has 2: the stream is one cycle, and its operands need the port."""
    one = {"rows": 1, "cols": 1, "operand_bytes_per_cycle": 1}
    product = {"opcode": "TE_GEMM_TILE", "m": 2, "n": 1, "k": 1, "qbits_weight": 8, "qbits_activation": 4, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "chain"}, "cmdq": [product, product]})
    assert spans(simulate(program, load_config({"te": {**ARRAY, **one}}))) == [(0, 2), (2, 4)]


@pytest.mark.parametrize("tile", [{"tile_k": 16}, {"tile_k": 16, "tile_m": 20, "tile_n": 4}])
def test_jobs_of_one_command_overlap(tile: dict[str, int]) -> None:
    """Five jobs of depth 16 take as long as five commands. The command has the start of the first and the end of the last."""
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 20, "n": 4, "k": 80, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [product]})
    result = simulate(program, load_config({"te": ARRAY, "control": {"micro_scheduler": tile}}))
    assert spans(result) == [(0, 8 + 5 * 40 + DRAIN)]
    assert result.counters["te0"]["jobs"] == 5


def test_the_story_of_a_command_counts_each_cycle_of_its_overlapping_jobs_once(tmp_path: Path) -> None:
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 20, "n": 4, "k": 48, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [product]})
    config = load_config({"te": ARRAY, "control": {"micro_scheduler": {"tile_k": 16}}})
    kb.run(program, config, trace=tmp_path / "a.jsonl", trace_level="full")
    story = explain(open_trace(tmp_path / "a.jsonl")).story(0)
    assert [(one.start, one.end) for one in story.spans] == [(0, 48), (48, 88), (88, 128 + DRAIN)]


def test_a_job_whose_issue_waits_hides_only_a_part_of_its_load() -> None:
    """Each job streams 6 cycles, so it holds the array for 6 after its load; one job is issued per cycle.

    The second job is issued in cycle 1, and the array is free in cycle 14: 6 of the 8 cycles of its load are hidden.
    """
    product = {"opcode": "TE_GEMM_TILE", "qbits_weight": 8, "qbits_activation": 8, "m": 6, "n": 4, "k": 24, **PLACES}
    program = load_program({"metadata": {"version": "1.0", "name": "one"}, "cmdq": [product]})
    control = {"micro_scheduler": {"tile_k": 8}, "issue_width": 1}
    result = simulate(program, load_config({"te": ARRAY, "control": control}))
    assert spans(result) == [(0, 14 + 8 + 8 + DRAIN)]


def kernel_products(kernel: Callable[..., None], *shapes: tuple[int, ...], **keys: int) -> list[tuple[int, int]]:
    """Start and end of the products of a kernel, from the start of the first one; tensors with one axis are floats."""

    @bench(name="products", description="products on one array", reference=lambda inputs, params: {})
    def run(ctx: Any) -> None:
        tensors = [
            ctx.from_numpy(np.ones(shape, np.int8 if len(shape) == 2 else np.float32), name=f"t{i}")
            for i, shape in enumerate(shapes)
        ]
        ctx.launch("products", kernel, *tensors, ctx.empty((20, 8), "i32", name="out"), grid=1)

    values = {**{f"pe.te.{key}": value for key, value in ARRAY.items()}, **keys}
    texts = [f"{key}={str(value).lower()}" for key, value in values.items()]
    engine = GraphEngine(load_config("single_cube", texts))
    engine.run(run)
    found = [(int(one.t_start), int(one.t_end)) for one in engine.op_log if one.component_id.endswith("pe_gemm")]
    return [(start - found[0][0], end - found[0][0]) for start, end in found]


def test_products_of_a_kernel_overlap() -> None:
    def kernel(a: Any, b: Any, out: Any, tl: Any) -> None:
        x, y = tl.load(a, a.shape, a.dtype), tl.load(b, b.shape, b.dtype)
        tl.wait(*[tl.dot(x, y) for _ in range(3)])

    assert kernel_products(kernel, (20, 16), (16, 4)) == [(0, 48 + DRAIN), (48, 88 + DRAIN), (88, 128 + DRAIN)]


@pytest.mark.parametrize(("init", "hidden"), [(15, 8), (20, 3), (22, 1), (40, 0)])
def test_a_product_of_a_kernel_waits_in_the_queue_from_when_its_engine_sees_it(init: int, hidden: int) -> None:
    """The kernel calls the second product when a vector op of `init + 1` cycles has ended, and the scheduler takes 4 cycles.

    The array is free after 28 cycles: a product that its engine sees at `init + 5` loads for 28 - (init + 5) cycles before.
    """

    def kernel(a: Any, b: Any, c: Any, out: Any, tl: Any) -> None:
        x, y, v = (tl.load(one, one.shape, one.dtype) for one in (a, b, c))
        tl.dot(x, y)
        tl.wait(v + v)
        tl.wait(tl.dot(x, y))

    keys = {"pe.scheduler.cycles": 4, "pe.ve.spm_traffic": False, "pe.ve.init_cycles": init, "pe.ve.finalize_cycles": 0}
    start = max(28, init + 5)
    wanted = [(0, 28 + DRAIN), (start, start + 8 - hidden + 20 + DRAIN)]
    assert kernel_products(kernel, (20, 8), (8, 4), (8,), **keys) == wanted


def test_tiles_of_a_composite_op_overlap() -> None:
    def kernel(a: Any, b: Any, out: Any, tl: Any) -> None:
        x, y = tl.load(a, a.shape, a.dtype), tl.load(b, b.shape, b.dtype)
        tl.composite("gemm", x, y, out, tile=(20, 4, 8), wait=True)

    assert kernel_products(kernel, (20, 16), (16, 8)) == [
        (0, 28 + DRAIN), (28, 48 + DRAIN), (48, 68 + DRAIN), (68, 88 + DRAIN),
    ]  # fmt: skip


@pytest.mark.parametrize("te", [{"fill": "exposed"}, {"timing": "macs", "rows": None, "cols": None, "dataflow": None}])
def test_drain_needs_overlapped_folds_of_a_systolic_array(te: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="drain"):
        load_config({"te": {**ARRAY, **te}})
