"""Which memory an address is in, and where the processors and endpoints of a system are."""

from __future__ import annotations

from kernbench.common.errors import InputError, Problem
from kernbench.policy.routing.virtual import VirtualMap
from kernbench.policy.routing.windows import HbmPlace, Region, address_map
from kernbench.topology.graph import Topology

MOST_BYTES = 2**63  # of address space: an address is a signed 64-bit number in the core
Where = tuple[int | None, int | None, int | None]  #: SIP, cube, PE


class AddressResolver:
    """Looks up addresses and nodes of one topology.

    Addresses are physical; with `through` they are virtual and are translated first. Every method raises InputError where
    there is nothing of what is asked for.
    """

    def __init__(self, topology: Topology) -> None:
        config = topology.config
        self._source = config.source
        self._topology = topology
        self._at: dict[tuple[str, Where], list[str]] = {}
        for node in topology.nodes:
            self._at.setdefault((node.kind, (node.sip, node.cube, node.pe)), []).append(node.id)
        self.map = address_map(config)
        if self.map.tcm.end > MOST_BYTES:
            bits = (self.map.tcm.end - 1).bit_length()
            raise self._refusal(f"its memories take addresses of {bits} bits, and 63 is the limit")

    def resolve(self, address: int, *, through: VirtualMap | None = None) -> str:
        """The node that holds a byte: an `hbm_ctrl`, `sram` or `pe_tcm`."""
        return self.locate(address, through=through)[0]

    def slice_of(self, address: int, *, through: VirtualMap | None = None) -> HbmPlace:
        """SIP, cube, slice and offset in the slice of a byte of HBM."""
        node, place = self.locate(address, through=through)
        if place is None:
            raise self._refusal(f"the address {address:#x} is in {node}, and slices are of HBM")
        return place

    def locate(self, address: int, *, through: VirtualMap | None = None) -> tuple[str, HbmPlace | None]:
        """The node that holds a byte, and for HBM what `slice_of` says."""
        region, window, offset = self._split(address, through)
        node = self._holder(region, window)
        if region is not self.map.hbm:
            return node, None
        return node, HbmPlace(*divmod(window, self.map.cubes), *divmod(offset, self.map.slice_bytes))

    def address(self, sip: int, cube: int, slice: int, offset: int = 0) -> int:
        """The physical address of a byte of HBM: what `slice_of` takes apart."""
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
        """The PCIe endpoint of a SIP; of several the first."""
        return self._first("pcie_ep", (sip, None, None))

    def find_io_cpu(self, sip: int) -> str:
        """The IO processor of a SIP; of several the first."""
        return self._first("io_cpu", (sip, None, None))

    def find_all_pcie_eps(self) -> list[str]:
        """Every PCIe endpoint, SIP by SIP."""
        return [node.id for node in self._topology.nodes if node.kind == "pcie_ep"]

    def _split(self, address: int, through: VirtualMap | None) -> tuple[Region, int, int]:
        """Region, window and offset of a byte that exists."""
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
        size = f"{self.map.sips} SIPs of {self.map.cubes} cubes of {self.map.pes} PEs, each counted from 0"
        raise self._refusal(f"there is no {kind} at {place}", f"the system has {size}")

    def _refusal(self, rule: str, remedy: str = "") -> InputError:
        return InputError(Problem(self._source, rule, remedy=remedy))
