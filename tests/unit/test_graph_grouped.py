"""Convolutions with a filter for each channel: tiles of outputs in one product, values and MACs as before, in less time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from kernbench.cmdq.entries import TeEntry  # noqa: E402
from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs import products, verify  # noqa: E402
from kernbench.workloads.graphs.graph import Product, Window  # noqa: E402
from kernbench.workloads.graphs.grouped import GroupCosts, tiles_of  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram  # noqa: E402

MACHINE = load_config("npu_server")
RANDOM = np.random.default_rng(5)


def convolution(
    folder: Path,
    channels: int,
    size: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    images: int = 1,
    line: bool = False,
) -> Path:
    """A padded depthwise convolution with a bias behind a ReLU, of a square image or of a line of elements."""
    rank = 1 if line else 2
    filters = RANDOM.uniform(-1, 1, (channels, 1, *(kernel,) * rank)).astype(np.float32)
    bias = RANDOM.uniform(-1, 1, channels).astype(np.float32)
    stored = [numpy_helper.from_array(filters, "w"), numpy_helper.from_array(bias, "b")]
    pads = [(kernel - 1) * dilation // 2] * 2 * rank
    fields = {"group": channels, "pads": pads, "strides": [stride] * rank, "dilations": [dilation] * rank}
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Conv", ["r", "w", "b"], ["y"], "conv", **fields)]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [images, channels, *(size,) * rank])
    graph = helper.make_graph(nodes, "g", [image], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored)
    path = folder / "conv.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


def product_of(path: Path) -> tuple[GraphProgram, Product]:
    made = GraphProgram(read_onnx(path, {}, 8, 8), MACHINE, 8)
    (found,) = (work for _, work in made.lowered.jobs if isinstance(work, Product))
    return made, found


#: Images, and the tile and the channels of a product that are chosen for them.
CASES = {
    "3 x 3": ({"channels": 24, "size": 28, "kernel": 3}, (4, 4), 4),
    "7 x 7": ({"channels": 12, "size": 14, "kernel": 7}, (2, 7), 3),
    "every second": ({"channels": 16, "size": 28, "kernel": 3, "stride": 2}, (7, 2), 2),
    "apart": ({"channels": 16, "size": 16, "kernel": 3, "dilation": 2}, (2, 4), 8),
    "two images": ({"channels": 10, "size": 12, "kernel": 5, "images": 2}, (3, 1), 10),
    "line": ({"channels": 32, "size": 60, "kernel": 5, "line": True}, (1, 6), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_tiles_of_outputs_compute_the_convolution(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, tile, channels = CASES[name]
    monkeypatch.setattr(GroupCosts, "tiled", lambda self, window: (tile, channels))
    path = convolution(tmp_path, **fields)  # type: ignore[arg-type]
    made, work = product_of(path)
    assert work.tile == tile and work.blocks == channels
    places = int(fields["kernel"]) ** (1 if name == "line" else 2)
    assert work.macs == made.lowered.tensors["y"].elements * places == made.run().macs
    found = verify_file(path, {}, MACHINE, w=8, a=8)
    assert found.passed, (found.faults, found.worst)


SMALL = {"channels": 24, "size": 28, "kernel": 3}


def test_a_wrong_matrix_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolution(tmp_path, **SMALL)
    right = verify.in_tiles
    monkeypatch.setattr(verify, "in_tiles", lambda *given: right(*given)[:, ::-1])
    assert not verify_file(path, {}, MACHINE, w=8, a=8).passed


def test_a_wrong_window_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolution(tmp_path, **SMALL)

    def shifted(window: Window, tile: tuple[int, int]) -> Window:
        from dataclasses import replace

        made = tiles_of(window, tile)
        return replace(made, strides=(made.strides[0] - 1, made.strides[1]))

    monkeypatch.setattr(products, "tiles_of", shifted)
    assert not verify_file(path, {}, MACHINE, w=8, a=8).passed


def test_tiles_save_half_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = convolution(tmp_path, 96, 56, 7)
    made, work = product_of(path)
    assert work.tile != (1, 1)
    tiled = made.run()
    monkeypatch.setattr(GroupCosts, "tiled", lambda self, window: ((1, 1), self.together(window.channels, window.positions, 1)))
    plain = product_of(path)[0].run()
    assert tiled.macs == plain.macs and tiled.least_bytes == plain.least_bytes
    assert tiled.cycles * 2 < plain.cycles


def test_all_tensor_engines_share_a_small_product(tmp_path: Path) -> None:
    """196 rows of 1,024 columns: blocks of 128 rows would leave two of four engines without work."""
    stored = [numpy_helper.from_array(np.zeros((256, 1024), np.float32), "w")]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [196, 256])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [image],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored)  # fmt: skip
    path = tmp_path / "product.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    made, _ = product_of(path)
    work = [0] * MACHINE.te.engines
    for entry in made.program.entries:
        if isinstance(entry, TeEntry):
            work[entry.te_id] += entry.m * entry.n * entry.k
    assert min(work) > 0 and max(work) < 1.3 * sum(work) / len(work)
