"""What a TARGET on the command line means: a program's file, or the name of a workload of the package."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.cmdq import Program
    from kernbench.config import MachineConfig

SUFFIXES = (".json", ".yaml", ".yml")


def load_target(target: str, config: MachineConfig) -> Program:
    """The program that a TARGET names, for this machine."""
    if target.lower().endswith(SUFFIXES) or os.sep in target:
        from kernbench.cmdq import load_program

        return load_program(target)
    return workload_program(target, config)


def workload_program(name: str, config: MachineConfig) -> Program:
    """The program of a workload by its name; InputError where there is none, or the machine cannot hold it."""
    from kernbench.config import NpuConfig
    from kernbench.workloads.catalogue import WORKLOADS

    if name not in WORKLOADS:
        rule = f"there is no such workload; workloads are: {', '.join(sorted(WORKLOADS))}"
        near = difflib.get_close_matches(name, WORKLOADS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"a program's file ends in {', '.join(SUFFIXES)}"
        raise InputError(Problem(name, rule, remedy=remedy))
    if not isinstance(config, NpuConfig):
        remedy = "take a machine of kernbench/npu/1, as npu_server"
        raise InputError(Problem(name, f"this workload is for one NPU, and {config.source} is a system", remedy=remedy))
    return WORKLOADS[name](config)
