"""What functions of the Python API take as a machine and as something to run: names, files or objects."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kernbench.cmdq import Program, load_program
from kernbench.cmdq.compiled import SUFFIX, load_cached, load_compiled
from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig, NpuConfig, load_config
from kernbench.config.allowed_code import AllowCode
from kernbench.runtime_api.bench import Bench
from kernbench.runtime_api.discovery import installed_benches, is_bench_target, load_bench
from kernbench.workloads.catalogue import WORKLOADS

#: A machine: the name of a preset or chip, a file, a mapping as a file has it, or what `load_config` returns.
Config: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | MachineConfig
#: Values of the machine that replace others: `["dram.channels=4"]` or `{"dram.channels": 4}`.
Overrides: TypeAlias = Mapping[str, Any] | Sequence[str]
#: What runs: the name of a bench or workload, a file (.py, .json, .yaml, .kbp), a `Program`, a `Bench`, or a program as a dict.
Target: TypeAlias = str | os.PathLike[str] | Program | Bench | Mapping[str, Any]

DEFAULT_MACHINE = "npu_server"  #: where programs run if no machine is named; a bench names its own
SUFFIXES = (".json", ".yaml", ".yml", SUFFIX)  #: of files with programs


def machine_of(config: Config, overrides: Overrides = (), *, allow_code: AllowCode = ()) -> MachineConfig:
    """The machine, with the overrides applied. InputError as of `load_config`."""
    if not isinstance(config, MachineConfig):
        found: MachineConfig = load_config(config, overrides, allow_code=allow_code)
        return found
    if not overrides:
        return config
    changed: MachineConfig = load_config(config.to_dict(), overrides, allow_code=config.allowed_code)
    changed._source = config.source
    return changed


def bench_of(target: Target) -> Bench | None:
    """The bench that a target is or names; None where it is a program. InputError for a file of Python without one."""
    if isinstance(target, Bench):
        return target
    if isinstance(target, (Program, Mapping)):
        return None
    name = os.fspath(target)
    return load_bench(name) if not name.lower().endswith(SUFFIXES) and is_bench_target(name) else None


def program_of(target: Target, config: MachineConfig) -> Program:
    """The program that a target is or names, for this machine. InputError where there is none, or it is not valid."""
    if isinstance(target, Program):
        return target
    if isinstance(target, Mapping):
        return load_program(dict(target))
    if bench_of(target) is not None:
        rule = "it is a bench, and a program is wanted"
        raise InputError(Problem(name_of(target), rule, remedy="kernbench.run takes benches"))
    assert not isinstance(target, Bench)
    name = os.fspath(target)
    if name.lower().endswith(SUFFIXES) or isinstance(target, Path):
        return load_compiled(name, config) if name.lower().endswith(SUFFIX) else load_cached(name, config)
    if name not in WORKLOADS:
        raise InputError(_unknown(name))
    if not isinstance(config, NpuConfig):
        remedy = f"take a machine of kernbench/npu/1, as {DEFAULT_MACHINE}"
        raise InputError(Problem(name, f"this workload is for one NPU, and {config.source} is a system", remedy=remedy))
    return WORKLOADS[name](config)


def _unknown(name: str) -> Problem:
    benches = list(installed_benches())
    near = difflib.get_close_matches(name, [*WORKLOADS, *benches], n=1)
    remedy = f"did you mean {near[0]}?" if near else f"a program's file ends in {', '.join(SUFFIXES)}, a bench's in .py"
    rule = f"there is no such workload or bench; workloads: {', '.join(sorted(WORKLOADS))}; benches: {', '.join(benches)}"
    return Problem(name or '""', rule, remedy=remedy)


def name_of(target: Target) -> str:
    """How answers call a target."""
    if isinstance(target, (Program, Bench)):
        return target.name
    if isinstance(target, Mapping):
        return str(target.get("metadata", {}).get("name", "")) or "a program"
    return os.fspath(target)
