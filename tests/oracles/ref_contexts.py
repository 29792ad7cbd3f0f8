"""Tokens shared out over ranks, rows over shards, and experts over replicas: bytes and MACs in closed form, by counting.

Everything is for one byte an element, from the keys of a `config.json` of a decoder with grouped queries. Nothing of the
simulator takes part.
"""

from __future__ import annotations

from typing import Any


def rank_of(position: int, prompt: int, ranks: int) -> int:
    """Which rank keeps a token. A prompt has `2 * ranks` parts, the first `prompt % (2 * ranks)` of them one token longer."""
    if position >= prompt:
        return position % ranks
    parts = 2 * ranks
    at = 0
    for part in range(parts):
        at += prompt // parts + (part < prompt % parts)
        if position < at:
            return part if part < ranks else parts - 1 - part
    raise AssertionError


def kept(prompt: int, context: int, ranks: int) -> list[int]:
    """[token] of a sequence of `context` tokens on each rank."""
    counts = [0] * ranks
    for position in range(context):
        counts[rank_of(position, prompt, ranks)] += 1
    return counts


def token_bytes(keys: dict[str, Any]) -> int:
    """Keys and values of a token in all heads of a layer."""
    return 2 * int(keys["num_key_value_heads"]) * int(keys["head_dim"])


def layer_weights(keys: dict[str, Any]) -> int:
    """Matrices of a layer."""
    hidden, heads, dim = keys["hidden_size"], keys["num_attention_heads"], keys["head_dim"]
    return int(hidden * dim * (2 * heads + 2 * keys["num_key_value_heads"]) + 3 * hidden * keys["intermediate_size"])


def prefill_kv_bytes(keys: dict[str, Any], prompt: int, sequences: int, ranks: int) -> int:
    """Of the cache in a layer, loads and stores of all ranks.

    Each token is stored by its rank, loaded to be sent, and stored by all others. Each part of the prompt, for its queries,
    loads all tokens up to its own end.
    """
    ends, at = [], 0
    for part in range(2 * ranks):
        at += prompt // (2 * ranks) + (part < prompt % (2 * ranks))
        ends.append(at)
    return sequences * token_bytes(keys) * (prompt * (2 + ranks - 1) + sum(ends))


def prefill_macs(keys: dict[str, Any], prompt: int, sequences: int, ranks: int) -> int:
    """Of a layer on all ranks: the queries of a part of at most 128 tokens meet all keys up to the end of the part."""
    width, at, pairs = keys["num_attention_heads"] * keys["head_dim"], 0, 0
    for part in range(2 * ranks):
        size = prompt // (2 * ranks) + (part < prompt % (2 * ranks))
        at += size
        pairs += size * at
    return sequences * (prompt * layer_weights(keys) + 2 * width * pairs)


def decode_kv_bytes(keys: dict[str, Any], prompt: int, context: int, sequences: int, ranks: int) -> int:
    """Of a layer on all ranks: what each keeps is loaded, and the new token is stored."""
    return sequences * token_bytes(keys) * (sum(kept(prompt, context, ranks)) + 1)


def decode_macs(keys: dict[str, Any], context: int, sequences: int, ranks: int) -> int:
    """Of a layer on all ranks: all have the matrices but those of keys and values, which only the owner of the token uses."""
    hidden, dim = keys["hidden_size"], keys["head_dim"]
    own = 2 * hidden * dim * keys["num_key_value_heads"]
    attention = 2 * keys["num_attention_heads"] * dim * (context + 1)
    return sequences * int(ranks * (layer_weights(keys) - own) + own + attention)


def gathered_kv_bytes(keys: dict[str, Any], prompt: int, sequences: int, ranks: int) -> int:
    """Sent in the all-gather of a layer: each token goes to all other ranks."""
    return sequences * token_bytes(keys) * prompt * (ranks - 1)


def combined_bytes(keys: dict[str, Any], sequences: int, ranks: int, shards: int, line: int) -> int:
    """Sent in the combine of a layer: two numbers of four bytes a head, in whole lines, and an all-reduce of the outputs."""
    heads = keys["num_attention_heads"] // shards
    numbers = -(-2 * sequences * heads * 4 // line) * line
    outputs = sequences * heads * keys["head_dim"]
    return int(shards * (ranks * (ranks - 1) * numbers + 2 * (ranks - 1) * outputs))


def row_bytes_sent(keys: dict[str, Any], rows: int, shards: int) -> int:
    """Sent in one all-gather, or one reduce-scatter, of the rows of a step."""
    return int((shards - 1) * rows * keys["hidden_size"])


def sent_rows(experts: int, top_k: int, owned: list[int]) -> list[list[int]]:
    """[PE][expert] rows. Choice i is of row i modulo all rows; experts take equal runs of choices."""
    rows = sum(owned)
    owner = [pe for pe, count in enumerate(owned) for _ in range(count)]
    found = [[0] * experts for _ in owned]
    choices = rows * top_k
    expert = 0
    for choice in range(choices):
        while choice >= -(-(expert + 1) * choices // experts):
            expert += 1
        found[owner[choice % rows]][expert] += 1
    return found


def dispatched_rows(experts: int, top_k: int, owned: list[int]) -> int:
    """Rows that leave a PE for an expert of another one."""
    each = experts // len(owned)
    found = sent_rows(experts, top_k, owned)
    return sum(count for pe, row in enumerate(found) for expert, count in enumerate(row) if expert // each != pe)
