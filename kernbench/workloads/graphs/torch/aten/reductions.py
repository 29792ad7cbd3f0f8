"""Reductions, scans and sorts along dimensions."""

from __future__ import annotations

from math import prod
from typing import Any

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, Maker, Names, Rule, rule


def _reduction(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        axes = nodes.axes_of(a.get("dim"), len(at.shape(a["self"])))
        nodes.reduce(at, op, a["self"], axes, bool(a.get("keepdim", False)), out)

    return translate


RULES.update({"sum": _reduction("ReduceSum"), "mean": _reduction("ReduceMean"), "prod": _reduction("ReduceProd")})
RULES.update({"amax": _reduction("ReduceMax"), "amin": _reduction("ReduceMin"), "any": _reduction("ReduceMax")})


@rule("var")
def _var(at: Maker, a: dict[str, Any], out: Names) -> None:
    x = a["self"]
    axes = nodes.axes_of(a.get("dim"), len(at.shape(x)))
    count = prod(at.shape(x)[axis] for axis in axes)
    correction = a.get("correction")
    less = (1 if a.get("unbiased", True) else 0) if correction is None else correction
    centred = at.node("Sub", x, nodes.reduce(at, "ReduceMean", x, axes, True))
    squared = at.node("Mul", centred, centred)
    mean = nodes.reduce(at, "ReduceMean", squared, axes, bool(a.get("keepdim", False)))
    at.node("Mul", mean, at.constant(count / max(count - less, 1), "float32"), out=out)


def _largest_at(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, axis = a["self"], a.get("dim")
        if axis is None:
            x, axis = nodes.reshape(at, x, [prod(at.shape(x))]), 0
        at.node(op, x, out=out, axis=int(axis), keepdims=int(bool(a.get("keepdim", False))))

    return translate


RULES["argmax"], RULES["argmin"] = _largest_at("ArgMax"), _largest_at("ArgMin")


def _largest(reduce: str, single: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, keep = a["self"], bool(a.get("keepdim", False))
        axes = nodes.axes_of(a["dim"], len(at.shape(x)))
        if out[0]:
            nodes.reduce(at, reduce, x, axes, keep, out[0])
        if out[1]:
            at.node(single, x, out=out[1], axis=axes[0], keepdims=int(keep))

    return translate


RULES["max.dim"], RULES["min.dim"] = _largest("ReduceMax", "ArgMax"), _largest("ReduceMin", "ArgMin")


@rule("cumsum")
def _cumsum(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("CumSum", a["self"], at.constant(a["dim"]), out=out)


@rule("topk", "sort")
def _top(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a.get("dim", -1) % max(len(at.shape(a["self"])), 1)
    count = a.get("k", at.shape(a["self"])[axis] if at.shape(a["self"]) else 1)
    largest = int(a.get("largest", True)) if "k" in a else int(bool(a.get("descending", False)))
    at.node("TopK", a["self"], nodes.integers(at, [count]), out=out, axis=axis, largest=largest, sorted=1)
