"""The PCIe endpoint of an IO chiplet, for copies and launches that pass it."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class PcieEp(PassivePart):
    """`io.pcie.setup_cycles`: the time to see a doorbell and decode its descriptor."""

    def cycles(self, passage: Passage) -> int:
        return self.config.io.pcie.setup_cycles
