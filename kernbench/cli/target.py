"""What a TARGET on the command line means: a bench, a program's file, or the name of a workload of the package."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.cmdq import Program
    from kernbench.config import MachineConfig
    from kernbench.runtime_api.bench import Bench


SUFFIXES = (".json", ".yaml", ".yml", ".kbp")


def find_bench(target: str) -> Bench | None:
    """The bench that a TARGET names; None where it names a program, or nothing."""
    if target.lower().endswith(SUFFIXES):
        return None
    from kernbench.runtime_api.discovery import is_bench_target, load_bench

    return load_bench(target) if is_bench_target(target) else None


def refuse_bench_options(target: str, **given: bool) -> None:
    """InputError where an option of benches is given with a program."""
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if wrong:
        raise InputError(Problem("kbsim", f"{', '.join(wrong)} is for benches, and {target} is none", remedy="leave it out"))


def load_target(target: str, config: MachineConfig) -> Program:
    """The program that a TARGET names, for this machine."""
    if target.lower().endswith(SUFFIXES) or (os.sep in target and not target.partition(":")[0].endswith(".py")):
        from kernbench.cmdq.compiled import SUFFIX, load_cached, load_compiled

        return load_compiled(target, config) if target.lower().endswith(SUFFIX) else load_cached(target, config)
    return workload_program(target, config)


def workload_program(name: str, config: MachineConfig) -> Program:
    """The program of a workload by its name; InputError where there is none, or the machine cannot hold it."""
    from kernbench.config import NpuConfig
    from kernbench.runtime_api.discovery import installed_benches, is_bench_target
    from kernbench.workloads.catalogue import WORKLOADS

    if name not in WORKLOADS:
        if is_bench_target(name):
            rule = "it is a bench, and this command takes programs and workloads"
            raise InputError(Problem(name, rule, remedy="kbsim run and kbsim step take benches"))
        benches = list(installed_benches())
        rule = f"there is no such workload or bench; workloads: {', '.join(sorted(WORKLOADS))}; benches: {', '.join(benches)}"
        near = difflib.get_close_matches(name, [*WORKLOADS, *benches], n=1)
        remedy = f"did you mean {near[0]}?" if near else f"a program's file ends in {', '.join(SUFFIXES)}, a bench's in .py"
        raise InputError(Problem(name or '""', rule, remedy=remedy))
    if not isinstance(config, NpuConfig):
        remedy = "take a machine of kernbench/npu/1, as npu_server"
        raise InputError(Problem(name, f"this workload is for one NPU, and {config.source} is a system", remedy=remedy))
    return WORKLOADS[name](config)


MOST_WARNINGS = 8


def load_machine(
    source: str, overrides: Sequence[str] | None, *, quiet: bool = False, kind: Any = None, allow_code: Sequence[str] = ()
) -> Any:
    """The machine, and on stderr which values that the user set have no effect on it."""
    from kernbench.config import load_config

    config: MachineConfig = load_config(source, overrides or [], kind=kind, allow_code=allow_code)
    warn_of_values(config, quiet=quiet)
    return config


def warn_of_values(config: MachineConfig, *, quiet: bool) -> None:
    """Say on stderr which values that the user set have no effect."""
    from kernbench.config.effects import told_unused

    if quiet:
        return
    found = told_unused(config)
    for one in found[:MOST_WARNINGS]:
        output.note(f"warning: {one}")
    if len(found) > MOST_WARNINGS:
        output.note(f"warning: {len(found) - MOST_WARNINGS:,} more values have no effect: kbsim config check lists them")
