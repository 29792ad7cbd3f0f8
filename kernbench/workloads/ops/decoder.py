"""Models that tables name, as descriptions, and one step of a model as operations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernbench.config.runtime import Runtime
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.parts import Attention, Block, Description, Experts, Mlp, Stack
from kernbench.workloads.ops.blocks import Widths, without_kernels
from kernbench.workloads.ops.modules import step_kernels
from kernbench.workloads.ops.operation import Operation, Sequences


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The sizes of a decoder-only model whose layers are alike."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    gated: bool = True  #: the MLP has a gate beside its first matrix
    experts: int = 1  #: MLPs of a layer
    active: int = 1  #: MLPs that compute a token
    head_norms: bool = False  #: queries and keys are normalised, each in a kernel of its own
    shared: int = 0  #: width of the MLP that all tokens use beside their experts

    @property
    def description(self) -> Description:
        """The model with the parts that kernels depend on; biases and tied tables are left out."""
        mixer = Attention(
            heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, qk_norm="shared" if self.head_norms else ""
        )
        mlp = Mlp(width=self.mlp, gated=self.gated)
        shared = Mlp(width=self.shared) if self.shared else None
        ffn = Experts(count=self.experts, top_k=self.active, expert=mlp, shared=shared) if self.experts > 1 else mlp
        blocks = (Block(mixer=mixer, ffn=ffn),) * self.layers
        return Description(decoder=Stack(hidden=self.hidden, blocks=blocks), vocab=self.vocab)


#: A profile of software whose kernels do as much as a kernel may do.
PLAIN = Runtime.model_validate({"schema": "kernbench/runtime/1", "about": "kernels alone"})


def step_operations(
    model: Description, groups: tuple[Sequences, ...], runtime: Runtime = PLAIN, *, tp: int = 1, shards: int | None = None,
    widths: Widths | None = None,
) -> Iterator[tuple[Operation, int]]:  # fmt: skip
    """Operations of a step with how often each occurs, the LM head included. `tp` and `shards` are those of `StepKernels`."""
    kernels = step_kernels(runtime, model.hidden, groups, widths or Widths(), tp, shards or tp)
    yield from kernels.blocks(model.blocks)
    yield from kernels.ends(model.vocab, model.decoder.final_norm)


#: Shapes of models from their published config.json, by the name in the tables, in lower case without punctuation.
SHAPES: dict[str, DecoderShape] = {
    "llama27b": DecoderShape(32, 4096, 32, 32, 128, 11008, 32000),
    "llama7b": DecoderShape(32, 4096, 32, 32, 128, 11008, 32000),
    "llama213b": DecoderShape(40, 5120, 40, 40, 128, 13824, 32000),
    "llama13b": DecoderShape(40, 5120, 40, 40, 128, 13824, 32000),
    "llama270b": DecoderShape(80, 8192, 64, 8, 128, 28672, 32000),
    "llama70b": DecoderShape(80, 8192, 64, 8, 128, 28672, 32000),
    "llama38b": DecoderShape(32, 4096, 32, 8, 128, 14336, 128256),
    "llama318b": DecoderShape(32, 4096, 32, 8, 128, 14336, 128256),
    "llama370b": DecoderShape(80, 8192, 64, 8, 128, 28672, 128256),
    "llama3170b": DecoderShape(80, 8192, 64, 8, 128, 28672, 128256),
    "llama3370b": DecoderShape(80, 8192, 64, 8, 128, 28672, 128256),
    "llama321b": DecoderShape(16, 2048, 32, 8, 64, 8192, 128256),
    "llama323b": DecoderShape(28, 3072, 24, 8, 128, 8192, 128256),
    "llama3211b": DecoderShape(32, 4096, 32, 8, 128, 14336, 128256),
    "llama3290b": DecoderShape(80, 8192, 64, 8, 128, 28672, 128256),
    "mistral7b": DecoderShape(32, 4096, 32, 8, 128, 14336, 32000),
    "internlm20b": DecoderShape(60, 5120, 40, 40, 128, 13824, 103168),
    "internlm7b": DecoderShape(32, 4096, 32, 32, 128, 11008, 103168),
    "gemma2b": DecoderShape(18, 2048, 8, 1, 256, 16384, 256000),
    "gemma112b": DecoderShape(18, 2048, 8, 1, 256, 16384, 256000),
    "gemma117b": DecoderShape(28, 3072, 16, 16, 256, 24576, 256000),
    "gemma7b": DecoderShape(28, 3072, 16, 16, 256, 24576, 256000),
    "mixtral8x7b": DecoderShape(32, 4096, 32, 8, 128, 14336, 32000, experts=8, active=2),
    "mixtral8x22b": DecoderShape(56, 6144, 48, 8, 128, 16384, 32768, experts=8, active=2),
    "qwen330ba3b": DecoderShape(48, 2048, 32, 4, 128, 768, 151936, experts=128, active=8, head_norms=True),
    "gptj6b": DecoderShape(28, 4096, 16, 16, 256, 16384, 50400, False),
    "falcon180b": DecoderShape(80, 14848, 232, 8, 64, 59392, 65024, False),
    "qwen205b": DecoderShape(24, 896, 14, 2, 64, 4864, 151936),
    "qwen306b": DecoderShape(28, 1024, 16, 8, 128, 3072, 151936, head_norms=True),
    "qwen257b": DecoderShape(28, 3584, 28, 4, 128, 18944, 152064),
    "qwen2572b": DecoderShape(80, 8192, 64, 8, 128, 29568, 152064),
    "qwen332b": DecoderShape(64, 5120, 64, 8, 128, 25600, 151936, head_norms=True),
    "qwen38b": DecoderShape(36, 4096, 32, 8, 128, 12288, 151936, head_norms=True),
    "qwen2532b": DecoderShape(64, 5120, 40, 8, 128, 27648, 152064),
    "qwen2515b": DecoderShape(28, 1536, 12, 2, 128, 8960, 151936),
    "phi35mini": DecoderShape(32, 3072, 32, 32, 96, 8192, 32064),
    "phi3mini": DecoderShape(32, 3072, 32, 32, 96, 8192, 32064),
    "llama40b": DecoderShape(60, 6656, 52, 52, 128, 17920, 32000),
    "llama33b": DecoderShape(60, 6656, 52, 52, 128, 17920, 32000),
    "llama230b": DecoderShape(60, 6656, 52, 52, 128, 17920, 32000),
    "llama31405b": DecoderShape(126, 16384, 128, 8, 128, 53248, 128256),
    "phi2": DecoderShape(32, 2560, 32, 32, 80, 10240, 51200, False),
    "gemma29b": DecoderShape(42, 3584, 16, 8, 256, 14336, 256000),
    "gemma227b": DecoderShape(46, 4608, 32, 16, 128, 36864, 256000),
    "qwen72b": DecoderShape(80, 8192, 64, 64, 128, 24576, 152064),
    "qwen27b": DecoderShape(28, 3584, 28, 4, 128, 18944, 152064),
    "qwen272b": DecoderShape(80, 8192, 64, 8, 128, 29568, 152064),
    "qwen253b": DecoderShape(36, 2048, 16, 2, 128, 11008, 151936),
    "qwen2514b": DecoderShape(48, 5120, 40, 8, 128, 13824, 152064),
    "qwen34b": DecoderShape(36, 2560, 32, 8, 128, 9728, 151936, head_norms=True),
    "qwen314b": DecoderShape(40, 5120, 40, 8, 128, 17408, 151936, head_norms=True),
    "qwen215b": DecoderShape(28, 1536, 12, 2, 128, 8960, 151936),
    "qwen157b": DecoderShape(32, 4096, 32, 32, 128, 11008, 151936),
    "qwen7b": DecoderShape(32, 4096, 32, 32, 128, 11008, 151936),
    "qwen14b": DecoderShape(40, 5120, 40, 40, 128, 13696, 152064),
    "qwen317b": DecoderShape(28, 2048, 16, 8, 128, 6144, 151936, head_norms=True),
    "qwq32b": DecoderShape(64, 5120, 40, 8, 128, 27648, 152064),
    "mistralnemo": DecoderShape(40, 5120, 32, 8, 128, 14336, 131072),
    "falcon7b": DecoderShape(32, 4544, 71, 1, 64, 18176, 65024, False),
    "falcon40b": DecoderShape(60, 8192, 128, 8, 64, 32768, 65024, False),
    "yi6b": DecoderShape(32, 4096, 32, 4, 128, 11008, 64000),
    "yi34b": DecoderShape(60, 7168, 56, 8, 128, 20480, 64000),
    "gemma31b": DecoderShape(26, 1152, 4, 1, 256, 6912, 262144, head_norms=True),
    "gemma34b": DecoderShape(34, 2560, 8, 4, 256, 10240, 262208, head_norms=True),
    "gemma312b": DecoderShape(48, 3840, 16, 8, 256, 15360, 262208, head_norms=True),
    "gemma327b": DecoderShape(62, 5376, 32, 16, 128, 21504, 262208, head_norms=True),
    "phi3medium": DecoderShape(40, 5120, 40, 10, 128, 17920, 32064),
    "gptneox20b": DecoderShape(44, 6144, 64, 64, 96, 24576, 50432, False),
    "bloom7b": DecoderShape(30, 4096, 32, 32, 128, 16384, 250880, False),
    "bloom176b": DecoderShape(70, 14336, 112, 112, 128, 57344, 250880, False),
    "mpt7b": DecoderShape(32, 4096, 32, 32, 128, 16384, 50432, False),
    "baichuan27b": DecoderShape(32, 4096, 32, 32, 128, 11008, 125696),
    "baichuan213b": DecoderShape(40, 5120, 40, 40, 128, 13696, 125696),
    "chatglm26b": DecoderShape(28, 4096, 32, 2, 128, 13696, 65024),
    "chatglm36b": DecoderShape(28, 4096, 32, 2, 128, 13696, 65024),
    "starcoder27b": DecoderShape(32, 4608, 36, 4, 128, 18432, 49152, False),
    "starcoder215b": DecoderShape(40, 6144, 48, 4, 128, 24576, 49152, False),
    "llama65b": DecoderShape(80, 8192, 64, 64, 128, 22016, 32000),
    "vicuna7b": DecoderShape(32, 4096, 32, 32, 128, 11008, 32000),
    "vicuna13b": DecoderShape(40, 5120, 40, 40, 128, 13824, 32000),
    "codellama7b": DecoderShape(32, 4096, 32, 32, 128, 11008, 32016),
    "codellama13b": DecoderShape(40, 5120, 40, 40, 128, 13824, 32016),
    "codellama34b": DecoderShape(48, 8192, 64, 8, 128, 22016, 32000),
    "codellama70b": DecoderShape(80, 8192, 64, 8, 128, 28672, 32016),
    "vicuna33b": DecoderShape(60, 6656, 52, 52, 128, 17920, 32000),
    "zephyr7b": DecoderShape(32, 4096, 32, 8, 128, 14336, 32000),
    "internlm27b": DecoderShape(32, 4096, 32, 8, 128, 14336, 92544),
    "internlm220b": DecoderShape(48, 6144, 48, 8, 128, 16384, 92544),
    "internlm257b": DecoderShape(32, 4096, 32, 8, 128, 14336, 92544),
    "internlm2520b": DecoderShape(48, 6144, 48, 8, 128, 16384, 92544),
    "opt13b": DecoderShape(40, 5120, 40, 40, 128, 20480, 50272, False),
    "opt1.3b": DecoderShape(24, 2048, 32, 32, 64, 8192, 50272, False),
    "opt27b": DecoderShape(32, 2560, 32, 32, 80, 10240, 50272, False),
    "opt67b": DecoderShape(32, 4096, 32, 32, 128, 16384, 50272, False),
    "opt30b": DecoderShape(48, 7168, 56, 56, 128, 28672, 50272, False),
    "opt66b": DecoderShape(64, 9216, 72, 72, 128, 36864, 50272, False),
    "gpt3175b": DecoderShape(96, 12288, 96, 96, 128, 49152, 50257, False),
    "gpt3": DecoderShape(96, 12288, 96, 96, 128, 49152, 50257, False),
    "pythia69b": DecoderShape(32, 4096, 32, 32, 128, 16384, 50432, False),
    "pythia12b": DecoderShape(36, 5120, 40, 40, 128, 20480, 50688, False),
    "bloom7b1": DecoderShape(30, 4096, 32, 32, 128, 16384, 250880, False),
    "mpt30b": DecoderShape(48, 7168, 64, 64, 112, 28672, 50432, False),
    "stablelm3b": DecoderShape(32, 2560, 32, 32, 80, 6912, 50304),
    "smollm2135m": DecoderShape(30, 576, 9, 3, 64, 1536, 49152),
    "smollm2360m": DecoderShape(32, 960, 15, 5, 64, 2560, 49152),
    "smollm217b": DecoderShape(24, 2048, 32, 32, 64, 8192, 49152),
    "phi15": DecoderShape(24, 2048, 32, 32, 64, 8192, 51200, False),
    "phi3small": DecoderShape(32, 4096, 32, 8, 128, 14336, 100352),
    "phi4mini": DecoderShape(32, 3072, 24, 8, 128, 8192, 200064),
    "phi35moe": DecoderShape(32, 4096, 32, 8, 128, 6400, 32064, experts=16, active=2),
    "ministral8b": DecoderShape(36, 4096, 32, 8, 128, 12288, 131072),
    "codestral22b": DecoderShape(56, 6144, 48, 8, 128, 16384, 32768),
    "mistrallarge2": DecoderShape(88, 12288, 96, 8, 128, 28672, 32768),
    "mistrallarge": DecoderShape(88, 12288, 96, 8, 128, 28672, 32768),
    "commandr": DecoderShape(40, 8192, 64, 64, 128, 22528, 256000),
    "commandr35b": DecoderShape(40, 8192, 64, 64, 128, 22528, 256000),
    "commandrplus": DecoderShape(64, 12288, 96, 8, 128, 33792, 256000),
    "dbrx": DecoderShape(40, 6144, 48, 8, 128, 10752, 100352, experts=16, active=4),
    "llama4scout17b16e": DecoderShape(48, 5120, 40, 8, 128, 8192, 202048, experts=16, active=1, shared=8192),
    "llama4scout": DecoderShape(48, 5120, 40, 8, 128, 8192, 202048, experts=16, active=1, shared=8192),
    "qwen18b": DecoderShape(24, 2048, 16, 16, 128, 5504, 151936),
    "qwen1505b": DecoderShape(24, 1024, 16, 16, 64, 2816, 151936),
    "qwen1518b": DecoderShape(24, 2048, 16, 16, 128, 5504, 151936),
    "qwen154b": DecoderShape(40, 2560, 20, 20, 128, 6912, 151936),
    "qwen1514b": DecoderShape(40, 5120, 40, 40, 128, 13696, 152064),
    "qwen1532b": DecoderShape(64, 5120, 40, 8, 128, 27392, 152064),
    "qwen1572b": DecoderShape(80, 8192, 64, 64, 128, 24576, 152064),
    "qwen15moea27b": DecoderShape(24, 2048, 16, 16, 128, 1408, 151936, experts=60, active=4, shared=5632),
    "qwen257ba14b": DecoderShape(28, 3584, 28, 4, 128, 2560, 151936, experts=64, active=8, shared=20480),
    "yi156b": DecoderShape(32, 4096, 32, 4, 128, 11008, 64000),
    "yi159b": DecoderShape(48, 4096, 32, 4, 128, 11008, 64000),
    "yi1534b": DecoderShape(60, 7168, 56, 8, 128, 20480, 64000),
    "gpt2medium": DecoderShape(24, 1024, 16, 16, 64, 4096, 50257, False),
    "gpt2large": DecoderShape(36, 1280, 20, 20, 64, 5120, 50257, False),
    "gpt2xl": DecoderShape(48, 1600, 25, 25, 64, 6400, 50257, False),
    "glm49b": DecoderShape(40, 4096, 32, 2, 128, 13696, 151552),
    "falcon37b": DecoderShape(28, 3072, 12, 4, 256, 23040, 131072),
    "olmo27b": DecoderShape(32, 4096, 32, 32, 128, 11008, 100352),
    "granite318b": DecoderShape(40, 4096, 32, 8, 128, 12800, 49155),
    "llm7b": DecoderShape(30, 4096, 32, 32, 128, 11008, 102400),
    "llm67b": DecoderShape(95, 8192, 64, 8, 128, 22016, 102400),
}


#: Words of names that do not change the shape: how a model was trained further, who published it.
SAME_SHAPE = {
    "base", "c4ai", "chat", "coder", "deepseek", "distill", "hf", "instruct", "it", "meta", "nemotron", "preview", "r1", "sft",
    "v01", "v0.1", "v0.2", "v0.3", "v1.0", "v1.1", "v1.3", "v1.5",
}  # fmt: skip
#: Other words that do not change it: a length of context, a date, the storage of the weights.
SAME_SHAPE_LIKE = re.compile(
    r"\d+k|(20)?2[3-9](0[1-9]|1[0-2])(\d\d)?|0[1-9][0-3]\d|w\d+(a\d+)?|u?int\d+|b?fp\d+|bf16|q\d+|\d+bits?|awq|gptq|gguf|dynamic|quantized"
)
#: Presets that have other names, too.
PRESETS = {"deepseekr1": "deepseekv3", "deepseekv31": "deepseekv3", "nemo12b": "mistralnemo12b", "tinyllama": "tinyllama11b"}


def description_of(name: str) -> Description | None:
    """The model that a table calls by this name, or None. Names of presets (configs/models) are also known."""
    words = re.split(r"[^a-z0-9.]+", name.lower().rpartition("/")[2])
    if {"distill", "qwen"}.issubset(words):  # DeepSeek-R1 was distilled into models of Qwen2.5
        words[words.index("qwen")] = "qwen2.5"
    plain = [one for one in words if not SAME_SHAPE_LIKE.fullmatch(one)]
    whole = "".join(plain).replace(".", "")
    dotted = "".join(one for one in plain if one not in SAME_SHAPE)
    key = dotted.replace(".", "")
    found = SHAPES.get(dotted) or SHAPES.get(key)
    return found.description if found is not None else _preset({key, whole, PRESETS.get(whole, whole)})


def _preset(keys: set[str]) -> Description | None:
    """The description of the preset whose letters and digits are one of `keys`, if kernels are known for all of its parts."""
    for preset in preset_models():
        if re.sub(r"[^a-z0-9]+", "", preset) in keys:
            found = load_model(preset).description
            return None if found is None or without_kernels(found) else found
    return None
