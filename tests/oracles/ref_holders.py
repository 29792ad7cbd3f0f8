"""Heads and experts that several PEs share: bytes and MACs of a decode step in closed form.

Everything is for one byte an element, from the keys of a `config.json` of a decoder with grouped queries. A PE that shares a
head has all queries and keys of the head, and an equal part of the width of its values. A PE that shares an expert has an equal
part of its width. Nothing of the simulator takes part.
"""

from __future__ import annotations

from typing import Any


def heads_of(keys: dict[str, Any], pes: int) -> tuple[int, int, int, int]:
    """Of one PE: query heads, key heads, elements of a key, elements of a value."""
    heads, kv_heads, dim = keys["num_attention_heads"], keys["num_key_value_heads"], keys["head_dim"]
    sharing = max(1, pes // heads)
    return max(1, heads // pes), max(1, kv_heads // pes), dim, dim // sharing


def attention_weights(keys: dict[str, Any], pes: int) -> int:
    """Matrices of the attention of a layer on one PE."""
    heads, kv_heads, key, value = heads_of(keys, pes)
    return int(keys["hidden_size"] * (heads * key + kv_heads * (key + value) + heads * value))


def network_weights(keys: dict[str, Any], pes: int) -> int:
    """Matrices of the network of a layer on one PE; of a mixture, of all experts that the PE has, without the router."""
    experts = keys.get("num_local_experts", 1)
    width = keys["intermediate_size"]
    return int(3 * keys["hidden_size"] * width * experts // pes)


def kv_bytes(keys: dict[str, Any], pes: int, context: int, sequences: int) -> int:
    """What all PEs load of earlier tokens and store of the new one."""
    _, kv_heads, key, value = heads_of(keys, pes)
    return pes * sequences * (context + 1) * kv_heads * (key + value)


def attention_macs(keys: dict[str, Any], pes: int, context: int, sequences: int) -> int:
    """Of all PEs: projections, scores and outputs of one new token of each sequence."""
    heads, _, key, value = heads_of(keys, pes)
    return pes * sequences * (attention_weights(keys, pes) + heads * (context + 1) * (key + value))


def sent_by_all_reduces(keys: dict[str, Any], pes: int, sequences: int) -> int:
    """Of the two all-reduces of a layer: each PE sends its part of a sum to all others, and then the sum of its own part."""
    return 2 * 2 * (pes - 1) * sequences * int(keys["hidden_size"])
