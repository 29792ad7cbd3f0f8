"""Ways to memories that are found while a run goes on: for jobs that components submit on a whole system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernbench.cmdq.system.places import PePlace, Places
from kernbench.cmdq.system.routes import Way, host_way, launch_cycles, memory_way, peer_way
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem

#: Give the core a route between a memory and an engine, over links (resources), of a latency [cycle]; its number.
AddRoute = Callable[[int, list[int], int], int]


class Reach:
    """What a DMA job of a component names on a whole system: the memory of an address and the route there, each found once.

    PEs, endpoints and M_CPUs go by their positions in the topology, memories stand in the order of their addresses: every
    slice of every stack, then every SRAM; behind them what stands in the place of one between two scratchpads.
    Methods raise InputError for bytes that are not in one memory.
    """

    def __init__(
        self, places: Places, pes: Sequence[PePlace], endpoints: Sequence[str], links: Mapping[tuple[str, str], int]
    ) -> None:
        """`links`: the resources of edges, by (source, target)."""
        self.places = places
        self.pes = tuple(pe.name for pe in pes)
        self.endpoints = tuple(endpoints)
        self._pes = tuple(pes)
        self._dma = [pe.part(naming.PE_DMA) for pe in pes]
        self._links = links
        self._add: AddRoute | None = None
        self._route: dict[tuple[int, int, bool], int] = {}
        self._host_route: dict[tuple[int, int, bool], int] = {}
        self._peer_route: dict[tuple[int, int], int] = {}
        found = places.resolver.map
        self._hbm, self._sram, self._slice_bytes = found.hbm, found.sram, found.slice_bytes
        self._slices = places.config.slices
        self._between = self._hbm.count * self._slices + self._sram.count
        self._align = places.pe.dma.alignment_bytes

    def open(self, add_route: AddRoute) -> None:
        """The core is there: it takes routes from now on."""
        self._add = add_route

    def memory_of(self, address: int, nbytes: int = 1) -> int:
        """The number of the memory that holds bytes, and those with which a transfer of them is aligned."""
        start, end = address // self._align * self._align, -(-(address + nbytes) // self._align) * self._align
        for region, size, first, parts in (
            (self._hbm, self._slice_bytes, 0, self._slices),
            (self._sram, self._sram.nbytes, self._hbm.count * self._slices, 1),
        ):
            if region.base <= start < region.end:
                window, offset = divmod(start - region.base, region.window)
                part, inside = divmod(offset, size)
                if part < parts and start < end <= start - inside + size:
                    return first + window * parts + part
        problem = next(self.places.memory_problem("address", address, start, end))
        raise InputError(Problem(self.places.config.source, problem.rule, "address", address, problem.remedy))

    def route_to(self, pe: int, address: int, write: bool, nbytes: int = 1) -> tuple[int, int]:
        """(memory, route) of a transfer between a PE's DMA engine and DRAM or SRAM bytes; `write`: to the memory."""
        memory = self.memory_of(address, nbytes)
        key = (pe, memory, write)
        if key not in self._route:
            self._route[key] = self._new(memory, memory_way(self.places, self._dma[pe], address, write))
        return memory, self._route[key]

    def host_route(self, endpoint: int, address: int, to_device: bool, nbytes: int = 1) -> tuple[int, int]:
        """(memory, route) of a copy between the host and DRAM or SRAM bytes, by a PCIe endpoint's DMA engine."""
        memory = self.memory_of(address, nbytes)
        key = (endpoint, memory, to_device)
        if key not in self._host_route:
            way = host_way(self.places, self.endpoints[endpoint], address, to_device)
            self._host_route[key] = self._new(memory, way)
        return memory, self._host_route[key]

    def peer_route(self, source: int, target: int) -> tuple[int, int]:
        """(memory, route) of a transfer from one PE's scratchpad to another's, whichever of the two submits it."""
        key = (source, target)
        if key not in self._peer_route:
            self._peer_route[key] = self._new(self._between, self._peer_way(source, target))
        return self._between, self._peer_route[key]

    def peer_cycles(self, source: int, target: int) -> int:
        """The latency from one PE to another."""
        return self._peer_way(source, target).latency

    def _peer_way(self, source: int, target: int) -> Way:
        return peer_way(self.places, self._pes[source], self._pes[target])

    def launch_cycles(self, m_cpu: str) -> int:
        """Cycles until an M_CPU has taken a launch of the host: what its job takes."""
        return max(1, launch_cycles(self.places, m_cpu))

    def _new(self, memory: int, way: Way) -> int:
        assert self._add is not None, "a machine opens it"
        links = [self._links[edge.source, edge.target] for edge in way.edges if edge.bytes_per_cycle is not None]
        return self._add(memory, links, way.latency)
