"""Models by name, or from a Hugging Face `config.json` as published.

Of a `config.json` the keys that decide a byte or a MAC are read; those that may do so and are not used are noted.
`model_type` says what its keys do not: where the norms are, which matrices have biases, which layers have a window.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.document import Document, read_document
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.bits import stated_bits
from kernbench.workloads.models.keys import Keys

MODEL_BYTES = 1 << 20
SUFFIXES = (".json", ".yaml", ".yml")
_LAYER_TYPES = ("full_attention", "sliding_attention")
_Facts = tuple[dict[str, Any], dict[str, Any], "Window | None"]  # more of the shape, more of the model, its window
_Kind = Callable[[Keys], _Facts]


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
    keys = Keys(document)
    kind = keys.text("model_type")
    if kind not in _KINDS:
        raise InputError(document.problem(("model_type",), f"it must be one of {', '.join(sorted(_KINDS))}", kind))
    shape, more, window = _KINDS[kind](keys)
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
    tokens, windowed = _windowed(keys, layers, window)
    facts: dict[str, Any] = {"vocab": keys.count("vocab_size"), "positions": keys.count("max_position_embeddings", 0)}
    facts |= {"tied": keys.flag("tie_word_embeddings", False), **more}
    stated = stated_bits(keys)
    keys.unused()
    return Model(
        name=name, layers=layers, shape=made, window=tokens, windowed=windowed, stated=stated, notes=tuple(keys.notes), **facts
    )


def _windowed(keys: Keys, layers: int, window: Window | None) -> tuple[int, tuple[int, ...]]:
    """[token] of the window, and the layers that have it: those of `layer_types`, then of `sliding_window_pattern`, then
    those that a model of this type has."""
    types = keys.get("layer_types")
    every = keys.count("sliding_window_pattern", 0)
    if types is None:
        if window is None or not keys.flag("use_sliding_window", True):
            return 0, ()
        slides = (lambda i: bool((i + 1) % every)) if every else window.slides
        found = tuple(i for i in range(layers) if slides(i)) if window.tokens else ()
        return window.tokens if found else 0, found
    if not isinstance(types, list) or len(types) != layers:
        raise keys.refuse(("layer_types",), f"it must be a list of {layers}, one of each layer", types)
    for i, kind in enumerate(types):
        if kind not in _LAYER_TYPES:
            raise keys.refuse(("layer_types", i), f"it must be one of {', '.join(_LAYER_TYPES)}", kind)
    found = tuple(i for i, kind in enumerate(types) if kind == "sliding_attention")
    if not found:
        return 0, ()
    if not keys.flag("use_sliding_window", True):
        keys.note(("use_sliding_window",), "layer_types has layers with a window, and they have it", False)
    tokens = keys.count("sliding_window", 0 if window is None else window.tokens)
    if not tokens:
        raise keys.refuse(("layer_types",), "sliding_attention needs the key sliding_window")
    return tokens, found


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a type of models."""

    tokens: int  #: 0: none has one
    slides: Callable[[int], bool] = lambda layer: True  #: whether a layer has it


def _llama(keys: Keys) -> _Facts:
    attention, mlp = keys.flag("attention_bias", False), keys.flag("mlp_bias", False)
    return {"qkv_bias": attention, "out_bias": attention, "mlp_bias": mlp}, {}, None


def _mistral(keys: Keys) -> _Facts:
    return {}, {}, Window(keys.count("sliding_window", 0))


def _qwen2(keys: Keys) -> _Facts:
    """The first `max_window_layers` layers have no window."""
    tokens = keys.count("sliding_window", 4096)
    first = 0 if keys.get("max_window_layers") == 0 else keys.count("max_window_layers", 28)
    if not keys.flag("use_sliding_window", keys.given("layer_types")):
        return {"qkv_bias": True}, {}, Window(tokens, lambda layer: False)
    return {"qkv_bias": True}, {}, Window(tokens, lambda layer: layer >= first)


def _mixtral(keys: Keys) -> _Facts:
    experts = {"experts": keys.count("num_local_experts"), "experts_per_token": keys.count("num_experts_per_tok")}
    return experts, {}, Window(keys.count("sliding_window", 0))


def _gemma(keys: Keys) -> _Facts:
    biases = dict.fromkeys(("qkv_bias", "out_bias"), keys.flag("attention_bias", False))
    shape = {"activation": keys.activation("hidden_activation", "gelu_pytorch_tanh"), **biases}
    return shape, {"tied": keys.flag("tie_word_embeddings", True)}, None


def _gemma2(keys: Keys) -> _Facts:
    """Every second layer has the window, from the first on."""
    shape, more, _ = _gemma(keys)
    shape |= {"post_norms": True, "softcap": keys.given("attn_logit_softcapping")}
    more |= {"final_softcap": keys.given("final_logit_softcapping")}
    return shape, more, Window(keys.count("sliding_window", 4096), lambda layer: layer % 2 == 0)


def _starcoder2(keys: Keys) -> _Facts:
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), keys.flag("use_bias", True))
    shape = {"norm": "layernorm", "gated": False, **biases}
    return shape, {"tied": keys.flag("tie_word_embeddings", True)}, Window(keys.count("sliding_window", 0))


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
