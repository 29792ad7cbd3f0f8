"""Multi-token prediction in closed form, from the keys of a `config.json` of DeepSeek-V3: parameters, and MACs of a draft."""

from __future__ import annotations

from typing import Any


def attention_weights(keys: dict[str, Any]) -> int:
    """Elements of the matrices of latent attention."""
    hidden, heads = keys["hidden_size"], keys["num_attention_heads"]
    nope, rope, value = keys["qk_nope_head_dim"], keys["qk_rope_head_dim"], keys["v_head_dim"]
    queries = hidden * keys["q_lora_rank"] + keys["q_lora_rank"] * heads * (nope + rope)
    latent = hidden * (keys["kv_lora_rank"] + rope) + keys["kv_lora_rank"] * heads * (nope + value)
    return queries + latent + heads * value * hidden


def expert_weights(keys: dict[str, Any]) -> int:
    """Elements of one expert: gate, up and down projection."""
    return 3 * int(keys["hidden_size"]) * int(keys["moe_intermediate_size"])


def block_parameters(keys: dict[str, Any]) -> int:
    """Of one block that predicts, without embedding and LM head: those of a layer with experts, the projection, and norms.

    Norms: two of a layer, two before the projection, one before the LM head, and those of the latent vectors.
    """
    hidden, experts = keys["hidden_size"], keys["n_routed_experts"]
    matrices = attention_weights(keys) + (experts + keys["n_shared_experts"]) * expert_weights(keys) + hidden * experts
    vectors = 5 * hidden + keys["q_lora_rank"] + keys["kv_lora_rank"]
    return matrices + 2 * hidden * hidden + vectors


def draft_macs(keys: dict[str, Any], rows: int, sequences: int, seen: int) -> int:
    """Of one pass: projections, block and LM head. `seen`: keys that all queries of a pass see, without masked ones.

    Each row goes to the router, to `num_experts_per_tok` experts and to the shared ones; the last row of each sequence to the
    LM head. Queries meet the latent vectors, so a key takes the latent and the rotated elements, and a value the latent ones.
    """
    hidden, heads, latent = keys["hidden_size"], keys["num_attention_heads"], keys["kv_lora_rank"]
    experts = keys["num_experts_per_tok"] + keys["n_shared_experts"]
    each = attention_weights(keys) + experts * expert_weights(keys) + hidden * keys["n_routed_experts"] + 2 * hidden * hidden
    scores = heads * (2 * latent + keys["qk_rope_head_dim"])
    return rows * each + seen * scores + sequences * hidden * int(keys["vocab_size"])
