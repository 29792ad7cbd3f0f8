"""The shared SRAM of a cube."""

from __future__ import annotations

from kernbench.components.passive import MemoryPart


class Sram(MemoryPart):
    """It has neither a set-up time nor channels: the edge to its router has `cube.sram.bytes_per_cycle` and `cycles`."""
