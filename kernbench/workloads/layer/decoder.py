"""Command queues of transformer layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError, InternalError, Problem
from kernbench.config.schema import NpuConfig
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.attention import attention
from kernbench.workloads.layer.layer import Layer
from kernbench.workloads.layer.projections import PartialRows, feed_forward, in_turn, output_projection
from kernbench.workloads.models import ModelShape
from kernbench.workloads.planner import plan_layer

Phase = Literal["decode", "prefill"]
_DEFAULTS = {"decode": (1024, 1), "prefill": (0, 128)}  # context and new tokens


def decoder_layer(
    model: ModelShape,
    config: NpuConfig,
    phase: Phase = "decode",
    context: int | None = None,
    tokens: int | None = None,
    layer_id: int = 0,
) -> Program:
    """One decoder layer as a command queue for this machine, from the layer's input in DRAM to its output there.

    `context` tokens are in the KV cache and `tokens` new ones follow: by default 1024 and 1 for decode, 0 and 128 for
    prefill; the phases differ in nothing else. The program loads every weight once per token block (once at all where
    the scratchpad has room for the tokens, which one token always has), the gains of both norms, the RoPE rows of the
    new tokens, the input and the K and V of the context; it stores the new K and V and the output.
    InputError if the model's tiles do not fit the scratchpad, the DRAM is too small or has no fitting KV layout.
    """
    if phase not in _DEFAULTS:
        raise InputError(Problem("decoder_layer", f"it must be one of {', '.join(_DEFAULTS)}", "phase", phase))
    context = _DEFAULTS[phase][0] if context is None else context
    tokens = _DEFAULTS[phase][1] if tokens is None else tokens
    for name, value, low in (("context", context, 0), ("tokens", tokens, 1), ("layer_id", layer_id, 0)):
        if type(value) is not int or value < low:
            raise InputError(Problem("decoder_layer", f"it must be an integer of at least {low}", name, value))
    plan = plan_layer(model, config, tokens, context)
    common = {
        "layer_id": layer_id,
        "seq_len": context + tokens,
        "precision": model.precision,
        "model_name": model.name,
    }
    name = f"{model.name} layer {layer_id}, {phase} of {tokens} token{'s' * (tokens > 1)} after {context}"
    layer = Layer(model, config, plan, Emitter(name, config, common))
    for _ in emit_layer(layer):
        raise InternalError(f"{model.name} is a shard, and there is no other")
    return layer.emit.end()


def emit_layer(layer: Layer) -> Iterator[PartialRows]:
    """Emit all stages of a layer, from its input in DRAM to its output in DRAM. On a shard, yield where shards must exchange
    data."""
    _load_input(layer)
    if layer.plan.in_turn:
        yield from in_turn(layer)
        return
    attention(layer)
    yield from output_projection(layer)
    yield from feed_forward(layer)


def _load_input(layer: Layer) -> None:
    """Loads gains and biases, and the layer's input where it stays in the scratchpad."""
    layer.load_gain("gain_attention")
    if "residual" in layer.plan.resident:
        tokens = layer.plan.tokens
        x, at = layer.dram.activations["x"], layer.buffer("residual")
        layer.load_block(x, "activation", 0, tokens, at, phase="LAYER_INPUT", token_idx=layer.plan.context)
    layer.load_gain("gain_mlp")
    for name in layer.dram.gains:
        if name not in ("gain_attention", "gain_mlp"):
            layer.load_gain(name)
