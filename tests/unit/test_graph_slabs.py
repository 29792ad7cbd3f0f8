"""Products whose dimension k is cut into slabs: they are computed by their slabs, and chosen where they take less time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

from kernbench.common.errors import InputError
from kernbench.common.units import ceil_div
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.graphs.emit.slabs import SlabJobs
from kernbench.workloads.graphs.graph import Graph, Node, Tensor
from kernbench.workloads.graphs.onnx.reference import verify_file
from kernbench.workloads.graphs.planner import plan_with_cuts
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.split import Splitter
from kernbench.workloads.graphs.strips import product_strips
from kernbench.workloads.graphs.verify import Verification
from tests.onnx_models import Builder
from tests.workload_programs import tiny_machine

SMALL = tiny_machine(32)  # a column of 3000 elements of 16 bits takes a fifth of it

SLOW = {**SMALL, "dram": {"channels": 1, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 8}}


ONE_TRANSFER = {  # at a time, with a setup as long as the bytes of a tile
    **SMALL,
    "dma": {"engines": 1, "max_concurrent_transfers": 1, "channels": {"act_weight": {"max_concurrent": 1}}},
    "dram": {"channels": 1, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 8, "t_setup_cycles": 300},
}


def product(m: int, n: int, k: int, bits: int = 8) -> Graph:
    """A product with a stored right operand."""
    tensors = {
        "a": Tensor("a", (m, k), bits, "input"), "b": Tensor("b", (k, n), bits, "weight"), "c": Tensor("c", (m, n), bits),
    }  # fmt: skip
    return Graph("product", (Node("product", "MatMul", ("a", "b"), ("c",)),), tensors, {}, ("c",))


def weights() -> Builder:
    b = Builder()
    b.output(b.node("Relu", b.node("MatMul", b.input("x", 40, 3000), b.weight("w", 3000, 190))))
    return b


def turned() -> Builder:
    b = Builder()
    b.output(b.node("Gemm", b.input("x", 9, 2500), b.weight("w", 50, 2500), transB=1))
    return b


def activations() -> Builder:
    """A stack of products of two tensors that are no weights, and of one that other work makes."""
    b = Builder()
    x = b.node("Relu", b.input("x", 2, 24, 3000))
    b.output(b.node("MatMul", x, b.input("y", 2, 3000, 20)))
    return b


def transposed() -> Builder:
    b = Builder()
    b.output(b.node("MatMul", b.input("x", 24, 3000), b.node("Transpose", b.input("y", 20, 3000), perm=[1, 0])))
    return b


MODELS = {"weights": weights, "turned": turned, "activations": activations, "transposed": transposed}


def check(folder: Path, name: str, bits: int) -> Verification:
    return verify_file(MODELS[name]().save(folder / "model.onnx"), {}, load_config(SMALL), w=8, a=bits)


@pytest.mark.parametrize("name", MODELS)
def test_products_are_computed_by_their_slabs(name: str, tmp_path: Path) -> None:
    found = check(tmp_path, name, 8 if name == "turned" else 16)
    assert found.faults == [] and found.passed, found


def test_tiles_of_a_slab_are_loaded_at_once_where_setups_cost_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slab of the right operand is one load, and is multiplied as if its tiles were loaded one by one."""
    machine = load_config(ONE_TRANSFER)
    found = verify_file(weights().save(tmp_path / "model.onnx"), {}, machine, w=8, a=16)
    assert found.faults == [] and found.passed, found

    at_once = GraphProgram(product(64, 96, 1024), machine, 8)
    cut = at_once.plan.sizes[0].cut
    assert cut is not None and cut.at_once and cut.tiles > 1
    loads = sum(entry.opcode == "DMA_LOAD_TILE" for entry in at_once.program.entries)
    assert loads == 2 * ceil_div(64, cut.rows) * ceil_div(96, cut.wide) * ceil_div(1024, cut.depth)

    cuts = Splitter._cuts
    monkeypatch.setattr(Splitter, "_cuts", lambda *given: (cut for cut in cuts(*given) if not cut.at_once))
    one_by_one = GraphProgram(product(64, 96, 1024), machine, 8)
    assert at_once.run().cycles * 20 < one_by_one.run().cycles * 19


FAULTS = {
    "a slab is left out": lambda jobs: jobs.slabs.pop(),
    "a slab is added twice": lambda jobs: jobs.slabs.__setitem__(2, jobs.slabs[1]),
    "a tile is another one": lambda jobs: jobs.tiles.reverse(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SlabJobs.run

    def wrong(self: Any) -> None:
        FAULTS[fault](self)
        run(self)

    monkeypatch.setattr(SlabJobs, "run", wrong)
    found = check(tmp_path, "weights", 16)
    assert not found.passed and found.faults


def test_a_plan_tells_its_slabs() -> None:
    made = GraphProgram(product(40, 64, 12_000), load_config(SLOW), 8)
    cut = made.plan.sizes[0].cut
    assert cut is not None and cut.nbytes <= made.machine.spm.size_bytes
    run = made.run()
    assert run.rows[0].note == f"k in {-(-12_000 // cut.depth)} slabs of {cut.depth}, for blocks of {cut.rows} x {cut.wide}"
    assert run.macs == 40 * 64 * 12_000
    assert abs(cut.cycles / run.cycles - 1) < 0.15  # the estimate by which cuts are chosen


def test_a_product_is_cut_where_that_takes_less_time() -> None:
    """Few whole rows fit, so the weights would be loaded for every few rows."""
    machine = load_config(SLOW)
    made = GraphProgram(product(64, 64, 3000), machine, 8)
    assert made.plan.sizes[0].cut is not None
    whole = _cycles(GraphProgram, product(64, 64, 3000), machine, cut=False)
    assert made.run().cycles < whole * 0.9


def _cycles(program: Any, graph: Graph, machine: Any, *, cut: bool) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "_compare_cuts", lambda self: None)
        made = program(graph, machine, 8)
    assert all((size.cut is not None) == cut for size in made.plan.sizes)
    engine = Machine(made.target, made.program)
    engine.run()
    return engine.cycle


def test_convolutions_are_not_cut_and_are_refused_as_before() -> None:
    graph = product(8, 8, 64)
    lowered = GraphProgram(graph, load_config(SMALL), 8).lowered
    number, work = lowered.jobs[0]
    lowered.jobs[0] = number, replace(work, groups=2)
    assert plan_with_cuts(lowered, load_config(SMALL)) is None


def test_a_row_that_never_fits_is_refused() -> None:
    graph = Graph(
        "norm", (Node("norm", "Softmax", ("a",), ("c",)),),
        {"a": Tensor("a", (1, 1 << 20), 8, "input"), "c": Tensor("c", (1, 1 << 20), 8)}, {}, ("c",),
    )  # fmt: skip
    with pytest.raises(InputError, match="must fit the scratchpad"):
        GraphProgram(graph, load_config(SMALL), 8)


def test_a_product_whose_best_cut_is_too_long_is_several_programs() -> None:
    """Each has the rows of one block of that cut, and the last one those that are left."""
    machine, size = load_config(ONE_TRANSFER), (250, 256, 1024)
    (whole,) = product_strips(*size, 8, machine)
    cut = whole.program.plan.sizes[0].cut
    assert (whole.rows, whole.count) == (250, 1) and cut is not None and 250 % cut.rows
    found = product_strips(*size, 8, machine, len(whole.program.program.entries) // 4)
    assert [(strip.rows, strip.count) for strip in found] == [(cut.rows, 250 // cut.rows), (250 % cut.rows, 1)]
    assert [strip.program.program.entries[0].rows for strip in found] == [strip.rows for strip in found]  # of the left operand
    total = sum(strip.count * _cycles_of(strip.program) for strip in found)
    assert total == pytest.approx(_cycles_of(whole.program), rel=0.1)


def _cycles_of(made: GraphProgram) -> int:
    engine = Machine(made.target, made.program)
    engine.run()
    return engine.result().cycles
