"""The memory of an address, and the locations of the processors and endpoints of a system."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig, SystemConfig
from kernbench.topology.graph import Topology


class HbmLocation(NamedTuple):
    """A byte of HBM."""

    sip: int
    cube: int  #: in the SIP
    slice: int  #: number of the slice in the stack of the cube
    offset: int  #: [byte] offset in the slice


class Region(msgspec.Struct, frozen=True, dict=True):
    """Equal, consecutive windows."""

    kind: str  #: the node kind of the components with these bytes
    base: int  #: address of the first window
    nbytes: int  #: [B] memory in a window
    count: int  #: windows

    @classmethod
    def after(cls, end: int, kind: str, nbytes: int, count: int) -> Region:
        """The region moved to the first address at or above `end` at which its windows are aligned; a region without bytes has
        no address."""
        if not nbytes:
            return cls(kind, 0, 0, 0)
        window = _window(nbytes)
        return cls(kind, ceil_div(end, window) * window, nbytes, count)

    @cached_property
    def window(self) -> int:
        """[B] The address space of one window."""
        return _window(self.nbytes)

    @cached_property
    def end(self) -> int:
        """The first address after the last window."""
        return self.base + self.count * self.window

    def address(self, window: int, offset: int) -> int:
        """The address of a byte in a window."""
        return self.base + window * self.window + offset

    def split(self, address: int) -> tuple[int, int]:
        """The window and the offset of an address between `base` and `end`; the offset may be beyond the memory."""
        return divmod(address - self.base, self.window)


def _window(nbytes: int) -> int:
    """The least power of two that is at least `nbytes`."""
    return 1 << (nbytes - 1).bit_length()


class AddressMap(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The addresses of all memories of a machine, derived from their numbers and sizes; an NPU has only its DRAM."""

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
        """The region with a window that contains the address, or None."""
        for one in self._regions:
            if one.base <= address < one.end:
                return one
        return None


def address_map(config: NpuConfig | SystemConfig) -> AddressMap:
    """The address map of a machine."""
    sips, cubes, pes = config.shape
    return AddressMap(
        sips=sips,
        cubes=cubes,
        pes=pes,
        slices=config.slices,
        hbm_bytes=config.memory.capacity_bytes,
        sram_bytes=config.sram_bytes,
        tcm_bytes=config.tcm_bytes,
    )


class VirtualRange(msgspec.Struct, frozen=True):
    """Maps the virtual addresses `[virtual, virtual + nbytes)` to `[physical, physical + nbytes)`."""

    virtual: int
    physical: int
    nbytes: int
    name: str = ""  #: the content of the range, for errors

    @property
    def end(self) -> int:
        """The first virtual address after the range."""
        return self.virtual + self.nbytes

    def __str__(self) -> str:
        text = f"[{self.virtual:#x}, {self.end:#x})"
        return f"{self.name} {text}" if self.name else text


class VirtualMap:
    """The mapping of virtual addresses to physical addresses. Several ranges can map to the same physical location.

    InputError for a range that is empty, that begins below 0, or that overlaps another range in virtual addresses.
    """

    def __init__(self, ranges: Iterable[VirtualRange] = (), *, name: str = "virtual map") -> None:
        self._name = name
        self._ranges = sorted(ranges, key=lambda item: (item.virtual, item.nbytes))
        self._starts = [item.virtual for item in self._ranges]
        problems = list(self._problems())
        if problems:
            raise InputError(problems)

    def __iter__(self) -> Iterator[VirtualRange]:
        """The ranges, by virtual address."""
        return iter(self._ranges)

    def _problems(self) -> Iterator[Problem]:
        for item in self._ranges:
            for field in ("virtual", "physical"):
                if getattr(item, field) < 0:
                    yield Problem(f"{self._name}: {item}", "it must be at least 0", field, getattr(item, field))
            if item.nbytes < 1:
                yield Problem(f"{self._name}: {item}", "it must be at least 1", "nbytes", item.nbytes)
        for first, second in pairwise(self._ranges):
            if second.virtual < first.end:
                rule = f"it overlaps {first}"
                yield Problem(f"{self._name}: {second}", rule, remedy="give each virtual address one range")

    def translate(self, address: int, nbytes: int = 1) -> int:
        """The physical address of the first of `nbytes` bytes; all bytes must be in one range. Else InputError."""
        place = bisect_right(self._starts, address) - 1
        found = self._ranges[place] if place >= 0 else None
        if found is None or address >= found.end:
            raise InputError(Problem(self._name, f"the address {address:#x} is in no range", remedy=self._near(place)))
        if address + nbytes > found.end:
            rule = f"the {nbytes} bytes at {address:#x} pass the end of {found}"
            raise InputError(Problem(self._name, rule, remedy="translate each range separately"))
        return found.physical + (address - found.virtual)

    def _near(self, place: int) -> str:
        """The ranges directly below and above an address that is in no range."""
        around = [str(item) for item in self._ranges[max(place, 0) : place + 2]]
        if not around:
            return "it has none"
        return f"the nearest {'are' if len(around) > 1 else 'is'} {' and '.join(around)}"


MAX_BYTES = 2**63  # [B] of address space: an address is a signed 64-bit number in the core
Where = tuple[int | None, int | None, int | None]  #: SIP, cube, PE


class AddressResolver:
    """Finds addresses and nodes of one topology.

    Addresses are physical; with `through` they are virtual and are translated first. Every method raises InputError for an
    address or node that does not exist.
    """

    def __init__(self, topology: Topology) -> None:
        config = topology.config
        self._source = config.source
        self._topology = topology
        self._at: dict[tuple[str, Where], list[str]] = {}
        for node in topology.nodes:
            self._at.setdefault((node.kind, (node.sip, node.cube, node.pe)), []).append(node.id)
        self.map = address_map(config)
        if self.map.tcm.end > MAX_BYTES:
            bits = (self.map.tcm.end - 1).bit_length()
            raise self._refusal(f"its memories take addresses of {bits} bits, and 63 is the limit")

    def resolve(self, address: int, *, through: VirtualMap | None = None) -> str:
        """The node that has a byte: an `hbm_ctrl`, `sram` or `pe_tcm`."""
        return self.locate(address, through=through)[0]

    def slice_of(self, address: int, *, through: VirtualMap | None = None) -> HbmLocation:
        """The SIP, the cube, the slice and the offset in the slice of a byte of HBM."""
        node, place = self.locate(address, through=through)
        if place is None:
            raise self._refusal(f"the address {address:#x} is in {node}, and slices are of HBM")
        return place

    def locate(self, address: int, *, through: VirtualMap | None = None) -> tuple[str, HbmLocation | None]:
        """The node that has a byte, and for HBM also the result of `slice_of`."""
        region, window, offset = self._split(address, through)
        node = self._holder(region, window)
        if region is not self.map.hbm:
            return node, None
        return node, HbmLocation(*divmod(window, self.map.cubes), *divmod(offset, self.map.slice_bytes))

    def address(self, sip: int, cube: int, slice: int, offset: int = 0) -> int:
        """The physical address of a byte of HBM; the inverse of `slice_of`."""
        limits = {
            "sip": (sip, self.map.sips),
            "cube": (cube, self.map.cubes),
            "slice": (slice, self.map.slices),
            "offset": (offset, self.map.slice_bytes),
        }
        for field, (value, limit) in limits.items():
            if not 0 <= value < limit:
                raise InputError(Problem(f"{self._source}: address of HBM", f"it must be 0 to {limit - 1}", field, value))
        return self.map.hbm.address(sip * self.map.cubes + cube, slice * self.map.slice_bytes + offset)

    def base(self, node: str) -> int:
        """The physical address of the first byte of a memory node."""
        found = self._topology.by_id.get(node)
        regions = {region.kind: region for region in (self.map.hbm, self.map.sram, self.map.tcm)}
        if found is None or found.kind not in regions or found.sip is None or found.cube is None:
            raise self._refusal(f"{node} holds no memory", f"memories are {', '.join(regions)}")
        stack = found.sip * self.map.cubes + found.cube
        return regions[found.kind].address(stack if found.pe is None else stack * self.map.pes + found.pe, 0)

    def find_m_cpu(self, sip: int, cube: int) -> str:
        """The management processor of a cube."""
        return self._first("m_cpu", (sip, cube, None))

    def find_pcie_ep(self, sip: int) -> str:
        """The PCIe endpoint of a SIP; if there are several, the first."""
        return self._first("pcie_ep", (sip, None, None))

    def find_io_cpu(self, sip: int) -> str:
        """The IO processor of a SIP; if there are several, the first."""
        return self._first("io_cpu", (sip, None, None))

    def find_all_pcie_eps(self) -> list[str]:
        """Every PCIe endpoint, ordered by SIP."""
        return [node.id for node in self._topology.nodes if node.kind == "pcie_ep"]

    def _split(self, address: int, through: VirtualMap | None) -> tuple[Region, int, int]:
        """The region, the window and the offset of an existing byte."""
        physical = address if through is None else through.translate(address)
        region = self.map.region(physical)
        if region is None:
            parts = [f"{one.kind} [{one.base:#x}, {one.end:#x})" for one in (self.map.hbm, self.map.sram, self.map.tcm)]
            raise self._refusal(f"the address {physical:#x} is in no memory", f"the map is {', '.join(parts)}")
        window, offset = region.split(physical)
        if offset >= region.nbytes:
            end = region.address(window, region.nbytes)
            raise self._refusal(f"the address {physical:#x} is past {self._holder(region, window)}, which ends before {end:#x}")
        return region, window, offset

    def _holder(self, region: Region, window: int) -> str:
        pe = None
        if region.kind == self.map.tcm.kind:
            window, pe = divmod(window, self.map.pes)
        return self._first(region.kind, (*divmod(window, self.map.cubes), pe))

    def _first(self, kind: str, where: Where) -> str:
        found = self._at.get((kind, where))
        if found:
            return found[0]
        names = zip(("SIP", "cube", "PE"), where, strict=True)
        place = ", ".join(f"{name} {number}" for name, number in names if number is not None)
        size = f"{self.map.sips} SIPs x {self.map.cubes} cubes x {self.map.pes} PEs, each counted from 0"
        raise self._refusal(f"there is no {kind} at {place}", f"the system has {size}")

    def _refusal(self, rule: str, remedy: str = "") -> InputError:
        return InputError(Problem(self._source, rule, remedy=remedy))
