"""The keys `machine` and `set` of a spec: the machines that a sweep starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.allowed_code import AllowedCode
from kernbench.config.places import PathLike
from kernbench.sweep.machines import Machines
from kernbench.sweep.sources import check_code
from kernbench.sweep.spec.axes import plain
from kernbench.sweep.spec.reader import Reader
from kernbench.sweep.spec.targets import SUFFIXES
from kernbench.sweep.targets.target import Target


def read_machines(
    read: Reader, targets: tuple[Target, ...], folder: Path, allowed: AllowedCode
) -> tuple[list[Machines], dict[int, tuple[int, ...]]]:
    """The base machines with `set` applied, and for each target the machines on which it runs."""
    settings = {str(path): plain(value) for path, value in read.mapping(("set",)).items()}
    named = _named(read)
    wanted: list[tuple[str, PathLike]] = [(target.default_machine, ("targets", i)) for i, target in enumerate(targets)]
    per_target: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(targets))}
    if named:
        wanted = named
        per_target = dict.fromkeys(per_target, tuple(range(len(named))))
    machines: list[Machines] = []
    position: dict[str, int] = {}
    for name, path in wanted:
        if name not in position:
            position[name] = len(machines)
            made = _machine(read, name, path, settings, folder, allowed)
            if made is None:
                return [], {}
            machines.append(made)
    return machines, {i: tuple(position[wanted[k][0]] for k in those) for i, those in per_target.items()}


def _named(read: Reader) -> list[tuple[str, PathLike]]:
    """The machines that the spec names with `machine`: one name or a list."""
    given = read.get(("machine",))
    if isinstance(given, (list, tuple)):
        names = [read.text(("machine", i)) for i in range(len(given))]
        for i, name in enumerate(names):
            if name and name in names[:i]:
                read.refuse(("machine", i), "this machine is twice in the list", name)
        return [(name, ("machine", i)) for i, name in enumerate(names) if name]
    name = read.text(("machine",))
    return [(name, ("machine",))] if name else []


def _machine(
    read: Reader, name: str, path: PathLike, settings: dict[str, Any], folder: Path, allowed: AllowedCode
) -> Machines | None:
    source = str(folder / name) if name.lower().endswith(SUFFIXES) else name
    try:
        config = load_config(source, settings, allow_code=allowed)
        check_code(config)
        return Machines(name, config.to_dict(), allowed)
    except InputError as error:
        for problem in error.problems:
            place = next((key for key in settings if problem.where.startswith(f"override {key}=")), None)
            if place is None:
                read.refuse(path, str(problem))
            else:
                read.refuse(("set", place), problem.rule, problem.value, problem.remedy)
    return None
