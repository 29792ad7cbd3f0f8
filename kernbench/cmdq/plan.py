"""A program on a machine as the core takes it, and how results call what its tables number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from kernbench.cmdq.check import check_program
from kernbench.cmdq.lower import COMPUTE_JOB, DMA_JOB, lower_machine, lower_program, resource_capacities, resource_names
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.config import NpuConfig


@dataclass(frozen=True)
class Plan:
    """The core's two tables, and the names of their items in the core's order."""

    pe: NpuConfig  #: the NPU, or what each PE of a system is
    machine: dict[str, Any]
    program: dict[str, Any]
    dma: tuple[str, ...]  #: DMA engines
    compute: tuple[str, ...]  #: tensor engines, vector engines, then processors
    resources: tuple[str, ...]
    capacities: tuple[Fraction, ...]  #: [byte/cycle] of each
    channels: int  #: the first so many resources are DRAM channels
    scratchpads: tuple[str, ...]  #: those that count; further ones stand for what has no banks

    extra: Mapping[int, int] = field(default_factory=dict)  #: per entry, cycles of its head latency that are an endpoint's

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Who runs each entry, in file order."""
        op, job = self.program["op"].tolist(), self.program["job"].tolist()
        dma, compute = (self.program[kind]["engine"].tolist() for kind in ("dma", "compute"))
        run_by: dict[int, tuple[tuple[str, ...], list[int]]] = {DMA_JOB: (self.dma, dma), COMPUTE_JOB: (self.compute, compute)}
        out = []
        for kind, k in zip(op, job, strict=True):
            names, engine = run_by.get(kind, ((naming.CONTROL,), []))
            out.append(names[engine[k] if engine else 0])
        return tuple(out)


def plan_npu(program: Program, config: NpuConfig) -> Plan:
    """The plan of a program on one NPU; InputError where it is not valid there."""
    check_program(program, config)
    kinds = (("te", config.te.engines), ("ve", config.ve.engines))
    return Plan(
        pe=config,
        machine=lower_machine(config),
        program=lower_program(program, config),
        dma=tuple(naming.engine("dma", k) for k in range(config.dma.engines)),
        compute=tuple(naming.engine(kind, k) for kind, count in kinds for k in range(count)),
        resources=tuple(resource_names(config)),
        capacities=tuple(resource_capacities(config)),
        channels=config.dram.channels,
        scratchpads=(naming.SPM,),
    )
