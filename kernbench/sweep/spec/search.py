"""The key `search` of a spec: how points are chosen one batch after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.common.errors import ABSENT
from kernbench.common.spelling import meant
from kernbench.sweep.axes import Axis
from kernbench.sweep.spec import Goal, Largest, Sampled
from kernbench.sweep.spec.goals import read_constraint
from kernbench.sweep.spec.reader import Reader

SEARCH_KEYS = ("trials", "sampler", "seed", "batch", "prune", "largest", "meets")
SAMPLERS = ("tpe", "nsga2")
MAX_BATCH = 1000  #: most points of a batch
MAX_POINTS = 10_000_000  #: most points of one sweep


def read_search(read: Reader, axes: tuple[Axis, ...], goals: tuple[Goal, ...], targets: int) -> Sampled | Largest | None:
    if read.get(("search",)) is ABSENT:
        return None
    given = read.keys(("search",), SEARCH_KEYS)
    if read.get(("sample",)) is not ABSENT:
        read.refuse(("search",), "a sweep has a sample or a search, not both")
    if targets > 1:
        read.refuse(
            ("search",),
            "a search must have exactly one target, because results of different targets cannot be compared",
            targets,
        )
    if not axes:
        read.refuse(("search",), "a search must have at least one axis")
    if "largest" in given or "meets" in given:
        return _largest(read, axes, given)
    trials = read.integer(("search", "trials"), 1, MAX_POINTS)
    if "trials" not in given:
        read.refuse(
            ("search",),
            "it must have the key trials (the number of points), or the keys largest (an axis) and meets (a condition)",
        )
    sampler = read.choice(("search", "sampler"), SAMPLERS, "tpe" if len(goals) == 1 else "nsga2")
    batch = read.integer(("search", "batch"), 1, MAX_BATCH)
    default = 8 if sampler == "tpe" else 32
    prune = read.flag(("search", "prune")) if "prune" in given else True
    seed = read.integer(("search", "seed"), 0, 2**32 - 1) or 0
    return Sampled(trials or 1, "tpe" if sampler == "tpe" else "nsga2", seed, batch or default, prune)


def _largest(read: Reader, axes: tuple[Axis, ...], given: Mapping[Any, Any]) -> Largest | None:
    for name in given:
        if name not in ("largest", "meets"):
            read.refuse(("search", name), "this key is not valid together with largest or meets; leave it out")
    for name in ("largest", "meets"):
        if name not in given:
            read.refuse(("search",), f"{name} is missing: largest names an axis, and meets is a condition on results")
            return None
    name, text = read.text(("search", "largest")), read.text(("search", "meets"))
    if name is None or text is None:
        return None
    axis = next((axis for axis in axes if axis.names == (name,)), None)
    if axis is None:
        remedy = meant(name, [other for axis in axes for other in axis.names])
        read.refuse(("search", "largest"), "it must be an axis of its own", name, remedy)
        return None
    values = [level[0] for level in axis.levels]
    if not all(type(value) in (int, float) for value in values) or values != sorted(values):
        read.refuse(("search", "largest"), "the values of its axis must be numbers in increasing order", name)
    return Largest(name, constraint) if (constraint := read_constraint(read, ("search", "meets"), text, axes)) else None
