"""Where the elements of copies come from, compared with numbers that numpy moves, and what jobs therefore wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Copy, Graph, Node, Tensor  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.orders import Order, Picked, Strided, join  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402
from kernbench.workloads.graphs.stored import Layouts  # noqa: E402

SHAPE = (4, 6, 5, 8)
NODES: dict[str, tuple[Node, Any]] = {
    "transpose": (Node("n", "Transpose", ("x",), ("y",), {"perm": [0, 2, 3, 1]}), lambda x: x.transpose(0, 2, 3, 1)),
    "turned round": (Node("n", "Transpose", ("x",), ("y",)), lambda x: x.T),
    "slice": (Node("n", "Slice", ("x", "starts", "ends", "axes", "steps"), ("y",)), lambda x: x[:, 1:6:2, -4:-1]),
    "split": (Node("n", "Split", ("x",), ("other", "y"), {"axis": 1}), lambda x: x[:, 3:]),
    "expand": (Node("n", "Expand", ("x", "wide"), ("y",)), lambda x: np.broadcast_to(x, (2, *SHAPE))),
    "rows": (Node("n", "Gather", ("x", "numbers"), ("y",), {"axis": 2}), lambda x: x[:, :, [4, 0, 1, -2]]),
}
KNOWN = {
    "starts": np.array([1, -4]), "ends": np.array([6, -1]), "axes": np.array([1, 2]), "steps": np.array([2, 1]),
    "wide": np.array([2, *SHAPE]), "numbers": np.array([4, 0, 1, -2]),
}  # fmt: skip


def order_of(node: Node, made: tuple[int, ...], *, image: bool) -> Order | None:
    tensors = {"x": Tensor("x", SHAPE, 8), "y": Tensor("y", made, 8)}
    layouts = Layouts(Graph("g", (node,), tensors, KNOWN, ("y",)), tensors, set())
    (layouts.images if image else layouts.rows).add("x")
    layouts.look_at(0, node)
    return layouts.order(node, "y")


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("name", NODES)
def test_orders_hold_every_element_and_little_more(name: str, image: bool) -> None:
    """Every range of a result: its elements are in the span of the source, and a single element is the span."""
    node, move = NODES[name]
    logical = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    if image:  # numbers are those of the storage, whose channels are last
        stored = np.arange(np.prod(SHAPE)).reshape(SHAPE[0], *SHAPE[2:], SHAPE[1])
        logical = np.moveaxis(stored, -1, 1)
    moved = move(logical)
    kept = image and node.op != "Transpose"
    if kept and moved.ndim != len(SHAPE):
        pytest.skip("an image does not get another dimension")
    order = order_of(node, moved.shape, image=image)
    assert order is not None
    numbers = (np.moveaxis(moved, 1, -1) if kept else moved).reshape(-1)
    for first in range(0, len(numbers), 7):
        for count in (1, 5, 48, 160):
            part = numbers[first : first + count]
            low, high = order.span(first, first + len(part) - 1)
            assert low <= part.min() and part.max() <= high
            if count == 1 and node.op != "Gather":
                assert low == high


def test_a_copy_of_a_copy_goes_through_both_orders() -> None:
    turned, part = Order((Strided((3, 4), (1, 3), 0),)), Order((Strided((4,), (1,), 4),))
    both = join(part, turned)
    assert both is not None and both.span(0, 0) == turned.span(4, 4) == (1, 1)
    assert both.span(0, 3) == (1, 10)
    assert join(None, turned) is None and join(part, None) is None


def test_picked_rows_are_spanned_row_by_row() -> None:
    """Rows 3, 0 and 1 of four rows of two elements; the second group begins at row 4."""
    order = Order((Picked((3, 0, 1), 4, 2),))
    assert order.span(0, 1) == (6, 7)
    assert order.span(2, 5) == (0, 3)
    assert order.span(6, 6) == (14, 15)
    assert order.span(4, 7) == (0, 15)


def windows(folder: Path) -> Path:
    """A projection of an image in windows of 7 x 7, as in Swin."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["q"], "project"),
        helper.make_node("Reshape", ["q", "split"], ["parts"], "parts"),
        helper.make_node("Transpose", ["parts"], ["turned"], "turned", perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["turned", "rows"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "v"], ["y"], "last"),
    ]
    weights = [
        numpy_helper.from_array(np.random.default_rng(3).uniform(-1, 1, (64, 64)).astype(np.float32), name) for name in "wv"
    ]
    shapes = {"split": [8, 7, 8, 7, 64], "rows": [3136, 64]}
    weights += [numpy_helper.from_array(np.array(shape), name) for name, shape in shapes.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3136, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path = folder / "m.onnx"
    graph = helper.make_graph(nodes, "m", [x], [y], weights)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


def test_windows_are_copied_before_the_whole_product_is_there(tmp_path: Path) -> None:
    """The first copy begins before the last tile of the product ends, and the check finds every element in its place."""
    machine = load_config("npu_server")
    path = windows(tmp_path)
    made = GraphProgram(read_onnx(path, {}, 8, 8), machine, 8)
    (copy,) = (work for _, work in made.lowered.jobs if isinstance(work, Copy))
    assert copy.order is not None and copy.order.span(0, 64 * 49 - 1) == (0, 64 * (6 * 56 + 7) - 1)
    works = {entry.id: made.works[entry.id] for entry in made.program.entries[:-1]}
    number = next(number for number, (_, work) in enumerate(made.lowered.jobs) if work is copy)
    tiles = {entry.id for entry in made.program.entries[:-1] if entry.engine == "te" and works[entry.id] < number}
    firsts = [entry for entry in made.program.entries[:-1] if works[entry.id] == number]
    before = {entry.id: set(entry.deps_before) for entry in made.program.entries}

    def reached(left: set[int]) -> set[int]:
        found = set[int]()
        while left:
            found |= left
            left = set().union(*(before[one] for one in left)) - found
        return found

    assert tiles - reached({firsts[0].id})
    found = verify_file(path, {}, machine, w=8, a=8)
    assert found.passed, (found.faults, found.worst)
