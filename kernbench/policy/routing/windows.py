"""The physical address map: a window for each stack of HBM, above them one for each SRAM, above those one for each scratchpad.

A window is the next power of two of what it holds, and is aligned to its size, so that the high bits of an address say whose
it is. What a window has beyond its memory is no address.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kernbench.common.units import ceil_div
from kernbench.config import SystemConfig


class HbmPlace(NamedTuple):
    """A byte of HBM."""

    sip: int
    cube: int  #: in the SIP
    slice: int  #: of the cube's stack
    offset: int  #: [byte] in the slice


@dataclass(frozen=True)
class Region:
    """Equal windows, one behind the other."""

    kind: str  #: of the components that hold these bytes
    base: int  #: address of the first window
    nbytes: int  #: of memory in a window
    count: int  #: windows

    @classmethod
    def after(cls, end: int, kind: str, nbytes: int, count: int) -> Region:
        """The region at the first place at or above `end` at which its windows are aligned."""
        window = _window(nbytes)
        return cls(kind, ceil_div(end, window) * window, nbytes, count)

    @cached_property
    def window(self) -> int:
        """Bytes of address space of one window."""
        return _window(self.nbytes)

    @cached_property
    def end(self) -> int:
        """The first address behind the last window."""
        return self.base + self.count * self.window

    def address(self, window: int, offset: int) -> int:
        """The address of a byte of a window."""
        return self.base + window * self.window + offset

    def split(self, address: int) -> tuple[int, int]:
        """Window and offset of an address between `base` and `end`; the offset may be beyond the memory."""
        return divmod(address - self.base, self.window)


def _window(nbytes: int) -> int:
    """The least power of two that is at least `nbytes`."""
    return 1 << (nbytes - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class AddressMap:
    """Where every memory of a system is, from how many there are and how large each is."""

    sips: int
    cubes: int  #: of a SIP
    pes: int  #: of a cube
    slices: int  #: of a stack
    hbm_bytes: int  #: of a stack
    sram_bytes: int  #: of a cube
    tcm_bytes: int  #: of a PE

    @cached_property
    def hbm(self) -> Region:
        """The stacks."""
        return Region.after(0, "hbm_ctrl", self.hbm_bytes, self.sips * self.cubes)

    @cached_property
    def sram(self) -> Region:
        """The cubes' SRAMs."""
        return Region.after(self.hbm.end, "sram", self.sram_bytes, self.sips * self.cubes)

    @cached_property
    def tcm(self) -> Region:
        """The PEs' scratchpads."""
        return Region.after(self.sram.end, "pe_tcm", self.tcm_bytes, self.sips * self.cubes * self.pes)

    @cached_property
    def _regions(self) -> tuple[Region, ...]:
        return (self.hbm, self.sram, self.tcm)

    @property
    def slice_bytes(self) -> int:
        """Bytes of one slice of a stack."""
        return self.hbm_bytes // self.slices

    def region(self, address: int) -> Region | None:
        """The region whose windows an address is in; None between them and behind them."""
        for one in self._regions:
            if one.base <= address < one.end:
                return one
        return None


def address_map(config: SystemConfig) -> AddressMap:
    """Where every memory of a system is."""
    return AddressMap(
        sips=config.system.sips,
        cubes=config.cubes,
        pes=config.cube.pes,
        slices=config.slices,
        hbm_bytes=config.cube.hbm.capacity_bytes,
        sram_bytes=config.cube.sram.bytes,
        tcm_bytes=config.pe.spm.size_bytes,
    )
