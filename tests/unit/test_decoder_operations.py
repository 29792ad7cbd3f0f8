"""The operations of a step of a decoder, and the shapes of models that tables name."""

from __future__ import annotations

import re

import pytest

from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.ops.decoder import SHAPES, DecoderShape, shape_of, step_operations
from kernbench.workloads.ops.operation import Product, Sequences

WIDTH, MLP = 256, 512
DENSE = DecoderShape(2, WIDTH, 4, 4, 64, MLP, 1000)
MIXED = DecoderShape(2, WIDTH, 4, 4, 64, MLP, 1000, experts=8, active=2)


def mlp_products(shape: DecoderShape, tokens: int) -> list[Product]:
    """The two products of the MLP or of its experts."""
    operations = [op for op, _ in step_operations(shape, (Sequences(tokens, 1, 100),), head=False)]
    return [op for op in operations if isinstance(op, Product) and MLP in (op.n, op.k, op.n // 2)]


def test_a_token_uses_the_active_experts_and_many_tokens_use_all() -> None:
    assert [op.count for op in mlp_products(DENSE, 64)] == [1, 1]
    assert [(op.m, op.count) for op in mlp_products(MIXED, 1)] == [(1, 2), (1, 2)]
    assert [(op.m, op.count) for op in mlp_products(MIXED, 64)] == [(16, 8), (16, 8)]
    assert MIXED.experts_of(2) in (3, 4)  # two tokens choose some experts in common


def test_experts_multiply_the_weights_of_the_mlp() -> None:
    assert MIXED.layer_weights - DENSE.layer_weights == 7 * 3 * WIDTH * MLP


@pytest.mark.parametrize("weight_bytes", [2.0, 1.0, 0.5])
@pytest.mark.parametrize("activations", [16, 8])
def test_products_run_on_the_multipliers_for_the_activations(weight_bytes: float, activations: int) -> None:
    """Kernels expand weights of 8 or 4 bits to the width of the activations, which decides the rate."""
    operations = step_operations(DENSE, (Sequences(64, 1, 100),), weight_bytes=weight_bytes, activation_bits=activations)
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
        ("Mixtral-8x7B-v0.1", "mixtral8x7b"),
    ],
)
def test_names_of_models_are_known_without_words_that_keep_the_shape(name: str, key: str) -> None:
    assert shape_of(name) == SHAPES[key]


#: Published with the weights, for shapes of models that are no presets.
PARAMETERS = {
    "llama7b": 6_738_415_616, "llama13b": 13_015_864_320, "llama70b": 68_976_648_192, "llama3370b": 70_553_706_496,
    "internlm20b": 20_088_512_512, "internlm7b": 7_321_489_408, "gemma2b": 2_506_172_416, "gemma7b": 8_537_680_896,
    "gptj6b": 6_050_882_784, "falcon180b": 179_522_565_120, "phi35mini": 3_821_079_552, "phi3mini": 3_821_079_552,
    "llama33b": 32_528_943_616, "phi2": 2_779_683_840, "qwen72b": 72_287_920_128, "qwen27b": 7_615_616_512,
    "qwen272b": 72_706_203_648, "qwen253b": 3_085_938_688, "codellama13b": 13_016_028_160, "codellama34b": 33_743_970_304,
    "codellama70b": 68_976_812_032, "qwen205b": 494_032_768,
}  # fmt: skip
#: Models with the text model of another one, or with another name of it.
SAME = {"llama40b": "llama33b", "llama230b": "llama33b", "llama3211b": "llama38b", "llama3290b": "llama370b"}
TIED = ("gemma2b", "gemma7b", "qwen205b", "qwen253b")


@pytest.mark.parametrize("key", PARAMETERS)
def test_a_shape_has_the_published_number_of_parameters(key: str) -> None:
    """The shape has the matrices alone; norms and biases are at most some 1.5 of 10,000 parameters."""
    shape = SHAPES[key]
    counted = shape.layers * shape.layer_weights + shape.vocab * shape.hidden * (1 if key in TIED else 2)
    assert 0 <= PARAMETERS[key] - counted <= 3.5e-4 * PARAMETERS[key]


def test_each_shape_is_that_of_a_preset_or_is_counted() -> None:
    presets = {re.sub(r"[^a-z0-9]+", "", name): name for name in preset_models()}
    for key, shape in SHAPES.items():
        if key in presets:
            model = load_model(presets[key])
            wanted = model.parameters - model.layers * shape.hidden * shape.experts * (shape.experts > 1)
            counted = shape.layers * shape.layer_weights + shape.vocab * shape.hidden * (1 if model.tied else 2)
            assert abs(wanted - counted) <= 1.5e-4 * wanted, key
        else:
            assert key in PARAMETERS or SHAPES[SAME[key]] == shape, key


def test_presets_are_known_to_tables() -> None:
    assert shape_of("TinyLlama-1.1B-Chat") == DecoderShape(22, 2048, 32, 4, 64, 5632, 32000)
    assert shape_of("mixtral-8x22b") == SHAPES["mixtral8x22b"] and shape_of("deepseek-v3") is None


def test_an_unknown_model_has_no_shape() -> None:
    assert shape_of("Llama-9-7B") is None
