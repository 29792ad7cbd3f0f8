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
