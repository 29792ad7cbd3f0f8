"""If, Loop and Scan: constants and shapes decide how they are written out, else bounds; values are those of the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from kernbench.common.errors import InputError  # noqa: E402
from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Graph, Product  # noqa: E402
from kernbench.workloads.graphs.lowering import lower_graph, missing_lines  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.planner import macs_of  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402
from kernbench.workloads.graphs.verify import verify  # noqa: E402

RANDOM = np.random.default_rng(3)
ROWS, WIDE = 4, 8


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(" ") if inputs else [], outputs.split(), name, **attributes)


def floats(name: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def value(name: str, kind: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def constant(name: str, number: Any) -> Any:
    return numpy_helper.from_array(np.asarray(number), name)


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(RANDOM.uniform(-0.5, 0.5, shape).astype(np.float32), name)


def saved(folder: Path, nodes: list[Any], inputs: list[Any], stored: list[Any], *outputs: Any) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, list(outputs) or [floats("y")], stored)
    path = folder / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


X = floats("x", ROWS, WIDE)
INDEX, GOES_ON = value("i", TensorProto.INT64), value("on", TensorProto.BOOL)
TRIPS = value("trips", TensorProto.INT64)


def counter_loop(trips: Any, limit: Any = None) -> list[Any]:
    """`x` times a matrix, once an iteration; with `limit` while a carried number is below it.

    What is stacked has one dimension: onnx.reference stacks others along their first dimension, against the standard.
    """
    goes_on = node("Identity", "on", "again") if limit is None else node("Less", "next limit", "again")
    body = helper.make_graph(
        [node("MatMul", "v w", "v2", "multiply"), node("Add", "count one", "next"), goes_on,
         node("ReduceMax", "v2 zero_axis", "row", keepdims=0)],
        "body",
        [INDEX, GOES_ON, floats("v", ROWS, WIDE), value("count", TensorProto.INT64)],
        [value("again", TensorProto.BOOL), floats("v2", ROWS, WIDE), value("next", TensorProto.INT64), floats("row", WIDE)],
        [weight("w", WIDE, WIDE), constant("one", np.int64(1)), constant("zero_axis", np.array([0]))],
    )  # fmt: skip
    return [node("Loop", f"{trips} yes x zero", "last counted all", "loop", body=body), node("ReduceSum", "all", "total"),
            node("Mul", "last total", "y")]  # fmt: skip


CONSTANTS = [constant("yes", True), constant("zero", np.int64(0)), constant("limit", np.int64(5)), constant("n", np.int64(3))]


def macs(graph: Graph) -> int:
    lowered = lower_graph(graph, 8)
    assert list(missing_lines(lowered)) == []
    return sum(macs_of(work) for _, work in lowered.jobs if isinstance(work, Product))


def equal(path: Path, **options: Any) -> bool:
    return verify_file(path, {}, load_config("npu_mobile"), w=8, a=8, **options).passed


@pytest.mark.parametrize(("trips", "limit", "times"), [("n", None, 3), ("", "limit", 5), ("n", "limit", 3)])
def test_loops_of_constant_length_are_written_out(tmp_path: Path, trips: str, limit: str | None, times: int) -> None:
    path = saved(tmp_path, counter_loop(trips, limit), [X], CONSTANTS)
    graph = read_onnx(path, {}, 8, 8)
    assert macs(graph) == times * ROWS * WIDE * WIDE and graph.assumed == ()
    assert graph.tensors["all"].shape == (times, WIDE) and equal(path)
    assert "loop/0/multiply" in [each.name for each in graph.nodes]


def test_a_loop_that_never_runs_passes_its_values_on(tmp_path: Path) -> None:
    body = helper.make_graph([node("Relu", "v", "v2"), node("Identity", "on", "again")], "body",
                             [INDEX, GOES_ON, floats("v", ROWS, WIDE)],
                             [value("again", TensorProto.BOOL), floats("v2", ROWS, WIDE)])  # fmt: skip
    stored = [constant("n", np.int64(3)), constant("no", False)]
    path = saved(tmp_path, [node("Loop", "n no x", "y", "loop", body=body)], [X], stored)
    assert len(read_onnx(path, {}, 8, 8).nodes) == 1 and equal(path)


def test_loops_that_depend_on_inputs_need_a_bound(tmp_path: Path) -> None:
    path = saved(tmp_path, counter_loop("trips"), [X, TRIPS], CONSTANTS)
    lines = dict(missing_lines(lower_graph(read_onnx(path, {}, 8, 8), 8)))
    assert lines["loop (Loop)"] == "how often it runs depends on values; give --bound loop=N"
    graph = read_onnx(path, {}, 8, 8, {"loop": 4})
    assert macs(graph) == 4 * ROWS * WIDE * WIDE
    assert graph.assumed == ("loop (Loop): 4 iterations, which is its bound",)
    with pytest.raises(InputError, match="its results depend on what its bounds leave open"):
        equal(path, bounds={"loop": 4})
    with pytest.raises(InputError, match="--bound"):
        read_onnx(path, {}, 8, 8, {"lop": 4})


def test_shapes_in_the_file_are_bounds(tmp_path: Path) -> None:
    path = saved(tmp_path, counter_loop("trips"), [X, TRIPS], CONSTANTS, floats("y"), floats("all", 2, WIDE))
    assert macs(read_onnx(path, {}, 8, 8)) == 2 * ROWS * WIDE * WIDE


def branches(condition: str, name: str = "if") -> Any:
    small = helper.make_graph([node("Relu", "x", "r")], "small", [], [floats("r", ROWS, WIDE)])
    large = helper.make_graph([node("MatMul", "x w", "r")], "large", [], [floats("r", ROWS, WIDE)], [weight("w", WIDE, WIDE)])
    return node("If", condition, "y", name, then_branch=small, else_branch=large)


def test_a_constant_condition_chooses_its_branch(tmp_path: Path) -> None:
    shape = [node("Shape", "x", "s"), node("Size", "s", "rank"), node("Equal", "rank two", "flat"), branches("flat")]
    path = saved(tmp_path, shape, [X], [constant("two", np.int64(2))])
    assert macs(read_onnx(path, {}, 8, 8)) == 0 and equal(path)
    path = saved(tmp_path, shape, [X], [constant("two", np.int64(3))])
    assert macs(read_onnx(path, {}, 8, 8)) == ROWS * WIDE * WIDE and equal(path)


def test_an_open_condition_takes_the_branch_with_more_work(tmp_path: Path) -> None:
    path = saved(tmp_path, [branches("open")], [X, value("open", TensorProto.BOOL)], [])
    graph = read_onnx(path, {}, 8, 8)
    assert macs(graph) == ROWS * WIDE * WIDE
    assert graph.assumed == ("if (If): the else branch, which has at least as much work",)
    chosen = read_onnx(path, {}, 8, 8, {"if": "then"})
    assert macs(chosen) == 0 and chosen.assumed == ("if (If): the then branch, as --bound says",)


def test_branches_inside_loops_follow_the_iteration(tmp_path: Path) -> None:
    inner = helper.make_graph([node("MatMul", "v w", "big")], "b", [], [floats("big", ROWS, WIDE)])
    other = helper.make_graph([node("Neg", "v", "low")], "s", [], [floats("low", ROWS, WIDE)])
    body = helper.make_graph(
        [node("Equal", "i one", "first"), node("If", "first", "v2", "choose", then_branch=inner, else_branch=other),
         node("Identity", "on", "again")],
        "body",
        [INDEX, GOES_ON, floats("v", ROWS, WIDE)],
        [value("again", TensorProto.BOOL), floats("v2", ROWS, WIDE)],
        [weight("w", WIDE, WIDE), constant("one", np.int64(1))],
    )  # fmt: skip
    path = saved(tmp_path, [node("Loop", "n yes x", "y", "loop", body=body)], [X], CONSTANTS)
    assert macs(read_onnx(path, {}, 8, 8)) == ROWS * WIDE * WIDE and equal(path)  # of three iterations one multiplies


@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_are_as_long_as_their_input(tmp_path: Path, backwards: int) -> None:
    body = helper.make_graph(
        [node("MatMul", "part w", "p"), node("Add", "state p", "new"), node("Relu", "new", "shown")],
        "body",
        [floats("state", 1, WIDE), floats("part", 1, WIDE)],
        [floats("new", 1, WIDE), floats("shown", 1, WIDE)],
        [weight("w", WIDE, WIDE)],
    )
    made = node("Scan", "start sequence", "last y", "scan", body=body, num_scan_inputs=1, scan_input_axes=[1],
                scan_input_directions=[backwards], scan_output_directions=[backwards], scan_output_axes=[1])  # fmt: skip
    path = saved(tmp_path, [made], [floats("start", 1, WIDE), floats("sequence", 1, 6, WIDE)], [], floats("y"), floats("last"))
    graph = read_onnx(path, {}, 8, 8)
    assert macs(graph) == 6 * WIDE * WIDE and graph.tensors["y"].shape == (1, 6, WIDE)
    start, sequence = RANDOM.uniform(-1, 1, (1, WIDE)), RANDOM.uniform(-1, 1, (1, 6, WIDE))
    matrix, state = numpy_helper.to_array(body.initializer[0]), start
    shown = np.zeros((1, 6, WIDE))
    for place in range(6)[:: -1 if backwards else 1]:  # onnx.reference has no direction but forwards
        state = state + sequence[:, place] @ matrix
        shown[:, place] = np.maximum(state, 0)
    program = GraphProgram(graph, load_config("npu_mobile"), 8)
    found = verify(program, {"start": start, "sequence": sequence}, {"w": matrix}, {"y": shown, "last": state})
    assert found.passed, (found.faults, found.worst)


def test_broken_bodies_are_refused_by_name(tmp_path: Path) -> None:
    lost = helper.make_graph([node("Relu", "nothing", "r", "inner")], "b", [], [floats("r")])
    path = saved(tmp_path, [node("If", "yes", "y", "if", then_branch=lost, else_branch=lost)], [X], CONSTANTS)
    with pytest.raises(InputError, match="node if/inner: it reads nothing, which is not an input"):
        read_onnx(path, {}, 8, 8)
    body = helper.make_graph([node("Relu", "x", "r")], "b", [], [floats("r")])
    path = saved(tmp_path, [node("Loop", "n yes x", "y", "loop", body=body)], [X], CONSTANTS)
    with pytest.raises(InputError, match=r"node loop \(Loop\): inputs = 0, but the graph inside it must have 3 inputs"):
        read_onnx(path, {}, 8, 8)


def test_scans_of_opset_8_are_refused_by_name(tmp_path: Path) -> None:
    body = helper.make_graph([node("Relu", "part", "p")], "body", [floats("part", WIDE)], [floats("p", WIDE)])
    graph = helper.make_graph([node("Scan", " sequence", "y", "scan", body=body, num_scan_inputs=1)], "g",
                              [floats("sequence", 1, 6, WIDE)], [floats("y")])  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)]), path)
    lines = dict(missing_lines(lower_graph(read_onnx(path, {}, 8, 8), 8)))
    assert lines == {"scan (Scan)": "Scan of opset 8 is not written out; export the model with a later opset"}


def test_too_many_iterations_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, counter_loop("many"), [X], [*CONSTANTS, constant("many", np.int64(60_000))])
    with pytest.raises(InputError, match="its 60000 iterations have 300000 nodes"):
        read_onnx(path, {}, 8, 8)


@pytest.mark.parametrize("grows", ["Concat", "Tile", "Add"])
def test_conditions_that_grow_without_end_need_a_bound(tmp_path: Path, grows: str) -> None:
    """A file may not have its loop computed with values of any size: here they double, are as asked, or are squared."""
    node_of = {
        "Concat": [node("Concat", "v v", "v2", axis=0)],
        "Tile": [node("Tile", "v huge", "v2")],
        "Add": [node("Unsqueeze", "v one", "column"), node("Add", "column v", "square"), node("Reshape", "square flat", "v2")],
    }[grows]
    goes_on = [node("Size", "v2", "size"), node("Less", "size most", "again")]
    body = helper.make_graph(
        [*node_of, *goes_on, node("Identity", "u", "u2")],
        "body",
        [INDEX, GOES_ON, floats("v", None), floats("u", ROWS, WIDE)],
        [value("again", TensorProto.BOOL), floats("v2", None), floats("u2", ROWS, WIDE)],
        [constant("huge", np.array([2**23])), constant("one", np.array([1])), constant("flat", np.array([-1])),
         constant("most", np.int64(2**24))],
    )  # fmt: skip
    path = saved(tmp_path, [node("Loop", "many yes small x", "end y", "loop", body=body)], [X],
                 [*CONSTANTS, constant("many", np.int64(2**40)), constant("small", np.ones(3, np.float32))])  # fmt: skip
    lines = dict(missing_lines(lower_graph(read_onnx(path, {}, 8, 8), 8)))
    assert lines["loop (Loop)"] == "how often it runs depends on values; give --bound loop=N"
