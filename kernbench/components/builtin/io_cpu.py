"""The processor of an IO chiplet, which forwards launches to M_CPUs."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class IoCpu(PassivePart):
    """It adds `io.io_cpu.cycles` to a launch."""

    def cycles(self, passage: Passage) -> int:
        return self.config.io.io_cpu.cycles
