"""Reads the targets of a spec, and the machines that they run on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernbench.cmdq import load_program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.allowed_code import AllowedCode
from kernbench.config.places import PathLike
from kernbench.runtime_api.discovery import is_bench_target
from kernbench.sweep.machines import Machines
from kernbench.sweep.sources import check_code
from kernbench.sweep.spec.axes import plain
from kernbench.sweep.spec.read import Reader
from kernbench.sweep.targets.ccl import CclTarget
from kernbench.sweep.targets.llm import LlmTarget
from kernbench.sweep.targets.target import BenchTarget, ProgramTarget, Target, WorkloadTarget
from kernbench.workloads.catalogue import WORKLOADS

KINDS = {
    "program": ("program", "label"),
    "workload": ("workload",),
    "bench": ("bench", "label", "params", "verify"),
    "llm": ("llm", "label", "params"),
    "ccl": ("ccl", "label", "params", "verify"),
}
SUFFIXES = (".json", ".yaml", ".yml")


def read_targets(read: Reader, folder: Path, allowed: AllowedCode) -> tuple[Target, ...]:
    """The targets, whose labels differ. Files are looked for in the spec's folder."""
    if not read.items(("targets",)):
        read.refuse(("targets",), "a sweep must have at least one target")
    found: list[Target] = []
    for i, given in enumerate(read.items(("targets",))):
        path: PathLike = ("targets", i)
        try:
            target = _target(read, given, path, folder, allowed)
        except InputError as error:
            for problem in error.problems:
                read.refuse(path, str(problem))
            continue
        if target is not None and target.label in [other.label for other in found]:
            read.refuse(path, "two targets have this label", target.label, "give one of them another label")
        elif target is not None:
            found.append(target)
    return tuple(found)


def _target(read: Reader, given: Any, path: PathLike, folder: Path, allowed: AllowedCode) -> Target | None:
    if isinstance(given, str):
        kind, name, label = _kind_of(given), given, Path(given).stem if given.endswith(SUFFIXES) else given
    else:
        kinds = [kind for kind in KINDS if isinstance(given, Mapping) and kind in given]
        if len(kinds) != 1:
            read.refuse(path, f"it must be a name or a file, or a mapping with one of {', '.join(KINDS)}", given)
            return None
        kind = kinds[0]
        read.keys(path, KINDS[kind])
        name = read.text((*path, kind)) or ""
        label = read.text((*path, "label")) or (Path(name).stem if kind == "program" else name)
    params = {str(key): plain(value) for key, value in read.mapping((*path, "params")).items()} if given is not name else {}
    if kind == "program":
        return ProgramTarget(label, load_program(str(folder / name)))
    if kind == "workload":
        if name not in WORKLOADS:
            place = path if given is name else (*path, kind)
            read.refuse(place, f"it must be a bench, a file, or one of {', '.join(sorted(WORKLOADS))}", name)
            return None
        return WorkloadTarget(name)
    if kind == "llm":
        made = LlmTarget(label, str(folder / name) if name.lower().endswith(SUFFIXES) else name, params)
        made.checked({})
        return made
    verify = read.flag((*path, "verify")) if given is not name else False
    if kind == "ccl":
        call = CclTarget(label, name, params, verify)
        call.checked({})
        return call
    where = str(folder / name) if ".py" in name else name
    bench = BenchTarget(label, where, params, verify, allowed)
    bench.checked({})
    return bench


def _kind_of(name: str) -> str:
    """What a name alone means, as on the command line."""
    if name.lower().endswith(SUFFIXES):
        return "program"
    return "bench" if name not in WORKLOADS and (".py" in name or is_bench_target(name)) else "workload"


def read_machines(
    read: Reader, targets: tuple[Target, ...], folder: Path, allowed: AllowedCode
) -> tuple[list[Machines], dict[int, tuple[int, ...]]]:
    """The base machines with `set` applied, and for each target which of them it runs on."""
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
    """The machines that the spec names, at `machine`, one or a list."""
    given = read.get(("machine",))
    if isinstance(given, (list, tuple)):
        names = [read.text(("machine", i)) for i in range(len(given))]
        for i, name in enumerate(names):
            if name and name in names[:i]:
                read.refuse(("machine", i), "the machine stands twice in its list", name)
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

