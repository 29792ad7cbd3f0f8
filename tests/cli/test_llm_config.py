"""`kbsim llm` with a published `config.json`: what it says of windows and bits is in the figures, or is warned of by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kbsim

CONFIG: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
}
FULL, SLIDES = "full_attention", "sliding_attention"
RUN = ("llm", "--model", "m.json", "--phase", "decode", "--prompt", "1024", "--tokens", "1")


def write(**keys: Any) -> None:
    Path("m.json").write_text(json.dumps({**CONFIG, **keys}, indent=1), encoding="utf-8")


@pytest.mark.parametrize(
    ("keys", "full", "slides"),
    [
        ({"model_type": "qwen2", "max_window_layers": 2}, 8, 0),
        ({"model_type": "qwen2", "max_window_layers": 2, "layer_types": [FULL] * 2 + [SLIDES] * 6}, 2, 6),
        ({"model_type": "qwen2", "max_window_layers": 2, "use_sliding_window": True}, 2, 6),
        ({"model_type": "gemma2"}, 4, 4),
        ({"model_type": "gemma2", "layer_types": [SLIDES, SLIDES, SLIDES, FULL] * 2}, 2, 6),
        ({"model_type": "mistral", "sliding_window_pattern": 4}, 2, 6),
    ],
)
def test_kv_bytes_of_layers_with_and_without_a_window(keys: dict[str, Any], full: int, slides: int, kbsim: Kbsim) -> None:
    """K and V of a token: 2 heads of 64 elements of 4 bits each. The window of 64 has the new token, which is stored."""
    write(sliding_window=64, **keys)
    phase = json.loads(kbsim(*RUN, "--json").out)["phases"]["decode"]
    token = 2 * 2 * 64 * 4 // 8
    assert phase["least_bytes"]["kv"] == token * (full * 1025 + slides * 64)


def test_bits_of_a_file(kbsim: Kbsim) -> None:
    write(model_type="llama", torch_dtype="bfloat16", quantization_config={"quant_method": "awq", "bits": 4})
    found = json.loads(kbsim(*RUN, "--json").out)
    assert found["precision"] == "W4A16KV16"
    assert found["phases"]["decode"]["least_bytes"]["kv"] == 2 * 2 * 64 * 2 * 8 * 1025
    layer = 256 * 256 * 2 + 2 * 256 * 128 + 3 * 256 * 512
    gains = 17 * 256  # of 8 bits
    assert found["phases"]["decode"]["least_bytes"]["weights"] == 8 * layer // 2 + gains + 512 * 256 * 2
    given = kbsim(*RUN, "--json", "--w", "4", "--a", "8", "--kv", "8")
    assert json.loads(given.out)["precision"] == "W4A8KV8"
    assert given.err.splitlines() == [f"--{name} 8 is used instead of the 16 bits in the file of m" for name in ("a", "kv")]
    assert not kbsim(*RUN, "--json", "--quiet", "--a", "8").err


def test_what_is_not_used_is_warned_of(kbsim: Kbsim) -> None:
    write(model_type="llama", sliding_window=64, quantization_config={"quant_method": "gptq", "bits": 3}, rope_theta=1e4)
    lines = [
        "warning: m.json:13:11: quantization_config.bits = 3, but it is not used; it may be one of 1, 2, 4, 8, 16, 32; give "
        "--w, --a or --kv",
        "warning: m.json:10:2: sliding_window: it is not used, though it may change the work",
    ]
    said = kbsim(*RUN, "--layers", "1", "--json")
    assert (said.code, said.err.splitlines()) == (0, lines)
    assert kbsim(*RUN, "--layers", "1", "--compare", "w=4,8").err.splitlines() == lines
    assert kbsim(*RUN, "--layers", "1", "-q") == (0, "", "")


def test_a_sweep_warns_too(kbsim: Kbsim) -> None:
    write(model_type="llama", kv_lora_rank=64)
    spec = (
        "schema: kernbench/sweep/1\ntargets: [{llm: m.json, params: {prompt: 4, tokens: 1, layers: 1}}]\nmachine: npu_mobile\n"
    )
    Path("w.yaml").write_text(spec, encoding="utf-8")
    said = kbsim("sweep", "run", "w.yaml", "--threads", "1")
    assert said.code == 0
    assert said.err.splitlines() == ["warning: m.json:10:2: kv_lora_rank: it is not used, though it may change the work"]


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": -1}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": False}
MXFP4 = {"quant_method": "mxfp4"}


def compressed(**weights: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, **weights}}}}


@pytest.mark.parametrize(
    ("method", "bits", "more"),
    [
        (AWQ, 4, {256: 2 * (16 + 4), 512: 4 * (16 + 4)}),
        ({**AWQ, "zero_point": False}, 4, {256: 2 * 16, 512: 4 * 16}),
        (GPTQ, 4, {256: 20, 512: 20}),  # a scale and a zero for each column
        (FP8, 8, {256: 8, 512: 8}),  # 32 bits for 128 columns of 128 rows: half and one bit a column, an element at least
        (BNB, 4, {256: 4 * 32, 512: 8 * 32}),
        (compressed(strategy="group", group_size=64), 4, {256: 4 * 16, 512: 8 * 16}),
        (compressed(strategy="channel", symmetric=False), 4, {256: 20, 512: 20}),
    ],
)
def test_bytes_of_scales_and_zeros(method: dict[str, Any], bits: int, more: dict[int, int], kbsim: Kbsim) -> None:
    """Bits that each column has besides, by its weights: wq, wk, wv, w_gate and w_up have 256 rows, as wo; w_down has 512."""
    write(model_type="llama", torch_dtype="bfloat16", quantization_config=method)
    found = json.loads(kbsim(*RUN, "--json").out)["phases"]["decode"]
    cols = 256 + 2 * 128 + 256 + 2 * 512  # of 256 weights
    layer = cols * (256 * bits + more[256]) + 256 * (512 * bits + more[512])
    want = 8 * layer // 8 + 17 * 256 + 512 * 256 * 2
    assert found["least_bytes"]["weights"] == want and want <= found["dram_bytes"]["weights"] <= 1.02 * want


def test_scales_are_not_counted_for_other_bits(kbsim: Kbsim) -> None:
    write(model_type="llama", torch_dtype="bfloat16", quantization_config=AWQ)
    found = json.loads(kbsim(*RUN, "--json", "--w", "8").out)["phases"]["decode"]
    assert found["least_bytes"]["weights"] == 8 * (1792 * 256 + 256 * 512) + 17 * 256 + 512 * 256
    for wrong in (0, "128"):
        write(model_type="llama", quantization_config={**AWQ, "group_size": wrong})
        assert "the size of a group must be a positive integer, or -1" in kbsim(*RUN).err


def test_experts_of_mxfp4_have_a_scale_for_32_weights(kbsim: Kbsim) -> None:
    """Four experts, of which a token uses two; all other matrices have 16 bits."""
    keys = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "torch_dtype": "bfloat16"}
    write(**keys, quantization_config=MXFP4)
    found = json.loads(kbsim(*RUN, "--json").out)["phases"]["decode"]
    experts = 2 * (2 * 512 * (256 * 4 + 8 * 8) + 256 * (512 * 4 + 16 * 8)) // 8
    rest = (256 * 256 * 2 + 2 * 256 * 128 + 256 * 4) * 2
    assert found["least_bytes"]["weights"] == 8 * (experts + rest) + 17 * 256 + 512 * 256 * 2
