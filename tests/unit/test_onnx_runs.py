"""ONNX graphs on machines: bytes and MACs from shapes alone, order of accesses, what is listed, and how near to the bounds."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from kernbench.cmdq import check_program, load_program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import VeEntry
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.graphs.graph import Graph, read_by
from kernbench.workloads.graphs.onnx.file import read_onnx
from kernbench.workloads.graphs.run import GraphProgram, GraphRun
from tests.onnx_models import Builder, cached_attention, depthwise_lines, mlp, moves, resnet_block, transformer_block
from tests.workload_programs import accesses_of, dram_accesses, scratchpad_accesses, tiny_machine, unordered

MODELS: dict[str, tuple[Builder, dict[str, int]]] = {
    "mlp": (mlp("rows"), {"rows": 37}),
    "block": (transformer_block(), {"batch": 2, "seq": 24}),
    "attention": (transformer_block(attention_op=True), {"batch": 2, "seq": 24}),
    "resnet": (resnet_block(), {"n": 2}),
    "moves": (moves(), {}),
    "cached": (cached_attention(), {}),
    "lines": (depthwise_lines(), {}),
}
MACHINES = {"roomy": tiny_machine(256), "tight": tiny_machine(48), "least": tiny_machine(20), "spilled": tiny_machine(8)}


def graph_of(builder: Builder, dims: dict[str, int] | None = None, w: int = 4, a: int = 8) -> Graph:
    with TemporaryDirectory() as folder:
        return read_onnx(builder.save(Path(folder) / "model.onnx"), dims or {}, w, a)


@cache
def program_of(name: str, machine: str) -> GraphProgram:
    return GraphProgram(graph_of(*MODELS[name]), load_config(MACHINES.get(machine, machine)), 8)


@cache
def run_of(name: str, machine: str) -> GraphRun:
    return program_of(name, machine).run()


each = pytest.mark.parametrize(
    ("name", "machine"),
    [*((name, machine) for name in MODELS for machine in ("roomy", "tight")), ("mlp", "least"), ("moves", "spilled")],
)


@each
def test_the_cycles_beyond_the_roofline_have_reasons(name: str, machine: str) -> None:
    run = run_of(name, machine)
    parts = run.parts()
    assert sum(part.cycles for part in parts) == run.cycles - run.roofline
    assert all(0 < part.of_op <= part.cycles for part in parts)


@each
def test_whatever_touches_the_same_bytes_is_ordered(name: str, machine: str) -> None:
    made = program_of(name, machine)
    check_program(made.program, made.machine)
    assert load_program(made.program.to_dict()) == made.program
    assert unordered(made.program, accesses_of(made.program, made.machine, scratchpad_accesses)) == []
    assert unordered(made.program, accesses_of(made.program, made.machine, dram_accesses)) == []


@each
def test_nodes_share_the_run(name: str, machine: str) -> None:
    """The machines end a run as `failed` where jobs in flight overlap. A spilled graph moves more, and computes the same."""
    run, roomy = run_of(name, machine), run_of(name, "roomy")
    assert sum(row.cycles for row in run.rows) == run.cycles
    assert run.macs == roomy.macs and run.bytes["activations"] >= roomy.bytes["activations"]
    assert 0 < run.mac_cycles <= run.cycles and 0 < run.dram_cycles <= run.cycles
    jobs = [entry for entry in program_of(name, machine).program.entries if entry.engine != "control"]
    assert sum(row.jobs for row in run.rows) == len(jobs)
    assert all(row.jobs or row.note for row in run.rows)


@each
def test_nothing_is_overwritten_that_is_still_needed(name: str, machine: str) -> None:
    made = program_of(name, machine)
    lowered, plan = made.lowered, made.plan
    held: dict[str, str] = {}  # by place: the tensor whose bytes are there
    for _, work in lowered.jobs:
        for tensor in read_by(work):
            place = root = lowered.bytes_at(tensor)
            while place in plan.same_place:
                place = plan.same_place[place]
            assert held.get(place, root) == root
        place = out = lowered.bytes_at(work.out)
        while place in plan.same_place:
            place = plan.same_place[place]
        held[place] = out
    assert name in ("cached", "resnet", "lines") or plan.same_place


@pytest.mark.parametrize("machine", ["roomy", "spilled"])
@pytest.mark.parametrize(("reader", "writer"), [("square", "whole"), ("turned", "split")])
def test_who_reads_what_lies_in_another_order_waits_for_all_of_it(reader: str, writer: str, machine: str) -> None:
    """The bytes of a concatenation are those of its parts one after the other; a transpose reads all over its source.

    The ReLU before the transpose is computed where the transpose wants its elements.
    """
    program = program_of("moves", machine).program
    before = [0] * len(program)
    for i, waits in enumerate(predecessors(program.entries)):
        for other in waits:
            before[i] |= before[other] | 1 << other
    jobs = {
        name: [e for e in program.entries if e.engine in ("te", "ve") and e.meta["debug"] == name] for name in (reader, writer)
    }
    if writer == "split":  # the first part, of 24 x 64 elements
        before_it = [sum(e.length for e in jobs[writer][:number]) for number in range(len(jobs[writer]))]
        jobs[writer] = [job for job, elements in zip(jobs[writer], before_it, strict=True) if elements < 24 * 64]
    assert all(jobs.values()) and len(jobs[writer]) > 1
    assert all(before[late.index] >> early.index & 1 for late in jobs[reader] for early in jobs[writer])


def lines(nbytes: int) -> int:
    """Whole lines of 64 bytes."""
    return -(-nbytes // 64) * 64


def macs_by_node(run: GraphRun) -> dict[str, int]:
    return {row.name: row.macs for row in run.rows if row.macs}


def test_closed_forms_of_the_mlp() -> None:
    """37 rows, weights of 4 bits, all else of 8. Everything stays in the scratchpad: in comes x, out goes the result."""
    run = run_of("mlp", "roomy")
    assert macs_by_node(run) == {"fc1": 37 * 64 * 256, "fc2": 37 * 256 * 10}
    assert run.bytes == {"weights": 64 * 256 // 2 + 256 + 256 * 10 // 2 + lines(10), "activations": 37 * 64 + lines(37 * 10)}
    assert run.least_bytes == 64 * 256 // 2 + 256 + 256 * 10 // 2 + 10 + 37 * 64 + 37 * 10


@pytest.mark.parametrize(("name", "kv"), [("block", 128), ("attention", 64)])
def test_closed_forms_of_the_transformer_blocks(name: str, kv: int) -> None:
    """2 x 24 tokens of width 128 with 4 heads of 32; each head attends to all 24 of its sequence."""
    run, rows = run_of(name, "roomy"), 2 * 24
    products = {"q_proj": 128 * 128, "k_proj": 128 * kv, "v_proj": 128 * kv, "o_proj": 128 * 128}
    products |= {"gate": 128 * 256, "up": 128 * 256, "down": 256 * 128}
    expected = {node: rows * size for node, size in products.items()}
    attended = 2 * 4 * 24 * 24 * 32
    expected |= {"attention": 2 * attended} if name == "attention" else {"scores": attended, "mixed": attended}
    assert macs_by_node(run) == expected
    # A row of the embedding is 64 bytes a token; two gains of 128; ids of 4 bytes; the result.
    weights = sum(products.values()) // 2 + rows * 64 + 2 * 128
    assert run.bytes == {"weights": weights, "activations": rows * 4 + rows * 128}


def test_closed_forms_of_the_resnet_block() -> None:
    """Two images of 32 x 32: 16 x 16 behind the stem, 8 x 8 behind the pool, 4 x 4 behind the stride."""
    run = run_of("resnet", "roomy")
    sizes = {"stem": (256, 16, 3 * 49), "conv1": (16, 32, 16 * 9), "conv2": (16, 32, 32 * 9), "shortcut": (16, 32, 16)}
    sizes |= {"depthwise": (16, 32, 9), "pointwise": (16, 64, 32), "fc": (1, 10, 64)}
    assert macs_by_node(run) == {node: 2 * places * filters * k for node, (places, filters, k) in sizes.items()}
    assert run.bytes["activations"] == 2 * 3 * 32 * 32 + lines(2 * 10)
    stored = {node: filters * k for node, (_, filters, k) in sizes.items()}
    stored["stem"] = (4 * 16) * (3 * 81)  # tiles of 2 x 2 outputs look at 9 x 9 places
    stored["depthwise"] = 8 * (4 * 12) * (4 * 2)  # 4 channels and 2 places are one product: 12 inputs to 2 outputs of each
    assert run.bytes["weights"] == sum(lines(count // 2) for count in stored.values()) + lines(10)
    copied = Counter[str]()
    for entry in program_of("resnet", "roomy").program.entries:
        if isinstance(entry, VeEntry) and entry.opcode == "VE_COPY_TILE":
            copied[entry.meta["debug"]] += entry.length * entry.batch
    side_by_side = {node: 2 * sizes[node][0] * sizes[node][2] for node in ("stem", "conv1", "conv2", "shortcut")}
    side_by_side["stem"] = 2 * 64 * (3 * 81)
    side_by_side["depthwise"] = 2 * 8 * 32 * 12
    assert {node: copied[node] for node in side_by_side} == side_by_side
    notes = {row.name: row.note for row in run.rows if row.note}
    assert notes["stem_bn"] == "part of the weights of stem" and notes["flat"] == "the same bytes"


@pytest.mark.parametrize(("weight", "cycles"), [("input", 457), ("stored", 370)])
def test_depthwise_convolutions_whose_filters_are_no_weights(weight: str, cycles: int) -> None:
    """2 lines of 16 channels: 40 places by 3, then 20 by 5. Stored filters are matrices of two channels and four places."""
    run = GraphProgram(graph_of(depthwise_lines(weight), w=8), load_config(MACHINES["roomy"]), 8).run()
    assert macs_by_node(run) == {"first": 2 * 40 * 16 * 3, "second": 2 * 20 * 16 * 5}
    moved = {"x": 2 * 16 * 40, "v": lines(16 * 5), "out": 2 * 16 * 20}
    filters = lines(16 * 3)
    assert run.bytes["activations"] == sum(moved.values()) + (filters if weight == "input" else 0)
    assert run.bytes["weights"] == (8 * (2 * 6) * (2 * 4) if weight == "stored" else 0)
    assert run.cycles == cycles
    # 2 images of one block: 8 copies, 4 of each vector engine, a product for each of 16 groups or 8 matrices, and the loads.
    assert run.rows[0].jobs == 2 * (8 + (16 if weight == "input" else 8)) + 1 + 2


def test_closed_forms_of_attention_with_a_cache() -> None:
    """Each of 2 x 4 heads looks at 16 positions of 32. Both caches come in, and go out a token longer."""
    run = run_of("cached", "roomy")
    assert run.macs == 2 * (2 * 4) * 16 * 32
    token, caches = 2 * 2 * 32, 2 * (2 * 2 * 15 * 32)
    assert run.least_bytes == 2 * 4 * 32 + 2 * token + caches + 16 + (2 * 4 * 32 + caches + 2 * token)
    assert run.bytes["weights"] == 0


def test_every_entry_names_its_node() -> None:
    entries = program_of("block", "tight").program.entries[:-1]
    nodes = MODELS["block"][0].nodes
    assert {entry.meta["debug"] for entry in entries} <= {node.name for node in nodes}
    assert all({"layer_id", "phase", "model_name"} <= entry.meta.keys() for entry in entries)


def dense(rows: int, k: int, n: int) -> Builder:
    b = Builder()
    b.output(b.node("MatMul", b.node("MatMul", b.input("x", rows, k), b.weight("w1", k, n)), b.weight("w2", n, k)))
    return b


@pytest.mark.parametrize(("rows", "machine", "least"), [(1024, "npu_mobile", 0.9), (1024, "npu_server", 0.85)])
def test_large_products_are_near_the_mac_bound(rows: int, machine: str, least: float) -> None:
    run = GraphProgram(graph_of(dense(rows, 2048, 4096), w=8), load_config(machine), 8).run()
    assert run.macs == 2 * rows * 2048 * 4096
    assert run.mac_cycles / run.cycles >= least


def test_one_row_is_near_the_bandwidth_bound() -> None:
    run = GraphProgram(graph_of(dense(1, 2048, 4096), w=8), load_config("npu_server"), 8).run()
    assert run.dram_cycles / run.cycles >= 0.9
    assert run.bytes["weights"] == 2 * 2048 * 4096


def unknown() -> Builder:
    b = Builder()
    x = b.input("x", 4, 8)
    y = b.node("Det", b.node("Reshape", x, b.constant("s", [2, 4, 4])), name="best", outputs=["top"])
    z = b.node("FFT", x, name="odd", domain="my.ops")
    b.output(b.node("Relu", x, name="good"), b.node("Relu", y, name="behind"), b.node("Relu", z, name="lost"))
    return b


def test_what_cannot_be_lowered_is_listed() -> None:
    graph = graph_of(unknown())
    with pytest.raises(InputError) as error:
        GraphProgram(graph, load_config("npu_server"), 8)
    assert str(error.value).splitlines() == [
        "model: best (Det): there is no lowering of Det",
        "model: odd (FFT): there is no lowering of FFT of my.ops",
        "model: lost (Relu): the shape of odd_out is not known",
    ]
    run = GraphProgram(graph, load_config("npu_server"), 8, partial=True).run()
    assert [row.name for row in run.rows if row.jobs] == ["good", "behind"]
    assert [item["node"] for item in run.to_dict()["not_lowered"]] == ["best (Det)", "odd (FFT)", "lost (Relu)"]


def one(op: str, *shape: int, opset: int = 18, more: tuple[Any, ...] = (), **attributes: Any) -> Builder:
    """A graph of one node with constants as further inputs."""
    b = Builder(opset)
    x = b.input("x", *shape)
    b.output(
        b.node(
            op,
            x,
            *(b.constant(f"c{i}", value, np.asarray(value).dtype.type) for i, value in enumerate(more)),
            name="it",
            **attributes,
        )
    )
    return b


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (one("MaxPool", 1, 2, 2, 2, 2, 2, kernel_shape=[1, 1, 1, 1]), "it is over 4 dimensions, not one or two"),
        (one("Det", 4, 4), "there is no lowering of Det"),
        (one("Resize", 1, 1, 4, 4, mode="sharp", more=(np.zeros(8, np.float32), np.array([1, 1, 2, 2], np.float32))),
         "its mode is sharp, not one of nearest, linear, bilinear, cubic, bicubic"),
    ],
)
def test_a_graph_that_cannot_be_lowered_says_why(builder: Builder, reason: str) -> None:
    with pytest.raises(InputError) as error:
        GraphProgram(graph_of(builder), load_config("npu_server"), 8)
    assert str(error.value).endswith(f": {reason}")


@pytest.mark.parametrize(
    ("builder", "elements"),
    [
        (one("Transpose", 4, 8, perm=[1, 0]), {}),  # a vector operation behind reads where the elements are
        (one("Transpose", 1, 4, 8, perm=[1, 0, 2]), {}),  # the same bytes
        (one("Slice", 4, 8, more=([1], [3])), {}),
        (one("Expand", 1, 8, more=([5, 8],)), {"copy": 40}),
        (one("ReduceMean", 4, 8, more=([1],)), {"sum": 32, "mul": 4}),
        (one("ReduceMean", 4, 8, more=([0],)), {"sum": 32, "mul": 8}),
        (one("AveragePool", 1, 2, 4, 4, kernel_shape=[2, 2]), {"copy": 18, "add": 54, "mul": 18}),
        (one("LogSoftmax", 4, 8), {"softmax": 32, "exp": 32}),
        (one("BatchNormalization", 1, 2, 4, 4, more=(np.ones(2, np.float32),) * 4), {"mul": 32, "add": 32}),
    ],
)
def test_what_vector_engines_do(builder: Builder, elements: dict[str, int]) -> None:
    """The last node is followed by a Relu, so that there is work in every graph: a copy more."""
    builder.outputs.clear()
    builder.output(builder.node("Tanh", "it_out", name="behind"))
    made, found = GraphProgram(graph_of(builder), load_config("npu_server"), 8), Counter[str]()
    for entry in made.program.entries:
        if isinstance(entry, VeEntry) and entry.meta["debug"] == "it":
            found[entry.op] += entry.length * entry.batch
    assert found == elements
    assert made.run().rows[-1].busy["ve"] > 0
