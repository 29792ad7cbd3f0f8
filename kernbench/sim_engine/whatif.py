"""What a run would take if a resource never limited it: an automatic roofline.

Each resource is freed by a change of the machine's description, so a freed machine is a machine like any other.
`docs/reference/whatif.md` says for each what is changed, and what stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.whatif_resources import RESOURCES, Changes

Config = NpuConfig | SystemConfig
Progress = Callable[[Machine], None]


@dataclass(frozen=True, slots=True)
class Freed:
    """A run with something freed."""

    resources: tuple[str, ...]
    changes: Changes  #: none: the machine has no such thing, or it is without limit already
    status: str
    cycles: int
    saved: int | None  #: cycles of the run as it is less these; negative where it got slower; None: one is not done


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A run as it is, with each resource freed, and with all of them freed."""

    result: Result
    each: tuple[Freed, ...]
    all: Freed


def what_if(program: Program, config: Config, resources: Sequence[str] = (), progress: Progress | None = None) -> WhatIf:
    """Run a program as the machine is, then with each of `resources` freed (all six by default), then with all of these.

    InputError for an unknown resource.
    """
    wanted = tuple(dict.fromkeys(resources)) or tuple(RESOURCES)
    for name in wanted:
        if name not in RESOURCES:
            raise InputError(Problem("whatif", f"it must be one of {', '.join(RESOURCES)}", "free", name))
    base = _run(program, config, progress)
    each = tuple(_freed(program, config, (name,), base, progress) for name in wanted)
    if len(wanted) == 1:
        return WhatIf(base, each, each[0])
    return WhatIf(base, each, _freed(program, config, wanted, base, progress))


def free(config: Config, resources: Sequence[str], program: Program) -> tuple[Config, Changes]:
    """The machine with these resources freed for a program, and what that changed."""
    changes: Changes = {}
    changed: Config = config
    for name in (name for name in RESOURCES if name in resources):
        some = {path: value for path, value in RESOURCES[name](changed, program).items() if _at(changed, path) != value}
        data = changed.to_dict()
        for path, value in some.items():
            _set(data, path.split("."), value)
        try:
            changed = load_config(data, allow_code=config.allowed_code)
        except InputError as error:
            rule = f"the machine without limits of {name} is not valid: {error.problems[0]}"
            raise InputError(Problem("whatif", rule, remedy="leave it out of --free")) from None
        changes.update(some)
    return changed, changes


def _freed(program: Program, config: Config, names: tuple[str, ...], base: Result, progress: Progress | None) -> Freed:
    changed, changes = free(config, names, program)
    result = _run(program, changed, progress) if changes else base
    saved = base.cycles - result.cycles if (base.status, result.status) == ("done", "done") else None
    return Freed(names, changes, result.status, result.cycles, saved)


def _run(program: Program, config: Config, progress: Progress | None) -> Result:
    machine = Machine(config, program)
    machine.run(progress=progress)
    return machine.result()


def _at(config: Config, path: str) -> Any:
    value: Any = config.to_dict()
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    if value is None:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value
