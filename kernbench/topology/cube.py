"""The nodes and edges of one cube, by their names inside it: made once, and then copied into every cube of every SIP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from kernbench.common import naming
from kernbench.common.units import ceil_div
from kernbench.config.system.parts import Link
from kernbench.topology.graph import Edge, EdgeKind
from kernbench.topology.mesh_gen import CubeMesh, PointMm, distance, port_names, to_footprint

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


@dataclass(frozen=True, slots=True)
class Wire:
    """One direction of a connection, independent of its position."""

    kind: EdgeKind
    mm: Fraction
    cycles: int
    bytes_per_cycle: Fraction | None = None
    slices: tuple[int, ...] = ()

    def edge(self, source: str, target: str) -> Edge:
        """The edge from `source` to `target`."""
        # One unit for the hop itself: among equally fast routes, the one with fewest hops is lightest.
        weight = _whole(self.cycles + 1)
        return Edge(source, target, self.kind, self.mm, self.cycles, self.bytes_per_cycle, weight, self.slices)


@cache
def _whole(number: int) -> Fraction:
    return Fraction(number)


def link_wire(kind: EdgeKind, link: Link, mm: Fraction, mm_per_cycle: Fraction) -> Wire:
    """A connection over a link whose ends are `mm` apart, unless it has a length of its own."""
    length = mm if link.mm is None else link.mm
    return Wire(kind, length, link.cycles + ceil_div(length, mm_per_cycle), link.bytes_per_cycle)


def plain_wire(kind: EdgeKind, mm: Fraction, mm_per_cycle: Fraction) -> Wire:
    """A connection that consists only of wire and has no bandwidth limit."""
    return Wire(kind, mm, ceil_div(mm, mm_per_cycle))


#: Components of a PE that exchange data, in both directions.
PE_DATA = (
    (naming.PE_DMA, naming.PE_TCM),
    (naming.PE_FETCH_STORE, naming.PE_TCM),
    (naming.PE_GEMM, naming.PE_FETCH_STORE),
    (naming.PE_MATH, naming.PE_FETCH_STORE),
    (naming.PE_IPCQ, naming.PE_DMA),
)
#: Components of a PE that command others and are notified of their completion.
PE_COMMANDS = (
    (naming.PE_CPU, naming.PE_SCHEDULER),
    (naming.PE_SCHEDULER, naming.PE_DMA),
    (naming.PE_SCHEDULER, naming.PE_GEMM),
    (naming.PE_SCHEDULER, naming.PE_MATH),
    (naming.PE_SCHEDULER, naming.PE_FETCH_STORE),
    (naming.PE_SCHEDULER, naming.PE_IPCQ),
)


class CubeNode(msgspec.Struct, frozen=True):
    """A node by its name in the cube."""

    name: str
    kind: str
    pe: int | None
    place: PointMm  #: from the cube's north-west corner


class CubeEdge(msgspec.Struct, frozen=True):
    """A directed edge between two names of the cube."""

    source: str
    target: str
    wire: Wire


def cube_nodes(config: SystemConfig, mesh: CubeMesh) -> list[CubeNode]:
    """The nodes of a cube: its own components, its routers, its UCIe ports, then those of each PE."""
    cube = config.cube
    middle = (cube.width_mm / 2, cube.height_mm / 2)
    nodes = [CubeNode(name, name, None, mesh.parts[name].place) for name in (naming.M_CPU, naming.SRAM)]
    nodes.append(CubeNode(naming.HBM, naming.HBM, None, middle))
    nodes += [CubeNode(name, naming.ROUTER, None, place) for name, place in mesh.routers.items()]
    nodes += [CubeNode(name, naming.UCIE, None, mesh.parts[name].place) for name in port_names(cube)]
    for pe in range(cube.pes):
        place = mesh.parts[naming.pe(pe)].place
        nodes += [CubeNode(naming.pe_part(pe, part), part, pe, place) for part in naming.PE_PARTS]
    return nodes


def cube_edges(config: SystemConfig, mesh: CubeMesh) -> list[CubeEdge]:
    """The edges inside a cube: its mesh, the components attached to it, then those of each PE."""
    cube, speed = config.cube, config.wires.mm_per_cycle
    edges: list[CubeEdge] = []
    for a, b in mesh.links:
        wire = link_wire(EdgeKind.MESH, cube.mesh.link, distance(mesh.routers[a], mesh.routers[b]), speed)
        edges += _both(a, b, _entering(config, wire), _entering(config, wire))
    for router, wire in _hbm_wires(config, mesh):
        edges += _both(naming.HBM, router, _entering(config, wire), wire)
    sram = Link(bytes_per_cycle=cube.sram.bytes_per_cycle, cycles=cube.sram.cycles)
    edges += _attached(config, mesh, naming.SRAM, naming.SRAM, EdgeKind.SRAM, sram)
    edges += _attached(config, mesh, naming.M_CPU, naming.M_CPU, EdgeKind.M_CPU, cube.m_cpu.link)
    for port in port_names(cube):
        edges += _attached(config, mesh, port, port, EdgeKind.UCIE_PORT, cube.ucie.router)
    for pe in range(cube.pes):
        dma = naming.pe_part(pe, naming.PE_DMA)
        edges += _attached(config, mesh, naming.pe(pe), dma, EdgeKind.PE_ROUTER, config.pe.link)
        edges += _pe_edges(config, mesh, pe)
    return edges


def _pe_edges(config: SystemConfig, mesh: CubeMesh, pe: int) -> Iterator[CubeEdge]:
    """The edges inside a PE, which are without length, and those to the processor that commands it."""
    for kind, pairs in ((EdgeKind.PE_INTERNAL, PE_DATA), (EdgeKind.COMMAND, PE_COMMANDS)):
        wire = Wire(kind, Fraction(0), 0)
        for a, b in pairs:
            yield from _both(naming.pe_part(pe, a), naming.pe_part(pe, b), wire, wire)
    mm = distance(mesh.parts[naming.M_CPU].place, mesh.parts[naming.pe(pe)].place)
    wire = plain_wire(EdgeKind.COMMAND, mm, config.wires.mm_per_cycle)
    yield from _both(naming.M_CPU, naming.pe_part(pe, naming.PE_CPU), wire, wire)


def _hbm_wires(config: SystemConfig, mesh: CubeMesh) -> Iterator[tuple[str, Wire]]:
    """(router, connection) for each router by which slices of the HBM enter the mesh, in the order of the slices."""
    slices: dict[str, list[int]] = {}
    for index in range(config.slices):
        router = mesh.parts[naming.pe(config.slice_pe(index))].router
        slices.setdefault(router, []).append(index)
    for router, behind in slices.items():
        mm = to_footprint(config.cube, mesh.routers[router])
        wire = link_wire(EdgeKind.HBM, config.cube.hbm.link, mm, config.wires.mm_per_cycle)
        assert wire.bytes_per_cycle is not None
        yield router, replace(wire, bytes_per_cycle=wire.bytes_per_cycle * len(behind), slices=tuple(behind))


def _attached(config: SystemConfig, mesh: CubeMesh, name: str, node: str, kind: EdgeKind, link: Link) -> list[CubeEdge]:
    """Both edges between a component of the layout, whose node is `node`, and its router."""
    part = mesh.parts[name]
    wire = link_wire(kind, link, distance(part.place, mesh.routers[part.router]), config.wires.mm_per_cycle)
    return _both(node, part.router, _entering(config, wire), wire)


def _entering(config: SystemConfig, wire: Wire) -> Wire:
    """The same connection into a router, with the latency of the router."""
    return replace(wire, cycles=wire.cycles + config.cube.mesh.router_cycles)


def _both(a: str, b: str, there: Wire, back: Wire) -> list[CubeEdge]:
    return [CubeEdge(a, b, there), CubeEdge(b, a, back)]
