"""The system `kernbench/system/1`: SIPs of cubes of PEs, as a frozen model."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import ClassVar, Literal

from kernbench.common import naming
from kernbench.config.cache import Llc
from kernbench.config.fields import Frequency
from kernbench.config.machine import MachineConfig
from kernbench.config.rules import BrokenRule
from kernbench.config.schema import (
    ALLOCATION,
    CONTROL,
    COST,
    ENERGY,
    FREQ_GHZ,
    KV_LAYOUTS,
    MAX_CYCLES,
    Allocation,
    Control,
    Cost,
    CycleLimit,
    EnergyModel,
    KvLayout,
    memory_rules,
)
from kernbench.config.section import Field
from kernbench.config.system.parts import Components, Cube, Hbm, Io, Mesh, Package, Pe, Sip, Wires
from kernbench.config.system.rules import most_flow_weight, system_rules


class SystemConfig(MachineConfig):
    """A system of SIPs, cubes and PEs. `load_config` makes it; its attributes are the keys of the file. Two systems are equal
    if all values are equal.

    >>> import kernbench as kb
    >>> machine = kb.load_config("single_cube")
    >>> isinstance(machine, kb.SystemConfig), machine.source
    (True, 'single_cube.yaml')
    """

    younger: ClassVar[frozenset[str]] = frozenset({"cost"})

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
    components: Components = Field(
        default={}, description="for each kind of node: the component that simulates it, and the keys of the component"
    )
    kv_layouts: tuple[KvLayout, ...] = KV_LAYOUTS
    energy: EnergyModel = ENERGY
    cost: Cost | None = COST

    #: Prefixes of the paths of keys of a PE, and of its memory.
    pe_path: ClassVar[str] = "pe."
    memory_path: ClassVar[str] = "cube.hbm."
    cache_path: ClassVar[str] = "cube.llc."
    network_path: ClassVar[str] = "cube.mesh."
    #: Facts of a real chip: the file of a board has none.
    chip: ClassVar[None] = None

    def broken_rules(self) -> list[BrokenRule]:
        hbm = self.cube.hbm
        return memory_rules(self.allocation, hbm, hbm.channels // self.slices, ("cube", "hbm")) or system_rules(self)

    def channel_weight(self) -> int:
        """The largest sum of weights on a DRAM channel: the sum over all flows, which may use one channel at the same time."""
        return most_flow_weight(self)

    @property
    def cache(self) -> Llc | None:
        """The last-level cache before the stack of each cube."""
        return self.cube.llc

    def cache_weight(self) -> int:
        """The largest sum of weights at a last-level cache, computed as in `channel_weight`."""
        return most_flow_weight(self)

    @property
    def shape(self) -> tuple[int, int, int]:
        """SIPs, cubes of a SIP, PEs of a cube."""
        return self.system.sips, self.cubes, self.cube.pes

    @property
    def pe_names(self) -> tuple[str, ...]:
        """Every PE, ordered by SIP and cube: `sip0.cube1.pe2`."""
        places = product(*map(range, self.shape))
        return tuple(naming.place(sip, cube=cube, pe=pe) for sip, cube, pe in places)

    @property
    def memory(self) -> Hbm:
        """The memory of the loads and stores of a PE."""
        return self.cube.hbm

    @property
    def sram_bytes(self) -> int:
        """[B] The size of the SRAM of a cube."""
        return self.cube.sram.bytes

    @property
    def tcm_bytes(self) -> int:
        """[B] The size of a PE's scratchpad in the address map."""
        return self.pe.spm.size_bytes

    @property
    def comm_transfers(self) -> int:
        """The largest number of transfers at a time on the channel for queues between PEs."""
        return self.pe.ipcq.max_concurrent

    @property
    def link_bytes_per_cycle(self) -> Fraction:
        """[B/cycle] The bandwidth of the link from a PE to the mesh."""
        return self.pe.link.bytes_per_cycle

    @property
    def sip_cols(self) -> int:
        """Columns of SIPs; of a network of dimensions, the SIPs of a line of the first dimension."""
        if self.system.dimensions:
            return self.system.dimensions[0].size
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
        """The PE at whose router a slice of the HBM is connected."""
        return index * self.cube.pes // self.slices

    def slice_name(self, sip: int, cube: int, index: int) -> str:
        """The name of a slice in error messages."""
        return f"slice {index} of {naming.in_cube(sip, cube, naming.HBM)}"

    @property
    def network(self) -> Mesh:
        """The mesh of a cube."""
        return self.cube.mesh
