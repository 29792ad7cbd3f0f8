"""The kernels of a step of a described model on a chip: weights, products, keys and windows against closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.blocks.batch import Sequences as Tokens
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.parts import Experts, LatentAttention
from kernbench.workloads.ops.blocks import StepKernels, Widths, _seen
from kernbench.workloads.ops.decoder import step_operations
from kernbench.workloads.ops.operation import Attention, Operation, Product, Sequences
from kernbench.workloads.serving.machine_step import ChipStep

DENSE = ("llama2-7b", "llama3-8b", "qwen2.5-7b", "qwen3-8b", "mistral-nemo-12b")
MIXED = ("mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3")
PLAIN = Widths()
DECODE = (Sequences(1, 1, 1000),)


def kernels(
    model: Model, groups: tuple[Sequences, ...], tp: int = 1, widths: Widths = PLAIN, profile: str = "none"
) -> dict[Operation, int]:
    assert model.description is not None
    found: dict[Operation, int] = {}
    for op, times in step_operations(model.description, groups, load_runtime(profile), tp=tp, widths=widths):
        found[op] = found.get(op, 0) + times
    return found


@pytest.mark.parametrize(("parts", "heads", "kv_heads"), [(0, 8, 2), (4, 8, 2), (16, 8, 4), (48, 12, 12), (64, 16, 16)])
def test_a_chip_has_the_whole_heads_of_its_parts(parts: int, heads: int, kv_heads: int) -> None:
    """32 heads and 8 KV heads on 4 chips: heads are padded, and KV heads replicated, if there are more parts than heads."""
    model = load_model("llama3-8b")
    assert model.description is not None
    step = StepKernels(4096, DECODE, tp=4, parts=parts)
    found = [op for op, _ in step.blocks(model.description.blocks)]
    attention = next(op for op in found if isinstance(op, Attention))
    first, second = [op for op in found if isinstance(op, Product)][:2]
    assert (attention.heads, attention.kv_heads) == (heads, kv_heads)
    assert (first.n, second.k) == ((heads + 2 * kv_heads) * 128, heads * 128)


@pytest.mark.parametrize("profile", ["vllm", "torch_eager", "torch_sdpa"])
@pytest.mark.parametrize("name", [*DENSE, *MIXED, "gpt2", "gemma2-9b", "phi-4"])
def test_one_token_multiplies_each_weight_that_it_uses_once(name: str, profile: str) -> None:
    """Products of one row: as many multiply-adds as weights of the matrices, those of the chosen experts alone."""
    model = load_model(name)
    assert model.description is not None
    wanted = model.vocab * model.description.hidden
    for block in model.description.blocks:
        for weight in block.weights(model.description.hidden):
            chosen = isinstance(block.ffn, Experts) and weight.copies > 1
            wanted += weight.rows * weight.cols * (block.ffn.top_k if chosen else weight.copies)  # type: ignore[union-attr]
    found = kernels(model, DECODE, profile=profile)
    assert sum(op.macs * times for op, times in found.items() if isinstance(op, Product) and op.name != "bmm") == wanted


#: Kernels of a layer, counted by hand in the code of Llama: of each of two norms 8, of each of two sums 1, of the projections
#: 3 and 1, of the rotations of queries and keys 5 each, of the cache 2, of the repeated keys and values 2 where heads share
#: them, of the attention 2 products and 4 kernels between them, 1 for its result, and of the network 3 products and 2 kernels.
LAYER = 2 * 8 + 2 + 3 + 1 + 2 * 5 + 2 + 2 + 4 + 1 + 3 + 2
#: Kernels of a step beside its layers: 13 before them, the last norm, the LM head, and 2 for its logits.
BESIDE = 13 + 8 + 1 + 2


@pytest.mark.parametrize(("name", "profile", "more"), [
    ("llama2-7b", "torch_eager", 0), ("llama3-8b", "torch_eager", 2), ("llama3-8b", "torch_sdpa", -6),
    ("qwen3-8b", "torch_eager", 18),
])  # fmt: skip
def test_modules_start_the_kernels_of_their_code(name: str, profile: str, more: int) -> None:
    """Grouped heads repeat keys and values; fused attention is one kernel instead of seven; norms of queries and keys are two
    more norms."""
    model = load_model(name)
    found = kernels(model, DECODE, profile=profile)
    assert sum(found.values()) == model.layers * (LAYER + more) + BESIDE


def test_the_last_norm_of_modules_is_of_its_kind() -> None:
    """A norm with a mean is one kernel, also behind the last layer."""
    model = load_model("gpt2")
    found = kernels(model, DECODE, profile="torch_eager")
    assert not any(op.name == "pow" for op in found)
    assert sum(times for op, times in found.items() if op.name == "layernorm") == 2 * model.layers + 1


def test_modules_copy_the_cache_and_compute_all_scores() -> None:
    """The attention of a step of two sequences with 1000 tokens each, and of a prompt of 64 tokens."""
    model, profile = load_model("llama2-7b"), "torch_eager"
    copied = [op for op in kernels(model, (Sequences(2, 1, 1000),), profile=profile) if op.name == "cat" and op.rows == 2002]
    assert [op.nbytes for op in copied] == [2002 * 4096 * (2 + 2)]
    for width in (1.0, 2.0):
        found = kernels(model, (Sequences(2, 64, 0),), widths=Widths(2.0, width, 16), profile=profile)
        products = [op for op in found if op.name == "bmm"]
        assert [(op.m, op.n, op.k, op.count, op.right_bytes) for op in products] == [
            (64, 64, 128, 64, width), (64, 128, 64, 64, width),
        ]  # fmt: skip
        softmax = next(op for op in found if op.name == "softmax")
        assert (softmax.rows, softmax.width, softmax.nbytes) == (64 * 64, 64, 64 * 64 * 64 * (2 + 4))


def test_each_expert_of_modules_has_products_of_its_own() -> None:
    model = load_model("mixtral-8x7b")
    found = {(op.m, op.n, op.k): times for op, times in kernels(model, (Sequences(64, 1, 100),), profile="torch_eager").items()
             if isinstance(op, Product)}  # fmt: skip
    assert found[16, 14336, 4096] == 32 * 8 * 2 and found[16, 4096, 14336] == 32 * 8


def test_the_host_limits_a_decode_of_modules_and_the_device_a_prompt() -> None:
    """Also with another chip, a decode takes the launches of its kernels; a prompt takes its kernels, twice those of vLLM."""
    model, profile = load_model("llama3-8b"), load_runtime("torch_eager")
    for chip in ("a100", "h100"):
        step = ChipStep(model, load_config(chip), profile)
        assert 15e6 < step.device_ns([Tokens(1, 512)]) == pytest.approx(step.launches_ns([Tokens(1, 512)]))
        prompt = [Tokens(4096)]
        fused = ChipStep(model, load_config(chip), load_runtime("vllm")).device_ns(prompt)
        assert step.device_ns(prompt) > max(1.5 * fused, 10 * step.launches_ns(prompt))
        assert step.device_ns(prompt) > 1.3 * ChipStep(model, load_config(chip), load_runtime("torch_sdpa")).device_ns(prompt)


def test_the_host_waits_for_the_tokens_of_experts() -> None:
    step = ChipStep(load_model("mixtral-8x7b"), load_config("mi300x"), load_runtime("torch_eager"))
    one = [Tokens(1, 512)]
    assert not step.runs_ahead
    assert step.device_ns(one) == pytest.approx(step.launches_ns(one) + sum(op.count * op.ns for op in step.operations(one)))
    assert ChipStep(load_model("llama3-8b"), load_config("mi300x"), load_runtime("torch_eager")).runs_ahead


@pytest.mark.parametrize("name", [*MIXED, "llama2-7b", "gemma2-9b"])
def test_attention_reads_the_cache_of_every_layer(name: str) -> None:
    model = load_model(name)
    assert model.description is not None
    wanted = 0.0
    for block in model.description.blocks:
        seen = min(1001, getattr(block.mixer, "window", 0) or 1001)
        wanted += block.mixer.token_elements * seen  # type: ignore[union-attr]
    read = 0.0
    for op, times in kernels(model, DECODE, widths=Widths(2.0, 1.0, 16)).items():
        if isinstance(op, Attention):
            keys = sum(one.count * (one.cached + one.new) for one in op.groups)
            read += times * 2 * op.kv_heads * op.head_dim * op.element_bytes * keys
    assert read == pytest.approx(wanted)


def test_a_prompt_expands_latent_vectors_and_a_decode_does_not() -> None:
    model = load_model("deepseek-v3")
    mixer = model.description.blocks[-1].mixer if model.description else None
    assert isinstance(mixer, LatentAttention)
    expanded = [op for op in kernels(model, (Sequences(1, 64, 0),)) if isinstance(op, Attention)]
    shared = [op for op in kernels(model, DECODE) if isinstance(op, Attention)]
    assert [(op.kv_heads, op.head_dim) for op in expanded] == [(128, (128 + 64 + 128) // 2)]
    assert [(op.kv_heads, op.head_dim) for op in shared] == [(1, (512 + 64 + 512) // 2)]


def pairs(new: int, cached: int, window: int, chunk: int) -> int:
    """The keys that each new token sees, counted one by one."""
    found = 0
    for place in range(cached, cached + new):
        found += place % chunk + 1 if chunk else min(place + 1, window)
    return found


@given(new=st.integers(1, 300), cached=st.integers(0, 300), most=st.integers(1, 120), chunked=st.booleans())
def test_windows_and_chunks_keep_the_number_of_pairs(new: int, cached: int, most: int, chunked: bool) -> None:
    pieces = list(_seen(Sequences(2, new, cached), most, most if chunked else 0))
    assert sum(one.count * one.new for one in pieces) == 2 * new
    assert all(one.new <= most or new + cached <= most for one in pieces)
    wanted = 2 * pairs(new, cached, most, most if chunked else 0)
    rounding = 0 if chunked else sum(one.count * one.new for one in pieces) / 2
    assert sum(one.pairs for one in pieces) == pytest.approx(wanted, abs=rounding)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "gpt-oss-20b"])
def test_memory_of_a_chip_is_that_of_the_parameters_and_the_cache(name: str) -> None:
    model, chip, profile = load_model(name), load_config("h100"), load_runtime("vllm")
    step = ChipStep(model, chip, profile, weight_bits=8, kv_bits=8)
    assert step.weight_bytes() == model.parameters
    assert model.description is not None
    assert step.token_bytes() == sum(per_token for _, per_token, _ in model.description.caches())
    assert ChipStep(model, chip, profile, shards=8).weight_bytes() == -(-model.parameters * 2 // 8)


@pytest.mark.parametrize("shards", [1, 4, 8, 16])
def test_a_chip_keeps_the_keys_of_the_heads_that_its_kernels_read(shards: int) -> None:
    """10 KV heads: a chip of four has three of them, because heads are whole."""
    model = load_model("phi-4")
    assert model.description is not None
    step = ChipStep(model, load_config("h100"), load_runtime("vllm"), shards=shards)
    read = {op.kv_heads: times for op, times in kernels(model, DECODE, shards).items() if isinstance(op, Attention)}
    assert step.token_bytes() == sum(2 * 2 * 128 * heads * times for heads, times in read.items())
    assert set(read) == {-(-10 // shards)}


def test_fewer_bits_of_activations_are_faster_and_of_weights_alone_are_not() -> None:
    """A prompt of 4096 tokens, which the tensor engines limit."""
    model, chip, profile = load_model("llama3-8b"), load_config("h100"), load_runtime("vllm")
    prompt = [Tokens(4096)]

    def ns(weights: int, activations: int) -> float:
        step = ChipStep(model, chip, profile, weight_bits=weights, activation_bits=activations)
        return step.device_ns(prompt)

    assert ns(4, 16) == pytest.approx(ns(16, 16), rel=0.02)
    assert ns(8, 8) < 0.7 * ns(16, 16)


def test_a_model_without_kernels_is_refused_by_its_part(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mamba.json"
    path.write_text(
        '{"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 16,'
        ' "num_heads": 8, "head_dim": 16, "n_groups": 1, "expand": 2, "conv_kernel": 4}'
    )
    with pytest.raises(InputError, match="state spaces; use an NPU or a system"):
        ChipStep(load_model(str(path)), load_config("h100"), load_runtime("vllm"))
