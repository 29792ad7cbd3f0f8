"""The management processor of a cube, which takes launches."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class MCpu(PassivePart):
    """`cube.m_cpu.cycles` of a launch."""

    def cycles(self, passage: Passage) -> int:
        return self.config.cube.m_cpu.cycles
