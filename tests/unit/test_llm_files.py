"""Model files and policies of bits: what is read, what is refused and with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models import HeadBits
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import load_precision, uniform_precision

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "hidden_act": "silu",
    "vocab_size": 1000,
    "rope_theta": 10000.0,
}


def write(folder: Path, **changes: Any) -> str:
    path = folder / "config.json"
    keys = {key: value for key, value in {**CONFIG, **changes}.items() if value != "absent"}
    path.write_text(json.dumps(keys, indent=1), encoding="utf-8")
    return str(path)


def test_a_config_as_published(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    model = load_model(write(folder))
    shape = model.shape
    assert (model.name, model.layers, model.vocab, model.tied) == ("mymodel", 3, 1000, False)
    assert (shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn) == (512, 8, 8, 64, 1024)
    assert shape.gated and shape.rope and not shape.post_norms and not shape.bias_bytes


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    file = write(folder)
    assert load_model(str(folder)) == load_model(f"{folder}/") == load_model(file)
    assert load_model(str(folder)).name == "mymodel"


def test_heads_that_do_not_divide_are_noted(tmp_path: Path) -> None:
    assert load_model(write(tmp_path)).notes == ()
    (note,) = load_model(write(tmp_path, num_key_value_heads=3)).notes
    assert note.endswith("num_key_value_heads = 3, but it does not divide the number of heads, 8")
    (note,) = load_model(write(tmp_path, num_attention_heads=12)).notes
    assert "it does not divide hidden_size, 512" in note and note.endswith("a head has 42 elements")
    assert load_model(write(tmp_path, num_attention_heads=12, head_dim=42)).notes == ()


def test_what_a_model_type_says(tmp_path: Path) -> None:
    starcoder = load_model(write(tmp_path, model_type="starcoder2", hidden_act="gelu_pytorch_tanh", sliding_window=128))
    assert (starcoder.shape.norm, starcoder.shape.gated, starcoder.shape.activation) == ("layernorm", False, "gelu")
    assert starcoder.tied and starcoder.window == 128
    assert starcoder.shape.bias_bytes == 3 * 512 + 512 + 1024 + 512  # of q, k, v; o; up; down
    gemma = load_model(write(tmp_path, model_type="gemma2", head_dim=256, attn_logit_softcapping=50.0))
    windows = [gemma.layer(i, uniform_precision()).window for i in range(3)]
    assert windows == [4096, 0, 4096] and gemma.shape.softcap and gemma.shape.head_dim == 256
    qwen = load_model(write(tmp_path, model_type="qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=2))
    assert [qwen.layer(i, uniform_precision()).window for i in range(3)] == [0, 0, 64]
    mqa = load_model(write(tmp_path, model_type="gemma", num_key_value_heads=1))
    assert mqa.shape.group == 8 and mqa.tied


@pytest.mark.parametrize("name", ["llama3-8b", "Llama-3-8B", "LLAMA3_8b"])
def test_names_of_presets(name: str) -> None:
    assert load_model(name).name == "llama3-8b"


ACTS = "silu, relu, relu2, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "t6", "is_encoder_decoder": True}, '5:16: model_type = "t6", but its layers cannot be derived from '),
        ({"model_type": "xyz", "hidden_size": "absent"}, '5:16: model_type = "xyz", but no known key has the hidden size'),
        ({"hidden_size": "absent"}, "1:1: the key hidden_size is missing"),
        ({"num_hidden_layers": 0}, "8:23: num_hidden_layers = 0, but it must be a positive integer"),
        ({"num_hidden_layers": 10_001}, "8:23: num_hidden_layers = 10001, but it must be at most 10000"),
        ({"vocab_size": 10**15}, "11:16: vocab_size = 1000000000000000, but it must be at most 16777216"),
        ({"hidden_act": "elu"}, f'10:16: hidden_act = "elu", but it must be one of {ACTS}'),
        ({"tie_word_embeddings": "yes"}, '13:25: tie_word_embeddings = "yes", but it must be true or false'),
    ],
)
def test_refused_models(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        load_model(write(tmp_path, **changes))
    assert str(error.value).split("config.json", 1)[1].lstrip(":").startswith(message.lstrip(":"))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError) as error:
        load_model("llama9-8b")
    assert str(error.value) == "llama9-8b: there is no model with this name; did you mean llama3-8b?"


def test_a_policy_by_role_layer_and_head(tmp_path: Path) -> None:
    path = tmp_path / "bits.yaml"
    path.write_text(
        "w: 4\nkv: 4\nroles: {lm_head: 8, w_down: 8}\n"
        "layers:\n- {layers: [0, 2], w: 8, kv: 8}\n- {layers: [1], heads: [{kv_head: 5, w: 8, kv: 8}]}\n",
        encoding="utf-8",
    )
    policy, model = load_precision(path, a=16), load_model("llama2-7b")
    first, second, last = (model.layer(i, policy) for i in (0, 1, 3))
    assert (policy.role("lm_head"), policy.role("embedding")) == (8, 4)
    assert first.weight_bits == first.bits_of("w_down") == first.kv_bits == 8 and first.activation_bits == 16
    assert (last.bits_of("wq"), last.bits_of("w_down"), last.kv_bits) == (4, 8, 4)
    assert second.head_bits == (HeadBits(5, 8, 8),)
    assert [second.slice_bits("wk", head) for head in (4, 5)] == [4, 8]
    assert second.kv_token_total == 31 * 64 + 128  # one head of 8 bits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("w: 5\n", "1:4: w = 5, but it must be one of 1, 2, 4, 8, 16, 32, 64"),
        ("layers: 3\n", "1:9: layers = 3, but it must be a list"),
        ("layers: [{layers: [-1]}]\n", "1:20: layers[0].layers[0] = -1, but it must be an integer of at least 0"),
        ("layers: [{layers: [x]}]\n", '1:20: layers[0].layers[0] = "x", but it must be an integer'),
        ("roles: 8\n", "1:8: roles = 8, but it must be a mapping"),
        ("wight: 4\n", "1:1: wight: there is no such key"),
        ("layers:\n- {layers: [0], kv: 7}\n", "2:21: layers[0].kv = 7, but it must be one of 1, 2, 3, 4, 5, 6, 8, 16, 32, 64"),
    ],
)
def test_refused_policies(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bits.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_precision(path)
    assert str(error.value).split("bits.yaml:", 1)[1] == message


def test_a_layer_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bits.yaml"
    path.write_text("layers: [{layers: [0, 32], w: 8}]\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        LlmPrograms(load_model("llama3-8b"), load_precision(path), load_config("npu_server"), Job(prompt=1, tokens=1))
    assert str(error.value) == "precision: layers = 32, but llama3-8b has 32 layers, from 0 on"


@pytest.mark.parametrize(("name", "most"), [("prompt", 1 << 24), ("tokens", 1 << 16), ("batch", 1 << 16)])
def test_absurd_jobs_are_refused(name: str, most: int) -> None:
    job = Job(**{"prompt": 1, "tokens": 1, name: most + 1})
    with pytest.raises(InputError) as error:
        LlmPrograms(load_model("llama3-8b"), uniform_precision(), load_config("npu_server"), job)
    assert str(error.value) == f"kbsim llm: {name} = {most + 1}, but it must be an integer from 1 to {most}"


def test_a_head_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bits.yaml"
    path.write_text("layers: [{layers: [0], heads: [{kv_head: 8, kv: 8}]}]\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_model("llama3-8b").layer(0, load_precision(path))
    message = "precision: heads of layer 0: kv_head = 8, but llama3-8b has 8 key and value heads, from 0 on"
    assert str(error.value) == message
