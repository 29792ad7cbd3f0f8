"""The processor of an IO chiplet, which hands launches on to M_CPUs."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class IoCpu(PassivePart):
    """`io.io_cpu.cycles` of a launch."""

    def cycles(self, passage: Passage) -> int:
        return self.config.io.io_cpu.cycles
