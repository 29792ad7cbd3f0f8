"""A program on a machine of either kind: its plan, its bounds, its summary. The machine says which rules are its own."""

from __future__ import annotations

from kernbench.cmdq.analyse import ProgramSummary, lower_bounds, summarise
from kernbench.cmdq.bounds import Bounds
from kernbench.cmdq.check import check_program
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.cmdq.system import lower_system
from kernbench.cmdq.system.analyse import summarise_plan
from kernbench.cmdq.system.bounds import plan_bounds
from kernbench.config import NpuConfig, SystemConfig


def plan_program(program: Program, config: NpuConfig | SystemConfig) -> Plan:
    """The plan of a program; InputError where it is not valid on the machine."""
    return plan_npu(program, config) if isinstance(config, NpuConfig) else lower_system(program, config)


def check_on(program: Program, config: NpuConfig | SystemConfig) -> None:
    """InputError naming everything that keeps the program from running on the machine.

    On a system that includes its ways: a node that cannot be reached is found when it is asked for a route.
    """
    if isinstance(config, NpuConfig):
        check_program(program, config)
    else:
        lower_system(program, config)


def bounds_on(program: Program, plan: Plan, config: NpuConfig | SystemConfig) -> Bounds:
    """Lower bounds of the cycles of a program whose plan on that machine is known."""
    return lower_bounds(program, config) if isinstance(config, NpuConfig) else plan_bounds(program, plan)


def summarise_on(program: Program, config: NpuConfig | SystemConfig) -> ProgramSummary:
    """A program at a glance; InputError where it is not valid on the machine."""
    if isinstance(config, NpuConfig):
        check_program(program, config)
        return summarise(program, config)
    return summarise_plan(program, lower_system(program, config))
