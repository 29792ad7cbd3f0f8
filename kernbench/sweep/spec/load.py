"""Loads a spec: a YAML or JSON file of `kernbench/sweep/1`, every name and value in it checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.document import MACHINE_BYTES, Document, data_document, read_document
from kernbench.config.places import PathLike
from kernbench.sweep.axes import MOST_DIMENSIONS, Axis
from kernbench.sweep.conditions import Condition
from kernbench.sweep.machines import Machines
from kernbench.sweep.spec import DEFAULT_GOALS, MACHINE, PARAM, SCHEMA, Budget, Goal, Limits, Sample, Spec
from kernbench.sweep.spec.axes import read_axes
from kernbench.sweep.spec.read import Reader
from kernbench.sweep.spec.targets import read_machines, read_targets
from kernbench.sweep.store.stored import METRICS
from kernbench.sweep.targets.target import Target

KEYS = (
    "schema", "name", "targets", "machine", "set", "axes", "zip", "where", "sample", "limits", "budget", "goals", "invalid",
)  # fmt: skip
GOALS = ("ns", "cycles", *(name for name in METRICS if name not in ("bound_by", "verified")))
MOST_POINTS = 10_000_000  #: of one sweep

Source = str | os.PathLike[str] | Mapping[str, Any]


def load_spec(source: Source, *, allow_code: AllowCode = ()) -> Spec:
    """The spec in a file, or in a dict of the same form; files that it names are looked for beside it.

    InputError with every problem: keys, files, machines, targets, axes that nothing has, conditions that cannot be read.
    Whether each point is a valid machine is `points_of`'s to say. `allow_code`: as of `load_config`, also for benches.
    """
    allowed = AllowedCode.of(allow_code)
    if isinstance(source, Mapping):
        document, folder, name = data_document(dict(source), "sweep"), Path(), "sweep"
    else:
        document, folder = read_document(source, MACHINE_BYTES), Path(source).parent
        name = Path(source).name.partition(".")[0]
    _check_numbers(document)
    read = Reader(document)
    _head(read)
    sample = _sample(read)
    axes = read_axes(read, sample is not None)
    read.check()
    targets = read_targets(read, folder, allowed)
    read.check()
    machines, machine_of = read_machines(read, targets, folder, allowed)
    read.check()
    _check_names(read, axes, targets, machines)
    _check_sample(read, sample, axes)
    spec = Spec(
        name=read.text(("name",)) or name,
        targets=targets,
        machines=tuple(machines),
        axes=axes,
        conditions=_conditions(read, axes, machines),
        sample=sample,
        limits=_limits(read),
        budget=_budget(read),
        goals=_goals(read),
        skip_invalid=read.choice(("invalid",), ("refuse", "skip"), "refuse") == "skip",
        document=document,
        machine_of=machine_of,
        allowed_code=allowed,
    )
    read.check()
    return spec


def _check_numbers(document: Document) -> None:
    """InputError for integers that neither a store nor a message to a process can hold."""
    found: list[tuple[PathLike, str, Any, str]] = []
    stack: list[tuple[tuple[Any, ...], Any]] = [((), document.data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, i), item) for i, item in enumerate(value))
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            found.append((path, f"it must be an integer from {-(2**63)} to {2**63 - 1}", value, ""))
    if found:
        raise InputError(document.problems(found[::-1]))


def _head(read: Reader) -> None:
    read.keys((), KEYS)
    if read.text(("schema",)) != SCHEMA:
        read.refuse(("schema",), f"it must be {SCHEMA}", read.get(("schema",)))


def _sample(read: Reader) -> Sample | None:
    given = read.keys(("sample",), ("random", "sobol", "seed"))
    if not given:
        return None
    kinds = [kind for kind in ("random", "sobol") if kind in given]
    if len(kinds) != 1:
        read.refuse(("sample",), "it must say how many points: random: N, or sobol: N")
        return None
    count = read.integer(("sample", kinds[0]), 1, MOST_POINTS)
    seed = read.integer(("sample", "seed"), 0) or 0
    return None if count is None else Sample("random" if kinds[0] == "random" else "sobol", count, seed)


def _check_sample(read: Reader, sample: Sample | None, axes: tuple[Axis, ...]) -> None:
    if sample is not None and sample.kind == "sobol" and len(axes) > MOST_DIMENSIONS:
        read.refuse(("sample",), f"Sobol points have at most {MOST_DIMENSIONS} axes", len(axes), "take random ones")


def _limits(read: Reader) -> Limits:
    read.keys(("limits",), ("seconds", "memory"))
    return Limits(read.seconds(("limits", "seconds")), read.size(("limits", "memory")))


def _budget(read: Reader) -> Budget:
    read.keys(("budget",), ("points", "seconds"))
    return Budget(read.integer(("budget", "points"), 1), read.seconds(("budget", "seconds")))


def _goals(read: Reader) -> tuple[Goal, ...]:
    given = read.mapping(("goals",))
    goals = []
    for name in given:
        if name not in GOALS:
            read.refuse(("goals", name), f"there is no such number; there are {', '.join(GOALS)}")
        else:
            goals.append((str(name), read.choice(("goals", name), ("min", "max"), "min")))
    return tuple(goals) or DEFAULT_GOALS


def _check_names(read: Reader, axes: tuple[Axis, ...], targets: tuple[Target, ...], machines: list[Machines]) -> None:
    """Refuse axes that nothing has: the first value of each must be one that machine or targets take."""
    for axis in axes:
        for name in axis.names:
            path = axis.place(name)
            if name == MACHINE:
                read.refuse(path, "base machines are a list at the key machine")
            elif name.startswith(PARAM):
                for target in targets:
                    if name.removeprefix(PARAM) not in (there := parameters_of(target)):
                        told = f"{target.label} has no such parameter; it has {', '.join(there) or 'none'}"
                        read.refuse(path, told)


def parameters_of(target: Target) -> list[str]:
    """The names of a target's parameters."""
    return list(target.checked({}))


def _conditions(read: Reader, axes: tuple[Axis, ...], machines: list[Machines]) -> tuple[Condition, ...]:
    found = []
    names = {name for axis in axes for name in axis.names} | {"target", MACHINE}
    for i, text in enumerate(read.items(("where",))):
        path = ("where", i)
        try:
            condition = Condition(str(text))
        except ValueError as error:
            read.refuse(path, str(error), text)
            continue
        for name in condition.names:
            if name not in names and not all(_has(machine, name) for machine in machines):
                read.refuse(path, f"{name} is neither an axis nor a value of the machine", text)
        found.append(condition)
    return tuple(found)


def _has(machine: Machines, name: str) -> bool:
    try:
        machine.value(name)
    except KeyError:
        return False
    return True
