"""The keys of a `config.json`: typed access, errors for missing or wrong keys, and the keys that were not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.common.errors import ABSENT, InputError
from kernbench.common.spelling import nearest
from kernbench.config.document import Document
from kernbench.config.places import KEY, PathLike

MAX_LAYERS, LIMIT = 10_000, 1 << 24  #: limits of a config.json: of the number of layers, and of any other number
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
#: Patterns of keys that describe shapes; keys in HARMLESS do not affect the work of a layer, even if their names match.
_SHAPES = ("num_", "n_", "d_", "moe_", "mamba_", "ssm_", "conv_", "attn_", "ffn_", "mlp_", "q_", "kv_", "v_", "qk_", "mtp_")
_ENDS = ("_size", "_dim", "_dims", "_rank", "_layers", "_heads", "_experts", "_window", "_multiplier_dim", "_bits")
HARMLESS = frozenset((
    "chunk_size_feed_forward", "moe_aux_loss_coef", "n_ctx", "n_positions", "no_repeat_ngram_size", "num_beam_groups",
    "num_beams", "num_labels", "num_return_sequences", "output_router_logits", "router_aux_loss_coef", "top_k",
    "type_vocab_size",
))  # fmt: skip


class Keys:
    """The keys of a config.json; a missing or wrong key raises InputError. Messages for the user are added to `notes`."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.notes: list[str] = []
        self._used = set[str]()

    def get(self, name: str, default: Any = None, others: Sequence[str] = ()) -> Any:
        """A value of any type; null counts as missing. Marks the key as used. `others`: further names of the same key, for
        errors."""
        self._used.add(name)
        value = self.document.data.get(name)
        if value is None:
            if default is ABSENT:
                raise InputError(self.document.problem((), self._missing(name, others), remedy=self._near(name)))
            return default
        return value

    def _missing(self, name: str, others: Sequence[str]) -> str:
        return f"the key {' or '.join(dict.fromkeys((name, *others)))} is missing"

    def _near(self, name: str) -> str:
        """The remedy for a missing key: the misspelt key of the file, or a value."""
        if name == "model_type":
            return 'write the type of the architecture, such as "model_type": "llama"'
        near = nearest(name, [key for key in self.document.data if isinstance(key, str) and key not in self._used], cutoff=0.85)
        return f"did you mean {name} by {near}?" if near else ""

    def refuse(self, path: PathLike, rule: str, value: Any = ABSENT) -> InputError:
        """The error for a key."""
        return InputError(self.document.problem(path, rule, value))

    def note(self, path: PathLike, rule: str, value: Any = ABSENT, remedy: str = "") -> None:
        """A warning for a key."""
        self.notes.append(str(self.document.problem(path, rule, value, remedy)))

    def count(self, name: str, default: Any = ABSENT, others: Sequence[str] = ()) -> int:
        """A positive integer."""
        value = self.get(name, default, others)
        if type(value) is not int or (value < 1 and value != default):
            raise self.refuse((name,), "it must be a positive integer", value)
        most = MAX_LAYERS if name == "num_hidden_layers" else LIMIT
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
        """The activation, by its name in a vector engine."""
        value = self.get(name, default)
        if value in ("silu", "relu", "relu2"):
            return str(value)
        if value in GELU:
            return "gelu"
        raise self.refuse((name,), f"it must be one of silu, relu, relu2, {', '.join(GELU)}", value)

    def given(self, name: str) -> bool:
        """Whether the key is present and not null."""
        return self.get(name) is not None

    def unused(self) -> None:
        """Notes keys that may affect the work, have a value that turns a feature on, and were not used."""
        for name, value in self.document.data.items():
            if name in self._used or not isinstance(name, str) or value is None or value is False or value in (0, "", [], {}):
                continue
            shape = name.startswith(_SHAPES) or name.endswith(_ENDS)
            if name in WORK or (shape and name not in HARMLESS and type(value) in (int, list, dict, bool)):
                self.note((name, KEY), "it is not used, though it may change the work")
