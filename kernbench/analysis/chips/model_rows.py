"""Rows of tables of whole models: steps, tokens per second, and inferences of networks."""

from __future__ import annotations

import re
from collections.abc import Callable

from kernbench.analysis.chips.cases import Case, Context, case_by_roofline
from kernbench.analysis.chips.cells import UNITS, Cells, at_least_1, kv_heads_of, number_in, tokens_in, whole_in
from kernbench.workloads.models.parts import Attention as AttentionPart
from kernbench.workloads.models.parts import Description
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import DecoderShape, description_of
from kernbench.workloads.ops.networks import network_of
from kernbench.workloads.ops.operation import Product
from kernbench.workloads.ops.step import decode_ns, network_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer

MAX_PREFILL = 2048  #: tokens of a prefill step
MAX_LAYERS = 1000  #: of a model that columns describe
QUANTISED_GROUP = 4 / 32  #: [byte] a weight of 4 bits: a scale and a zero of 16 bits for each group of 32


def _model(row: Cells) -> Description:
    """The model whose sizes the columns give, or else the model of this name."""
    if row.get("layers") and row.get("hidden"):
        return _described(row)
    name = row.get("model") or ""
    model = description_of(name)
    if model is None:
        given = "layers, hidden, heads, kv_heads, head_dim, mlp, vocab, and for a mixture experts, active"
        raise ValueError(f"model = {name!r}, but the shape of that model is not known; give it in the columns {given}")
    return model


def _described(row: Cells) -> Description:
    """A decoder of layers that are alike, by the sizes in its columns; those of `config.json` have the same names."""
    layers, hidden, heads, mlp, vocab = (at_least_1(row, name) for name in ("layers", "hidden", "heads", "mlp", "vocab"))
    kv_heads, width = kv_heads_of(row), whole_in(row, "head_dim") or max(1, hidden // heads)
    if layers > MAX_LAYERS:
        raise ValueError(f"layers = {layers}, but a model has at most {MAX_LAYERS}")
    experts, active = whole_in(row, "experts") or 1, whole_in(row, "active") or 1
    if active > experts:
        raise ValueError(f"active = {active}, but the model has {experts} experts")
    return DecoderShape(layers, hidden, heads, kv_heads, width, mlp, vocab, experts=experts, active=active).description


def _has_one_kv_head(model: Description) -> bool:
    return all(isinstance(one.mixer, AttentionPart) and one.mixer.kv_heads == 1 for one in model.blocks)


def _weight_bytes(row: Cells) -> float:
    given = number_in(row, "weight_bytes_per_param") or number_in(row, "weight_bits") / 8
    if given:
        return given + (QUANTISED_GROUP if given == 0.5 else 0.0)
    text = row.get("dtype") or row.get("weight_dtype") or row.get("precision") or ""
    if "bfp4" in row.get("weights", ""):
        return 0.7  # matrices of the MLP have 4 bits, those of attention 8 bits
    return 1.0 if "8" in text.replace("16", "") else 2.0


def _activation_bits(row: Cells) -> int:
    """The bits of an element of the activations: 8 for models of FP8 and W8A8, otherwise 16, also for models in which only the
    weights are quantised."""
    text = (row.get("dtype") or row.get("precision") or "").lower()
    return 8 if "fp8" in text or "a8" in text or number_in(row, "weight_bytes_per_param") == 1 else 16


def _cache_bytes(row: Cells) -> float:
    """The bytes of an element of the KV cache. FP8 models store it in 8 bits; models in which only the weights are quantised do
    not."""
    text = row.get("dtype") or row.get("precision") or ""
    return 1.0 if "fp8" in text.lower() or number_in(row, "weight_bytes_per_param") == 1 else 2.0


def _widths(row: Cells) -> Widths:
    return Widths(_weight_bytes(row), _cache_bytes(row), _activation_bits(row))


def decode_rate(row: Cells, context: Context) -> Case:
    model, batch = _model(row), whole_in(row, "batch") or 1
    tp = whole_in(row, "gpus") or whole_in(row, "chips") or 1
    cached = whole_in(row, "prompt_tokens") + 100 if row.get("prompt_tokens") else 128
    widths = Widths(_weight_bytes(row), activation_bits=_activation_bits(row))

    def rate(timer: OperationTimer) -> float:
        return batch * 1e9 / decode_ns(timer, model, batch, cached, tp=tp, widths=widths)

    return case_by_roofline(row, context, rate, rate=True)


def static_batch(row: Cells, context: Context) -> Case:
    model, widths = _model(row), _widths(row)
    batch = whole_in(row, "batch") or whole_in(row, "concurrency") or 1
    tp = whole_in(row, "tp") or whole_in(row, "chips") or 1
    copies, sequences = 1, batch  # one host serves the requests of all chips
    if _has_one_kv_head(model) and not row.get("tp"):  # with one KV head, each chip serves its own requests
        copies, tp, batch = tp, 1, max(1, batch // tp)
    room = whole_in(row, "cache_length")
    before = whole_in(row, "input_tokens") or whole_in(row, "max_input") // 4
    made = whole_in(row, "output_tokens") or whole_in(row, "max_output") // 4
    each = whole_in(row, "tp") or 1 if "a GPU" in row.get("unit", "") else 1

    def rate(timer: OperationTimer) -> float:
        at_once = max(1, min(batch, MAX_PREFILL // max(1, before)))
        waiting = batch
        if timer.runtime.prefill_alone:
            at_once, waiting = 1, sequences
        first = prefill_ns(timer, model, at_once, before, tp=tp, widths=widths) * waiting / at_once
        token = decode_ns(timer, model, batch, before + made // 2, tp=tp, room=room, sequences=sequences, widths=widths)
        return copies * batch * made * 1e9 / (first + made * token) / each

    return case_by_roofline(row, context, rate, rate=True)


def first_token(row: Cells, context: Context) -> Case:
    model, widths = _model(row), _widths(row)
    tokens, batch, tp = whole_in(row, "input_tokens"), whole_in(row, "batch") or 1, whole_in(row, "tp") or 1

    def first(timer: OperationTimer) -> float:
        return prefill_ns(timer, model, batch, tokens, tp=tp, widths=widths) / 1e6

    return case_by_roofline(row, context, first, rate=False)


def token_time(row: Cells, context: Context) -> Case:
    model, widths = _model(row), Widths(_weight_bytes(row))
    shards = whole_in(row, "tp") or whole_in(row, "chips") or 1
    batch, tp = whole_in(row, "batch") or 1, whole_in(row, "chips") or shards
    before, made = whole_in(row, "input_tokens"), whole_in(row, "output_tokens")

    def token(timer: OperationTimer) -> float:
        return decode_ns(
            timer, model, batch, before + made // 2, tp=tp, room=before + made, shards=max(tp, shards), widths=widths
        ) / 1e6  # fmt: skip

    return case_by_roofline(row, context, token, rate=False)


def model_row(row: Cells, context: Context) -> Case | None:
    """A row of a whole model in a table of an unknown source: its unit and its phase say what was measured."""
    unit, phase = (row.get("unit") or "").lower(), (row.get("phase") or row.get("op") or "").lower()
    if re.search("sample|frame|image|inference", unit):
        return network_rate(row, context)
    first = any(word in f"{phase} {unit}" for word in ("prefill", "first", "ttft", "prompt"))
    later = any(word in f"{phase} {unit}" for word in ("decode", "tpot", "itl", "per output token", "per token"))
    per_us = next((UNITS[one] for one in UNITS if re.match(rf"{one}\b", unit)), 0.0)
    if re.search(r"tok\w*\s*(/|per)\s*s", unit):
        if not (first or later) and row.get("output_tokens"):
            return static_batch(row, context)
        each = (whole_in(row, "batch") or 1) if "user" in unit else 1
    elif not per_us or not (first or later or row.get("output_tokens")):
        rule = "it must be tokens/s, or a time with prefill or decode in a column phase"
        raise ValueError(f"unit = {row.get('unit') or ''!r}, but {rule}")
    else:
        each = 0
    model, widths = _model(row), _widths(row)
    batch, tp = tokens_in(row, "batch") or 1, whole_in(row, "tp") or whole_in(row, "gpus") or whole_in(row, "chips") or 1
    before = tokens_in(row, "input_tokens") or tokens_in(row, "prompt_tokens")
    made = tokens_in(row, "output_tokens") or 1
    if not before:
        raise ValueError("input_tokens = nothing, but the tokens of a prompt must be given")

    def ns(timer: OperationTimer) -> float:
        token = 0.0 if first else decode_ns(timer, model, batch, before + made // 2, tp=tp, widths=widths)
        if later:
            return token
        return prefill_ns(timer, model, batch, before, tp=tp, widths=widths) + made * token

    tokens = batch * (before if first else 1)
    if each:
        return case_by_roofline(row, context, lambda timer: tokens * 1e9 / ns(timer) / each, rate=True)
    return case_by_roofline(row, context, lambda timer: ns(timer) / 1e3 * per_us, rate=False)


def _active_share(row: Cells) -> float:
    """For a mixture of experts, the share of the parameters that a token uses: 0.57 of 3 billion for `3B(A570M)`."""
    found = re.match(r"([0-9.]+)([BM])\(A([0-9.]+)([BM])\)", row.get("size") or "")
    if found is None:
        return 1.0
    unit = {"B": 1e3, "M": 1.0}
    return min(1.0, float(found[3]) * unit[found[4]] / (float(found[1]) * unit[found[2]]))


def stream_rate(row: Cells, context: Context) -> Case:
    weights = int(number_in(row, "memory_mb") * 1e3 * _active_share(row))
    op = Product(1, 1000, max(1, weights), right_bytes=1.0, bits=8)
    return case_by_roofline(row, context, lambda timer: 1e9 / (timer.time(op).ns + float(timer.runtime.step_ns)), rate=True)


def _network_ns(row: Cells, context: Context) -> Callable[[OperationTimer], float] | None:
    """The time of a batch through the network of a row; if the layers are not known, the time of a product with as many
    multiply-adds."""
    net, batch = network_of(row.get("model") or row.get("task") or ""), whole_in(row, "batch") or 1
    size = 1.0625 if context.section.kind == "tensix" else 1.0  # block floats of 8 bits share exponents
    gmacs = number_in(row, "gmacs")
    if net is None and not gmacs:
        return None
    side = 1024
    op = Product(side, side, max(1, int(batch * gmacs * 1e9 / (side * side))), 1.0, 1.0, 1.0, bits=8)

    def took(timer: OperationTimer) -> float:
        some = timer.one_core() if "single_core" in context.table else timer
        if net is None:
            return some.time(op).ns + float(some.runtime.step_ns)
        return network_ns(some, net, batch, element=size, weight=size)

    return took


def network_rate(row: Cells, context: Context) -> Case | None:
    took = _network_ns(row, context)
    if took is None:
        return None
    batch = whole_in(row, "batch") or 1
    return case_by_roofline(row, context, lambda timer: batch * 1e9 / took(timer), rate=True)


def network_cycles(row: Cells, context: Context) -> Case | None:
    took = _network_ns(row, context)
    if took is None:
        return None
    return case_by_roofline(row, context, lambda timer: took(timer) * timer.view.freq, rate=False)
