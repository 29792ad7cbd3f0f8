"""Copies that are part of the operations around them, and images whose channels are last: fewer jobs, the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs import layouts, memory  # noqa: E402
from kernbench.workloads.graphs.graph import Copy, Product, Vector  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402

MACHINE = load_config("npu_server")
RANDOM = np.random.default_rng(7)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(RANDOM.uniform(-1, 1, shape).astype(np.float32), name)


def saved(folder: Path, nodes: list[onnx.NodeProto], shape: list[int], weights: list[onnx.TensorProto]) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path = folder / "m.onnx"
    model = helper.make_model(helper.make_graph(nodes, "m", [x], [y], weights), opset_imports=[helper.make_opsetid("", 20)])
    onnx.save_model(model, path)
    return path


def heads(folder: Path, rows: int = 48) -> Path:
    """A projection whose bias and whose split into heads are one pass, and a softmax of the turned scores."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["q"], "project"),
        helper.make_node("Reshape", ["q", "shape"], ["parts"], "parts"),
        helper.make_node("Transpose", ["parts"], ["turned"], "turned", perm=[1, 0, 2]),
        helper.make_node("Transpose", ["turned"], ["again"], "again", perm=[2, 0, 1]),
        helper.make_node("Transpose", ["again"], ["rows"], "rows", perm=[1, 2, 0]),
        helper.make_node("Softmax", ["rows"], ["s"], "softmax"),
        helper.make_node("MatMul", ["s", "v"], ["y"], "last"),
    ]
    shape = numpy_helper.from_array(np.array([rows, 4, 32]), "shape")
    return saved(folder, nodes, [rows, 64], [weight("w", 64, 128), weight("b", 128), weight("v", 32, 16), shape])


def images(folder: Path, reader: str = "Conv") -> Path:
    """A norm over the channels of an image between two convolutions, as in ConvNeXt."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["c"], ["rows"], "to_rows", perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["rows", "gain", "shift"], ["n"], "norm"),
        helper.make_node("Transpose", ["n"], ["image"], "to_image", perm=[0, 3, 1, 2]),
        helper.make_node("Add", ["image", "c"], ["sum"], "residual"),
    ]
    if reader == "Conv":
        nodes.append(helper.make_node("Conv", ["sum", "v"], ["y"], "second"))
    else:
        nodes.append(helper.make_node("Softmax", ["sum"], ["y"], "second"))
    weights = [weight("w", 16, 8, 3, 3), weight("gain", 16), weight("shift", 16), weight("v", 8, 16, 1, 1)]
    return saved(folder, nodes, [1, 8, 12, 12], weights)


def copies(made: GraphProgram) -> int:
    return sum(isinstance(work, Copy) for _, work in made.lowered.jobs)


def test_moves_are_part_of_the_operations_around_them(tmp_path: Path) -> None:
    """Three transposes and a bias are one pass over the product; the transposes that are left out have no cycles."""
    path = heads(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    assert copies(made) == 0
    assert [type(work) for _, work in made.lowered.jobs] == [Product, Vector, Vector, Product]
    assert sum(work.length * work.batch for _, work in made.lowered.jobs if isinstance(work, Vector)) == 2 * 48 * 128
    notes = {row.name: row.note for row in made.run().rows if row.note}
    assert notes["turned"] == notes["again"] == "read where it is by what follows"
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def test_readers_of_other_positions_wait_for_what_they_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a job that gathers waits only for the bytes at its own positions. The check finds what is not yet there.

    On a single tensor engine, the blocks of the product are made one after the other.
    """
    machine, path = MACHINE.model_copy(update={"te": MACHINE.te.model_copy(update={"engines": 1})}), heads(tmp_path, 2048)
    assert verify_file(path, {}, machine, w=8, a=8).passed
    monkeypatch.setattr(memory.Memory, "wait_for", lambda self, name, span: None)
    found = verify_file(path, {}, machine, w=8, a=8)
    assert not found.passed and any("before they are there" in fault for fault in found.faults)


def test_transposes_of_images_move_no_byte(tmp_path: Path) -> None:
    path = images(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    assert copies(made) == 0
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


def test_an_image_that_is_read_row_by_row_is_turned(tmp_path: Path) -> None:
    """A softmax over the last dimension does not read channels last: the transpose before it is made."""
    path = images(tmp_path, "Softmax")
    graph = read_onnx(path, {}, 8, 8)
    users = {name: [i for i, node in enumerate(graph.nodes) if name in node.inputs] for name in graph.tensors}
    kept = {graph.nodes[number].name for number in layouts.kept_transposes(graph, users)}
    assert kept == {"to_rows"}
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)
