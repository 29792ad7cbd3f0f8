"""Operators that move or copy elements: views, slices, pads and repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, CannotTranslate, Maker, Names, Rule, rule


@rule("view", "squeeze", "unsqueeze", "_unsafe_view", "reshape")
def _view(at: Maker, a: dict[str, Any], out: Names) -> None:
    nodes.reshape(at, a["self"], at.shape(out[0]), out)


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
    nodes.expand(at, a["src"], at.shape(out[0]), out)


@rule("permute")
def _permute(at: Maker, a: dict[str, Any], out: Names) -> None:
    rank = len(at.shape(a["self"]))
    nodes.transpose(at, a["self"], [axis % rank for axis in a["dims"]], out)


@rule("expand")
def _broadcast(at: Maker, a: dict[str, Any], out: Names) -> None:
    nodes.expand(at, a["self"], at.shape(out[0]), out)


@rule("slice")
def _part(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a.get("dim", 0) % len(at.shape(a["self"]))
    first, last = (a.get("start") or 0), a.get("end")
    nodes.part(at, a["self"], axis, first, at.shape(a["self"])[axis] if last is None else last, a.get("step", 1), out)


@rule("select")
def _select(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a["dim"] % len(at.shape(a["self"]))
    first = a["index"] % at.shape(a["self"])[axis]
    nodes.reshape(at, nodes.part(at, a["self"], axis, first, first + 1), at.shape(out[0]), out)


@rule("split_with_sizes")
def _split(at: Maker, a: dict[str, Any], out: Names) -> None:
    axis = a.get("dim", 0) % len(at.shape(a["self"]))
    at.node("Split", a["self"], nodes.integers(at, a["split_sizes"]), out=out, axis=axis)


@rule("cat")
def _cat(at: Maker, a: dict[str, Any], out: Names) -> None:
    parts = [name for name in a["tensors"] if prod(at.shape(name))]
    axis = a.get("dim", 0) % len(at.shape(out[0]))
    at.node("Concat", *parts, out=out, axis=axis)


@rule("repeat")
def _repeat(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, times = a["self"], a["repeats"]
    shape = (*(1 for _ in times[len(at.shape(x)) :]), *at.shape(x))
    x = x if shape == at.shape(x) else nodes.reshape(at, x, shape)
    at.node("Tile", x, nodes.integers(at, times), out=out)


@rule("constant_pad_nd")
def _pad(at: Maker, a: dict[str, Any], out: Names) -> None:
    _padded(at, a["self"], a["pad"], out, "constant", a.get("value", 0))


def _padded(at: Maker, x: str, pads: Sequence[int], out: Names, mode: str, value: Any = None) -> None:
    rank = len(at.shape(x))
    before, after = [0] * rank, [0] * rank
    for number in range(len(pads) // 2):  # the last dimension first
        before[rank - 1 - number], after[rank - 1 - number] = pads[2 * number : 2 * number + 2]
    inputs = [nodes.integers(at, before + after)] + ([] if value is None else [nodes.number(at, value, x)])
    at.node("Pad", x, *inputs, out=out, mode=mode)


def _edges(mode: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        _padded(at, a["self"], a["padding"], out, mode)

    return translate


RULES.update({f"reflection_pad{rank}d": _edges("reflect") for rank in (1, 2, 3)})
RULES.update({f"replication_pad{rank}d": _edges("edge") for rank in (1, 2, 3)})


@rule("flip")
def _flip(at: Maker, a: dict[str, Any], out: Names) -> None:
    axes = nodes.axes_of(a["dims"], len(at.shape(a["self"]))) if a["dims"] else []
    count = len(axes)
    ends = [[-1] * count, [-(1 << 31)] * count, axes, [-1] * count]
    at.node("Slice", a["self"], *(nodes.integers(at, numbers) for numbers in ends), out=out)


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
        nodes.reshape(at, x, at.shape(out[0]), out)
        return
    taken = at.node(
        "Gather", nodes.reshape(at, x, [flat.size]), at.constant(places), shape=[places.size], kind=at.kind(x), axis=0
    )
    nodes.reshape(at, taken, at.shape(out[0]), out)
