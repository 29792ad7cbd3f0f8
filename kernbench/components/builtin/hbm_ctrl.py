"""The controller of an HBM stack (docs/model/sharing.md): set-up, and the channels of its slices."""

from __future__ import annotations

from fractions import Fraction

from kernbench.components.passive import MemoryPart


class HbmCtrl(MemoryPart):
    """The parameters are those of `cube.hbm`. The slice and the channel of a byte follow from its address, and no component
    decides them."""

    def setup_cycles(self) -> int:
        return self.config.cube.hbm.t_setup_cycles

    def channel_bytes_per_cycle(self) -> Fraction | int:
        """[byte/cycle] of each of its channels."""
        return self.config.cube.hbm.capacity
