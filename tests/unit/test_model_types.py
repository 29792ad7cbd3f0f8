"""Model types: parameters of configurations that `transformers` wrote equal its own counts; what is assumed is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.config.document import data_document
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models.files import load_model, model_of
from kernbench.workloads.models.parts import Attention, Experts, LatentAttention, Mlp
from kernbench.workloads.models.types import ROWS

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "model_types" / "parameters.json").read_text(encoding="utf-8")
)


def model(config: dict[str, Any], name: str = "any") -> Model:
    return model_of(data_document(config, "config.json"), name)


def test_every_row_is_recorded() -> None:
    assert sorted(RECORDED) == sorted(ROWS) and len(ROWS) == 45


@pytest.mark.parametrize("kind", sorted(RECORDED))
def test_parameters_are_those_of_transformers(kind: str) -> None:
    for case in RECORDED[kind]:
        found = model(case["config"])
        assert found.parameters == case["parameters"] and found.notes == ()


PUBLISHED = {  # as published with the weights, to three digits; the recorded configurations are these models'
    ("gpt2", 0): 124_439_808,
    ("gpt2", 1): 1_557_611_200,  # GPT-2 XL
    ("gpt_neox", 0): 20_554_567_680,  # GPT-NeoX-20B
    ("gptj", 0): 6_050_882_784,
    ("gpt_oss", 0): 116_829_156_672,  # gpt-oss-120b
    ("deepseek_v3", 0): 671_026_404_352,
    ("qwen3_next", 0): 79_674_391_296,
    ("jamba", 0): 51_570_323_328,
    ("gemma2", 1): 9_241_705_984,
}


@pytest.mark.parametrize(("kind", "index"), sorted(PUBLISHED))
def test_published_counts(kind: str, index: int) -> None:
    assert model(RECORDED[kind][index]["config"]).parameters == PUBLISHED[kind, index]


def test_active_parameters_of_mixtures() -> None:
    """DeepSeek-V3 activates 37 billion of its parameters, gpt-oss-120b 5.1 (with the embedding 5.7) billion."""
    deepseek, oss = (model(RECORDED[kind][0]["config"]).description for kind in ("deepseek_v3", "gpt_oss"))
    assert deepseek is not None and oss is not None
    assert round(deepseek.active_parameters() / 1e9) == 38 and round(oss.active_parameters() / 1e9, 1) == 5.7
    assert round((deepseek.active_parameters() - deepseek.vocab * 7168) / 1e9) == 37


def test_parts_of_deepseek_v3() -> None:
    found = model(RECORDED["deepseek_v3"][0]["config"]).description
    assert found is not None
    assert [type(block.ffn) for block in found.blocks] == [Mlp] * 3 + [Experts] * 58
    mixer = found.blocks[0].mixer
    assert isinstance(mixer, LatentAttention) and mixer.token_elements == 512 + 64
    assert found.predicting == 1
    assert round((found.parameters + found.predicting_parameters) / 1e9) == 683  # 685 with the copies of embedding and head


def test_layers_of_several_kinds() -> None:
    llama4 = model(RECORDED["llama4_text"][0]["config"]).description
    assert llama4 is not None
    mixers = [block.mixer for block in llama4.blocks]
    first = [(mixer.chunk, mixer.rope) for mixer in mixers[:4] if isinstance(mixer, Attention)]
    assert first == [(8192, True)] * 3 + [(0, False)]
    gemma3 = model(RECORDED["gemma3_text"][1]["config"])
    assert gemma3.window == 512 and len(gemma3.windowed) == 22 and 5 not in gemma3.windowed


def test_a_type_without_a_row_is_read_by_its_keys_and_says_so(tmp_path: Path) -> None:
    llama = dict(RECORDED["llama"][1]["config"], model_type="someday")
    found = model(llama)
    assert found.parameters == RECORDED["llama"][1]["parameters"]
    (note,) = found.notes
    assert 'model_type = "someday", but no row of this type is known; assumed: RMS norms' in note
    old = {"model_type": "old", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "layer_norm_epsilon": 1e-5}
    old["n_inner"] = 99
    found = model(old)
    assert found.description is not None and isinstance(found.description.blocks[0].ffn, Mlp)
    assert not found.description.blocks[0].ffn.gated and "layer norms" in found.notes[0]
    with pytest.raises(InputError, match="its layers cannot be derived from its keys"):
        model(dict(RECORDED["jamba"][0]["config"], model_type="someday"))


def test_well_known_keys_of_a_type_without_a_row_change_what_is_assumed() -> None:
    """Arcee's files say relu2, Doge's files turn experts off, and those of GPT-BigCode leave out the width of the network."""
    llama = dict(RECORDED["llama"][0]["config"], model_type="someday")
    hidden, width, layers = llama["hidden_size"], llama["intermediate_size"], llama["num_hidden_layers"]
    plain, squares = model(llama), model(llama | {"hidden_act": "relu2"})
    assert plain.parameters - squares.parameters == layers * hidden * width
    assert "two matrices with relu2" in squares.notes[0]
    off = model(llama | {"is_moe": False, "num_experts": 16384, "num_experts_per_tok": 64})
    assert off.parameters == plain.parameters
    old = {"model_type": "old", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "layer_norm_epsilon": 1e-5}
    found = model(old | {"n_inner": None}).description
    assert found is not None and isinstance(found.blocks[0].ffn, Mlp) and found.blocks[0].ffn.width == 4 * 64
    for key in ("lru_width", "hidden_size_per_layer_input"):
        with pytest.raises(InputError, match="its layers cannot be derived from its keys"):
            model(llama | {key: 256})
        assert model(llama | {key: 0}).parameters == plain.parameters


@pytest.mark.parametrize("told", [{"type_vocab_size": 2}, {"architectures": ["SomeForMaskedLM"]}])
def test_an_encoder_is_refused(told: dict[str, object]) -> None:
    """BERT's file has the keys of a decoder and those of its own."""
    with pytest.raises(InputError, match="the model is an encoder, which does not decode tokens"):
        model(dict(RECORDED["llama"][1]["config"], model_type="bert") | told)
    model(dict(RECORDED["llama"][1]["config"], model_type="bert", is_decoder=True, type_vocab_size=2))


def test_the_text_model_of_a_file_of_several(tmp_path: Path) -> None:
    text = RECORDED["gemma3_text"][1]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gemma3", "text_config": text["config"], "vision_config": {"hidden_size": 8}}))
    assert load_model(str(path)).parameters == text["parameters"]
