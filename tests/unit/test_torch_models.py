"""Whole PyTorch models of small width: MACs are those that PyTorch counts, and the tiles compute what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from kernbench.config import load_config  # noqa: E402
from kernbench.workloads.graphs.graph import Product  # noqa: E402
from kernbench.workloads.graphs.lowering import lower_graph  # noqa: E402
from kernbench.workloads.graphs.planner import macs_of  # noqa: E402
from kernbench.workloads.graphs.torch.check import verify_module  # noqa: E402
from kernbench.workloads.graphs.torch.program import read_module  # noqa: E402

pytestmark = pytest.mark.nightly
Made = tuple[nn.Module, tuple[Any, ...]]


class ByName(nn.Module):
    """A model of transformers whose inputs have names, and its first output."""

    def __init__(self, model: nn.Module, *names: str, **fields: Any) -> None:
        super().__init__()
        self.model, self.names, self.fields = model, names, fields

    def forward(self, *args: Any) -> Any:
        return self.model(**dict(zip(self.names, args, strict=True)), **self.fields)[0]


def hugging(model: str, config: str, inputs: dict[str, Any], fields: dict[str, Any], **sizes: Any) -> Made:
    plain = {"add_pooling_layer": False} if model == "BertModel" else {}  # its result would not be used
    made = getattr(transformers, model)._from_config(getattr(transformers, config)(**sizes), **plain)
    return ByName(made, *inputs, **fields), tuple(inputs.values())


class Unit(nn.Sequential):
    """A convolution with its batch norm and SiLU, as in YOLO."""

    def __init__(self, given: int, made: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(given, made, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(made), nn.SiLU())


class Split(nn.Module):
    """C2f of YOLOv8: two halves, one of which goes through bottlenecks, whose results are all joined."""

    def __init__(self, given: int, made: int, count: int, *, shortcut: bool = True) -> None:
        super().__init__()
        self.half, self.shortcut = made // 2, shortcut
        self.first, self.last = Unit(given, made), Unit((2 + count) * self.half, made)
        self.inner = nn.ModuleList(nn.Sequential(*(Unit(self.half, self.half, 3) for _ in range(2))) for _ in range(count))

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).chunk(2, 1))
        for inner in self.inner:
            made = inner(parts[-1])
            parts.append(parts[-1] + made if self.shortcut else made)
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector in the form of YOLOv8: a backbone, pools, two levels up and two down, and a head at each of three scales."""

    def __init__(self, width: int = 16, classes: int = 80) -> None:
        super().__init__()
        sizes = [width << number for number in range(5)]
        self.stem = Unit(3, sizes[0], 3, 2)
        self.downs = nn.ModuleList(Unit(given, made, 3, 2) for given, made in pairwise(sizes))
        self.stages = nn.ModuleList(Split(size, size, count) for size, count in zip(sizes[1:], (1, 2, 2, 1), strict=True))
        self.narrow, self.wide = Unit(sizes[4], sizes[4] // 2), Unit(2 * sizes[4], sizes[4])
        self.pool, self.up = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2)
        self.ups = nn.ModuleList(Split(sizes[n] + sizes[n + 1], sizes[n], 1, shortcut=False) for n in (3, 2))
        self.backs = nn.ModuleList(Unit(sizes[n], sizes[n], 3, 2) for n in (2, 3))
        self.joins = nn.ModuleList(Split(sizes[n] + sizes[n + 1], sizes[n + 1], 1, shortcut=False) for n in (2, 3))
        self.heads = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(Unit(size, inner, 3), Unit(inner, inner, 3), nn.Conv2d(inner, made, 1))
                for inner, made in ((max(16, sizes[2] // 4, 64), 64), (max(sizes[2], classes), classes))
            )
            for size in sizes[2:]
        )

    def forward(self, x: Any) -> Any:
        x, levels = self.stem(x), []
        for down, stage in zip(self.downs, self.stages, strict=True):
            x = stage(down(x))
            levels.append(x)
        pools = [self.narrow(x)]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        fine, middle, coarse = levels[1], levels[2], self.wide(torch.cat(pools, 1))
        middle = self.ups[0](torch.cat([self.up(coarse), middle], 1))
        fine = self.ups[1](torch.cat([self.up(middle), fine], 1))
        middle = self.joins[0](torch.cat([self.backs[0](fine), middle], 1))
        coarse = self.joins[1](torch.cat([self.backs[1](middle), coarse], 1))
        found = zip(self.heads, (fine, middle, coarse), strict=True)
        return torch.cat([torch.cat([part(level) for part in head], 1).flatten(2) for head, level in found], 2)


IMAGE, SMALL = torch.rand(1, 3, 64, 64), torch.rand(1, 3, 32, 32)
SOUND = torch.rand(1, 80, 60)
TOKENS = torch.arange(12)[None] * 7 % 90
PLAIN = {"use_cache": False}
BLOCK = models.convnext.CNBlockConfig
WHISPER = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 30,
    "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
MODELS: dict[str, Callable[[], Made]] = {
    "resnet18": lambda: (models.resnet18(), (IMAGE,)),
    "resnet50": lambda: (models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1]), (IMAGE,)),
    "mobilenet_v2": lambda: (models.mobilenet_v2(width_mult=0.25), (IMAGE,)),
    "convnext": lambda: (models.ConvNeXt([BLOCK(16, 32, 1), BLOCK(32, None, 1)]), (SMALL,)),
    "vit": lambda: (models.VisionTransformer(32, 8, 2, 4, 32, 64), (SMALL,)),
    "swin": lambda: (models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4]), (SMALL,)),
    "bert": lambda: hugging(
        "BertModel", "BertConfig", {"input_ids": TOKENS}, {}, vocab_size=100, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, max_position_embeddings=32,
    ),
    "gpt2": lambda: hugging(
        "GPT2LMHeadModel", "GPT2Config", {"input_ids": TOKENS}, PLAIN, vocab_size=100, n_embd=32, n_layer=2, n_head=4,
        n_positions=32, bos_token_id=1, eos_token_id=2,
    ),
    "llama": lambda: hugging(
        "LlamaForCausalLM", "LlamaConfig", {"input_ids": TOKENS}, PLAIN, vocab_size=100, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
    ),
    "segformer": lambda: hugging(
        "SegformerForSemanticSegmentation", "SegformerConfig", {"pixel_values": SMALL}, {}, hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16,
    ),
    "yolo": lambda: (Yolo(8, 4), (IMAGE,)),
    "whisper": lambda: hugging(
        "WhisperModel", "WhisperConfig", {"input_features": SOUND, "decoder_input_ids": TOKENS}, PLAIN, **WHISPER
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_models_are_computed_by_their_tiles(name: str) -> None:
    torch.manual_seed(0)
    model, args = MODELS[name]()
    found = verify_module(model.eval(), args, {}, load_config("npu_server"), name, w=8, a=8)
    assert found.passed, (found.faults, found.worst)
    assert found.jobs > 100 and found.tiles > 5 and found.worst


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_macs_are_those_that_torch_counts(name: str) -> None:
    torch.backends.mha.set_fastpath_enabled(False)  # which hides the operators of an encoder
    model, args = MODELS[name]()
    lowered = lower_graph(read_module(model.eval(), args), 8)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*args)  # attention written out: the counter does not know its kernels on the CPU
    assert lowered.missing == {}
    found = sum(macs_of(work) for _, work in lowered.jobs if isinstance(work, Product))
    assert found == counter.get_total_flops() // 2
