"""Groups of nodes that are one function of the vector engine, constants that weights absorb, and pools in two steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import NodeProto, TensorProto, helper, numpy_helper  # noqa: E402

from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Copy, Pool, Product, Vector  # noqa: E402
from kernbench.workloads.graphs.grouped import GroupCosts  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402

MACHINE = load_config("npu_server")
RANDOM = np.random.default_rng(11)
Nodes = Sequence[tuple[str, str, str]]  # operator, inputs, output


def number(name: str, value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.float32), name)


NUMBERS = {"one": 1, "half": 0.5, "root": 2**0.5, "cube": 3, "a": 0.044715, "b": (2 / np.pi) ** 0.5, "c": 1.702, "d": 1.6}
SILU = [("Sigmoid", "x", "s"), ("Mul", "s x", "y")]
ERF = [("Div", "x root", "d1"), ("Erf", "d1", "e"), ("Add", "e one", "p"), ("Mul", "x p", "m"), ("Mul", "m half", "y")]
TANH = [
    ("Mul", "x half", "h"), ("Pow", "x cube", "x3"), ("Mul", "x3 a", "ax"), ("Add", "x ax", "i"), ("Mul", "i b", "bi"),
    ("Tanh", "bi", "t"), ("Add", "t one", "p"), ("Mul", "h p", "y"),
]  # fmt: skip
QUICK = [("Mul", "x c", "cx"), ("Sigmoid", "cx", "s"), ("Mul", "x s", "y")]


def saved(
    folder: Path, nodes: Sequence[NodeProto], shape: list[int], weights: Sequence[onnx.TensorProto], outputs: str = "y"
) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    ys = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()]
    path = folder / "m.onnx"
    graph = helper.make_graph(nodes, "m", [x], ys, weights)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


def written(folder: Path, nodes: Nodes, outputs: str = "y") -> Path:
    made = [helper.make_node(op, inputs.split(), [out], out) for op, inputs, out in nodes]
    return saved(folder, made, [4, 64], [number(name, value) for name, value in NUMBERS.items()], outputs)


def ops(path: Path) -> list[str]:
    works = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8).lowered.jobs
    return [work.op for _, work in works if isinstance(work, Vector)]


@pytest.mark.parametrize(("nodes", "op"), [(SILU, "silu"), (QUICK, "silu"), (ERF, "gelu"), (TANH, "gelu")])
def test_functions_that_are_written_out_are_one_operation(nodes: Nodes, op: str, tmp_path: Path) -> None:
    path = written(tmp_path, nodes)
    assert ops(path) == [op]
    notes = [row.note for row in GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8).run().rows]
    assert notes == ["part of y"] * (len(nodes) - 1) + [""]
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def test_other_functions_stay_as_they_are(tmp_path: Path) -> None:
    """Another constant, another operator, and a sigmoid that is also an output."""
    assert ops(written(tmp_path, [("Mul", "x d", "cx"), *QUICK[1:]])) == ["mul", "sigmoid", "mul"]
    assert ops(written(tmp_path, [SILU[0], ("Add", "s x", "y")])) == ["sigmoid", "add"]
    assert ops(written(tmp_path, SILU, "y s")) == ["sigmoid", "mul"]
    assert ops(written(tmp_path, [("Sigmoid", "x", "s"), ("Mul", "s s", "y")])) == ["sigmoid", "mul"]


def scaled(folder: Path, *, overlap: bool = False, turned: bool = True) -> Path:
    """Queries and keys as slices of one projection; the queries are scaled."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["qk"], "project"),
        helper.make_node("Slice", ["qk", "zero", "n32", "last"], ["q"], "q"),
        helper.make_node("Slice", ["qk", "n16" if overlap else "n32", "n64", "last"], ["k"], "k"),
        helper.make_node("Mul", ["q", "c"], ["scaled"], "scale"),
        helper.make_node("Transpose", ["k"], ["kt"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["scaled", "kt" if turned else "v"], ["y"], "scores"),
    ]
    if not turned:
        nodes[4] = helper.make_node("Relu", ["k"], ["z"], "other")
    weights = [numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(np.float32), name)
               for name, shape in (("w", (32, 64)), ("b", (64,)), ("v", (32, 8)))]  # fmt: skip
    integers = {"zero": 0, "n16": 16, "n32": 32, "n64": 64, "last": 1}
    weights += [numpy_helper.from_array(np.array([value]), name) for name, value in integers.items()]
    if overlap:
        nodes[5] = helper.make_node("MatMul", ["scaled", "v"], ["y"], "scores")
        nodes[4] = helper.make_node("Relu", ["k"], ["z"], "other")
    return saved(folder, nodes, [16, 32], [*weights, number("c", 0.25)], "y z" if overlap or not turned else "y")


def test_a_constant_is_part_of_the_weights_of_its_slice(tmp_path: Path) -> None:
    path = scaled(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    assert not any(isinstance(work, Vector) and work.op == "mul" for _, work in made.lowered.jobs)
    assert {row.name: row.note for row in made.run().rows}["scale"] == "part of the weights of project"
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def heads(folder: Path) -> Path:
    """Queries and keys of a projection with a separate bias, each selected by its number; the queries are scaled."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "project"),
        helper.make_node("Add", ["b", "p"], ["qk"], "bias"),
        helper.make_node("Reshape", ["qk", "shape"], ["parts"], "parts"),
        helper.make_node("Gather", ["parts", "zero"], ["q"], "q", axis=1),
        helper.make_node("Gather", ["parts", "last"], ["k"], "k", axis=1),
        helper.make_node("Mul", ["q", "c"], ["scaled"], "scale"),
        helper.make_node("Transpose", ["k"], ["kt"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["scaled", "kt"], ["y"], "scores"),
    ]
    weights = [numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(np.float32), name)
               for name, shape in (("w", (32, 64)), ("b", (64,)))]  # fmt: skip
    integers = {"zero": np.array(0), "last": np.array(-1), "shape": np.array([16, 2, 32])}
    weights += [numpy_helper.from_array(value, name) for name, value in integers.items()]
    return saved(folder, nodes, [16, 32], [*weights, number("c", 0.25)], "y")


def test_a_constant_is_part_of_weights_behind_a_bias_and_a_selection(tmp_path: Path) -> None:
    path = heads(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    assert {row.name: row.note for row in made.run().rows}["scale"] == "part of the weights of project"
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def clipped(folder: Path, *, depthwise: bool = True, size: int = 3, outputs: str = "y") -> Path:
    """A convolution over single elements, a Clip, and a convolution with a window."""
    filters = (8, 1, size, size) if depthwise else (16, 8, size, size)
    pads = [size // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "wide"),
        helper.make_node("Clip", ["c", "low", "high"], ["r"], "clip"),
        helper.make_node("Conv", ["r", "f", "b"], ["y"], "window", pads=pads, group=8 if depthwise else 1),
    ]
    weights = [numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(np.float32), name)
               for name, shape in (("w", (8, 4, 1, 1)), ("f", filters), ("b", (filters[0],)))]  # fmt: skip
    return saved(folder, nodes, [1, 4, 10, 10], [*weights, number("low", 0), number("high", 0.4)], outputs)


@pytest.mark.parametrize("depthwise", [True, False])
def test_the_copies_of_windows_clip_what_they_copy(depthwise: bool, tmp_path: Path) -> None:
    path = clipped(tmp_path, depthwise=depthwise)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    assert [type(work) for _, work in made.lowered.jobs] == [Product, Product, Vector]
    assert {row.name: row.note for row in made.run().rows}["clip"] == "part of the copies of window"
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


@pytest.mark.parametrize("how", [{"size": 1, "depthwise": False}, {"outputs": "y r"}, {"outputs": "y c"}])
def test_a_clip_is_a_pass_if_no_window_is_copied_or_its_input_or_result_is_needed(how: dict, tmp_path: Path) -> None:
    path = clipped(tmp_path, **how)
    assert "copy" in ops(path)
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def rolled(folder: Path, outputs: str = "y") -> Path:
    """A roll of the rows of a tensor: the last rows before the first ones."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "project"),
        helper.make_node("Slice", ["p", "n5", "n16", "zero"], ["low"], "low"),
        helper.make_node("Slice", ["p", "zero", "n5", "zero"], ["high"], "high"),
        helper.make_node("Concat", ["low", "high"], ["y"], "roll", axis=0),
    ]
    weights = [numpy_helper.from_array(RANDOM.uniform(-1, 1, (32, 64)).astype(np.float32), "w")]
    integers = {"zero": 0, "n5": 5, "n16": 16}
    weights += [numpy_helper.from_array(np.array([value]), name) for name, value in integers.items()]
    return saved(folder, nodes, [16, 32], weights, outputs)


def test_slices_that_are_joined_again_are_one_copy(tmp_path: Path) -> None:
    path = rolled(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    (copy,) = (work for _, work in made.lowered.jobs if isinstance(work, Copy))
    assert copy.sources == ("p",) and copy.order is not None
    assert copy.order.span(0, 63) == (5 * 64, 6 * 64 - 1) and copy.order.span(11 * 64, 12 * 64 - 1) == (0, 63)
    assert {row.name: row.note for row in made.run().rows}["low"] == "part of roll"
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def test_a_slice_that_others_read_too_is_copied(tmp_path: Path) -> None:
    made = GraphProgram(read_onnx(rolled(tmp_path, "y low"), {}, 8, 8), MACHINE, 8)
    assert len([work for _, work in made.lowered.jobs if isinstance(work, Copy)]) == 3


def test_a_constant_of_elements_that_others_read_too_is_multiplied(tmp_path: Path) -> None:
    assert "mul" not in ops(scaled(tmp_path, turned=False))
    assert "mul" in ops(scaled(tmp_path, overlap=True))


@pytest.mark.parametrize(("kernel", "stride", "steps"), [(5, 1, 2), (3, 1, 2), (2, 2, 1), (3, 2, 1)])
def test_pools_go_over_columns_and_rows_where_that_is_less(kernel: int, stride: int, steps: int, tmp_path: Path) -> None:
    """5 x 5 takes 10 operations for each element, not 25; 3 x 3 with stride 2 would have as many in two steps."""
    fields = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4 if kernel % 2 else [0] * 4}
    path = saved(tmp_path, [helper.make_node("MaxPool", ["x"], ["y"], "pool", **fields)], [1, 8, 12, 12], [])
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    windows = [work.window for _, work in made.lowered.jobs if isinstance(work, Pool)]
    assert [window.kernel for window in windows] == ([(1, kernel), (kernel, 1)] if steps == 2 else [(kernel, kernel)])
    assert windows[-1].out == made.lowered.tensors["y"].shape[2:]
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


@pytest.mark.parametrize(("channels", "stride", "tile"), [(3, 2, (2, 3)), (8, 1, (4, 2)), (1, 1, (2, 2))])
def test_tiles_of_convolutions_over_all_channels_compute_the_convolution(
    channels: int, stride: int, tile: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupCosts, "dense", lambda self, window, filters: tile)
    weights = [numpy_helper.from_array(RANDOM.uniform(-1, 1, (10, channels, 3, 3)).astype(np.float32), "w"),
               numpy_helper.from_array(RANDOM.uniform(-1, 1, 10).astype(np.float32), "b")]  # fmt: skip
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv", pads=[1] * 4, strides=[stride] * 2)
    path = saved(tmp_path, [node], [2, channels, 24, 24], weights)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    (work,) = (work for _, work in made.lowered.jobs if isinstance(work, Product))
    assert work.tile == tile and work.macs == made.lowered.tensors["y"].elements * 9 * channels
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)
