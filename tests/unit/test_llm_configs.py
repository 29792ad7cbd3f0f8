"""What a published `config.json` says of windows and bits, and what of it is not used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.files import load_model, preset_models
from kernbench.workloads.models.precision import Precision, load_precision, uniform_precision

CONFIG: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 1000,
}
FULL, SLIDES = "full_attention", "sliding_attention"


def model_of(folder: Path, model_type: str, **keys: Any) -> Model:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": model_type, **CONFIG, **keys}, indent=1), encoding="utf-8")
    return load_model(str(path))


def windows(model: Model) -> list[int]:
    return [model.layer(i, uniform_precision()).window for i in range(model.layers)]


@pytest.mark.parametrize(
    ("model_type", "keys", "expected"),
    [
        ("llama", {}, [0, 0, 0, 0]),
        ("llama", {"layer_types": [FULL] * 4}, [0, 0, 0, 0]),
        ("llama", {"layer_types": [SLIDES, FULL, FULL, FULL], "sliding_window": 64}, [64, 0, 0, 0]),
        ("mistral", {"sliding_window": 64}, [64, 64, 64, 64]),
        ("mistral", {"sliding_window": None}, [0, 0, 0, 0]),
        ("mistral", {"sliding_window": 64, "use_sliding_window": False}, [0, 0, 0, 0]),
        ("mistral", {"sliding_window": 64, "sliding_window_pattern": 3}, [64, 64, 0, 64]),
        ("mistral", {"sliding_window": 64, "layer_types": [FULL, SLIDES, FULL, SLIDES]}, [0, 64, 0, 64]),
        ("qwen2", {"sliding_window": 64, "max_window_layers": 2}, [0, 0, 0, 0]),
        ("qwen2", {"sliding_window": 64, "max_window_layers": 2, "use_sliding_window": True}, [0, 0, 64, 64]),
        ("qwen2", {"sliding_window": 64, "max_window_layers": 0, "use_sliding_window": True}, [64, 64, 64, 64]),
        ("qwen2", {"sliding_window": 64, "max_window_layers": 2, "layer_types": [FULL, FULL, SLIDES, SLIDES]}, [0, 0, 64, 64]),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 64, "layer_types": [FULL] * 4}, [0, 0, 0, 0]),
        ("gemma2", {}, [4096, 0, 4096, 0]),
        ("gemma2", {"sliding_window": 64, "layer_types": [SLIDES, SLIDES, FULL, FULL]}, [64, 64, 0, 0]),
        ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 64}, [64, 64, 64, 64]),
    ],
)
def test_windows_of_layers(tmp_path: Path, model_type: str, keys: dict[str, Any], expected: list[int]) -> None:
    model = model_of(tmp_path, model_type, **keys)
    assert windows(model) == expected and model.notes == ()


def test_a_switch_that_the_list_of_layers_overrules(tmp_path: Path) -> None:
    keys = {"sliding_window": 64, "use_sliding_window": False, "layer_types": [FULL, FULL, SLIDES, SLIDES]}
    model = model_of(tmp_path, "qwen2", **keys)
    assert windows(model) == [0, 0, 64, 64]
    (note,) = model.notes
    assert note.endswith("use_sliding_window = false, but layer_types has layers with a window, and they have it")


def bits_of(model: Model, precision: Precision | None = None) -> tuple[int, ...]:
    """Of weights, activations, K and V; of the LM head."""
    bits = precision or uniform_precision(model.stated)
    layer = model.layer(0, bits)
    return layer.weight_bits, layer.activation_bits, layer.kv_bits, bits.role("lm_head")


NAME = "quantization_config"
GROUP = {"weights": {"num_bits": 4}, "input_activations": None}
EIGHT = {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, (4, 8, 4, 4)),
        ({"torch_dtype": "bfloat16"}, (16, 16, 16, 16)),
        ({"dtype": "torch.float32", "torch_dtype": "float16"}, (32, 32, 32, 32)),
        ({"torch_dtype": "auto"}, (4, 8, 4, 4)),
        ({NAME: {"quant_method": "gptq", "bits": 8}}, (8, 8, 4, 8)),
        ({NAME: {"quant_method": "gptq", "bits": 4}, "torch_dtype": "float16"}, (4, 16, 16, 16)),
        ({NAME: {"quant_method": "awq", "w_bit": 4}, "torch_dtype": "float16"}, (4, 16, 16, 16)),
        ({NAME: {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}}, (8, 8, 4, 8)),
        ({NAME: {"load_in_4bit": True}, "dtype": "bfloat16"}, (4, 16, 16, 16)),
        ({NAME: {"quant_method": "bitsandbytes"}, "dtype": "bfloat16"}, (16, 16, 16, 16)),
        ({NAME: {"quant_method": "fp8"}, "torch_dtype": "bfloat16"}, (8, 8, 16, 16)),
        ({NAME: {"quant_method": "mxfp4"}, "torch_dtype": "bfloat16"}, (16, 16, 16, 16)),
        ({NAME: {"quant_method": "compressed-tensors", "config_groups": {"a": GROUP}}, "dtype": "float16"}, (4, 16, 16, 16)),
        (
            {
                NAME: {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"a": EIGHT, "b": EIGHT},
                    "kv_cache_scheme": {"num_bits": 8},
                },
                "dtype": "float16",
            },
            (8, 8, 8, 16),
        ),
    ],
)
def test_bits_that_a_file_states(tmp_path: Path, keys: dict[str, Any], expected: tuple[int, ...]) -> None:
    model = model_of(tmp_path, "llama", **keys)
    assert bits_of(model) == expected and model.notes == ()


def test_what_the_user_gives_goes_before(tmp_path: Path) -> None:
    model = model_of(tmp_path, "llama", torch_dtype="bfloat16", quantization_config={"quant_method": "gptq", "bits": 8})
    assert bits_of(model, uniform_precision(model.stated, w=4)) == (4, 16, 16, 4)
    assert bits_of(model, uniform_precision(model.stated, a=8, kv=8)) == (8, 8, 8, 16)
    policy = tmp_path / "bits.yaml"
    policy.write_text("kv: 4\nroles: {lm_head: 8}\n", encoding="utf-8")
    bits = load_precision(policy, model.stated)
    assert bits_of(model, bits) == (8, 16, 4, 8) and bits.role("embedding") == 16
    policy.write_text("w: 2\n", encoding="utf-8")
    assert bits_of(model, load_precision(policy, model.stated, a=32)) == (2, 32, 16, 2)


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ({"torch_dtype": "int3"}, 'torch_dtype = "int3", but it is not used; it may be one of float32, float, float16, half, '),
        ({NAME: {"quant_method": "magic", "bits": 4}}, f'{NAME}.quant_method = "magic", but it is not used; the methods that '),
        ({NAME: {"bits": 4}}, f"{NAME}.quant_method = null, but it is not used; the methods that are known: gptq, awq, "),
        ({NAME: {"quant_method": "gptq", "bits": 3}}, f"{NAME}.bits = 3, but it is not used; it may be one of 1, 2, 4, 8, "),
        (
            {NAME: {"quant_method": "compressed-tensors", "config_groups": {"a": GROUP, "b": EIGHT}}},
            f"{NAME}.config_groups: its groups have weights of different bits, which are not used; give --policy",
        ),
        ({"sliding_window": 64}, "sliding_window: it is not used, though it may change the work"),
        ({"max_window_layers": 2}, "max_window_layers: it is not used, though it may change the work"),
        ({"moe_intermediate_size": 64}, "moe_intermediate_size: it is not used, though it may change the work"),
        ({"n_shared_experts": 2}, "n_shared_experts: it is not used, though it may change the work"),
        ({"kv_lora_rank": 512}, "kv_lora_rank: it is not used, though it may change the work"),
        ({"num_nextn_predict_layers": 1}, "num_nextn_predict_layers: it is not used, though it may change the work"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping: it is not used, though it may change the work"),
        ({"vision_config": {"depth": 2}}, "vision_config: it is not used, though it may change the work"),
    ],
)
def test_what_is_not_used_is_noted(tmp_path: Path, keys: dict[str, Any], note: str) -> None:
    model = model_of(tmp_path, "llama", **keys)
    (said,) = model.notes
    assert said.startswith(f"{tmp_path / 'config.json'}:") and note in said
    assert bits_of(model) == (4, 8, 4, 4) and windows(model) == [0] * 4


def test_what_changes_no_work_is_not_noted(tmp_path: Path) -> None:
    """Keys of published files, and those that turn nothing on."""
    keys = {
        "architectures": ["LlamaForCausalLM"], "attention_dropout": 0.1, "bos_token_id": 1, "eos_token_id": [2, 3],
        "initializer_range": 0.02, "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "use_cache": True,
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "transformers_version": "4.46", "_name_or_path": "x",
        "num_experts": 0, "sliding_window": None, "n_positions": 4096, "num_labels": 2, "unheard_of": "x", "vision_config": {},
    }  # fmt: skip
    assert model_of(tmp_path, "llama", **keys).notes == ()
    assert all(load_model(name).notes == () for name in preset_models())


@pytest.mark.parametrize(
    ("model_type", "keys", "message"),
    [
        ("llama", {"layer_types": [FULL]}, "layer_types = ["),
        ("llama", {"layer_types": "full"}, 'layer_types = "full", but it must be a list of 4, one of each layer'),
        ("llama", {"layer_types": [FULL, FULL, FULL, "linear_attention"]}, 'layer_types[3] = "linear_attention", but it '),
        ("llama", {"layer_types": [FULL, FULL, FULL, 3]}, "layer_types[3] = 3, but it must be one of full_attention, "),
        ("llama", {"layer_types": [SLIDES] * 4}, "layer_types: sliding_attention needs the key sliding_window"),
        ("mistral", {"sliding_window": "x"}, 'sliding_window = "x", but it must be a positive integer'),
        ("mistral", {"sliding_window_pattern": -1}, "sliding_window_pattern = -1, but it must be a positive integer"),
        ("llama", {NAME: "gptq"}, f'{NAME} = "gptq", but it must be a mapping'),
        ("llama", {NAME: {"load_in_4bit": "yes"}}, f'{NAME}.load_in_4bit = "yes", but it must be true or false'),
        (
            "llama",
            {NAME: {"quant_method": "compressed-tensors", "config_groups": []}},
            f"{NAME}.config_groups = [], but it must be a mapping",
        ),
        ("gemma", {"hidden_activation": "elu"}, 'hidden_activation = "elu", but it must be one of silu, relu, relu2, gelu, '),
    ],
)
def test_what_is_refused(tmp_path: Path, model_type: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        model_of(tmp_path, model_type, **keys)
    assert message in str(error.value)


def test_mxfp4_is_of_experts_alone(tmp_path: Path) -> None:
    model = model_of(tmp_path, "gpt_oss", quantization_config={"quant_method": "mxfp4"}, num_local_experts=4, dtype="bfloat16")
    layer = model.layer(0, uniform_precision(model.stated))
    assert [layer.bits_of(name) for name in ("wq", "wo", "w_gate", "w_up", "w_down")] == [16, 16, 4, 4, 4]
