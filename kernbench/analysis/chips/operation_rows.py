"""Rows of tables of operations: products, vector operations, attention, collectives."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from kernbench.analysis.chips.cases import Case, Context, case_by_roofline, case_of, case_of_operation
from kernbench.analysis.chips.cells import (
    Cells,
    at_least_1,
    choice_in,
    crosses_nodes,
    given_text,
    meant_column,
    node_size,
    number_in,
    shape_in,
    tokens_in,
    type_name,
    type_of,
    whole_in,
)
from kernbench.common.spelling import meant
from kernbench.config.runtime import CLASSES
from kernbench.workloads.ops.operation import COLLECTIVES, Attention, Collective, Operation, Product, Sequences, Vector

LAYER_CHIPS = 4  #: number of chips that share a layer in tables of the operations of a layer


def _plain(name: str) -> str:
    """The operation of a layer for the name of its kind: `LayerNorm_FFN` is a layernorm."""
    lower = name.lower()
    return next((one for one in ("softmax", "layernorm", "gelu") if lower.startswith(one)), name)


def operation_row(row: Cells, context: Context) -> Case | None:
    kind, name = row.get("class") or "", _plain(row.get("op") or "")
    if kind not in CLASSES:
        near = "did you mean matmul?" if kind.lower() in ("gemm", "mm", "gemv", "linear", "bmm") else meant(kind, CLASSES)
        rule = f"class = {kind!r}, but it must be one of {', '.join(CLASSES)}"
        raise ValueError(f"{rule}; {near}" if near else rule)
    m, n, k = (whole_in(row, one) for one in "mnk")
    op: Operation
    times = 1
    if kind == "collective":
        if not name.lower().replace("_", "").startswith("allreduce"):
            raise ValueError(
                f"{given_text(row, 'workers')}, but a collective needs the number of chips{meant_column(row, 'workers')}"
            )
        op = Collective("all_reduce", LAYER_CHIPS, at_least_1(row, "bytes"))
    elif kind == "moe":
        op = _experts(row, name)
    elif kind == "matmul" and k:
        m, n, k = shape_in(row, "mnk")
        count = max(1, round(number_in(row, "flops") / (2 * m * n * k)))  # in a table without flops, each row has one product
        if name == "Q_K_V":
            times, n = 3, n // 3
            count = 1
        bits, size = type_of(row)
        name_of_one = "matmul" if count > 1 or times > 1 else name
        op = Product(m, n, k, size, size, max(2.0, size), bits, count, name_of_one, floats=not type_name(row).startswith("i"))
    elif kind == "attention":
        if not (row.get("n_decode") or row.get("prefill_chunk") or row.get("kv_cache")):
            return None
        return (batch_attention_row if row.get("kv_cache") else attention_row)(row, context)
    else:
        if kind == "matmul" and not row.get("bytes"):
            shape_in(row, "k")
        moved = number_in(row, "bytes") or 4.0 * at_least_1(row, "m") * (n or 1)
        op = Vector(name, kind, m, n or 1, moved, number_in(row, "flops"))
    label = f"{name} {m} {n or ''} {k or ''}".strip()
    return case_of_operation(row, context, op, times, label=label)


def _experts(row: Cells, name: str) -> Product:
    """The matrices of the experts that a step uses, as one product for each; the work and the traffic of the row decide how
    many there are.

    Work is two operations for each row and weight. Traffic is the weights, and the rows before and after them.
    """
    flops, moved = number_in(row, "flops"), number_in(row, "bytes")
    m, n, k = (whole_in(row, one) for one in "mnk")
    n, k = n or k, k or n  # a table may give the width of a token alone
    bits, size = type_of(row)
    if not (m and n):
        raise ValueError(f"m, n, k = {m}, {n}, {k}, but experts need the number of tokens and a width")
    rows = max(1, round(flops / (2 * n * k))) if flops else m
    count = min(rows, max(1, round((moved / size - m * (n + k)) / (n * k)))) if moved else 1
    floats = not type_name(row).startswith("i")
    return Product(math.ceil(rows / count), n, k, size, size, max(2.0, size), bits, count, name, "moe", floats=floats)


def tensix_row(row: Cells, context: Context) -> Case:
    m, n, k = shape_in(row, "mnk")
    size = choice_in(row, "dtype", {"BFLOAT16": 2.0, "BFLOAT8_B": 1.0625, "BFLOAT4_B": 0.5625})
    passes = choice_in(row, "fidelity", {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4})
    near = (row.get("in0") == "L1", row.get("in1") == "L1", row.get("out") == "L1")
    op = Product(
        m,
        n,
        k,
        size,
        size,
        size,
        8,
        passes=passes,
        near=near,
        name="matmul_by_hand" if "gemm.csv" in context.table else "matmul",
    )
    traced = row.get("use_trace") == "1"
    flops = 2.0 * m * n * k
    return case_of(
        row, context, lambda timer: timer.time(op).ns / 1e3 if not traced else timer.traced().time(op).ns / 1e3,
        op=f"{row['dtype']} {row['fidelity']} {'trace' if traced else 'dispatch'}", label=f"{m} {n} {k}",
        compute_us=flops * passes / (64 * 4096 * 1e3), memory_us=number_in(row, "bytes") / context.bandwidth, operation=op,
        traced=traced,
    )  # fmt: skip


def collective_row(row: Cells, context: Context) -> Case | None:
    workers = whole_in(row, "workers")
    if workers < 2:
        return None
    names: dict[str, Any] = {name: name for name in COLLECTIVES}
    op = Collective(
        choice_in(row, "op", names), workers, at_least_1(row, "size_bytes"), node=node_size(row) if crosses_nodes(row) else 0
    )
    memory = number_in(row, "roofline") if op.crosses else number_in(row, "bytes") / context.links
    return case_of_operation(row, context, op, label=f"{op.name} {workers} x {op.nbytes} B", memory_us=memory)


def _attention_op(row: Cells, context: Context, groups: list[Sequences]) -> Attention:
    heads, kv_heads, width = context.heads(row)
    some = tuple(one for one in groups if one.count)
    if not some:
        columns = "n_decode and kv_decode, prefill_chunk and kv_prefill, or batch and kv_cache"
        raise ValueError(f"a step needs at least one sequence: give {columns}")
    return Attention(some, heads, kv_heads, width)


def attention_row(row: Cells, context: Context) -> Case:
    chunk, before = tokens_in(row, "prefill_chunk"), tokens_in(row, "kv_prefill")
    many, keys = tokens_in(row, "n_decode"), tokens_in(row, "kv_decode")
    groups = [Sequences(many, 1, keys), Sequences(1 if chunk else 0, chunk, before)]
    label = f"{chunk} after {before}, {many} x {keys}"
    return case_of_operation(row, context, _attention_op(row, context, groups), label=label)


def batch_attention_row(row: Cells, context: Context) -> Case:
    """A row of a table whose `kv_cache` counts all keys of a sequence, those of its new tokens too; no key is masked.

    Times of its prefills are the same for 32 and 128 new tokens, and whole waves of blocks that each read `kv_cache` keys.
    """
    new, keys, many = tokens_in(row, "prefill_chunk") or 1, tokens_in(row, "kv_cache"), tokens_in(row, "batch")
    if many and not (keys or row.get("prefill_chunk")):
        raise ValueError(f"{given_text(row, 'kv_cache')}, but attention of {many} sequences needs their keys")
    op = replace(_attention_op(row, context, [Sequences(many, new, max(0, keys - new))]), causal=False)
    return case_of_operation(row, context, op, label=f"{many} x {new} in {keys}")


def skewed_attention_row(row: Cells, context: Context) -> Case:
    big, many = tokens_in(row, "n_big"), tokens_in(row, "n_decode")
    if big > many:
        raise ValueError(f"n_big = {big}, but it must be at most n_decode = {many}")
    chunk, before = tokens_in(row, "prefill_chunk"), tokens_in(row, "kv_prefill")
    groups = [
        Sequences(big, 1, tokens_in(row, "kv_big")),
        Sequences(many - big, 1, tokens_in(row, "kv_small")),
        Sequences(1 if chunk else 0, chunk, before),
    ]
    label = f"{chunk} after {before}, {big} x {groups[0].cached}, {many - big} x {groups[1].cached}"
    return case_of_operation(row, context, _attention_op(row, context, groups), label=label)


def bandwidth_row(row: Cells, context: Context) -> Case:
    """[GB/s] The bandwidth of a stream of weights, from a large product with one row of tiles."""
    op = Product(32, 28672, 8192, 1.0625, 1.0625, 1.0625, 8)
    return case_by_roofline(row, context, lambda timer: op.nbytes / timer.time(op).ns, rate=True)


def best_product_row(row: Cells, context: Context) -> Case:
    m, n, k = shape_in(row, "mnk")
    bits, size = type_of(row)
    op = Product(m, n, k, size, size, max(2.0, size), bits, floats=not type_name(row).startswith("i"))
    return case_by_roofline(row, context, lambda timer: 2e-3 * op.macs / timer.time(op).ns, rate=True)


def read_row(row: Cells, context: Context) -> Case | None:
    """A row of a table of any operations; the columns of the table decide how the row is read."""
    if row.get("class") == "attention":
        if row.get("n_big"):
            return skewed_attention_row(row, context)
        return attention_row(row, context) if row.get("n_decode") else batch_attention_row(row, context)
    if row.get("class") == "collective" and row.get("workers"):
        return collective_row(row, context)
    if row.get("class") == "matmul" and (row.get("unit") or "").lower().startswith("tflop"):
        return best_product_row(row, context)
    return tensix_row(row, context) if row.get("fidelity") else operation_row(row, context)
