"""Rows of tables of whole models: steps, tokens per second, and inferences of networks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernbench.analysis.chips.cases import Case, Context, case_by_roofline
from kernbench.analysis.chips.cells import Cells, at_least_1, kv_heads_of, number_in, tokens_in, whole_in
from kernbench.analysis.chips.figures import Figure, figure_of, weight_bits
from kernbench.workloads.models.parts import Attention as AttentionPart
from kernbench.workloads.models.parts import Description
from kernbench.workloads.ops.blocks import Widths
from kernbench.workloads.ops.decoder import DecoderShape, description_of
from kernbench.workloads.ops.networks import network_of, task_network
from kernbench.workloads.ops.operation import Product
from kernbench.workloads.ops.step import decode_ns, network_ns, prefill_ns
from kernbench.workloads.ops.timing import OperationTimer

MAX_PREFILL = 2048  #: tokens of a prefill step
MAX_LAYERS = 1000  #: of a model that columns describe
BFP8_BYTES = 1.0625  #: [byte] of a block float of 8 bits, of which 16 share an exponent
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
    if "bfp4" in row.get("weights", ""):
        return 0.7  # matrices of the MLP have 4 bits, those of attention 8 bits
    if "bfp8" in row.get("weights", ""):
        return BFP8_BYTES
    bits = weight_bits(_type_text(row)) or weight_bits(row.get("model") or "", name=True) or 16
    return bits / 8 + (QUANTISED_GROUP if bits == 4 else 0.0)


def _type_text(row: Cells) -> str:
    return (row.get("dtype") or row.get("weight_dtype") or row.get("precision") or row.get("quantization") or "").lower()


def _activation_bits(row: Cells) -> int:
    """The bits of an element of the activations: 8 for models of FP8 and W8A8, otherwise 16, also for models in which only the
    weights are quantised."""
    text = _type_text(row)
    floats = re.search(r"fp[48]|float[48]|\bf8|e4m3|e5m2", text) is not None
    weights_alone = "a16" in text or bool(row.get("weight_dtype"))
    return 8 if "a8" in text or (floats and not weights_alone) or number_in(row, "weight_bytes_per_param") == 1 else 16


def _cache_bytes(row: Cells) -> float:
    """The bytes of an element of the KV cache. FP8 models store it in 8 bits; models in which only the weights are quantised do
    not."""
    given = row.get("kv_dtype") or row.get("kv_cache_dtype") or row.get("kv_bits") or ""
    if bits := weight_bits(given):
        return bits / 8
    return 1.0 if "fp8" in _type_text(row) or number_in(row, "weight_bytes_per_param") == 1 else 2.0


def _widths(row: Cells) -> Widths:
    return Widths(_weight_bytes(row), _cache_bytes(row), _activation_bits(row))


def _figure(row: Cells, default: str) -> Figure:
    """What the unit of a row says; `default`: the unit of rows without one."""
    found = figure_of(row.get("unit") or default)
    if found is None:
        known = "tokens/s, tokens/s/GPU, tokens/s per user, samples/s, requests/s, or a time, such as ms"
        raise ValueError(f"unit = {row['unit']!r}, but it must be one of {known}")
    return found


def _timed(
    row: Cells, context: Context, figure: Figure, ns: Callable[[OperationTimer], float], **amounts: Any
) -> Case:  # fmt: skip
    """A row whose figure follows from a time; `amounts`: those of `Figure.value`."""
    return case_by_roofline(row, context, lambda timer: figure.value(ns(timer), **amounts), rate=figure.rate)


def decode_rate(row: Cells, context: Context) -> Case:
    model, batch = _model(row), whole_in(row, "batch") or 1
    tp = whole_in(row, "gpus") or whole_in(row, "chips") or 1
    cached = whole_in(row, "prompt_tokens") + 100 if row.get("prompt_tokens") else 128
    widths = Widths(_weight_bytes(row), activation_bits=_activation_bits(row))

    def ns(timer: OperationTimer) -> float:
        return decode_ns(timer, model, batch, cached, tp=tp, widths=widths)

    return _timed(row, context, _figure(row, "tok/s"), ns, sequences=batch, chips=tp)


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
    figure = _figure(row, "tok/s")
    if not made and (figure.token or (figure.rate and figure.what == "tokens")):
        raise ValueError("output_tokens = nothing, but the tokens of an answer must be given")

    def ns(timer: OperationTimer) -> float:
        at_once = max(1, min(batch, MAX_PREFILL // max(1, before)))
        waiting = batch
        if timer.runtime.prefill_alone:
            at_once, waiting = 1, sequences
        first = prefill_ns(timer, model, at_once, before, tp=tp, widths=widths) * waiting / at_once
        token = decode_ns(timer, model, batch, before + made // 2, tp=tp, room=room, sequences=sequences, widths=widths)
        return first + made * token

    return _timed(row, context, figure, ns, made=made, sequences=copies * batch, chips=copies * tp)


def first_token(row: Cells, context: Context) -> Case:
    model, widths = _model(row), _widths(row)
    tokens, batch, tp = whole_in(row, "input_tokens"), whole_in(row, "batch") or 1, whole_in(row, "tp") or 1

    def ns(timer: OperationTimer) -> float:
        return prefill_ns(timer, model, batch, tokens, tp=tp, widths=widths)

    figure = replace(_figure(row, "ms"), token=False)  # the first token of a prompt
    return _timed(row, context, figure, ns, made=tokens, sequences=batch, chips=tp)


def token_time(row: Cells, context: Context) -> Case:
    model, widths = _model(row), Widths(_weight_bytes(row))
    shards = whole_in(row, "tp") or whole_in(row, "chips") or 1
    batch, tp = whole_in(row, "batch") or 1, whole_in(row, "chips") or shards
    before, made = whole_in(row, "input_tokens"), whole_in(row, "output_tokens")

    def ns(timer: OperationTimer) -> float:
        return decode_ns(
            timer, model, batch, before + made // 2, tp=tp, room=before + made, shards=max(tp, shards), widths=widths
        )

    return _timed(row, context, _figure(row, "ms"), ns, sequences=batch, chips=tp)


def model_row(row: Cells, context: Context) -> Case | None:
    """A row of a whole model in a table of an unknown source: its unit and its phase say what was measured."""
    unit, phase = (row.get("unit") or "").lower(), (row.get("phase") or row.get("op") or "").lower()
    figure = figure_of(unit)
    if figure is not None and figure.rate and figure.what == "samples":
        return network_rate(row, context)
    first = any(word in f"{phase} {unit}" for word in ("prefill", "first", "ttft", "prompt"))
    later = any(word in f"{phase} {unit}" for word in ("decode", "tpot", "itl")) or (figure is not None and figure.token)
    if figure is None or not (figure.rate or first or later or row.get("output_tokens")):
        rule = "it must be tokens/s, or a time with prefill or decode in a column phase"
        raise ValueError(f"unit = {row.get('unit') or ''!r}, but {rule}")
    if figure.rate and not (first or later) and row.get("output_tokens"):
        return static_batch(row, context)
    if figure.rate and figure.what == "tokens" and not (first or later):
        raise ValueError("output_tokens = nothing, but it must be given, or prefill or decode in a column phase")
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

    figure = replace(figure, token=False)  # the time of a step is that of a token of each sequence
    return _timed(row, context, figure, ns, made=before if first else 1, sequences=batch, chips=tp)


def _active_share(row: Cells) -> float:
    """For a mixture of experts, the share of the parameters that a token uses: 0.57 of 3 billion for `3B(A570M)`."""
    found = re.match(r"([0-9.]+)([BM])\(A([0-9.]+)([BM])\)", row.get("size") or "")
    if found is None:
        return 1.0
    unit = {"B": 1e3, "M": 1.0}
    return min(1.0, float(found[3]) * unit[found[4]] / (float(found[1]) * unit[found[2]]))


def _parameters(row: Cells) -> float:
    """The number of parameters in the column `size`: `1.5B`, `360M`; 0 if it has none."""
    found = re.match(r"([0-9.]+)\s*([BM])\b", (row.get("size") or "").upper())
    return float(found[1]) * {"B": 1e9, "M": 1e6}[found[2]] if found else 0.0


def stream_rate(row: Cells, context: Context) -> Case:
    megabytes = number_in(row, "memory_mb") or _parameters(row) * _weight_bytes(row) / 1e6
    if not megabytes:
        raise ValueError("memory_mb = nothing, but the memory, or the number of parameters in a column size, must be given")
    weights = int(megabytes * 1e3 * _active_share(row))
    op = Product(1, 1000, max(1, weights), right_bytes=1.0, bits=8)
    return _timed(row, context, _figure(row, "tok/s"), lambda timer: timer.time(op).ns + float(timer.runtime.step_ns))


def _network_ns(row: Cells, context: Context) -> Callable[[OperationTimer], float] | None:
    """The time of a batch through the network of a row; if the layers are not known, the time of a product with as many
    multiply-adds."""
    net = network_of(row.get("model") or "") or task_network(row.get("task") or row.get("use_case") or "")
    batch = whole_in(row, "batch") or 1
    size = 1.0625 if context.section.kind == "tensix" else 1.0  # block floats of 8 bits share exponents
    gmacs = number_in(row, "gmacs") or number_in(row, "macs") / 1e9
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
    figure = _figure(row, "samples/s")
    return _timed(row, context, figure, took, sequences=whole_in(row, "batch") or 1)


def network_cycles(row: Cells, context: Context) -> Case | None:
    took = _network_ns(row, context)
    if took is None:
        return None
    return case_by_roofline(row, context, lambda timer: took(timer) * timer.view.freq, rate=False)
