"""The key `targets` of a spec: programs, workloads, benches, models and collectives that a sweep runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernbench.cmdq import load_program
from kernbench.common.errors import InputError
from kernbench.config.allowed_code import AllowedCode
from kernbench.config.places import PathLike
from kernbench.sweep.spec.axes import plain
from kernbench.sweep.spec.reader import Reader
from kernbench.sweep.targets.target import ProgramTarget, Target, WorkloadTarget
from kernbench.workloads.catalogue import WORKLOADS

KINDS = {
    "program": ("program", "label"),
    "workload": ("workload",),
    "bench": ("bench", "label", "params", "verify"),
    "llm": ("llm", "label", "params"),
    "op": ("op", "label", "params"),
    "ccl": ("ccl", "label", "params", "verify"),
    "serve": ("serve", "label", "params"),
}
SUFFIXES = (".json", ".yaml", ".yml")


def read_targets(read: Reader, folder: Path, allowed: AllowedCode) -> tuple[Target, ...]:
    """The targets; every target must have a different label. Relative files are in the spec's folder."""
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
            read.refuse(path, "two targets have this label", target.label, "give one of the two another label")
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
    # Modules of targets are imported only if a target needs them: importing all modules takes longer than a short sweep.
    if kind == "llm":
        from kernbench.sweep.targets.llm import LlmTarget

        made = LlmTarget(label, str(folder / name) if name.lower().endswith(SUFFIXES) else name, params)
        made.checked({})
        return made
    if kind == "serve":
        from kernbench.sweep.targets.serve import ServeTarget

        service = ServeTarget(label, str(folder / name) if name.lower().endswith(SUFFIXES) else name, params)
        service.checked({})
        return service
    if kind == "op":
        from kernbench.sweep.targets.chip import OpTarget

        operation = OpTarget(label, name, params)
        operation.checked({})
        return operation
    verify = read.flag((*path, "verify")) if given is not name else False
    if kind == "ccl":
        from kernbench.sweep.targets.ccl import CclTarget

        call = CclTarget(label, name, params, verify)
        call.checked({})
        return call
    from kernbench.sweep.targets.bench import BenchTarget

    where = str(folder / name) if ".py" in name else name
    bench = BenchTarget(label, where, params, verify, allowed)
    bench.checked({})
    return bench


def _kind_of(name: str) -> str:
    """The target for a plain name, as on the command line."""
    if name.lower().endswith(SUFFIXES):
        return "program"
    if name in WORKLOADS:
        return "workload"
    from kernbench.runtime_api.discovery import is_bench_target  # imported here because few sweeps have a bench

    return "bench" if ".py" in name or is_bench_target(name) else "workload"


def parameters_of(target: Target) -> list[str]:
    """The names of a target's parameters."""
    return list(target.checked({}))
