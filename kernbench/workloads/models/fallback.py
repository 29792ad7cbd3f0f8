"""The row for model types without a row of their own: made from well-known keys, with a note of the assumptions."""

from __future__ import annotations

from dataclasses import replace

from kernbench.workloads.models.keys import Keys
from kernbench.workloads.models.types import LAYER, RMS, ROWS, Mixture, Row

_ALIKE = {
    "num_hidden_layers": "num_hidden_layers|n_layer|n_layers|num_layers",
    "hidden_size": "hidden_size|n_embd|n_embed|d_model|model_dim",
    "num_attention_heads": "num_attention_heads|n_head|n_heads|num_heads",
    "num_key_value_heads": "num_key_value_heads|num_kv_heads|n_kv_heads|multi_query_group_num",
    "intermediate_size": "intermediate_size|ffn_dim|n_inner|d_ff|ffn_hidden_size",
    "hidden_act": "hidden_act|hidden_activation|activation_function|activation",
}
_BIASES = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias", "add_bias_linear")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
#: Keys of encoders: segments of a pair of texts, and heads that predict masked tokens.
_ENCODER = "type_vocab_size"
_MASKED = "ForMaskedLM"
_UNREADABLE = (
    "attn_layer_period", "full_attention_interval", "ssm_cfg", "state_size", "linear_num_key_heads", "mamba_d_state",
    "lru_width", "hidden_size_per_layer_input",
)  # fmt: skip
#: Keys that turn experts off.
_HAS_EXPERTS = ("is_moe", "use_moe", "enable_moe_block")


def row_of_keys(keys: Keys) -> Row:
    """The row, with a note.

    Raises InputError for a model with recurrent layers, tables for single layers, or an encoder, or without a known size.
    """
    _check_readable(keys)
    if keys.given("kv_lora_rank"):
        row, assumed = ROWS["deepseek_v3"], "latent attention and experts as of deepseek_v3"
    else:
        row, assumed = _usual_row(keys)
    keys.note(
        ("model_type",),
        f"no row of this type is known; assumed: {assumed}",
        keys.text("model_type"),
        "compare the number of parameters with the real model",
    )
    return replace(row, names=_ALIKE, exact=False)


def _check_readable(keys: Keys) -> None:
    kind, data = keys.text("model_type"), keys.document.data
    known = f"model types with a row of their own: {', '.join(sorted(ROWS))}"
    if any(data.get(name) for name in _UNREADABLE) or keys.get("is_encoder_decoder") is True:
        raise keys.refuse(("model_type",), f"its layers cannot be derived from its keys; {known}", kind)
    masked = any(_MASKED in str(name) for name in data.get("architectures") or ())
    if masked or (_ENCODER in data and keys.get("is_decoder") is not True):
        raise keys.refuse(("model_type",), f"the model is an encoder, which does not decode tokens; {known}", kind)
    if not any(name in data for name in _alike("hidden_size")):
        raise keys.refuse(("model_type",), f"no known key has the hidden size; {known}", kind)


def _usual_row(keys: Keys) -> tuple[Row, str]:
    """A decoder with attention of heads before a network or experts, and the assumptions as text."""
    data = keys.document.data
    old = any(name in data for name in ("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"))
    gated = not old and not any(data.get(name) == "relu2" for name in _alike("hidden_act"))
    four = old and not any(keys.given(name) for name in _alike("intermediate_size"))
    mixture = _experts(keys)
    bias = next((name for name in _BIASES if name in data), False)
    row = Row(
        q_bias=bias, out_bias=bias if bias in ("attention_bias", "use_bias", "bias") else False,
        mlp_bias="mlp_bias" if "mlp_bias" in data else bias if bias in ("use_bias", "bias") else False,
        norm=LAYER if old else RMS, gated=gated, act="gelu" if old else "silu", mixture=mixture, ffn_times=4 if four else 0,
        qk_norm="shared" if keys.get("qk_norm") is True or keys.get("use_qk_norm") is True else "",
    )  # fmt: skip
    network = "a gated network" if gated else "two matrices with gelu" if old else "two matrices with relu2"
    assumed = f"{'layer norms' if old else 'RMS norms'} before attention and network, {network}, RoPE"
    assumed += ", four times the hidden width inside the network" if four else ""
    assumed += f", experts in every layer (key {mixture.count[0]})" if mixture else ""
    return row, assumed


def _experts(keys: Keys) -> Mixture | None:
    if any(keys.get(name) is False for name in _HAS_EXPERTS):
        return None
    count = next((name for name in _EXPERTS if keys.given(name)), None)
    width = "moe_intermediate_size" if keys.given("moe_intermediate_size") else "intermediate_size"
    return None if count is None else Mixture(count=(count,), width=width)


def _alike(name: str) -> list[str]:
    """All names of a key."""
    return _ALIKE[name].split("|")
