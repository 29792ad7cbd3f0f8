"""The core operators of ATen in the operators of a graph: one rule each, or a refusal by name.

Each rule is given the arguments of an operator by their names in its schema, and makes nodes whose last ones write the outputs.
Operators that a graph does not have are written out in others: a variance is two means, a difference and a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

Names = Sequence[str]
Rule = Callable[["Maker", dict[str, Any], Names], None]
RULES: dict[str, Rule] = {}  #: by the operator's name without `aten.`: of one overload, or of all
_GRADIENT = "it computes a gradient, and only inference is lowered"
_RANDOM = "it makes random numbers, and no engine has a generator"
_UNBOUNDED = "the size of its result depends on values"
_SPECTRUM = "its elements are complex numbers, and no engine has them"
_FAST_PATH = "it hides the operators of a layer; torch.backends.mha.set_fastpath_enabled(False) shows them"
_CONTROL = "which branch or how many iterations run depends on values; export a module with a fixed choice"
_VIEW_OF_NUMBERS = "it reads a number that depends on values"
#: Operators that are not lowered, and why.
REFUSED: dict[str, str] = {
    **dict.fromkeys((
        "_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "convolution_backward", "embedding_dense_backward",
        "max_pool2d_with_indices_backward", "native_group_norm_backward", "native_layer_norm_backward",
    ), _GRADIENT),
    **dict.fromkeys(("rand", "randn", "randperm"), _RANDOM),
    **dict.fromkeys(("nonzero", "masked_scatter"), _UNBOUNDED),
    **dict.fromkeys(("_fft_c2r", "_fft_r2c"), _SPECTRUM),
    **dict.fromkeys(("cond", "while_loop"), _CONTROL),
    **dict.fromkeys(("_local_scalar_dense", "sym_storage_offset", "sym_stride"), _VIEW_OF_NUMBERS),
    **dict.fromkeys(("_transformer_encoder_layer_fwd", "_native_multi_head_attention"), _FAST_PATH),
    "_cdist_forward": "there is no lowering of distances between all pairs of rows",
    "_pdist_forward": "there is no lowering of distances between all pairs of rows",
    "_embedding_bag": "the bags that its offsets make have no fixed length",
}  # fmt: skip


class CannotTranslate(Exception):
    """An operator, or this use of it, has no translation; the text says why."""


class Maker(Protocol):
    """A graph in the making, as rules see it. A tensor argument is its name."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""

    def kind(self, name: str) -> str:
        """The numpy name of a tensor's elements."""

    def constant(self, value: Any, kind: str = "int64") -> str:
        """A tensor of known values."""

    def value(self, name: str) -> np.ndarray[Any, Any] | None:
        """The values of a tensor, where they are known."""

    def node(
        self,
        op: str,
        *inputs: str,
        out: str | Names = "",
        shape: Sequence[int] | None = None,
        kind: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """A node; its first output. Of an output without a name: `shape`, by default that of all inputs together."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a function as the lowering rule of operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """The rule of an operator, by `aten.add.Tensor`; None if there is none."""
    bare = name.removeprefix("aten.")
    return RULES.get(bare) or RULES.get(bare.rpartition(".")[0])


def refusal_of(name: str) -> str:
    """Why an operator is refused; empty if it is not."""
    bare = name.removeprefix("aten.")
    return REFUSED.get(bare) or REFUSED.get(bare.rpartition(".")[0], "")


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
        at.node(op, _number(at, a["self"], a.get("other", a.get("exponent"))), _number(at, _other(a), a["self"]), out=out)

    return translate


def _other(a: dict[str, Any]) -> Any:
    return a["other"] if "other" in a else a["exponent"]


RULES.update({name: _unary(op) for name, op in UNARY.items()})
RULES.update({name: _binary(op) for name, op in BINARY.items()})


def _number(at: Maker, value: Any, beside: Any = None) -> str:
    """A tensor, or a number as a tensor of the kind of the one beside it."""
    if isinstance(value, str):
        return value
    kind = at.kind(beside) if isinstance(beside, str) else "float32"
    if isinstance(value, float) and not kind.startswith("float"):
        kind = "float32"
    return at.constant(value, kind)


def _axes(values: Any, rank: int) -> list[int]:
    """Dimensions counted from 0; all of them if none is given."""
    if values is None or (isinstance(values, (list, tuple)) and not values):
        return list(range(rank))
    return [axis % max(rank, 1) for axis in (values if isinstance(values, (list, tuple)) else [values])]


def _as_integers(at: Maker, values: Sequence[int]) -> str:
    return at.constant(list(values))


def _reshape(at: Maker, x: str, shape: Sequence[int], out: str | Names = "") -> str:
    return at.node("Reshape", x, _as_integers(at, shape), out=out, shape=shape, kind=at.kind(x))


def _transpose(at: Maker, x: str, order: Sequence[int], out: str | Names = "") -> str:
    shape = [at.shape(x)[axis] for axis in order]
    return at.node("Transpose", x, out=out, shape=shape, perm=list(order))


def _slice(at: Maker, x: str, axis: int, first: int, last: int, step: int = 1, out: str | Names = "") -> str:
    shape = list(at.shape(x))
    shape[axis] = len(range(shape[axis])[first:last:step])
    ends = [_as_integers(at, [number]) for number in (first, last, axis, step)]
    return at.node("Slice", x, *ends, out=out, shape=shape, kind=at.kind(x))


def _concat(at: Maker, parts: Sequence[str], axis: int, out: str | Names = "") -> str:
    shape = list(at.shape(parts[0]))
    shape[axis] = sum(at.shape(part)[axis] for part in parts)
    return at.node("Concat", *parts, out=out, shape=shape, axis=axis)


def _expand(at: Maker, x: str, shape: Sequence[int], out: str | Names = "") -> str:
    if tuple(shape) == at.shape(x) and not out:
        return x
    return at.node("Expand", x, _as_integers(at, shape), out=out, shape=shape, kind=at.kind(x))


def _reduce(at: Maker, op: str, x: str, axes: Sequence[int], keep: bool, out: str | Names = "") -> str:
    shape = [1 if axis in axes else size for axis, size in enumerate(at.shape(x)) if keep or axis not in axes]
    return at.node(op, x, _as_integers(at, axes), out=out, shape=shape, kind=at.kind(x), keepdims=int(keep))


# elementwise


def _sum(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, y, factor = a["self"], _number(at, a["other"], a["self"]), a.get("alpha", 1)
        if factor != 1:
            y = at.node("Mul", y, _number(at, factor, y), kind=at.kind(y))
        at.node(op, x, y, out=out)

    return translate


RULES["add"], RULES["sub"] = _sum("Add"), _sum("Sub")


@rule("div")
def _div(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y, mode = a["self"], _number(at, a["other"], a["self"]), a.get("rounding_mode")
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
    at.node("Mod", a["self"], _number(at, a["other"], a["self"]), out=out, fmod=1)


@rule("remainder")
def _remainder(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y = _number(at, a["self"], a["other"]), _number(at, a["other"], a["self"])
    if not at.kind(x).startswith("float"):
        at.node("Mod", x, y, out=out, fmod=0)
        return
    whole = at.node("Floor", at.node("Div", x, y))
    at.node("Sub", x, at.node("Mul", whole, y), out=out)


@rule("ne")
def _ne(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Not", at.node("Equal", a["self"], _number(at, a["other"], a["self"]), kind="bool"), out=out)


def _bits(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, y = a["self"], _number(at, a["other"], a["self"])
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
    limits = [_number(at, a.get(name, default), a["self"]) for name, default in (("min_val", -1), ("max_val", 1))]
    at.node("Clip", a["self"], *limits, out=out)


@rule("clamp")
def _clamp(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, limits = a["self"], [("Max", a.get("min")), ("Min", a.get("max"))]
    if not any(isinstance(limit, str) for _, limit in limits):
        at.node("Clip", x, *("" if limit is None else _number(at, limit, x) for _, limit in limits), out=out)
        return
    given = [(op, _number(at, limit, x)) for op, limit in limits if limit is not None]
    for number, (op, limit) in enumerate(given):
        x = at.node(op, x, limit, out=out if number == len(given) - 1 else "")


@rule("where")
def _where(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, y = _number(at, a["self"], a["other"]), _number(at, a["other"], a["self"])
    at.node("Where", a["condition"], x, y, out=out)


# reductions


def _reduction(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        _reduce(at, op, a["self"], _axes(a.get("dim"), len(at.shape(a["self"]))), bool(a.get("keepdim", False)), out)

    return translate


RULES.update({"sum": _reduction("ReduceSum"), "mean": _reduction("ReduceMean"), "prod": _reduction("ReduceProd")})
RULES.update({"amax": _reduction("ReduceMax"), "amin": _reduction("ReduceMin"), "any": _reduction("ReduceMax")})


@rule("var")
def _var(at: Maker, a: dict[str, Any], out: Names) -> None:
    x = a["self"]
    axes = _axes(a.get("dim"), len(at.shape(x)))
    count = prod(at.shape(x)[axis] for axis in axes)
    correction = a.get("correction")
    less = (1 if a.get("unbiased", True) else 0) if correction is None else correction
    centred = at.node("Sub", x, _reduce(at, "ReduceMean", x, axes, True))
    squared = at.node("Mul", centred, centred)
    mean = _reduce(at, "ReduceMean", squared, axes, bool(a.get("keepdim", False)))
    at.node("Mul", mean, at.constant(count / max(count - less, 1), "float32"), out=out)


def _largest_at(op: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, axis = a["self"], a.get("dim")
        if axis is None:
            x, axis = _reshape(at, x, [prod(at.shape(x))]), 0
        at.node(op, x, out=out, axis=int(axis), keepdims=int(bool(a.get("keepdim", False))))

    return translate


RULES["argmax"], RULES["argmin"] = _largest_at("ArgMax"), _largest_at("ArgMin")


def _largest(reduce: str, single: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        x, keep = a["self"], bool(a.get("keepdim", False))
        axes = _axes(a["dim"], len(at.shape(x)))
        if out[0]:
            _reduce(at, reduce, x, axes, keep, out[0])
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
    at.node("TopK", a["self"], _as_integers(at, [count]), out=out, axis=axis, largest=largest, sorted=1)


# norms and softmax


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
    mean = _reduce(at, "ReduceMean", x, axes, True)
    centred = at.node("Sub", x, mean)
    variance = _reduce(at, "ReduceMean", at.node("Mul", centred, centred), axes, True)
    root = at.node("Sqrt", at.node("Add", variance, at.constant(float(a["eps"]), "float32")))
    inverse = at.node("Reciprocal", root)
    for name, value in zip(out[1:3], (mean, inverse), strict=True):
        if name:
            _reshape(at, value, [shape[1]], [name])
    count, momentum = prod(shape) // shape[1], float(a.get("momentum", 0))
    unbiased = count / max(1, count - 1)
    running = (("running_mean", mean, 1.0), ("running_var", variance, unbiased))
    for name, (old, new, factor) in zip(out[3:], running, strict=False):
        if name:
            kept = at.node("Mul", a[old], at.constant(1 - momentum, "float32"))
            added = at.node("Mul", _reshape(at, new, [shape[1]]), at.constant(momentum * factor, "float32"))
            at.node("Add", kept, added, out=[name])
    normed = at.node("Mul", centred, inverse)
    gain, shift = _gain(at, a["weight"], [shape[1]], 1), _gain(at, a["bias"], [shape[1]], 0)
    at.node("Add", at.node("Mul", normed, _reshape(at, gain, row)), _reshape(at, shift, row), out=out[:1])


# products


@rule("mm", "bmm")
def _mm(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("MatMul", a["self"], a["mat2"], out=out)


@rule("addmm")
def _addmm(at: Maker, a: dict[str, Any], out: Names) -> None:
    alpha, beta = float(a.get("alpha", 1)), float(a.get("beta", 1))
    at.node("Gemm", a["mat1"], a["mat2"], a["self"], out=out, alpha=alpha, beta=beta)


@rule("linear")
def _linear(at: Maker, a: dict[str, Any], out: Names) -> None:
    turned = _transpose(at, a["weight"], [1, 0])
    if a.get("bias") is None:
        at.node("MatMul", a["input"], turned, out=out)
        return
    made = at.node("MatMul", a["input"], turned, shape=(*at.shape(a["input"])[:-1], at.shape(turned)[-1]))
    at.node("Add", made, a["bias"], out=out)


@rule("convolution")
def _convolution(at: Maker, a: dict[str, Any], out: Names) -> None:
    rank = len(at.shape(a["weight"])) - 2
    fields: dict[str, Any] = {"group": int(a["groups"])}
    for name, values in (("strides", a["stride"]), ("dilations", a["dilation"]), ("pads", a["padding"])):
        each = [*values] * (rank if len(values) == 1 else 1)
        fields[name] = each * (2 if name == "pads" else 1)
    fields["kernel_shape"] = list(at.shape(a["weight"])[2:])
    inputs = [a["input"], a["weight"]] + ([a["bias"]] if a["bias"] is not None else [])
    if not a["transposed"]:
        at.node("Conv", *inputs, out=out, **fields)
        return
    more = [*a["output_padding"]] * (rank if len(a["output_padding"]) == 1 else 1)
    at.node("ConvTranspose", *inputs, out=out, **fields, output_padding=more)


@rule("scaled_dot_product_attention")
def _attention(at: Maker, a: dict[str, Any], out: Names) -> None:
    q, k, v, mask = (a[name] for name in ("query", "key", "value", "attn_mask"))
    fields: dict[str, Any] = {"is_causal": int(bool(a.get("is_causal", False)))}
    if a.get("scale") is not None:
        fields["scale"] = float(a["scale"])
    inputs, place = [q, k, v] + ([mask] if mask is not None else []), out
    if len(at.shape(q)) != 4:
        inputs[:3] = (_reshape(at, name, _four(at.shape(name))) for name in (q, k, v))
        wide = (*_four(at.shape(q))[:-1], at.shape(v)[-1])
        _reshape(at, at.node("Attention", *inputs, shape=wide, kind=at.kind(q), **fields), at.shape(out[0]), place)
        return
    at.node("Attention", *inputs, out=out, **fields)


def _four(shape: Sequence[int]) -> tuple[int, ...]:
    """[batch, heads, tokens, elements] of any number of dimensions."""
    return (1, prod(shape[:-2]), *shape[-2:])


# pools and samples


def _each(values: Sequence[int], rank: int) -> list[int]:
    return [*values] * (rank if len(values) == 1 else 1)


def _window(a: dict[str, Any], rank: int) -> dict[str, Any]:
    kernel = _each(a["kernel_size"], rank)
    strides = _each(a.get("stride") or kernel, rank)
    fields: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": _each(a.get("padding", [0]), rank) * 2}
    fields["ceil_mode"] = int(bool(a.get("ceil_mode", False)))
    return fields


def _image(at: Maker, x: str, rank: int) -> str:
    """The tensor with a dimension of images, which is added if the tensor has none."""
    return x if len(at.shape(x)) == rank + 2 else _reshape(at, x, (1, *at.shape(x)))


@rule("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(at: Maker, a: dict[str, Any], out: Names) -> None:
    rank = len(a["kernel_size"]) if len(a["kernel_size"]) > 1 else 2
    fields = _window(a, rank) | {"dilations": _each(a.get("dilation", [1]), rank)}
    _pooled(at, "MaxPool", a["self"], rank, out, fields)


@rule("avg_pool2d", "avg_pool3d")
def _avg_pool(at: Maker, a: dict[str, Any], out: Names) -> None:
    if a.get("divisor_override"):
        raise CannotTranslate("its divisor_override is not supported")
    rank = len(a["kernel_size"]) if len(a["kernel_size"]) > 1 else 2
    fields = _window(a, rank) | {"count_include_pad": int(bool(a.get("count_include_pad", True)))}
    _pooled(at, "AveragePool", a["self"], rank, out, fields)


def _pooled(at: Maker, op: str, x: str, rank: int, out: Names, fields: dict[str, Any]) -> None:
    image = _image(at, x, rank)
    if image == x:
        at.node(op, x, out=out, **fields)
    else:
        made = at.node(op, image, shape=(1, *at.shape(out[0])), **fields)
        _reshape(at, made, at.shape(out[0]), out[:1])


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive(at: Maker, a: dict[str, Any], out: Names) -> None:
    """A mean where all windows have one size; else a product with a matrix of shares."""
    x, wanted = a["self"], list(a["output_size"])
    sizes, outer = at.shape(x)[-len(wanted) :], at.shape(x)[: -len(wanted)]
    if all(size % each == 0 for size, each in zip(sizes, wanted, strict=True)):
        kernel = [size // each for size, each in zip(sizes, wanted, strict=True)]
        _pooled(at, "AveragePool", x, len(wanted), out, {"kernel_shape": kernel, "strides": kernel})
        return
    shares: np.ndarray[Any, Any] = np.ones((1, 1))
    for size, count in zip(sizes, wanted, strict=True):
        one = np.zeros((size, count))
        for number in range(count):
            first, last = number * size // count, -(-(number + 1) * size // count)
            one[first:last, number] = 1 / (last - first)
        shares = np.kron(shares, one)
    flat = _reshape(at, x, (prod(outer), prod(sizes)))
    means = at.node("MatMul", flat, at.constant(shares, "float32"), shape=(prod(outer), prod(wanted)))
    _reshape(at, means, at.shape(out[0]), out)


def _resized(mode: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        corners = "align_corners" if a.get("align_corners") else "half_pixel" if mode == "linear" else "asymmetric"
        fields: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": corners, "nearest_mode": "floor"}
        at.node("Resize", a["input"], "", "", _as_integers(at, at.shape(out[0])), out=out, **fields)

    return translate


RULES["upsample_bilinear2d"], RULES["upsample_nearest2d"] = _resized("linear"), _resized("nearest")


@rule("grid_sampler_2d")
def _grid(at: Maker, a: dict[str, Any], out: Names) -> None:
    modes = ("linear", "nearest", "cubic")[a["interpolation_mode"]], ("zeros", "border", "reflection")[a["padding_mode"]]
    fields: dict[str, Any] = {"mode": modes[0], "padding_mode": modes[1], "align_corners": int(bool(a["align_corners"]))}
    at.node("GridSample", a["input"], a["grid"], out=out, **fields)


@rule("col2im")
def _col2im(at: Maker, a: dict[str, Any], out: Names) -> None:
    fields = {"strides": a["stride"], "pads": [*a["padding"]] * 2, "dilations": a["dilation"]}
    sizes = (_as_integers(at, a["output_size"]), _as_integers(at, a["kernel_size"]))
    at.node("Col2Im", a["self"], *sizes, out=out, **fields)


# moves


@rule("view", "squeeze", "unsqueeze", "_unsafe_view", "reshape")
def _view(at: Maker, a: dict[str, Any], out: Names) -> None:
    _reshape(at, a["self"], at.shape(out[0]), out)


@rule("alias", "clone", "detach", "lift_fresh_copy", "contiguous")
def _same(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Identity", a["self"], out=out)


@rule("native_dropout")
def _dropout(at: Maker, a: dict[str, Any], out: Names) -> None:
    if a.get("train"):
        raise CannotTranslate("it drops elements at random; call model.eval() before the export")
    at.node("Identity", a["input"], out=out[:1])


@rule("_to_copy")
def _to_copy(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Cast", a["self"], out=out, to=at.kind(out[0]))


@rule("copy")
def _copy(at: Maker, a: dict[str, Any], out: Names) -> None:
    _expand(at, a["src"], at.shape(out[0]), out)


@rule("permute")
def _permute(at: Maker, a: dict[str, Any], out: Names) -> None:
    rank = len(at.shape(a["self"]))
    _transpose(at, a["self"], [axis % rank for axis in a["dims"]], out)


@rule("expand")
def _broadcast(at: Maker, a: dict[str, Any], out: Names) -> None:
    _expand(at, a["self"], at.shape(out[0]), out)


@rule("slice")
def _part(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a.get("dim", 0) % len(at.shape(a["self"]))
    first, last = (a.get("start") or 0), a.get("end")
    _slice(at, a["self"], axis, first, at.shape(a["self"])[axis] if last is None else last, a.get("step", 1), out)


@rule("select")
def _select(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a["dim"] % len(at.shape(a["self"]))
    first = a["index"] % at.shape(a["self"])[axis]
    _reshape(at, _slice(at, a["self"], axis, first, first + 1), at.shape(out[0]), out)


@rule("split_with_sizes")
def _split(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a.get("dim", 0) % len(at.shape(a["self"]))
    at.node("Split", a["self"], _as_integers(at, a["split_sizes"]), out=out, axis=axis)


@rule("cat")
def _cat(at: Maker, a: dict[str, Any], out: Names) -> None:
    parts = [name for name in a["tensors"] if prod(at.shape(name))]
    axis = a.get("dim", 0) % len(at.shape(out[0]))
    at.node("Concat", *parts, out=out, axis=axis)


@rule("repeat")
def _repeat(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, times = a["self"], a["repeats"]
    shape = (*(1 for _ in times[len(at.shape(x)) :]), *at.shape(x))
    x = x if shape == at.shape(x) else _reshape(at, x, shape)
    at.node("Tile", x, _as_integers(at, times), out=out)


@rule("constant_pad_nd")
def _pad(at: Maker, a: dict[str, Any], out: Names) -> None:
    _padded(at, a["self"], a["pad"], out, "constant", a.get("value", 0))


def _padded(at: Maker, x: str, pads: Sequence[int], out: Names, mode: str, value: Any = None) -> None:
    rank = len(at.shape(x))
    before, after = [0] * rank, [0] * rank
    for number in range(len(pads) // 2):  # the last dimension first
        before[rank - 1 - number], after[rank - 1 - number] = pads[2 * number : 2 * number + 2]
    inputs = [_as_integers(at, before + after)] + ([] if value is None else [_number(at, value, x)])
    at.node("Pad", x, *inputs, out=out, mode=mode)


def _edges(mode: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        _padded(at, a["self"], a["padding"], out, mode)

    return translate


RULES.update({f"reflection_pad{rank}d": _edges("reflect") for rank in (1, 2, 3)})
RULES.update({f"replication_pad{rank}d": _edges("edge") for rank in (1, 2, 3)})


@rule("flip")
def _flip(at: Maker, a: dict[str, Any], out: Names) -> None:
    axes = _axes(a["dims"], len(at.shape(a["self"]))) if a["dims"] else []
    count = len(axes)
    ends = [[-1] * count, [-(1 << 31)] * count, axes, [-1] * count]
    at.node("Slice", a["self"], *(_as_integers(at, numbers) for numbers in ends), out=out)


@rule("diagonal", "as_strided")
def _strided(at: Maker, a: dict[str, Any], out: Names) -> None:
    """Elements at distances of their own: those of the flat tensor at known positions."""
    x = a["self"]
    flat = np.arange(prod(at.shape(x))).reshape(at.shape(x))
    if "size" in a:
        sizes, strides = a["size"], a["stride"]
        first = a.get("storage_offset") or 0
        grid = np.indices(tuple(sizes)).reshape(len(sizes), -1)
        places = first + np.asarray(strides, np.int64) @ grid if sizes else np.asarray([first])
        if places.size and int(places.max()) >= flat.size:
            raise CannotTranslate("it reads beyond the end of its tensor")
    else:
        places = np.diagonal(flat, a.get("offset", 0), a.get("dim1", 0), a.get("dim2", 1)).reshape(-1)
    if places.size == flat.size and (places == np.arange(flat.size)).all():
        _reshape(at, x, at.shape(out[0]), out)
        return
    taken = at.node(
        "Gather", _reshape(at, x, [flat.size]), at.constant(places), shape=[places.size], kind=at.kind(x), axis=0
    )
    _reshape(at, taken, at.shape(out[0]), out)


# positions of elements


@rule("embedding")
def _embedding(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Gather", a["weight"], a["indices"], out=out, axis=0)


@rule("index_select")
def _index_select(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("Gather", a["self"], a["index"], out=out, axis=a["dim"] % max(len(at.shape(a["self"])), 1))


@rule("gather")
def _gather(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("GatherElements", a["self"], a["index"], out=out, axis=a["dim"])


@rule("index")
def _index(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, given = a["self"], {axis: name for axis, name in enumerate(a["indices"]) if name is not None}
    if any(at.kind(name) == "bool" for name in given.values()):
        raise CannotTranslate(_UNBOUNDED)
    if len(given) == 1:
        ((axis, index),) = given.items()
        at.node("Gather", x, index, out=out, axis=axis)
        return
    x, where = _leading(at, x, given)
    if list(given) != list(range(min(given), min(given) + len(given))) or min(given) == 0:
        at.node("GatherND", x, where, out=out)
        return
    before = min(given)  # the dimensions of the indices take the place of those that they select
    spread, rest = len(at.shape(where)) - 1, len(at.shape(x)) - len(given)
    shape = (*at.shape(where)[:-1], *at.shape(x)[len(given) :])
    made = at.node("GatherND", x, where, shape=shape, kind=at.kind(x))
    order = [*range(spread, spread + before), *range(spread), *range(spread + before, spread + rest)]
    _transpose(at, made, order, out)


def _leading(at: Maker, x: str, given: dict[int, str]) -> tuple[str, str]:
    """A tensor with its indexed dimensions first, and the indices of all of them side by side."""
    rank = len(at.shape(x))
    order = [*given, *(axis for axis in range(rank) if axis not in given)]
    x = x if order == list(range(rank)) else _transpose(at, x, order)
    shape = np.broadcast_shapes(*(at.shape(name) for name in given.values()))
    wide = [_reshape(at, _expand(at, name, shape), (*shape, 1)) for name in given.values()]
    return x, wide[0] if len(wide) == 1 else _concat(at, wide, len(shape))


@rule("index_put", "_unsafe_index_put")
def _index_put(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, given = a["self"], {axis: name for axis, name in enumerate(a["indices"]) if name is not None}
    values = a["values"]
    if len(given) == 1 and 0 in given and at.kind(given[0]) == "bool":
        if prod(at.shape(values)) != 1 or a.get("accumulate"):
            raise CannotTranslate(_UNBOUNDED)
        mask = given[0]
        mask = _reshape(at, mask, (*at.shape(mask), *(1 for _ in at.shape(x)[len(at.shape(mask)) :])))
        at.node("Where", mask, values, x, out=out)
        return
    if any(at.kind(name) == "bool" for name in given.values()):
        raise CannotTranslate(_UNBOUNDED)
    first, count, rank = min(given), len(given), len(at.shape(x))
    if list(given) != list(range(first, first + count)):
        raise CannotTranslate("it writes along dimensions that are not adjacent")
    rest = [axis for axis in range(rank) if axis not in given]
    moved, where = _leading(at, x, given)
    spread = len(at.shape(where)) - 1
    fields: dict[str, Any] = {"reduction": "add"} if a.get("accumulate") else {}
    before, behind = at.shape(x)[:first], at.shape(x)[first + count :]
    values = _expand(at, values, (*before, *at.shape(where)[:-1], *behind))
    if not first:
        at.node("ScatterND", moved, where, values, out=out, **fields)
        return
    order = [*range(first, first + spread), *range(first), *range(first + spread, len(at.shape(values)))]
    made = at.node("ScatterND", moved, where, _transpose(at, values, order), shape=at.shape(moved), kind=at.kind(x), **fields)
    places = [*given, *rest]
    _transpose(at, made, [places.index(axis) for axis in range(rank)], out)


def _scattered(reduction: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        how = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(a.get("reduce", ""), reduction)
        if a.get("reduce") == "mean" or a.get("include_self") is False:
            raise CannotTranslate("its mean, or a result without elements of its own, is not supported")
        source = a["src"] if "src" in a else _expand(at, _number(at, a["value"], a["self"]), at.shape(a["index"]))
        if at.shape(source) != at.shape(a["index"]):
            for axis, size in enumerate(at.shape(a["index"])):
                if at.shape(source)[axis] != size:
                    source = _slice(at, source, axis, 0, size)
        fields: dict[str, Any] = {"reduction": how} if how else {}
        at.node("ScatterElements", a["self"], a["index"], source, out=out, axis=a["dim"], **fields)

    return translate


RULES.update({"scatter": _scattered(""), "scatter_add": _scattered("add"), "scatter_reduce": _scattered("")})


@rule("select_scatter", "slice_scatter")
def _scatter_slice(at: Maker, a: dict[str, Any], out: Names) -> None:
    """The part before, the new part, and the part behind."""
    x, source, axis = a["self"], a["src"], a.get("dim", 0) % len(at.shape(a["self"]))
    size = at.shape(x)[axis]
    if "index" in a:
        first = a["index"] % size
        last, step = first + 1, 1
        source = _reshape(at, source, (*at.shape(x)[:axis], 1, *at.shape(x)[axis + 1 :]))
    else:
        first, last, _ = slice(a.get("start"), a.get("end")).indices(size)
        step = a.get("step", 1)
    if step != 1:
        places = at.constant(np.broadcast_to(_along(range(size)[first:last:step], axis, len(at.shape(x))), at.shape(source)))
        at.node("ScatterElements", x, places, source, out=out, axis=axis)
        return
    parts = [_slice(at, x, axis, 0, first)] if first > 0 else []
    parts.append(source)
    parts += [_slice(at, x, axis, last, size)] if last < size else []
    if len(parts) == 1:
        at.node("Identity", source, out=out)
    else:
        _concat(at, parts, axis, out)


def _along(numbers: range, axis: int, rank: int) -> np.ndarray[Any, Any]:
    return np.asarray(numbers).reshape([-1 if each == axis else 1 for each in range(rank)])


# made of nothing


@rule("full", "full_like", "empty", "empty_strided", "scalar_tensor", "fill", "arange")
def _filled(at: Maker, a: dict[str, Any], out: Names) -> None:
    """Values that depend on no input, and exist before the run."""
    shape, kind = at.shape(out[0]), at.kind(out[0])
    if "start" in a:
        start, end, step = a["start"], a["end"], a.get("step", 1)
        made = np.arange(start, end, step)
        if made.size != prod(shape):
            made = start + np.arange(prod(shape)) * step
    else:
        value = a.get("fill_value", a.get("value", a.get("s", 0)))
        if isinstance(value, str):
            known = at.value(value)
            if known is None:
                raise CannotTranslate("its value depends on the inputs")
            value = known
        made = np.broadcast_to(np.asarray(value), shape)
    at.node("Identity", at.constant(made.reshape(shape), kind), out=out)
