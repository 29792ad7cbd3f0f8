"""Small configurations with every kind of part: for tests of layers that are lowered part by part."""

from __future__ import annotations

from typing import Any

_BASE: dict[str, Any] = {
    "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "intermediate_size": 512, "vocab_size": 500,
}  # fmt: skip
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}


def _of(kind: str, **keys: Any) -> dict[str, Any]:
    return {"model_type": kind, **_BASE, **keys}


SMALL: dict[str, dict[str, Any]] = {
    "qwen3": _of("qwen3"),
    "window": _of("gemma3_text", layer_types=["sliding_attention", "full_attention"], sliding_window=16),
    "chunks": _of("llama4_text", attention_chunk_size=16, intermediate_size_mlp=512, interleave_moe_layer_step=2, **_EXPERTS),
    "parallel": _of("gpt_neox"),
    "one_norm": _of("cohere", use_qk_norm=True),
    "sinks": _of("gpt_oss", sliding_window=16, layer_types=["sliding_attention", "full_attention"], **_EXPERTS),
    "shared": _of("qwen2_moe", shared_expert_intermediate_size=256, decoder_sparse_step=2, **_EXPERTS),
    "positions": _of("opt", ffn_dim=512, max_position_embeddings=64),
    "squares": _of("nemotron", hidden_act="relu2"),
    "deepseek": _of(
        "deepseek_v3", n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=128, q_lora_rank=64,
        kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, first_k_dense_replace=1,
    ),
    "mamba2": _of("mamba2", num_heads=8, head_dim=64, state_size=16, n_groups=2),
    "jamba": _of(
        "jamba", mamba_d_state=4, mamba_dt_rank=16, attn_layer_period=2, attn_layer_offset=1, num_experts=4,
        num_experts_per_tok=2,
    ),
    "delta": _of(
        "qwen3_next", layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=32, linear_value_head_dim=32, shared_expert_intermediate_size=128, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=128,
    ),
    "lightning": _of("minimax", num_local_experts=4, num_experts_per_tok=2),
}  # fmt: skip
