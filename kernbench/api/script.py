"""Launches of a script: a Python file without a bench, which starts Triton kernels or workers by itself."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.common.user_modules import Unloadable, loading
from kernbench.config.machine import MachineConfig
from kernbench.runtime_api.discovery import bench_file, folder_first
from kernbench.sim_engine.engine import Ran, recorded_benches

SHOWN = 8  # launches that an error lists


def launch_of(target: str, config: MachineConfig | None) -> Ran:
    """The launch that `FILE.py`, or `FILE.py:NAME` for a script with several, names. The script runs once, on this machine.

    InputError if the script raises an exception, launches nothing, or has another machine for the launch than `config`.
    """
    path = bench_file(target)
    assert path is not None
    launches = _launches(path, config)
    name = target.rpartition(".py")[2].removeprefix(":")
    if name not in launches and (name or len(launches) != 1):
        listed = ", ".join([*launches][:SHOWN]) + (", ..." if len(launches) > SHOWN else "")
        none = f"the script has no launch with this name; its launches are {listed}"
        rule = none if name else f"the script launches {listed}"
        remedy = (name and meant(name, launches)) or f"name one of them, for example {path}:{next(iter(launches))}"
        raise InputError(Problem(str(path), rule, "launch" if name else "", name, remedy))
    found = launches[name or next(iter(launches))]
    if config is not None and found.config.to_dict() != config.to_dict():
        rule = f"the script itself chooses the machine of {found.bench.name}, which is {found.config.source}"
        raise InputError(Problem(str(path), rule, "config", config.source, "leave --config and --set out"))
    return found


def _launches(path: Path, config: MachineConfig | None) -> dict[str, Ran]:
    """The launches of a script, by name: `add`, `add.2`, ... Its output goes to stderr."""
    import kernbench.triton.patch  # noqa: F401  (`import triton` of the script)
    from kernbench.runtime_api.triton.run import DEFAULT_MACHINE, machine

    argv = patch.object(sys, "argv", [str(path)])
    with recorded_benches() as runs, machine(config or DEFAULT_MACHINE), argv, folder_first(path.parent):
        try:
            with redirect_stdout(sys.stderr), loading(str(path)):
                _run(path)
        except Unloadable as error:
            ended = error.__cause__
            if not (isinstance(ended, SystemExit) and ended.code in (None, 0)):
                raise InputError(Problem(error.place, error.rule)) from error
    if not runs:
        rule = "the file contains no bench, and as a script it launches nothing"
        remedy = "write @bench(name=..., description=...) above the function run(ctx), or launch a kernel"
        raise InputError(Problem(str(path), rule, remedy=remedy))
    found: dict[str, Ran] = {}
    for one in runs:
        number = 1 + sum(name.partition(".")[0] == one.bench.name for name in found)
        found[one.bench.name if number == 1 else f"{one.bench.name}.{number}"] = one
    return found


def _run(path: Path) -> None:
    import runpy

    runpy.run_path(str(path), run_name="__main__")
