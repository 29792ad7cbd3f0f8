"""Reads and writes at positions that other tensors name."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kernbench.workloads.graphs.torch.aten import nodes
from kernbench.workloads.graphs.torch.aten.rules import RULES, UNBOUNDED, CannotTranslate, Maker, Names, Rule, rule


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
        raise CannotTranslate(UNBOUNDED)
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
    nodes.transpose(at, made, order, out)


def _leading(at: Maker, x: str, given: dict[int, str]) -> tuple[str, str]:
    """A tensor with its indexed dimensions first, and the indices of all of them side by side."""
    rank = len(at.shape(x))
    order = [*given, *(axis for axis in range(rank) if axis not in given)]
    x = x if order == list(range(rank)) else nodes.transpose(at, x, order)
    shape = np.broadcast_shapes(*(at.shape(name) for name in given.values()))
    wide = [nodes.reshape(at, nodes.expand(at, name, shape), (*shape, 1)) for name in given.values()]
    return x, wide[0] if len(wide) == 1 else nodes.concat(at, wide, len(shape))


@rule("index_put", "_unsafe_index_put")
def _index_put(at: Maker, a: dict[str, Any], out: Names) -> None:
    x, given = a["self"], {axis: name for axis, name in enumerate(a["indices"]) if name is not None}
    values = a["values"]
    if len(given) == 1 and 0 in given and at.kind(given[0]) == "bool":
        if prod(at.shape(values)) != 1 or a.get("accumulate"):
            raise CannotTranslate(UNBOUNDED)
        mask = given[0]
        mask = nodes.reshape(at, mask, (*at.shape(mask), *(1 for _ in at.shape(x)[len(at.shape(mask)) :])))
        at.node("Where", mask, values, x, out=out)
        return
    if any(at.kind(name) == "bool" for name in given.values()):
        raise CannotTranslate(UNBOUNDED)
    first, count, rank = min(given), len(given), len(at.shape(x))
    if list(given) != list(range(first, first + count)):
        raise CannotTranslate("it writes along dimensions that are not adjacent")
    rest = [axis for axis in range(rank) if axis not in given]
    moved, where = _leading(at, x, given)
    spread = len(at.shape(where)) - 1
    fields: dict[str, Any] = {"reduction": "add"} if a.get("accumulate") else {}
    before, behind = at.shape(x)[:first], at.shape(x)[first + count :]
    values = nodes.expand(at, values, (*before, *at.shape(where)[:-1], *behind))
    if not first:
        at.node("ScatterND", moved, where, values, out=out, **fields)
        return
    order = [*range(first, first + spread), *range(first), *range(first + spread, len(at.shape(values)))]
    values = nodes.transpose(at, values, order)
    made = at.node("ScatterND", moved, where, values, shape=at.shape(moved), kind=at.kind(x), **fields)
    places = [*given, *rest]
    nodes.transpose(at, made, [places.index(axis) for axis in range(rank)], out)


def _scattered(reduction: str) -> Rule:
    def translate(at: Maker, a: dict[str, Any], out: Names) -> None:
        how = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(a.get("reduce", ""), reduction)
        if a.get("reduce") == "mean" or a.get("include_self") is False:
            raise CannotTranslate("its mean, or a result without elements of its own, is not supported")
        source = a["src"] if "src" in a else nodes.expand(at, nodes.number(at, a["value"], a["self"]), at.shape(a["index"]))
        if at.shape(source) != at.shape(a["index"]):
            for axis, size in enumerate(at.shape(a["index"])):
                if at.shape(source)[axis] != size:
                    source = nodes.part(at, source, axis, 0, size)
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
        source = nodes.reshape(at, source, (*at.shape(x)[:axis], 1, *at.shape(x)[axis + 1 :]))
    else:
        first, last, _ = slice(a.get("start"), a.get("end")).indices(size)
        step = a.get("step", 1)
    if step != 1:
        places = at.constant(np.broadcast_to(_along(range(size)[first:last:step], axis, len(at.shape(x))), at.shape(source)))
        at.node("ScatterElements", x, places, source, out=out, axis=axis)
        return
    parts = [nodes.part(at, x, axis, 0, first)] if first > 0 else []
    parts.append(source)
    parts += [nodes.part(at, x, axis, last, size)] if last < size else []
    if len(parts) == 1:
        at.node("Identity", source, out=out)
    else:
        nodes.concat(at, parts, axis, out)


def _along(numbers: range, axis: int, rank: int) -> np.ndarray[Any, Any]:
    return np.asarray(numbers).reshape([-1 if each == axis else 1 for each in range(rank)])
