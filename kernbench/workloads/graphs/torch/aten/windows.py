"""Operators on images: pools, resizing and samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, CannotTranslate, Maker, Names, Rule, rule


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
    return x if len(at.shape(x)) == rank + 2 else nodes.reshape(at, x, (1, *at.shape(x)))


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
        nodes.reshape(at, made, at.shape(out[0]), out[:1])


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
    flat = nodes.reshape(at, x, (prod(outer), prod(sizes)))
    means = at.node("MatMul", flat, at.constant(shares, "float32"), shape=(prod(outer), prod(wanted)))
    nodes.reshape(at, means, at.shape(out[0]), out)


def _resized(mode: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        corners = "align_corners" if a.get("align_corners") else "half_pixel" if mode == "linear" else "asymmetric"
        fields: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": corners, "nearest_mode": "floor"}
        at.node("Resize", a["input"], "", "", nodes.integers(at, at.shape(out[0])), out=out, **fields)

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
    sizes = (nodes.integers(at, a["output_size"]), nodes.integers(at, a["kernel_size"]))
    at.node("Col2Im", a["self"], *sizes, out=out, **fields)
