"""The nodes on which the entries of a program run, and the problems with them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import NamedTuple

from kernbench.cmdq.entries import Entry, PairEntry
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.common import naming
from kernbench.common.spelling import meant
from kernbench.components.parts import Parts
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.kinds import pe_as_npu
from kernbench.policy.routing.resolver import Region
from kernbench.policy.routing.router import topology_and_router

#: The kind of node that runs an opcode, if it is not a PE.
ELSEWHERE = {"HOST_COPY_TILE": "pcie_ep", "LAUNCH": "m_cpu"}


class PeCoordinates(NamedTuple):
    """A PE."""

    sip: int
    cube: int
    pe: int

    @property
    def name(self) -> str:
        """`sip0.cube3.pe1`."""
        return naming.place(self.sip, cube=self.cube, pe=self.pe)

    def part(self, part: str) -> str:
        """The id of a component of it."""
        return naming.pe_node(self.sip, self.cube, self.pe, part)


class SystemNodes:
    """The nodes of a system that entries may name, and a PE as an NPU, against which its entries are checked."""

    def __init__(self, config: SystemConfig) -> None:
        self.config = config
        self.topology, self.router = topology_and_router(config)
        self.resolver = self.router.resolver
        self.order = {node.id: k for k, node in enumerate(self.topology.nodes)}

    @cached_property
    def parts(self) -> Parts:
        """The passive components at its nodes."""
        return Parts(self.config, self.topology)

    @cached_property
    def pe(self) -> NpuConfig:
        """One PE."""
        return pe_as_npu(self.config)

    @cached_property
    def pes(self) -> list[PeCoordinates]:
        """Every PE, in the order of the topology."""
        config = self.config
        sizes = range(config.system.sips), range(config.cubes), range(config.cube.pes)
        return [PeCoordinates(*place) for place in product(*sizes)]

    def node_of(self, entry: Entry) -> str:
        """The name of the PE, or the id of the node, that runs an entry without problems."""
        if entry.node is not None:
            return entry.node
        if entry.opcode in ELSEWHERE:
            return next(node.id for node in self.topology.nodes if node.kind == ELSEWHERE[entry.opcode])
        return PeCoordinates(0, 0, 0).name

    def pe_of(self, name: str) -> PeCoordinates:
        """A PE by its name. ValueError for a name that is not a PE of this system."""
        place = PeCoordinates(*naming.parse_pe(name))
        if place.sip >= self.config.system.sips or place.cube >= self.config.cubes or place.pe >= self.config.cube.pes:
            raise ValueError(f"there is no {name}")
        return place

    def problems(self, entry: Entry) -> Iterator[FieldProblem]:
        """The problems with the node that an entry names, and with its peer."""
        if entry.node is not None:
            yield from self._node_problem(entry, entry.node)
        if isinstance(entry, PairEntry):
            yield from self._pe_problem("peer", entry.peer)
            if entry.peer == self.node_of(entry):
                yield FieldProblem(("peer",), "it is the PE itself: a tile must move between two PEs", entry.peer)

    def _node_problem(self, entry: Entry, node: str) -> Iterator[FieldProblem]:
        if entry.engine == "control":
            yield FieldProblem(("node",), "control entries are of the whole program, and no node runs them", node)
        elif entry.opcode in ELSEWHERE:
            kind = ELSEWHERE[entry.opcode]
            found = self.topology.by_id.get(node)
            if found is None or found.kind != kind:
                names = [one.id for one in self.topology.nodes if one.kind == kind]
                yield FieldProblem(("node",), f"{self.config.source} has no {kind} of that name", node, _near(node, names))
        else:
            yield from self._pe_problem("node", node)

    def _pe_problem(self, field: str, name: str) -> Iterator[FieldProblem]:
        config = self.config
        try:
            self.pe_of(name)
        except ValueError:
            last = PeCoordinates(config.system.sips - 1, config.cubes - 1, config.cube.pes - 1).name
            rule = f"{config.source} has no PE of that name: its PEs are {PeCoordinates(0, 0, 0).name} to {last}"
            yield FieldProblem((field,), rule, name)

    def memory_problem(self, field: str, address: int, start: int, end: int) -> Iterator[FieldProblem]:
        """The problem if DRAM bytes `[start, end)` are not in one memory: one slice of a stack, or one SRAM."""
        memory = self.resolver.map
        for region in (memory.hbm, memory.sram):
            size = memory.slice_bytes if region is memory.hbm else region.nbytes
            if _inside(region, size, start, end):
                return
        align = self.pe.dma.alignment_bytes
        bytes_at = f"its bytes, aligned to {align}, are [{start}, {end})"
        rule = f"{bytes_at}, and they must be in one slice of an HBM stack or in one SRAM"
        stacks, srams = _extent("stack", memory.hbm), _extent("SRAM", memory.sram)
        where = f"{stacks}, in slices of {memory.slice_bytes}; {srams}; K is 0 to {memory.hbm.count - 1}"
        yield FieldProblem((field,), rule, address, where)


def _extent(what: str, region: Region) -> str:
    return f"{what} K has {region.nbytes} bytes from {region.base} + K * {region.window} on"


def _inside(region: Region, size: int, start: int, end: int) -> bool:
    """Whether bytes are in one range of `size` bytes of one window of a region."""
    if not region.base <= start < end <= region.end:
        return False
    (window, first), (last_window, last) = region.split(start), region.split(end - 1)
    return window == last_window and last < region.nbytes and first // size == last // size


def _near(node: str, names: list[str]) -> str:
    return meant(node, names) or f"the first is {names[0]}"
