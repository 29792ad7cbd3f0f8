"""Softmax, and norms over features, groups and batches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, Maker, Names, Rule, rule


def _softmax_as(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        at.node(op, a["self"], out=out, axis=int(a["dim"]))

    return translate


RULES["_softmax"], RULES["_log_softmax"] = _softmax_as("Softmax"), _softmax_as("LogSoftmax")


def _gain(at: Maker, given: str | None, shape: Sequence[int], default: float) -> str:
    return given if given is not None else at.constant(np.full(shape, default), "float32")


@rule("native_layer_norm")
def _layer_norm(at: Maker, a: dict[str, Any], out: Names) -> None:
    shape = a["normalized_shape"]
    gain, shift = _gain(at, a["weight"], shape, 1), a["bias"]
    inputs = [a["input"], gain] + ([shift] if shift is not None else [])
    at.node("LayerNormalization", *inputs, out=out, axis=-len(shape), epsilon=float(a["eps"]))


@rule("rms_norm", "_fused_rms_norm")
def _rms_norm(at: Maker, a: dict[str, Any], out: Names) -> None:
    shape = a["normalized_shape"]
    gain, eps = _gain(at, a.get("weight"), shape, 1), a.get("eps")
    at.node("RMSNormalization", a["input"], gain, out=out, axis=-len(shape), epsilon=float(1.2e-7 if eps is None else eps))


@rule("native_group_norm")
def _group_norm(at: Maker, a: dict[str, Any], out: Names) -> None:
    channels, groups = [a["C"]], int(a["group"])
    inputs = (a["input"], _gain(at, a["weight"], channels, 1), _gain(at, a["bias"], channels, 0))
    at.node("GroupNormalization", *inputs, out=out, num_groups=groups, epsilon=float(a["eps"]))


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(at: Maker, a: dict[str, Any], out: Names) -> None:
    channels = [at.shape(a["input"])[1]]
    gain, shift = _gain(at, a["weight"], channels, 1), _gain(at, a["bias"], channels, 0)
    inputs = (a["input"], gain, shift, a["running_mean"], a["running_var"])
    at.node("BatchNormalization", *inputs, out=out[:1], epsilon=float(a["eps"]))


@rule("_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def _batch_statistics(at: Maker, a: dict[str, Any], out: Names) -> None:
    """With the mean and variance of the batch itself, as in training; the running ones are made of old and new ones."""
    x, shape = a["input"], at.shape(a["input"])
    if not a["training"]:
        _batch_norm(at, a, out)
        return
    axes, row = [axis for axis in range(len(shape)) if axis != 1], [shape[1], *(1 for _ in shape[2:])]
    mean = nodes.reduce(at, "ReduceMean", x, axes, True)
    centred = at.node("Sub", x, mean)
    variance = nodes.reduce(at, "ReduceMean", at.node("Mul", centred, centred), axes, True)
    root = at.node("Sqrt", at.node("Add", variance, at.constant(float(a["eps"]), "float32")))
    inverse = at.node("Reciprocal", root)
    for name, value in zip(out[1:3], (mean, inverse), strict=True):
        if name:
            nodes.reshape(at, value, [shape[1]], [name])
    count, momentum = prod(shape) // shape[1], float(a.get("momentum", 0))
    unbiased = count / max(1, count - 1)
    running = (("running_mean", mean, 1.0), ("running_var", variance, unbiased))
    for name, (old, new, factor) in zip(out[3:], running, strict=False):
        if name:
            kept = at.node("Mul", a[old], at.constant(1 - momentum, "float32"))
            added = at.node("Mul", nodes.reshape(at, new, [shape[1]]), at.constant(momentum * factor, "float32"))
            at.node("Add", kept, added, out=[name])
    normed = at.node("Mul", centred, inverse)
    gain, shift = _gain(at, a["weight"], [shape[1]], 1), _gain(at, a["bias"], [shape[1]], 0)
    at.node("Add", at.node("Mul", normed, nodes.reshape(at, gain, row)), nodes.reshape(at, shift, row), out=out[:1])
