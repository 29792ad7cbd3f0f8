"""The PCIe endpoint of an IO chiplet, as copies and launches pass it."""

from __future__ import annotations

from kernbench.components.passive import Passage, PassivePart


class PcieEp(PassivePart):
    """`io.pcie.setup_cycles`: a doorbell is seen and its descriptor decoded."""

    def cycles(self, passage: Passage) -> int:
        return self.config.io.pcie.setup_cycles
