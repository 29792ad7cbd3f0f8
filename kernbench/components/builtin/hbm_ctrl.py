"""The controller of an HBM stack (docs/model/sharing.md): set-up, and the channels of its slices."""

from __future__ import annotations

from fractions import Fraction

from kernbench.components.passive import MemoryPart


class HbmCtrl(MemoryPart):
    """As `cube.hbm` says. Which bytes are on which slice and channel is arithmetic of addresses, and no part's."""

    def setup_cycles(self) -> int:
        return self.config.cube.hbm.t_setup_cycles

    def channel_bytes_per_cycle(self) -> Fraction | int:
        """[byte/cycle] of each of its channels."""
        return self.config.cube.hbm.capacity
