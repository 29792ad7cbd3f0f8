"""Products of matrices, convolutions and attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import Maker, Names, rule


@rule("mm", "bmm")
def _mm(at: Maker, a: dict[str, Any], out: Names) -> None:
    at.node("MatMul", a["self"], a["mat2"], out=out)


@rule("addmm")
def _addmm(at: Maker, a: dict[str, Any], out: Names) -> None:
    alpha, beta = float(a.get("alpha", 1)), float(a.get("beta", 1))
    at.node("Gemm", a["mat1"], a["mat2"], a["self"], out=out, alpha=alpha, beta=beta)


@rule("linear")
def _linear(at: Maker, a: dict[str, Any], out: Names) -> None:
    turned = nodes.transpose(at, a["weight"], [1, 0])
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
        inputs[:3] = (nodes.reshape(at, name, _four(at.shape(name))) for name in (q, k, v))
        wide = (*_four(at.shape(q))[:-1], at.shape(v)[-1])
        nodes.reshape(at, at.node("Attention", *inputs, shape=wide, kind=at.kind(q), **fields), at.shape(out[0]), place)
        return
    at.node("Attention", *inputs, out=out, **fields)


def _four(shape: Sequence[int]) -> tuple[int, ...]:
    """[batch, heads, tokens, elements] of any number of dimensions."""
    return (1, prod(shape[:-2]), *shape[-2:])
