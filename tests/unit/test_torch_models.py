"""Whole PyTorch models of small width: MACs are those that PyTorch counts, and the tiles compute what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
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
