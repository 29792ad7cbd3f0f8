"""Bytes and MACs of a layer of any recorded model type, written from the keys of `config.json` and the layer's own tensors.

Nothing of the package takes part. Weights have 4 bits, gains and biases 8, activations 8, the cache 4. Experts get equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SQUARE = 128  #: [token] queries whose scores are computed together


@dataclass(frozen=True)
class Cost:
    """Of one layer in a step: bytes of weights and of cache and states, MACs with all masked scores of a square."""

    weights: int
    kv: int
    macs: int
    seen: int  #: MACs without masked scores


def one_of(config: dict[str, Any], *names: str) -> Any:
    """The first of these keys that has a value."""
    return next(config[name] for name in names if config.get(name) is not None)


def attention_heads(config: dict[str, Any]) -> tuple[int, int, int]:
    """Query heads, key and value heads, and elements of a head."""
    heads = one_of(config, "num_attention_heads", "n_head", "n_heads")
    kv_heads = config.get("num_key_value_heads") or heads
    if config["model_type"] == "falcon":
        kv_heads = config["num_kv_heads"] if config["new_decoder_architecture"] else 1 if config["multi_query"] else heads
    dim = config.get("head_dim") or one_of(config, "hidden_size", "n_embd", "d_model") // heads
    return heads, kv_heads, dim


def span(config: dict[str, Any], layer: int) -> tuple[int, int]:
    """[token] of the layer's window and of its chunks, 0 for none."""
    kind = (config.get("layer_types") or {}) and config["layer_types"][layer]
    if not kind and config["model_type"] in ("mistral", "mixtral", "phi3", "phimoe", "starcoder2"):
        return config.get("sliding_window") or 0, 0
    if kind == "sliding_attention":
        return config["sliding_window"], 0
    return 0, config["attention_chunk_size"] if kind == "chunked_attention" else 0


def first(position: int, window: int, chunk: int) -> int:
    """The first token that the token at this position attends to."""
    if window:
        return max(0, position + 1 - window)
    return position - position % chunk if chunk else 0


def recurrent(config: dict[str, Any], layer: int) -> tuple[str, int, int, int, int, int] | None:
    """Of a layer without a cache: kind, groups, heads, key and value elements of a head, elements of convolution inputs."""
    kind, types = config["model_type"], config.get("layer_types")
    if kind == "mamba2":
        inner, state = config["expand"] * config["hidden_size"], config["state_size"]
        conv = (inner + 2 * config["n_groups"] * state) * config["conv_kernel"]
        return "chunks", config["n_groups"], config["num_heads"], state, inner // config["num_heads"], conv
    if kind == "jamba" and layer % config["attn_layer_period"] != config["attn_layer_offset"]:
        inner = config["mamba_expand"] * config["hidden_size"]
        return "scan", 0, 1, config["mamba_d_state"], inner, inner * config["mamba_d_conv"]
    if kind == "minimax" and types[layer] == "linear_attention":
        heads, _, dim = attention_heads(config)
        return "chunks", heads, heads, dim, dim, 0
    if kind == "qwen3_next" and types[layer] == "linear_attention":
        keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
        key, value = config["linear_key_head_dim"], config["linear_value_head_dim"]
        return "delta", keys, values, key, value, (2 * keys * key + values * value) * config["linear_conv_kernel_dim"]
    return None


def layer_cost(config: dict[str, Any], layer: int, tensors: dict[str, int], tokens: int, context: int) -> Cost:
    """A step of `tokens` new tokens of one sequence after `context`."""
    weights, macs = tensors["matrices"] // 2 + tensors["vectors"], tokens * tensors["matrices"]
    if tensors["experts"]:
        count = one_of(config, "num_local_experts", "num_experts", "n_routed_experts")
        used = config["num_experts_per_tok"]
        one, biases = tensors["experts"] // count, tensors["expert_vectors"] // count
        weights += min(count, used * tokens) * (one // 2 + biases)
        macs += tokens * used * one
    state = recurrent(config, layer)
    if state is not None:
        kind, groups, heads, key, value, conv = state
        kept = heads * key * value + conv
        for start in range(0, tokens, SQUARE):
            c = min(SQUARE, tokens - start)
            if kind != "scan":
                macs += groups * c * c * key + heads * (c * c * value + 2 * c * key * value)
            if kind == "delta":
                macs += groups * c * c * key + heads * c * c * (key + value)
        return Cost(weights, kept * (2 if context else 1), macs, macs)
    window, chunk = span(config, layer)
    seen = 0  # scores: of each square all tokens from the first that its first query sees to its last one
    for start in range(0, tokens, SQUARE):
        rows = min(SQUARE, tokens - start)
        seen += rows * (context + start + rows - first(context + start, window, chunk))
    pairs = sum(1 + token - first(token, window, chunk) for token in range(context, context + tokens))
    positions = context + tokens - first(context, window, chunk)
    if config.get("kv_lora_rank"):
        width = config["kv_lora_rank"] + config["qk_rope_head_dim"]
        each = config["num_attention_heads"] * (width + config["kv_lora_rank"])
        return Cost(weights, positions * width // 2, macs + each * seen, macs + each * pairs)
    heads, kv_heads, dim = attention_heads(config)
    each, cache = 2 * heads * dim, positions * kv_heads * dim  # K and V, 4 bits each
    return Cost(weights, cache, macs + each * seen, macs + each * pairs)
