"""Elementwise operators: arithmetic, comparisons, functions and activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, Maker, Names, Rule, rule

UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "isinf": "IsInf",
    "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu",
    "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan",
    "tanh": "Tanh",
}  # fmt: skip
BINARY = {
    "mul": "Mul", "maximum": "Max", "minimum": "Min", "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "atan2": "Atan2", "pow": "Pow",
}  # fmt: skip


def _unary(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        at.node(op, a["self"], out=out)

    return translate


def _binary(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x = nodes.number(at, a["self"], a.get("other", a.get("exponent")))
        at.node(op, x, nodes.number(at, _other(a), a["self"]), out=out)

    return translate


def _other(a: dict[str, Any]) -> Any:
    return a["other"] if "other" in a else a["exponent"]


RULES.update({name: _unary(op) for name, op in UNARY.items()})
RULES.update({name: _binary(op) for name, op in BINARY.items()})


def _sum(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, y, factor = a["self"], nodes.number(at, a["other"], a["self"]), a.get("alpha", 1)
        if factor != 1:
            y = at.node("Mul", y, nodes.number(at, factor, y), kind=at.kind(y))
        at.node(op, x, y, out=out)

    return translate


RULES["add"], RULES["sub"] = _sum("Add"), _sum("Sub")


@rule("div")
def _div(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y, mode = a["self"], nodes.number(at, a["other"], a["self"]), a.get("rounding_mode")
    if mode is None:
        at.node("Div", x, y, out=out)
        return
    ratio = at.node("Div", x, y)
    if mode == "floor":
        at.node("Floor", ratio, out=out)
    else:
        _towards_zero(at, ratio, out)


@rule("trunc")
def _trunc(at: Maker, a: dict[str, Any], out: Names) -> None:
    _towards_zero(at, a["self"], out)


def _towards_zero(at: Maker, x: str, out: Names) -> None:
    at.node("Mul", at.node("Sign", x), at.node("Floor", at.node("Abs", x)), out=out)


@rule("fmod")
def _fmod(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Mod", a["self"], nodes.number(at, a["other"], a["self"]), out=out, fmod=1)


@rule("remainder")
def _remainder(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y = nodes.number(at, a["self"], a["other"]), nodes.number(at, a["other"], a["self"])
    if not at.kind(x).startswith("float"):
        at.node("Mod", x, y, out=out, fmod=0)
        return
    whole = at.node("Floor", at.node("Div", x, y))
    at.node("Sub", x, at.node("Mul", whole, y), out=out)


@rule("ne")
def _ne(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Not", at.node("Equal", a["self"], nodes.number(at, a["other"], a["self"]), kind="bool"), out=out)


def _bits(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, y = a["self"], nodes.number(at, a["other"], a["self"])
        at.node(op if at.kind(x) == "bool" else f"Bitwise{op}", x, y, out=out)

    return translate


RULES.update({f"bitwise_{op.lower()}": _bits(op) for op in ("And", "Or", "Xor")})


@rule("bitwise_not")
def _invert(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Not" if at.kind(a["self"]) == "bool" else "BitwiseNot", a["self"], out=out)


@rule("rsqrt")
def _rsqrt(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Reciprocal", at.node("Sqrt", a["self"]), out=out)


@rule("log1p")
def _log1p(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Log", at.node("Add", a["self"], at.constant(1, "float32")), out=out)


@rule("expm1")
def _expm1(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Sub", at.node("Exp", a["self"]), at.constant(1, "float32"), out=out)


def _logarithm(base: float) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        at.node("Mul", at.node("Log", a["self"]), at.constant(1 / np.log(base), "float32"), out=out)

    return translate


RULES["log2"], RULES["log10"] = _logarithm(2), _logarithm(10)


@rule("gelu")
def _gelu(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Gelu", a["self"], out=out, approximate=a.get("approximate", "none"))


@rule("elu")
def _elu(at: Maker, a: dict[str, Any], out: Names) -> None:
    alpha, scale, inner = (float(a.get(name, 1)) for name in ("alpha", "scale", "input_scale"))
    x = a["self"] if inner == 1 else at.node("Mul", a["self"], at.constant(inner, "float32"))
    if scale == 1:
        at.node("Elu", x, out=out, alpha=alpha)
    else:
        at.node("Mul", at.node("Elu", x, alpha=alpha), at.constant(scale, "float32"), out=out)


@rule("leaky_relu")
def _leaky(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("LeakyRelu", a["self"], out=out, alpha=float(a.get("negative_slope", 0.01)))


@rule("hardtanh")
def _hardtanh(at: Maker, a: dict[str, Any], out: Names) -> None:
    limits = [nodes.number(at, a.get(name, default), a["self"]) for name, default in (("min_val", -1), ("max_val", 1))]
    at.node("Clip", a["self"], *limits, out=out)


@rule("clamp")
def _clamp(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, limits = a["self"], [("Max", a.get("min")), ("Min", a.get("max"))]
    if not any(isinstance(limit, str) for _, limit in limits):
        at.node("Clip", x, *("" if limit is None else nodes.number(at, limit, x) for _, limit in limits), out=out)
        return
    given = [(op, nodes.number(at, limit, x)) for op, limit in limits if limit is not None]
    for number, (op, limit) in enumerate(given):
        x = at.node(op, x, limit, out=out if number == len(given) - 1 else "")


@rule("where")
def _where(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y = nodes.number(at, a["self"], a["other"]), nodes.number(at, a["other"], a["self"])
    at.node("Where", a["condition"], x, y, out=out)
