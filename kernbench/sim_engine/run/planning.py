"""A program on a machine of either kind: its plan, its summary. The machine says which rules are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench.bounds.analyse import ProgramSummary, summarise_plan
from kernbench.cmdq.check import check_program
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.config import NpuConfig

if TYPE_CHECKING:
    from kernbench.config import SystemConfig

# What knows systems is imported for them alone: half of what runs is on one NPU, and begins sooner without.


def plan_program(program: Program, config: NpuConfig | SystemConfig, *, whole: bool = False) -> Plan:
    """The plan of a program; InputError where it is not valid on the machine. `whole`: of a system, all of it."""
    if isinstance(config, NpuConfig):
        return plan_npu(program, config)
    from kernbench.cmdq.system import lower_system

    return lower_system(program, config, whole=whole)


def check_on(program: Program, config: NpuConfig | SystemConfig) -> None:
    """InputError naming everything that keeps the program from running on the machine.

    On a system that includes its ways: a node that cannot be reached is found when it is asked for a route.
    """
    if isinstance(config, NpuConfig):
        check_program(program, config)
    else:
        plan_program(program, config)


def summarise_on(program: Program, config: NpuConfig | SystemConfig) -> ProgramSummary:
    """A program at a glance; InputError where it is not valid on the machine."""
    return summarise_plan(program, plan_program(program, config))
