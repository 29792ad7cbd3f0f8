"""Nodes that the rules of many operators make. Each function that makes a node returns its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.workloads.graphs.torch.aten.rules import Maker, Names


def number(at: Maker, value: Any, beside: Any = None) -> str:
    """A tensor, or a number as a tensor of the kind of the one beside it."""
    if isinstance(value, str):
        return value
    kind = at.kind(beside) if isinstance(beside, str) else "float32"
    if isinstance(value, float) and not kind.startswith("float"):
        kind = "float32"
    return at.constant(value, kind)


def axes_of(values: Any, rank: int) -> list[int]:
    """Dimensions counted from 0; all of them if none is given."""
    if values is None or (isinstance(values, (list, tuple)) and not values):
        return list(range(rank))
    return [axis % max(rank, 1) for axis in (values if isinstance(values, (list, tuple)) else [values])]


def integers(at: Maker, values: Sequence[int]) -> str:
    """A tensor of known integers."""
    return at.constant(list(values))


def reshape(at: Maker, x: str, shape: Sequence[int], out: str | Names = "") -> str:
    """The elements of a tensor in another shape."""
    return at.node("Reshape", x, integers(at, shape), out=out, shape=shape, kind=at.kind(x))


def transpose(at: Maker, x: str, order: Sequence[int], out: str | Names = "") -> str:
    """The dimensions of a tensor in another order."""
    shape = [at.shape(x)[axis] for axis in order]
    return at.node("Transpose", x, out=out, shape=shape, perm=list(order))


def part(at: Maker, x: str, axis: int, first: int, last: int, step: int = 1, out: str | Names = "") -> str:
    """The elements from `first` to before `last` along an axis, every `step`-th."""
    shape = list(at.shape(x))
    shape[axis] = len(range(shape[axis])[first:last:step])
    ends = [integers(at, [number]) for number in (first, last, axis, step)]
    return at.node("Slice", x, *ends, out=out, shape=shape, kind=at.kind(x))


def concat(at: Maker, parts: Sequence[str], axis: int, out: str | Names = "") -> str:
    """Tensors one after another along an axis."""
    shape = list(at.shape(parts[0]))
    shape[axis] = sum(at.shape(part)[axis] for part in parts)
    return at.node("Concat", *parts, out=out, shape=shape, axis=axis)


def expand(at: Maker, x: str, shape: Sequence[int], out: str | Names = "") -> str:
    """A tensor repeated along its dimensions of size 1."""
    if tuple(shape) == at.shape(x) and not out:
        return x
    return at.node("Expand", x, integers(at, shape), out=out, shape=shape, kind=at.kind(x))


def reduce(at: Maker, op: str, x: str, axes: Sequence[int], keep: bool, out: str | Names = "") -> str:
    """A reduction along axes; with `keep` these stay as dimensions of size 1."""
    shape = [1 if axis in axes else size for axis, size in enumerate(at.shape(x)) if keep or axis not in axes]
    return at.node(op, x, integers(at, axes), out=out, shape=shape, kind=at.kind(x), keepdims=int(keep))
