"""The PEs and HBM slices of a machine, in order: what tensors are placed on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernbench.common import naming
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.machine import MachineConfig
from kernbench.policy.placement import Size
from kernbench.policy.routing.windows import AddressMap, address_map

LONE_PE = "pe0"  #: what the one PE of an NPU is called


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the HBM with addresses of its own; on an NPU its whole DRAM."""

    name: str  #: as errors name it: `slice 2 of sip0.cube1.hbm_ctrl`
    base: int  #: physical address of its first byte
    nbytes: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.base + self.nbytes


class Places:
    """PEs by number, SIP by SIP, cube by cube; each has one HBM slice that is its own."""

    def __init__(self, config: MachineConfig) -> None:
        assert isinstance(config, NpuConfig | SystemConfig)
        self.config = config
        system = config if isinstance(config, SystemConfig) else None
        self.size = Size(1, 1, 1) if system is None else Size(system.system.sips, system.cubes, system.cube.pes)

    @cached_property
    def pes(self) -> tuple[str, ...]:
        """The name of each PE: `sip0.cube1.pe2`."""
        if isinstance(self.config, NpuConfig):
            return (LONE_PE,)
        sips, cubes, pes = (range(count) for count in self.size)
        return tuple(naming.place(sip, cube=cube, pe=pe) for sip in sips for cube in cubes for pe in pes)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Every HBM slice, cube by cube, by address."""
        config = self.config
        if isinstance(config, NpuConfig):
            return (Slice("the DRAM", 0, config.dram.capacity_bytes),)
        stacks = self._map.hbm
        return tuple(
            Slice(
                f"slice {number} of {naming.in_cube(sip, cube, naming.HBM)}",
                stacks.address(sip * self.size.cubes + cube, number * config.slice_bytes),
                config.slice_bytes,
            )
            for sip in range(self.size.sips)
            for cube in range(self.size.cubes)
            for number in range(config.slices)
        )

    def slice_of(self, pe: int) -> int:
        """The number of a PE's own slice: the first whose router is that of the PE; without one, the slice of that number."""
        if isinstance(self.config, NpuConfig):
            return 0
        cube, inside = divmod(pe, self.size.pes)
        owned = [k for k in range(self.config.slices) if self.config.slice_pe(k) == inside]
        return cube * self.config.slices + (owned[0] if owned else inside % self.config.slices)

    def number(self, sip: int, cube: int, pe: int) -> int:
        """The number of a PE by its place."""
        return (sip * self.size.cubes + cube) * self.size.pes + pe

    def sip_at(self, physical: int) -> int:
        """The SIP whose HBM holds an address."""
        found = next(k for k, one in enumerate(self.slices) if one.base <= physical < one.end)
        return found // (len(self.slices) // self.size.sips)

    @property
    def virtual_base(self) -> int:
        """The first virtual address: above every memory, and the same on small machines."""
        end = self.slices[-1].end if isinstance(self.config, NpuConfig) else self._map.tcm.end
        return max(1 << 48, 1 << end.bit_length())

    @cached_property
    def _map(self) -> AddressMap:
        config = self.config
        assert isinstance(config, SystemConfig)
        return address_map(config)
