"""The operations of a step of a decoder, and the shapes of models that tables name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.parts import Description
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import SHAPES, DecoderShape, description_of, step_operations
from kernbench.workloads.ops.operation import Product, Sequences, Vector
from kernbench.workloads.ops.step import decode_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer
from kernbench.workloads.serving.generation import generate

WIDTH, MLP = 256, 512
DENSE = DecoderShape(2, WIDTH, 4, 4, 64, MLP, 1000)
MIXED = DecoderShape(2, WIDTH, 4, 4, 64, MLP, 1000, experts=8, active=2)


def mlp_products(shape: DecoderShape, tokens: int) -> list[Product]:
    """The two products of the MLP or of its experts."""
    operations = [op for op, _ in step_operations(shape.description, (Sequences(tokens, 1, 100),))]
    return [op for op in operations if isinstance(op, Product) and MLP in (op.n, op.k, op.n // 2)]


def test_a_token_uses_the_active_experts_and_many_tokens_use_all() -> None:
    assert [op.count for op in mlp_products(DENSE, 64)] == [1, 1]
    assert [(op.m, op.count) for op in mlp_products(MIXED, 1)] == [(1, 2), (1, 2)]
    assert [(op.m, op.count) for op in mlp_products(MIXED, 64)] == [(16, 8), (16, 8)]
    assert {op.count for op in mlp_products(MIXED, 2)} in ({3}, {4})  # two tokens choose some experts in common


def test_short_kernels_choose_sort_and_sum_the_tokens_of_experts() -> None:
    """Four launches in each layer, which decide the time of a step of few tokens with small experts."""
    found = {op.name: (op.rows, op.width, count) for op, count in step_operations(MIXED.description, (Sequences(3, 1, 100),))
             if isinstance(op, Vector) and op.name.startswith("expert")}  # fmt: skip
    assert found == {"expert_choice": (3, 8, 2), "expert_sort": (3, 2, 4), "expert_sum": (3, WIDTH, 2)}


def matrix_elements(model: Description, tied: bool) -> int:
    """Elements of the matrices of the layers, and of the embedding and the LM head, which can be one table."""
    layers = sum(weight.elements for block in model.blocks for weight in block.weights(model.hidden))
    return layers + model.vocab * model.hidden * (1 if tied else 2)


@pytest.mark.parametrize("weight_bytes", [2.0, 1.0, 0.5])
@pytest.mark.parametrize("activations", [16, 8])
def test_products_run_on_the_multipliers_for_the_activations(weight_bytes: float, activations: int) -> None:
    """Kernels expand weights of 8 or 4 bits to the width of the activations, which decides the rate."""
    widths = Widths(weight_bytes, 2.0, activations)
    operations = step_operations(DENSE.description, (Sequences(64, 1, 100),), widths=widths)
    products = [op for op, _ in operations if isinstance(op, Product)]
    assert len(products) == 5
    assert {(op.bits, op.left_bytes, op.right_bytes) for op in products} == {(activations, activations / 8, weight_bytes)}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama318b"),
        ("Mistral-7B-Instruct-v0.2", "mistral7b"),
        ("Llama-2-7b-chat-hf", "llama27b"),
        ("Gemma - 7B", "gemma7b"),
        ("DeepSeek-R1-Distill-Llama-70B", "llama70b"),
        ("DeepSeek-R1-Distill-Qwen-14B", "qwen2514b"),
        ("Qwen-14B-Chat", "qwen14b"),
        ("tiiuae/falcon-40b-instruct", "falcon40b"),
        ("Mixtral-8x7B-v0.1", "mixtral8x7b"),
        ("facebook/opt-1.3b", "opt1.3b"),
        ("facebook/opt-13b", "opt13b"),
        ("vicuna-13b-v1.5", "vicuna13b"),
        ("Phi-3-mini-128k-instruct", "phi3mini"),
        ("Mistral-Large-Instruct-2407", "mistrallarge"),
        ("nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", "llama3170b"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen257b"),
        ("Meta-Llama-3.1-405B-Instruct-FP8-dynamic", "llama31405b"),
        ("Llama-2-13B-w4a16", "llama213b"),
        ("Qwen3-30B-A3B-Instruct-2507", "qwen330ba3b"),
        ("internlm2_5-7b-chat", "internlm257b"),
        ("llama-3-8b-instruct-262k", "llama38b"),
    ],
)
def test_names_of_models_are_known_without_words_that_keep_the_shape(name: str, key: str) -> None:
    assert description_of(name) == SHAPES[key].description


#: Published with the weights, for shapes of models that are no presets.
PARAMETERS = {
    "llama7b": 6_738_415_616, "llama13b": 13_015_864_320, "llama70b": 68_976_648_192, "llama3370b": 70_553_706_496,
    "internlm20b": 20_088_512_512, "internlm7b": 7_321_489_408, "gemma2b": 2_506_172_416, "gemma7b": 8_537_680_896,
    "gptj6b": 6_050_882_784, "falcon180b": 179_522_565_120, "phi35mini": 3_821_079_552, "phi3mini": 3_821_079_552,
    "llama33b": 32_528_943_616, "phi2": 2_779_683_840, "qwen72b": 72_287_920_128, "qwen27b": 7_615_616_512,
    "qwen272b": 72_706_203_648, "qwen253b": 3_085_938_688, "codellama13b": 13_016_028_160, "codellama34b": 33_743_970_304,
    "codellama70b": 68_976_812_032, "qwen205b": 494_032_768,
    "qwen215b": 1_543_714_304, "qwen157b": 7_721_324_544, "qwen7b": 7_721_324_544, "qwen14b": 14_167_290_880,
    "qwen317b": 1_720_574_976, "mistralnemo": 12_247_782_400, "falcon7b": 6_921_720_704, "falcon40b": 41_303_293_952,
    "yi6b": 6_061_035_520, "yi34b": 34_388_917_248, "gemma31b": 999_885_952, "gemma34b": 3_880_099_328,
    "gemma312b": 11_765_788_416, "gemma327b": 27_009_002_240, "phi3medium": 13_960_238_080, "gptneox20b": 20_554_567_680,
    "bloom7b": 7_069_016_064, "bloom176b": 176_247_271_424, "mpt7b": 6_649_286_656, "baichuan27b": 7_505_973_248,
    "baichuan213b": 13_896_668_160, "chatglm26b": 6_243_584_000, "chatglm36b": 6_243_584_000, "starcoder27b": 7_173_923_840,
    "starcoder215b": 15_957_889_024, "llama65b": 65_285_660_672, "codellama7b": 6_738_546_688,
    "internlm27b": 7_737_708_544, "internlm220b": 19_861_149_696, "pythia69b": 6_857_302_016, "pythia12b": 11_846_072_320,
    "mpt30b": 29_958_115_328, "stablelm3b": 2_795_443_200, "smollm2135m": 134_515_008, "smollm2360m": 361_821_120,
    "smollm217b": 1_711_376_384, "phi15": 1_418_270_720, "phi3small": 7_392_272_384, "phi4mini": 3_836_021_760,
    "phi35moe": 41_873_153_344, "ministral8b": 8_019_808_256, "codestral22b": 22_247_282_688,
    "mistrallarge2": 122_610_069_504, "commandr": 34_980_831_232, "commandrplus": 103_810_674_688, "dbrx": 131_596_523_520,
    "llama4scout": 107_769_861_120, "qwen18b": 1_836_828_672, "qwen1505b": 463_987_712, "qwen1518b": 1_836_828_672,
    "qwen154b": 3_950_369_280, "qwen1514b": 14_167_290_880, "qwen1532b": 32_512_218_112, "qwen1572b": 72_287_920_128,
    "qwen15moea27b": 14_315_784_192, "qwen257ba14b": 57_409_064_448, "yi156b": 6_061_035_520, "yi159b": 8_829_407_232,
    "yi1534b": 34_388_917_248, "glm49b": 9_399_951_360, "falcon37b": 7_455_550_464, "olmo27b": 7_298_617_344,
    "granite318b": 8_170_848_256, "llm7b": 6_910_365_696, "llm67b": 67_424_886_784,
    # without their tables of positions
    "opt1.3b": 1_315_758_080 - 2050 * 2048, "opt27b": 2_651_596_800 - 2050 * 2560, "opt67b": 6_658_473_984 - 2050 * 4096,
    "opt13b": 12_853_473_280 - 2050 * 5120, "opt30b": 29_974_540_288 - 2050 * 7168, "opt66b": 65_719_115_776 - 2050 * 9216,
    "gpt2medium": 354_823_168 - 1024 * 1024, "gpt2large": 774_030_080 - 1024 * 1280, "gpt2xl": 1_557_611_200 - 1024 * 1600,
    "gpt3": 174_604_259_328 - 2048 * 12288,
}  # fmt: skip
#: Models with the text model of another one, or with another name of it.
SAME = {
    "llama40b": "llama33b", "llama230b": "llama33b", "llama3211b": "llama38b", "llama3290b": "llama370b",
    "vicuna7b": "llama7b", "vicuna13b": "llama13b", "qwq32b": "qwen2532b", "vicuna33b": "llama33b", "zephyr7b": "mistral7b",
    "internlm257b": "internlm27b", "internlm2520b": "internlm220b", "gemma112b": "gemma2b", "gemma117b": "gemma7b",
    "gpt3175b": "gpt3", "mistrallarge": "mistrallarge2", "commandr35b": "commandr", "bloom7b1": "bloom7b",
    "llama4scout17b16e": "llama4scout",
}  # fmt: skip
TIED = (
    "gemma2b", "gemma7b", "qwen205b", "qwen253b", "qwen215b", "qwen317b", "falcon7b", "falcon40b", "gemma31b", "gemma34b",
    "gemma312b", "gemma327b", "bloom7b", "bloom176b", "mpt7b", "starcoder27b", "qwen1505b", "opt1.3b", "opt27b", "opt67b",
    "opt13b", "opt30b", "opt66b", "gpt3", "gpt2medium", "gpt2large", "gpt2xl", "mpt30b", "smollm2135m", "smollm2360m",
    "smollm217b", "phi3small", "phi4mini", "commandr", "commandrplus", "granite318b",
)  # fmt: skip
#: Small models in which each product has a bias.
BIASED = ("phi15", "opt1.3b", "opt27b", "gpt2medium", "gpt2large", "gpt2xl")


@pytest.mark.parametrize("key", PARAMETERS)
def test_a_shape_has_the_published_number_of_parameters(key: str) -> None:
    """The shape has the matrices alone; norms and biases are at most 3.5 of 10,000 parameters, in most models 1.5 of 10,000."""
    counted = matrix_elements(SHAPES[key].description, key in TIED)
    assert 0 <= PARAMETERS[key] - counted <= (1e-3 if key in BIASED else 3.5e-4) * PARAMETERS[key]


def test_each_shape_is_that_of_a_preset_or_is_counted() -> None:
    presets = {re.sub(r"[^a-z0-9]+", "", name): name for name in preset_models()}
    for key, shape in SHAPES.items():
        if key in presets:
            model = load_model(presets[key])
            counted = matrix_elements(shape.description, model.tied)
            assert abs(model.parameters - counted) <= 1.5e-4 * model.parameters, key
        else:
            assert key in PARAMETERS or SHAPES[SAME[key]] == shape, key


def test_presets_are_known_to_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have kernels for all of their parts, also for latent attention."""
    assert description_of("TinyLlama-1.1B-Chat") == load_model("tinyllama-1.1b").description
    for name in ("deepseek-v3", "DeepSeek-R1", "deepseek-ai/DeepSeek-V3-0324"):
        assert description_of(name) == load_model("deepseek-v3").description
    assert description_of("Mistral-Small-24B-Instruct-2501") == load_model("mistral-small-24b").description
    assert description_of("mixtral-8x22b") == SHAPES["mixtral8x22b"].description
    monkeypatch.setattr("kernbench.workloads.ops.decoder.without_kernels", lambda description: "state spaces")
    assert description_of("deepseek-v3") is None


def test_an_unknown_model_has_no_description() -> None:
    assert description_of("Llama-9-7B") is None


def test_models_that_normalise_queries_and_keys_launch_two_more_norms_a_layer() -> None:
    plain, normed = (
        [(op, count) for op, count in step_operations(shape.description, (Sequences(1, 1, 64),), tp=2) if op.kind == "norm"]
        for shape in (replace(SHAPES["qwen332b"], head_norms=False), SHAPES["qwen332b"])
    )
    assert plain == normed[:1]
    assert [(op.width, count) for op, count in normed[1:]] == [(32 * 128, 64), (4 * 128, 64)]


def test_a_token_is_chosen_from_the_whole_vocabulary_once_a_step() -> None:
    runtime = load_runtime("tt_transformers")
    model = SHAPES["llama321b"].description
    took = {}
    for per_entry in (0, 50):
        timer = OperationTimer(
            load_config("wormhole_n150"), runtime.model_copy(update={"vocabulary_ns": per_entry}), simulate=False
        )
        took[per_entry] = decode_ns(timer, model, 4, 128), prefill_ns(timer, model, 4, 128)
    assert [after - before for before, after in zip(took[0], took[50], strict=True)] == pytest.approx([50 * model.vocab] * 2)


def test_new_sequences_cost_the_host_more_than_another_token() -> None:
    """A request needs buffers and its first sample; a step that only decodes does not wait for them."""
    runtime = load_runtime("trtllm")
    took = {}
    for prompt_ns in (0, 10**6):
        timer = OperationTimer(load_config("a100"), runtime.model_copy(update={"prompt_ns": prompt_ns}), simulate=False)
        run = generate("llama2-7b", "a100", runtime.model_copy(update={"prompt_ns": prompt_ns}), prompt=1, tokens=2)
        model = SHAPES["llama27b"].description
        took[prompt_ns] = (
            prefill_ns(timer, model, 1, 128), decode_ns(timer, model, 1, 128), *(one.ns / one.steps for one in run.phases)
        )  # fmt: skip
    assert [after - before for before, after in zip(took[0], took[10**6], strict=True)] == pytest.approx([1e6, 0, 1e6, 0])
