"""Models from both of PyTorch's ONNX exporters: MACs are PyTorch's and the published ones, and the tiles compute the file.

Whole models take at most twice their roofline.

    python -m tests.unit.test_onnx_exports    # the table of docs/reference/onnx.md
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
pytest.importorskip("transformers", reason="transformers is not installed")
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Graph, Product  # noqa: E402
from kernbench.workloads.graphs.lowering import lower_graph, missing_lines  # noqa: E402
from kernbench.workloads.graphs.onnx.file import read_onnx  # noqa: E402
from kernbench.workloads.graphs.onnx.reference import verify_file  # noqa: E402
from kernbench.workloads.graphs.planner import macs_of  # noqa: E402
from kernbench.workloads.graphs.run import GraphProgram, GraphRun  # noqa: E402
from tests.unit.test_torch_models import MODELS, PLAIN, TOKENS, Made, Yolo, hugging  # noqa: E402

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
EXPORTERS = ("dynamo", "torchscript")
#: The exporter of TorchScript has no `aten::diff`, with which transformers looks for several sequences in a row of tokens
#: if there is no mask.
MASKS = {"gpt2": "attention_mask", "llama": "attention_mask", "whisper": "decoder_attention_mask"}
IMAGE = (1, 3, 224, 224)
TEXT = torch.arange(128)[None] * 7 % 1000


def whole(name: str) -> Made:
    """A model of torchvision at its published size."""
    return models.get_model(name), (torch.rand(IMAGE),)


WHOLE: dict[str, Callable[[], Made]] = {
    **{name: (lambda name=name: whole(name)) for name in ("resnet50", "mobilenet_v2", "convnext_tiny", "vit_b_16", "swin_t")},
    "bert": lambda: hugging("BertModel", "BertConfig", {"input_ids": TEXT}, {}),
    "gpt2": lambda: hugging("GPT2LMHeadModel", "GPT2Config", {"input_ids": TEXT}, PLAIN),
    "segformer": lambda: hugging(
        "SegformerForSemanticSegmentation", "SegformerConfig", {"pixel_values": torch.rand(1, 3, 512, 512)}, {}, num_labels=150
    ),
    "yolo": lambda: (Yolo(), (torch.rand(1, 3, 640, 640),)),
    "whisper": lambda: hugging(
        "WhisperModel", "WhisperConfig", {"input_features": torch.rand(1, 80, 3000), "decoder_input_ids": TOKENS}, PLAIN
    ),
}  # fmt: skip
#: Cycles over the roofline, where a run takes more than twice its roofline.
MAX_TIMES = {"mobilenet_v2": 2.5}
#: MACs that torchvision publishes with its weights, in 10^9.
PUBLISHED = {
    name: models.get_model_weights(name).DEFAULT.meta["_ops"]
    for name in ("mobilenet_v2", "convnext_tiny", "vit_b_16", "swin_t")
} | {"resnet50": 4.089}  # fmt: skip


def as_trained(model: Any) -> None:
    """Statistics of batch norms as training leaves them. Those of a new model are zeros and ones: an exporter leaves out the
    biases that follow from them."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)


def exported(name: str, made: Made, exporter: str, folder: Path) -> tuple[Path, int]:
    """The file of a model, and its MACs by PyTorch's counter."""
    model, args = made
    as_trained(model)
    if exporter == "torchscript" and name in MASKS:
        model.names = (*model.names, MASKS[name])  # type: ignore[assignment]
        args = (*args, torch.ones_like(args[-1]))
    path = folder / f"{name}.onnx"
    torch.backends.mha.set_fastpath_enabled(False)  # which hides the operators of an encoder
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model.eval()(*args)
        fields: dict[str, Any] = {"dynamo": False, "opset_version": 17}
        if exporter == "dynamo":
            pytest.importorskip("onnxscript", reason="onnxscript is not installed")
            fields = {"dynamo": True, "verbose": False}
        torch.onnx.export(model, args, str(path), **fields)
    return path, counter.get_total_flops() // 2


def macs(graph: Graph) -> int:
    lowered = lower_graph(graph, 8)
    assert list(missing_lines(lowered)) == [] and graph.assumed == ()
    return sum(macs_of(work) for _, work in lowered.jobs if isinstance(work, Product))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", MODELS)
def test_exported_models_are_computed_by_their_tiles(name: str, exporter: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path, counted = exported(name, MODELS[name](), exporter, tmp_path)
    assert macs(read_onnx(path, {}, 8, 8)) == counted
    found = verify_file(path, {}, load_config("npu_server"), w=8, a=8)
    assert found.passed and found.tiles > 5, (found.faults, found.worst)


def timed(path: Path) -> GraphRun:
    return GraphProgram(read_onnx(path, {}, 8, 8), load_config("npu_server"), 8).run()


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_models_have_the_published_macs_and_are_near_the_roofline(name: str, exporter: str, tmp_path: Path) -> None:
    path, counted = exported(name, WHOLE[name](), exporter, tmp_path)
    found = macs(read_onnx(path, {}, 8, 8))
    assert found == counted
    assert name not in PUBLISHED or round(found / 1e9, 3) == round(PUBLISHED[name], 3)
    run = timed(path)
    assert 1 <= run.over_roofline <= MAX_TIMES.get(name, 2)
    assert sum(part.cycles for part in run.parts()) == run.cycles - run.roofline


def rows() -> Iterator[str]:
    """Lines of the table, each with the two largest reasons."""
    for name in WHOLE:
        for exporter in EXPORTERS:
            with TemporaryDirectory() as folder:
                path, _ = exported(name, WHOLE[name](), exporter, Path(folder))
                run = timed(path)
            times = f"{run.bound} {run.roofline:,} | {run.over_roofline:.2f}"
            why = "; ".join(f"{part.reason} {part.cycles:,}, {part.op} {part.of_op:,}" for part in run.parts()[:2])
            yield f"| {name} | {exporter} | {run.macs / 1e9:.2f} G | {run.cycles:,} | {times} | {why} |"


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
