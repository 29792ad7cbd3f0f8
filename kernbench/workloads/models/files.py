"""Models by name, or from a Hugging Face `config.json` as published.

It reads the keys of a `config.json` that determine bytes or MACs, and notes keys that could do so but are not used.
`model_type` says what its keys do not: where the norms are, which matrices have biases, which layers have a window.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.common.spelling import meant
from kernbench.config.document import Document, read_document
from kernbench.config.file_kinds import check_file, check_kind
from kernbench.config.places import KEY, PathLike
from kernbench.workloads.llm.model import Model
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import StatedBits

MOST_LAYERS, MOST = 10_000, 1 << 24  #: what a config.json may say: of layers, and of any other number
GELU = ("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast")
#: Keys of models that change what a layer computes, stores or moves.
WORK = frozenset((
    "add_cross_attention", "altup_num_inputs", "attention_bias", "attention_chunk_size", "attention_k_eq_v", "attn_bias",
    "attn_logit_softcapping", "attn_type_list", "audio_config", "block_types", "clip_qkv", "decoder_sparse_step", "dtype",
    "expert_layer_offset", "expert_layer_period", "ffn_config", "final_logit_softcapping", "first_k_dense_replace", "head_dim",
    "hidden_act", "hidden_activation", "interleave_moe_layer_step", "is_encoder_decoder", "kv_lora_rank", "layer_types",
    "layers_block_type", "max_window_layers", "mlp_bias", "mlp_only_layers", "mlp_type", "moe_layers", "multi_query",
    "no_rope_layers", "norm_type", "parallel_attn", "partial_rotary_factor", "q_lora_rank", "qk_layernorm",
    "quantization_config", "rope_interleave", "rotary_pct", "sliding_window", "sliding_window_pattern", "tensor_parallel",
    "text_config", "torch_dtype", "use_bias", "use_mla", "use_parallel_residual", "use_qk_norm", "use_sliding_window",
    "vision_config",
))  # fmt: skip
#: Names of the kind that shapes have; HARMLESS are those of them that say nothing of a layer's work.
_SHAPES = ("num_", "n_", "d_", "moe_", "mamba_", "ssm_", "conv_", "attn_", "ffn_", "mlp_", "q_", "kv_", "v_", "qk_", "mtp_")
_ENDS = ("_size", "_dim", "_dims", "_rank", "_layers", "_heads", "_experts", "_window", "_multiplier_dim", "_bits")
HARMLESS = frozenset((
    "chunk_size_feed_forward", "moe_aux_loss_coef", "n_ctx", "n_positions", "no_repeat_ngram_size", "num_beam_groups",
    "num_beams", "num_labels", "num_return_sequences", "output_router_logits", "router_aux_loss_coef", "top_k",
    "type_vocab_size",
))  # fmt: skip


class Keys:
    """The keys of a config.json; a missing or wrong one is an InputError. Messages for the user are added to `notes`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.notes: list[str] = []
        self._used = set[str]()

    def get(self, name: str, default: Any = None) -> Any:
        """A value of any type; null counts as missing. From now on the key is used."""
        self._used.add(name)
        value = self.document.data.get(name)
        if value is None:
            if default is ABSENT:
                raise InputError(self.document.problem((), f"the key {name} is missing"))
            return default
        return value

    def refuse(self, path: PathLike, rule: str, value: Any = ABSENT) -> InputError:
        """An error at a key."""
        return InputError(self.document.problem(path, rule, value))

    def note(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> None:
        """A warning at a key."""
        self.notes.append(str(self.document.problem(path, rule, value, remedy)))

    def count(self, name: str, default: Any = ABSENT) -> int:
        """A positive integer."""
        value = self.get(name, default)
        if type(value) is not int or (value < 1 and value != default):
            raise self.refuse((name,), "it must be a positive integer", value)
        most = MOST_LAYERS if name == "num_hidden_layers" else MOST
        if value > most:
            raise self.refuse((name,), f"it must be at most {most}", value)
        return value

    def text(self, name: str) -> str:
        """A text."""
        value = self.get(name, ABSENT)
        if not isinstance(value, str):
            raise self.refuse((name,), "it must be text", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise self.refuse((name,), "it must be true or false", value)
        return value

    def activation(self, name: str = "hidden_act", default: str = "silu") -> str:
        """The activation as a vector engine knows it."""
        value = self.get(name, default)
        if value == "silu":
            return "silu"
        if value in GELU:
            return "gelu"
        raise self.refuse((name,), f"it must be one of silu, {', '.join(GELU)}", value)

    def given(self, name: str) -> bool:
        """Whether it is there, and not null."""
        return self.get(name) is not None

    def unused(self) -> None:
        """Notes keys that say something of the work, have a value that turns something on, and were not used."""
        for name, value in self.document.data.items():
            if name in self._used or not isinstance(name, str) or value is None or value is False or value in (0, "", [], {}):
                continue
            shape = name.startswith(_SHAPES) or name.endswith(_ENDS)
            if name in WORK or (shape and name not in HARMLESS and type(value) in (int, list, dict, bool)):
                self.note((name, KEY), "it is not used, though it may change the work")


_DTYPES = {
    "float32": 32, "float": 32, "float16": 16, "half": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int8": 8,
}  # fmt: skip
_WIDTHS = (1, 2, 4, 8, 16, 32)
_SECTION = "quantization_config"
_METHODS = "gptq, awq, bitsandbytes, fp8, compressed-tensors"
#: Matrices that these methods leave as they are.
_LEFT = ("lm_head", "embedding")


def stated_bits(keys: Keys) -> StatedBits:
    """The bits; what is not understood is noted by name, and not used. InputError for what is of the wrong type."""
    wide = _dtype(keys)
    section = keys.get(_SECTION, {})
    if not isinstance(section, dict):
        raise keys.refuse((_SECTION,), "it must be a mapping", section)
    if not section:
        return StatedBits(w=wide, a=wide, kv=wide)
    w, a, kv = _quantised(keys, section)
    if w is None:
        return StatedBits(w=wide, a=wide, kv=wide)
    left = tuple((name, wide) for name in _LEFT if wide is not None and w != wide)
    return StatedBits(w=w, a=a or wide, kv=kv or wide, roles=left)


def _dtype(keys: Keys) -> int | None:
    """The bits of tensors that are not quantised."""
    for name in ("dtype", "torch_dtype"):
        value = keys.get(name)
        if value is None or value == "auto":
            continue
        if isinstance(value, str) and value.removeprefix("torch.") in _DTYPES:
            keys.get("torch_dtype")
            return _DTYPES[value.removeprefix("torch.")]
        keys.note((name,), f"it is not used; it may be one of {', '.join(_DTYPES)}", value, "give --w, --a and --kv")
    return None


def _quantised(keys: Keys, section: dict[Any, Any]) -> tuple[int | None, int | None, int | None]:
    """Bits of weights, activations and the KV cache, as far as a method says them."""
    method = section.get("quant_method")
    if method == "bitsandbytes" or (method is None and ("load_in_4bit" in section or "load_in_8bit" in section)):
        for name, bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):
            if _flag(keys, section, name):
                return bits, None, None
        return None, None, None
    if method == "fp8":
        return 8, 8, None
    if method in ("gptq", "awq"):
        name = "bits" if "bits" in section else "w_bit"
        return _bits(keys, (_SECTION, name), section.get(name)), None, None
    if method == "compressed-tensors":
        return _compressed(keys, section)
    rule = f"it is not used; the methods that are known: {_METHODS}"
    keys.note((_SECTION, "quant_method"), rule, method, "give --w")
    return None, None, None


def _flag(keys: Keys, section: dict[Any, Any], name: str) -> bool:
    value = section.get(name)
    if value is not None and not isinstance(value, bool):
        raise keys.refuse((_SECTION, name), "it must be true or false", value)
    return bool(value)


def _bits(keys: Keys, path: PathLike, value: Any) -> int | None:
    """A number of bits; None for a width that elements cannot have."""
    if type(value) is int and value in _WIDTHS:
        return value
    keys.note(path, f"it is not used; it may be one of {', '.join(map(str, _WIDTHS))}", value, "give --w, --a or --kv")
    return None


def _compressed(keys: Keys, section: dict[Any, Any]) -> tuple[int | None, int | None, int | None]:
    """Groups of layers, each with its bits; several that differ are noted, and not used."""
    groups = section.get("config_groups")
    if not isinstance(groups, dict):
        raise keys.refuse((_SECTION, "config_groups"), "it must be a mapping", groups)
    weights = _of_groups(keys, groups, "weights")
    scheme, kv = section.get("kv_cache_scheme"), None
    if isinstance(scheme, dict):
        kv = _bits(keys, (_SECTION, "kv_cache_scheme", "num_bits"), scheme.get("num_bits"))
    return weights, _of_groups(keys, groups, "input_activations"), kv


def _of_groups(keys: Keys, groups: dict[Any, Any], what: str) -> int | None:
    """The common bits of all groups, or None."""
    found = set[int | None]()
    for name, group in groups.items():
        part = group.get(what) if isinstance(group, dict) else None
        if isinstance(part, dict):
            found.add(_bits(keys, (_SECTION, "config_groups", name, what, "num_bits"), part.get("num_bits")))
    if len(found) > 1:
        rule = f"its groups have {what} of different bits, which are not used"
        keys.note((_SECTION, "config_groups"), rule, remedy="give --policy")
        return None
    return next(iter(found), None)


MODEL_BYTES = 1 << 20
SUFFIXES = (".json", ".yaml", ".yml")
_LAYER_TYPES = ("full_attention", "sliding_attention")
_Facts = tuple[dict[str, Any], dict[str, Any], "Window | None"]  # more of the shape, more of the model, its window
_Kind = Callable[[Keys], _Facts]


def preset_models() -> list[str]:
    """The model names that `load_model` accepts, in addition to files."""
    return [path.name.removesuffix(".yaml") for path in _presets()]


def is_model_file(path: str) -> bool:
    """Whether a file is a model's `config.json`, not a program: it names the size of its hidden state."""
    try:
        data = read_document(path, MODEL_BYTES).data
    except InputError:  # what reads it as a program says what is wrong with it
        return False
    return isinstance(data, dict) and "cmdq" not in data and "hidden_size" in data


def load_model(name: str) -> Model:
    """The model of a preset's name, or of a `config.json`. InputError names what is missing or not supported."""
    if name.lower().endswith(SUFFIXES):
        path = Path(name)
        called = path.parent.resolve().name if path.stem.lower() == "config" else path.stem
        return model_of(read_document(name, MODEL_BYTES), _plain(called) or "model")
    for path in _presets():
        if _plain(path.name.removesuffix(".yaml")) == _plain(name):
            return model_of(read_document(path, MODEL_BYTES), path.name.removesuffix(".yaml"))
    names = preset_models()
    check_file(name, "model")
    rule = f"there is no such model; models are: {', '.join(names)}"
    remedy = meant(name.rpartition("/")[2], names, cutoff=0.5) or "a config.json ends in .json or .yaml"
    raise InputError(Problem(name, rule, remedy=remedy))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _presets() -> list[Path]:
    folder = importlib.resources.files("kernbench.configs") / "models"
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.endswith(".yaml"))


def model_of(document: Document, name: str) -> Model:
    """The model that a `config.json` describes."""
    check_kind(document.source, document.data, "model")
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
