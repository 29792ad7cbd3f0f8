"""The operations of a step of a decoder, and the shapes of models that tables name."""

from __future__ import annotations

import pytest

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


def test_an_unknown_model_has_no_shape() -> None:
    assert shape_of("Llama-9-7B") is None
