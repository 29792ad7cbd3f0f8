"""The management processor of a cube, which accepts launches."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class MCpu(PassivePart):
    """It adds `cube.m_cpu.cycles` to a launch."""

    def cycles(self, passage: Passage) -> int:
        return self.config.cube.m_cpu.cycles
