"""Models by name, or from a Hugging Face `config.json` as published.

Of a `config.json` the keys that decide a byte or a MAC are read, the others left alone. `model_type` says what its keys
do not: where the norms are, which matrices have biases, which layers have a window.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.document import Document, read_document
from kernbench.workloads.llm_model import Model
from kernbench.workloads.models import ModelShape

MODEL_BYTES = 1 << 20
MOST_LAYERS, MOST = 10_000, 1 << 24  #: what a config.json may say: of layers, and of any other number
SUFFIXES = (".json", ".yaml", ".yml")
_GELU = ("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast")
_Kind = Callable[["_Keys"], tuple[dict[str, Any], dict[str, Any]]]  # more of the shape, more of the model


def preset_models() -> list[str]:
    """The names that `load_model` takes beside files."""
    return [path.name.removesuffix(".yaml") for path in _presets()]


def load_model(name: str) -> Model:
    """The model of a preset's name, or of a `config.json`. InputError says what is missing or not supported."""
    if name.lower().endswith(SUFFIXES):
        path = Path(name)
        called = path.parent.resolve().name if path.stem.lower() == "config" else path.stem
        return model_of(read_document(name, MODEL_BYTES), _plain(called) or "model")
    for path in _presets():
        if _plain(path.name.removesuffix(".yaml")) == _plain(name):
            return model_of(read_document(path, MODEL_BYTES), path.name.removesuffix(".yaml"))
    names = preset_models()
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    rule = f"there is no such model; models are: {', '.join(names)}"
    remedy = f"did you mean {near[0]}?" if near else "a config.json ends in .json or .yaml"
    raise InputError(Problem(name, rule, remedy=remedy))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _presets() -> list[Path]:
    folder = importlib.resources.files("kernbench.configs") / "models"
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.endswith(".yaml"))


def model_of(document: Document, name: str) -> Model:
    """The model that a `config.json` describes."""
    keys = _Keys(document)
    kind = keys.text("model_type")
    if kind not in _KINDS:
        raise InputError(document.problem(("model_type",), f"it must be one of {', '.join(sorted(_KINDS))}", kind))
    shape, more = _KINDS[kind](keys)
    layers, hidden, heads = keys.count("num_hidden_layers"), keys.count("hidden_size"), keys.count("num_attention_heads")
    made = ModelShape(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=keys.count("num_key_value_heads", heads),
        head_dim=keys.count("head_dim", hidden // heads),
        ffn=keys.count("intermediate_size"),
        **{"activation": keys.activation(), **shape},
    )
    return Model(
        name=name,
        layers=layers,
        shape=made,
        vocab=keys.count("vocab_size"),
        positions=keys.count("max_position_embeddings", 0),
        **{"tied": keys.flag("tie_word_embeddings", False), **more},
    )


class _Keys:
    """The keys of a config.json; a missing or wrong one is an InputError."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def _get(self, name: str, default: Any) -> Any:
        value = self._document.data.get(name)
        if value is None:
            if default is ABSENT:
                raise InputError(self._document.problem((), f"the key {name} is missing"))
            return default
        return value

    def count(self, name: str, default: Any = ABSENT) -> int:
        """A positive integer."""
        value = self._get(name, default)
        if type(value) is not int or (value < 1 and value != default):
            raise InputError(self._document.problem((name,), "it must be a positive integer", value))
        most = MOST_LAYERS if name == "num_hidden_layers" else MOST
        if value > most:
            raise InputError(self._document.problem((name,), f"it must be at most {most}", value))
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self._get(name, ABSENT)
        if not isinstance(value, str):
            raise InputError(self._document.problem((name,), "it must be text", value))
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise InputError(self._document.problem((name,), "it must be true or false", value))
        return value

    def activation(self, name: str = "hidden_act") -> str:
        """The activation as a vector engine knows it."""
        value = self._get(name, "silu")
        if value == "silu":
            return "silu"
        if value in _GELU:
            return "gelu"
        rule = f"it must be one of silu, {', '.join(_GELU)}"
        raise InputError(self._document.problem((name,), rule, value))

    def given(self, name: str) -> bool:
        """Whether it is there, and not null."""
        return self._document.data.get(name) is not None


def _llama(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    attention, mlp = keys.flag("attention_bias", False), keys.flag("mlp_bias", False)
    return {"qkv_bias": attention, "out_bias": attention, "mlp_bias": mlp}, {}


def _mistral(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    return {}, {"window": keys.count("sliding_window", 0)}


def _qwen2(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first `max_window_layers` layers have no window."""
    if not keys.flag("use_sliding_window", False):
        return {"qkv_bias": True}, {}
    window = {"window": keys.count("sliding_window", 4096), "window_from": keys.count("max_window_layers", 28)}
    return {"qkv_bias": True}, window


def _mixtral(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    experts = {"experts": keys.count("num_local_experts"), "experts_per_token": keys.count("num_experts_per_tok")}
    return experts, {"window": keys.count("sliding_window", 0)}


def _gemma(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"activation": "gelu"}, {"tied": keys.flag("tie_word_embeddings", True)}


def _gemma2(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every second layer has the window, from the first on."""
    shape = {"activation": "gelu", "post_norms": True, "softcap": keys.given("attn_logit_softcapping")}
    window = {"window": keys.count("sliding_window", 4096), "window_every": 2}
    capped = {"final_softcap": keys.given("final_logit_softcapping"), "tied": keys.flag("tie_word_embeddings", True)}
    return shape, {**window, **capped}


def _starcoder2(keys: _Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), keys.flag("use_bias", True))
    shape = {"norm": "layernorm", "gated": False, **biases}
    return shape, {"window": keys.count("sliding_window", 0), "tied": keys.flag("tie_word_embeddings", True)}


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "llama": _llama,
        "mistral": _mistral,
        "qwen2": _qwen2,
        "mixtral": _mixtral,
        "gemma": _gemma,
        "gemma2": _gemma2,
        "starcoder2": _starcoder2,
    }
)
