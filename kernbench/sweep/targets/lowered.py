"""Lowered programs, kept by content: points that differ only in what no table of jobs depends on share one."""

from __future__ import annotations

import threading
from dataclasses import replace

from kernbench.cmdq import Program
from kernbench.cmdq.lower import lower_machine
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.config import NpuConfig

#: The sections that a program is checked against and lowered for; clock, allocation, control, limits and energy are not.
SECTIONS = ("dma", "dram", "noc", "spm", "te", "ve", "kv_layouts")
MOST_KEPT = 8


class Plans:
    """The plans of one program, which must not grow any more. Threads may share them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, ...], tuple[NpuConfig, Plan]] = {}  # with the machine whose sections the numbers are ids of

    def of(self, config: NpuConfig) -> Plan:
        """What `plan_npu` gives. A section is known again as the same object, as `Machines` hands them out."""
        key = tuple(id(getattr(config, name)) for name in SECTIONS)
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return replace(known[1], pe=config, machine=lower_machine(config))
        plan = plan_npu(self.program, config)
        with self._lock:
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = config, plan
        return plan
