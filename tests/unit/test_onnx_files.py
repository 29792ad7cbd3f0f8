"""ONNX files: shapes and dynamic dimensions, what is computed beforehand, what is refused and with which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.graphs.graph import Product, Window
from kernbench.workloads.graphs.lowering import lower_graph
from kernbench.workloads.graphs.onnx.file import read_onnx
from kernbench.workloads.graphs.planner import plan_graph
from kernbench.workloads.graphs.run import GraphProgram
from tests.onnx_models import Builder, mlp, onnx, resnet_block, transformer_block
from tests.workload_programs import tiny_machine


def test_dynamic_dimensions_reach_every_tensor(tmp_path: Path) -> None:
    """The heads are split by shapes that the graph computes from its input; all of that is done beforehand."""
    graph = read_onnx(transformer_block().save(tmp_path / "block.onnx"), {"batch": 3, "seq": 20}, 4, 8)
    assert graph.tensors["ids"].shape == (3, 20)
    assert graph.tensors["scores_out"].shape == (3, 4, 20, 20)
    assert not any(node.op in ("Shape", "Slice", "Concat") for node in graph.nodes)
    assert [graph.tensors[name].bits for name in ("ids", "wq", "scores_out")] == [32, 4, 8]
    lowered = lower_graph(graph, 8)
    norms = [work for _, work in lowered.jobs if getattr(work, "op", "") == "rmsnorm"]
    assert [getattr(norm, "params", ()) for norm in norms] == [("gain1 (operand)",), ("gain2 (operand)",)]
    (scores,) = [work for number, work in lowered.jobs if graph.nodes[number].name == "scores"]
    assert isinstance(scores, Product) and scores.swapped and len(scores.matrices) == 12


def test_what_is_made_of_weights_alone_is_a_weight(tmp_path: Path) -> None:
    b = Builder()
    turned = b.node("Transpose", b.weight("w", 300, 400), perm=[1, 0], name="turned")
    b.output(b.node("MatMul", b.input("x", 2, 400), turned, name="product"))
    lowered = lower_graph(read_onnx(b.save(tmp_path / "a.onnx"), {}, 4, 8), 8)
    assert [lowered.graph.nodes[number].name for number, _ in lowered.jobs] == ["product"]
    assert lowered.notes == {0: "computed beforehand"}
    assert (lowered.tensors["turned_out"].source, lowered.tensors["turned_out"].bits) == ("weight", 4)


def test_values_of_weights_are_not_needed(tmp_path: Path) -> None:
    """Large weights in a file beside the model may be missing; small constants are read from there."""
    model = mlp().model()
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    path = tmp_path / "m.onnx"
    before = read_onnx(path, {}, 8, 8).tensors
    whole = read_onnx(mlp().save(tmp_path / "n.onnx"), {}, 8, 8).tensors
    assert before == whole
    (tmp_path / "data.bin").unlink()
    with pytest.raises(InputError) as error:
        read_onnx(path, {}, 8, 8)
    assert str(error.value) == (
        f'{path}: initializer w1: location = "data.bin", but its values cannot be read: No such file or directory'
    )


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xff" * 100)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(resnet_block().model().SerializeToString()[:-7])


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_garbage, "it is not an ONNX model"),
        (_empty, "it is not an ONNX model: its graph has no nodes"),
        (_cut, "it is not an ONNX model"),
        (_folder, "it is not a file"),
        (lambda path: resnet_block().save(path), "its dynamic dimensions n have no size; give --dim n=N"),
    ],
)
def test_refused_files(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "m.onnx"
    make(path)
    with pytest.raises(InputError) as error:
        read_onnx(path, {}, 8, 8)
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_dimension_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = resnet_block().save(tmp_path / "m.onnx")
    with pytest.raises(InputError) as error:
        read_onnx(path, {"n": 1, "seq": 4}, 8, 8)
    assert str(error.value) == f'{path}: --dim = "seq", but it has no dynamic dimension of that name'


def test_products_that_do_not_fit_each_other_are_listed(tmp_path: Path) -> None:
    b = Builder()
    b.output(b.node("MatMul", b.input("x", 2, 8), b.weight("w", 9, 4), name="bad"))
    graph = read_onnx(b.save(tmp_path / "m.onnx"), {}, 8, 8)
    with pytest.raises(InputError) as error:
        GraphProgram(graph, load_config("npu_server"), 8)
    assert str(error.value) == (
        "m: bad (MatMul): the shape of bad_out is not known: Incompatible dimensions for matrix multiplication"
    )


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    graph = read_onnx(resnet_block().save(tmp_path / "m.onnx"), {"n": 1}, 8, 8)
    with pytest.raises(InputError) as error:
        GraphProgram(graph, load_config(tiny_machine(1)), 8)
    assert str(error.value) == (
        "machine: spm.num_banks * spm.bank_size_bytes = 1024, but a row of every tensor and a column of every matrix of m must "
        "fit the scratchpad; raise one of them"
    )
    with pytest.raises(InputError) as error:
        GraphProgram(graph, load_config(tiny_machine(64, dram={"capacity_bytes": 4096})), 8)
    assert str(error.value).startswith("machine: dram.capacity_bytes: the graph m needs ")


def test_absurd_sizes_are_refused(tmp_path: Path) -> None:
    path = mlp("rows").save(tmp_path / "m.onnx")
    with pytest.raises(InputError) as error:
        GraphProgram(read_onnx(path, {"rows": 1 << 45}, 8, 8), load_config("npu_server"), 8)
    assert str(error.value) == (
        "npu_server.yaml: node fc1: its tensors have 9007199254740992 elements, and a program has at most 68719476736 of them"
    )


def test_buffers_that_live_together_share_no_byte(tmp_path: Path) -> None:
    graph = read_onnx(transformer_block(attention_op=True).save(tmp_path / "m.onnx"), {"batch": 2, "seq": 24}, 4, 8)
    plan = plan_graph(lower_graph(graph, 8), load_config(tiny_machine(48)))
    buffers = list(plan.scratchpad.buffers.values())
    assert plan.resident and plan.scratchpad.peak_bytes <= 48 << 10
    for i, one in enumerate(buffers):
        for two in buffers[:i]:
            together = one.first <= two.last and two.first <= one.last
            assert not together or one.end <= two.start or two.end <= one.start


@settings(max_examples=200, deadline=None)
@given(
    size=st.integers(1, 30),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    pad=st.integers(0, 4),
    dilation=st.integers(1, 3),
    data=st.data(),
)
def test_rows_of_a_window_are_those_that_it_looks_at(
    size: int, kernel: int, stride: int, pad: int, dilation: int, data: st.DataObject
) -> None:
    span = (kernel - 1) * dilation + 1
    outputs = (size + 2 * pad - span) // stride + 1
    if outputs < 1:
        return
    window = Window((size, 1), (kernel, 1), (stride, 1), (pad, 0), (dilation, 1), 1, (outputs, 1), 1)
    first = data.draw(st.integers(0, outputs - 1))
    last = data.draw(st.integers(first, outputs - 1))
    low, high = window.rows_of(first, last)
    places = np.arange(first, last + 1)[:, None] * stride - pad + np.arange(kernel) * dilation
    looked_at = places[(places >= 0) & (places < size)]
    assert 0 <= low < high <= size
    if looked_at.size:
        assert low <= looked_at.min() and looked_at.max() < high
        assert low == max(0, places.min()) and high == min(size, places.max() + 1)
