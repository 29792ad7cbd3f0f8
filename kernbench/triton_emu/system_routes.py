"""The routes from PEs and the host of a system to memories and M_CPUs, found on first use."""

from __future__ import annotations

from typing import Any

from kernbench.common import naming
from kernbench.common.errors import InputError
from kernbench.common.units import aligned_inside
from kernbench.components.builtin.transfers import Memory, beyond
from kernbench.policy.routing.resolver import AddressMap


class SystemRoutes:
    """The memories that one PE's DMA engines reach: slices of HBM and SRAMs, as far as aligned transfers stay inside them."""

    def __init__(self, memories: AddressMap, pe: int, align: int) -> None:
        self.reach: Any = None  #: of the machine's plan
        self._map = memories
        self._pe = pe
        self._align = align
        self._known: tuple[list[Memory], list[Memory]] = ([], [])  # by direction
        self.last: list[Memory] = [(0, 0, ())] * 2

    def of(self, address: int, write: bool) -> tuple[int, tuple[int, ...]]:
        known = self._known[write]
        for memory in known:
            if memory[0] <= address < memory[1]:
                self.last[write] = memory
                return memory[1:]
        start, end = self._memory(address)
        route = self.reach.route_to(self._pe, start, write)
        self.last[write] = memory = (start, end, route)
        known.append(memory)
        return memory[1:]

    def _memory(self, address: int) -> tuple[int, int]:
        """The aligned range of the slice or SRAM that holds a byte: its first byte, and the byte after its last."""
        memories = self._map
        region = memories.region(address)
        if region is None or region is memories.tcm:
            raise ValueError(f"HBM is from {memories.hbm.base:#x} to {memories.hbm.end:#x}, SRAM to {memories.sram.end:#x}")
        window, offset = region.split(address)
        size = memories.slice_bytes if region is memories.hbm else region.nbytes
        start = region.address(window, offset // size * size)
        if offset >= region.nbytes // size * size:
            raise ValueError(f"the memory before it ends at {region.address(window, region.nbytes):#x}")
        first, end = aligned_inside(start, start + size, self._align)
        if not first <= address < end:
            raise ValueError(beyond(self._align, first, end))
        return first, end


class CommandRoutes:
    """The routes of commands from the host to M_CPUs, and from there to the processors of PEs."""

    def __init__(self, reach: Any, m_cpus: list[str]) -> None:
        """`m_cpus`: in the order of the core's processors."""
        self._reach = reach
        self._number = {node: i for i, node in enumerate(m_cpus)}
        self._cycles: dict[str, int] = {}

    def m_cpu_of(self, pe: str) -> tuple[int, int]:
        """The number in the core of a PE's M_CPU, and the cycles of a launch in it, way there included."""
        sip, cube, _ = naming.parse_pe(pe)
        node = naming.in_cube(sip, cube, naming.M_CPU)
        if node not in self._cycles:
            self._cycles[node] = int(self._reach.launch_cycles(node))
        return self._number[node], self._cycles[node]

    def to_processor(self, pe: str) -> int:
        """Cycles of a command from the M_CPU of a PE's cube to its processor."""
        if pe not in self._cycles:
            sip, cube, index = naming.parse_pe(pe)
            router = self._reach.places.router
            path = router.find_node_path(
                naming.in_cube(sip, cube, naming.M_CPU), naming.pe_node(sip, cube, index, naming.PE_CPU)
            )
            self._cycles[pe] = int(router.route(path).cycles)
        return self._cycles[pe]

    def host_route(self, endpoint: str, address: int, write: bool, nbytes: int) -> tuple[int, tuple[int, ...]]:
        """The number in the core of an endpoint's DMA engine, and the way between it and HBM; ValueError for no such bytes."""
        number = self._reach.endpoints.index(endpoint)
        try:
            return number, self._reach.host_route(number, address, write, nbytes)
        except InputError as error:
            raise ValueError(str(error)) from None
