"""The system `kernbench/system/1`: SIPs of cubes of PEs, as a frozen model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from kernbench.config.fields import Frequency
from kernbench.config.machine import MachineConfig
from kernbench.config.rules import BrokenRule
from kernbench.config.schema import (
    ALLOCATION,
    CONTROL,
    ENERGY,
    FREQ_GHZ,
    KV_LAYOUTS,
    MAX_CYCLES,
    Allocation,
    Control,
    CycleLimit,
    EnergyModel,
    KvLayout,
)
from kernbench.config.system.parts import Components, Cube, Io, Package, Pe, Sip, Wires
from kernbench.config.system.rules import system_rules


class SystemConfig(MachineConfig):
    """A package of SIPs, cubes and PEs. Made by `load_config`; two are equal when every value is."""

    schema_name: Literal["kernbench/system/1"] = Field(
        default="kernbench/system/1", alias="schema", description="kind and version of the file"
    )
    freq_ghz: Frequency = FREQ_GHZ
    allocation: Allocation = ALLOCATION
    max_cycles: CycleLimit = MAX_CYCLES
    control: Control = CONTROL
    system: Package = Field(default_factory=Package, description="SIPs and what connects them")
    sip: Sip = Field(default_factory=Sip, description="cubes and IO chiplets of a SIP")
    cube: Cube = Field(default_factory=Cube, description="one cube")
    io: Io = Field(default_factory=Io, description="one IO chiplet")
    pe: Pe = Field(default_factory=Pe, description="one PE")
    wires: Wires = Field(default_factory=Wires, description="speed of signals")
    components: Components = Field(default={}, description="by kind of node: what simulates it, and its own keys")
    kv_layouts: tuple[KvLayout, ...] = KV_LAYOUTS
    energy: EnergyModel = ENERGY

    #: What stands before the paths of a PE's keys.
    pe_path: ClassVar[str] = "pe."

    def broken_rules(self) -> list[BrokenRule]:
        return system_rules(self)

    @property
    def sip_cols(self) -> int:
        """Columns of SIPs."""
        return self.system.cols or self.system.sips // self.system.rows

    @property
    def cubes(self) -> int:
        """Cubes of one SIP."""
        return self.sip.rows * self.sip.cols

    @property
    def pes(self) -> int:
        """PEs of the whole system."""
        return self.system.sips * self.cubes * self.cube.pes

    @property
    def slices(self) -> int:
        """Slices of one HBM stack."""
        return self.cube.hbm.slices or self.cube.pes

    @property
    def slice_bytes(self) -> int:
        """Bytes of one slice."""
        return self.cube.hbm.capacity_bytes // self.slices

    @property
    def slice_channels(self) -> int:
        """Channels of one slice."""
        return self.cube.hbm.channels // self.slices

    def slice_pe(self, index: int) -> int:
        """The PE whose router a slice of the HBM enters by."""
        return index * self.cube.pes // self.slices
