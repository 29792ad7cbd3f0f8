"""Loads a spec, which is a YAML or JSON file of `kernbench/sweep/1`. Its targets, machines and axes, and every name and value
in them, are checked.

Every problem is recorded with its location, and reading continues.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernbench.common.errors import ABSENT, InputError
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.config.document import FORMATS, MACHINE_BYTES, Document, data_document, read_document
from kernbench.config.file_kinds import check_file, check_kind
from kernbench.config.places import PathLike
from kernbench.sweep.area import KEY as AREA_TABLE
from kernbench.sweep.axes import MAX_DIMENSIONS, Axis
from kernbench.sweep.conditions import Condition
from kernbench.sweep.machines import Machines
from kernbench.sweep.spec import MACHINE, PARAM, SCHEMA, Budget, Limits, Sample, Spec
from kernbench.sweep.spec.axes import read_axes
from kernbench.sweep.spec.goals import read_area, read_constraints, read_goals
from kernbench.sweep.spec.machines import read_machines
from kernbench.sweep.spec.reader import Reader
from kernbench.sweep.spec.search import MAX_POINTS, read_search
from kernbench.sweep.spec.targets import parameters_of, read_targets
from kernbench.sweep.targets.target import Target

KEYS = (
    "schema", "name", "targets", "machine", "set", "axes", "zip", "where", "sample", "limits", "budget", "goals", "constraints",
    AREA_TABLE, "search", "invalid",
)  # fmt: skip
Source = str | os.PathLike[str] | Mapping[str, Any]


def load_spec(source: Source, *, allow_code: AllowCode = ()) -> Spec:
    """The spec in a file or in a dict of the same form; relative paths in the spec start at its folder.

    InputError with every problem: keys, files, machines, targets, axes without effect, conditions that cannot be parsed.
    `points_of` checks whether each point is a valid machine. `allow_code`: as in `load_config`; applies also to benches.
    """
    allowed = AllowedCode.of(allow_code)
    if isinstance(source, Mapping):
        document, folder, name = data_document(dict(source), "sweep"), Path(), "sweep"
    else:
        if not os.fspath(source).lower().endswith(tuple(FORMATS)):
            check_file(os.fspath(source), "sweep")
        document, folder = read_document(source, MACHINE_BYTES), Path(source).parent
        name = Path(source).name.partition(".")[0]
    check_kind(document.source, document.data, "sweep")
    _check_numbers(document)
    read = Reader(document)
    _head(read)
    sample = _sample(read)
    sampled = sample is not None or read.get(("search", "trials")) is not ABSENT
    axes = read_axes(read, sampled)
    read.check()
    targets = read_targets(read, folder, allowed)
    read.check()
    machines, machine_of = read_machines(read, targets, folder, allowed)
    read.check()
    _check_names(read, axes, targets, machines)
    _check_sample(read, sample, axes)
    goals = read_goals(read)
    area = read_area(read, folder)
    spec = Spec(
        name=read.text(("name",)) or name,
        targets=targets,
        machines=tuple(machines),
        axes=axes,
        conditions=_conditions(read, axes, machines),
        sample=sample,
        limits=_limits(read),
        budget=_budget(read),
        goals=goals,
        constraints=read_constraints(read, axes),
        area=area,
        search=read_search(read, axes, goals, len(targets)),
        skip_invalid=read.choice(("invalid",), ("refuse", "skip"), "refuse") == "skip",
        document=document,
        machine_of=machine_of,
        allowed_code=allowed,
    )
    read.check()
    return spec


def _check_numbers(document: Document) -> None:
    """InputError for integers that do not fit into a store or into a message to a process."""
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
        given = read.get(("schema",))
        if given is ABSENT:
            read.refuse(("schema",), "this key is missing", remedy=f"write schema: {SCHEMA}")
        else:
            read.refuse(("schema",), f"it must be {SCHEMA}", given)


def _sample(read: Reader) -> Sample | None:
    given = read.keys(("sample",), ("random", "sobol", "seed"))
    if not given:
        return None
    kinds = [kind for kind in ("random", "sobol") if kind in given]
    if len(kinds) != 1:
        read.refuse(("sample",), "it must give the number of points; write random: N or sobol: N")
        return None
    count = read.integer(("sample", kinds[0]), 1, MAX_POINTS)
    seed = read.integer(("sample", "seed"), 0) or 0
    return None if count is None else Sample("random" if kinds[0] == "random" else "sobol", count, seed)


def _check_sample(read: Reader, sample: Sample | None, axes: tuple[Axis, ...]) -> None:
    if sample is not None and sample.kind == "sobol" and len(axes) > MAX_DIMENSIONS:
        read.refuse(("sample",), f"Sobol points have at most {MAX_DIMENSIONS} axes", len(axes), "take random ones")


def _limits(read: Reader) -> Limits:
    read.keys(("limits",), ("seconds", "memory"))
    return Limits(read.seconds(("limits", "seconds")), read.size(("limits", "memory")))


def _budget(read: Reader) -> Budget:
    read.keys(("budget",), ("points", "seconds"))
    return Budget(read.integer(("budget", "points"), 1), read.seconds(("budget", "seconds")))


def _check_names(read: Reader, axes: tuple[Axis, ...], targets: tuple[Target, ...], machines: list[Machines]) -> None:
    """Refuse axes without effect: a machine or a target must have a value for the first level of each axis."""
    for axis in axes:
        for name in axis.names:
            path = axis.place(name)
            if name == MACHINE:
                read.refuse(path, "the axis machine is not allowed; write a list of machines under the key machine")
            elif "." not in name and name not in _top_keys() and all(name in parameters_of(target) for target in targets):
                rule = f"no machine has a key {name}, but {targets[0].label} has a parameter {name}"
                read.refuse(path, rule, remedy=f"write {PARAM}{name}")
            elif name.startswith(PARAM):
                for target in targets:
                    if name.removeprefix(PARAM) not in (there := parameters_of(target)):
                        rule = f"{target.label} has no such parameter; its parameters are: {', '.join(there) or 'none'}"
                        read.refuse(path, rule)


def _top_keys() -> set[str]:
    return {field.alias or name for kind in (NpuConfig, SystemConfig) for name, field in kind.model_fields.items()}


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
