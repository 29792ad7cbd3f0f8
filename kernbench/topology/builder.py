"""Builds the graph of a system from its file, stage by stage.

1. read and validate (`spec.py`), 2. cube mesh: generate or reuse (`mesh_gen.py`), 3. system, 4. IO chiplets,
5. cubes (`cube.py`), 6. edges between cubes, IO chiplets and SIPs, 7. views (`views.py`), which are made only on compilation.
"""

from __future__ import annotations

import inspect
import os
import resource
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import msgspec

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.config.load import load_config
from kernbench.config.system import SystemConfig
from kernbench.config.system.dimensions import (
    DIMENSIONS,
    broken_ports,
    dimension_links,
    link_of,
    switched_lines,
    switches_of,
)
from kernbench.config.system.links import SWITCHED, Pair, broken_nics, rail_of, rails_of
from kernbench.config.system.parts import BUILTIN
from kernbench.topology.cube import Wire, cube_edges, cube_nodes, link_wire, plain_wire
from kernbench.topology.graph import WITHOUT_COMMAND, Edge, EdgeKind, Node, Topology
from kernbench.topology.mesh_gen import Action, CubeMesh, distance, mesh_file, mesh_of
from kernbench.topology.sips import OPPOSITE, chiplet_places, cube_corner, cube_pairs, served_ports, sip_pairs
from kernbench.topology.views import Level, view

STAGES = ("read and validate", "cube mesh", "system", "IO chiplets", "cubes", "edges", "views")
_STATM = Path("/proc/self/statm")


class Stage(msgspec.Struct):
    """One stage of the builder, for all SIPs together."""

    name: str
    seconds: float = 0.0
    grown: int = 0  #: [B] growth of the resident memory of the process


class StageClock:
    """Sums the times of stages; a stage may be entered many times."""

    def __init__(self) -> None:
        self.stages = {name: Stage(name) for name in STAGES}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context of a part of a stage."""
        spent, memory, started = self.stages[name], resident_bytes(), perf_counter()
        yield
        spent.seconds += perf_counter() - started
        spent.grown += resident_bytes() - memory


def resident_bytes() -> int:
    """[B] The resident memory of this process, part of which may be free again; if the system does not report it, the peak."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def read_system(source: str | os.PathLike[str], *, allow_code: AllowCode = ()) -> SystemConfig:
    """The system of a preset or file, with its components loaded. InputError for a file that is not valid, and for one NPU.

    `allow_code`: as in `load_config`.
    """
    config = load_config(source, kind=SystemConfig, allow_code=allow_code)
    check_components(config)
    return config


def check_components(config: SystemConfig) -> None:
    """Import the components that `components` names; InputError says which cannot be imported, and why."""
    problems = list(_component_problems(config))
    if problems:
        raise InputError(problems)


def _component_problems(config: SystemConfig) -> Iterator[Problem]:
    for kind, component in config.components.items():
        if component.impl == BUILTIN:
            continue

        def refused(rule: str, remedy: str, field: str = f"components.{kind}.impl", impl: str = component.impl) -> InputError:
            return InputError(Problem(config.where(field), rule, field, impl, remedy))

        module_name, _, name = component.impl.partition(":")
        try:
            module = config.allowed_code.module(module_name, refused)
            found: Any = reduce(lambda at, part: getattr(at, part, None), name.split("."), cast(Any, module))
            if found is None:
                raise refused(f"{module_name} has no {name}", "name a class")
            if inspect.ismodule(found) or not callable(found):
                raise refused(f"it is a {type(found).__name__}", "name a class")
        except InputError as error:
            yield from error.problems


@dataclass(frozen=True, slots=True)
class Compiled:
    """A topology compiled from a user's file."""

    topology: Topology
    mesh_file: Path
    action: Action  #: what was done with the mesh file
    stages: tuple[Stage, ...] = field(default=(), compare=False)  #: time of each stage


def compile_topology(path: str | os.PathLike[str], force: bool = False, *, allow_code: AllowCode = ()) -> Compiled:
    """The topology of a file, with an up-to-date `cube_mesh.yaml` beside it.

    InputError for a topology that is not valid, for a preset, and for a mesh file that was edited by hand; `force` overwrites
    such a file. `allow_code`: as in `load_config`.
    """
    clock = StageClock()
    with clock.stage("read and validate"):
        config = read_system(path, allow_code=allow_code)
    with clock.stage("cube mesh"):
        made = mesh_file(config, force=force)
    topology = assemble(config, made.mesh, clock)
    with clock.stage("views"):
        for level in Level:
            view(topology, level)
    made.write()
    return Compiled(topology, made.path, made.action, tuple(clock.stages.values()))


def build_topology(config: SystemConfig) -> Topology:
    """The graph of a system; nothing is written. Raises InputError for a system that cannot be built."""
    check_components(config)
    return assemble(config, mesh_of(config))


def assemble(config: SystemConfig, mesh: CubeMesh, clock: StageClock | None = None) -> Topology:
    """Stages 3 to 6; of `config` they read `system`, `sip`, `cube`, `io`, `wires` and `pe.link`."""
    clock = clock or StageClock()
    with clock.stage("system"):
        system = _System(config, mesh)
        system.nodes.append(Node(naming.HOST, naming.HOST, None, None, None, Fraction(0), Fraction(0)))
    for sip in range(config.system.sips):
        with clock.stage("IO chiplets"):
            system.add_chiplets(sip)
        with clock.stage("cubes"):
            system.add_cubes(sip)
        with clock.stage("edges"):
            system.join_cubes(sip)
            system.join_chiplets(sip)
    with clock.stage("edges"):
        if config.system.kind == DIMENSIONS:
            system.add_dimensions()
        else:
            for pair in sip_pairs(config):
                system.join_sips(pair)
        if config.system.kind in SWITCHED:
            system.add_switches()
        if config.system.kind == "rails":
            system.add_rails()
        topology = Topology(config, tuple(system.nodes), tuple(system.edges))
        _check_reach(topology)
    return topology


class _System:
    """Nodes and edges in the order of their creation; parts that are equal in every SIP are computed once."""

    def __init__(self, config: SystemConfig, mesh: CubeMesh) -> None:
        self.config = config
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._speed = config.wires.mm_per_cycle
        self._io = {naming.io_index(io.name): io.side for io in config.sip.io}
        self._io_places = {side: chiplet_places(config, side) for side in self._io.values()}
        self._cube_nodes = cube_nodes(config, mesh)
        self._cube_edges = cube_edges(config, mesh)
        inside = {node.name: node.place for node in self._cube_nodes}
        self._slow: dict[tuple[int, int], list[tuple[int, Fraction]]] = {}  # by SIP and cube: its slow PEs
        for value in config.system.slow:
            name, _, factor = value.partition(":")
            at, cube, pe = naming.parse_pe(name)
            self._slow.setdefault((at, cube), []).append((pe, Fraction(factor)))
        self._places = []  # of every node of every cube, in the plane of the SIP
        for cube in range(config.cubes):
            x, y = cube_corner(config, cube)
            self._places.append({name: (x + place[0], y + place[1]) for name, place in inside.items()})

    def add_chiplets(self, sip: int) -> None:
        """The components of the IO chiplets, and their edges to each other and to the host."""
        io = self.config.io
        board = self.config.wires.board_mm_per_cycle
        host = link_wire(EdgeKind.PCIE, io.pcie.link, Fraction(0), board)
        for index, side in self._io.items():
            places = self._io_places[side]
            for part, (x, y) in places.items():
                self.nodes.append(Node(naming.in_io(sip, index, part), part, sip, None, None, x, y))
            noc = naming.in_io(sip, index, naming.IO_NOC)
            for part in (naming.PCIE_EP, naming.IO_CPU):
                mm = distance(places[part], places[naming.IO_NOC])
                self._join(naming.in_io(sip, index, part), noc, link_wire(EdgeKind.IO_INTERNAL, io.noc, mm, self._speed))
            self._join(naming.HOST, naming.in_io(sip, index, naming.PCIE_EP), host)

    def add_cubes(self, sip: int) -> None:
        """The nodes and edges of every cube of a SIP."""
        for cube, places in enumerate(self._places):
            ids = {node.name: naming.in_cube(sip, cube, node.name) for node in self._cube_nodes}
            for node in self._cube_nodes:
                x, y = places[node.name]
                self.nodes.append(Node(ids[node.name], node.kind, sip, cube, node.pe, x, y))
            slow = {naming.pe_node(sip, cube, pe, naming.PE_DMA): factor for pe, factor in self._slow.get((sip, cube), ())}
            for edge in self._cube_edges:
                made = edge.wire.edge(ids[edge.source], ids[edge.target])
                factor = slow.get(made.source, slow.get(made.target)) if slow and made.kind is EdgeKind.PE_ROUTER else None
                if factor is not None and made.bytes_per_cycle is not None:
                    made = replace(made, bytes_per_cycle=made.bytes_per_cycle / factor)
                self.edges.append(made)

    def join_cubes(self, sip: int) -> None:
        """UCIe between neighbouring cubes, port by port."""
        ucie = self.config.cube.ucie
        wire = link_wire(EdgeKind.UCIE, ucie.link, self.config.sip.gap_mm, self._speed)
        for pair in cube_pairs(self.config.sip.rows, self.config.sip.cols):
            for i in range(ucie.ports_per_side):
                first = naming.in_cube(sip, pair.first, naming.ucie(pair.side, i))
                second = naming.in_cube(sip, pair.second, naming.ucie(OPPOSITE[pair.side], i))
                self._join(first, second, wire)

    def join_chiplets(self, sip: int) -> None:
        """UCIe between IO chiplets and the cubes at their side, and commands to every cube of the SIP."""
        for index, side in self._io.items():
            places = self._io_places[side]
            noc, cpu = (naming.in_io(sip, index, part) for part in (naming.IO_NOC, naming.IO_CPU))
            for cube, port in served_ports(self.config, side):
                mm = distance(places[naming.IO_NOC], self._places[cube][port])
                wire = link_wire(EdgeKind.UCIE_IO, self.config.cube.ucie.link, mm, self._speed)
                self._join(noc, naming.in_cube(sip, cube, port), wire)
            for cube, inside in enumerate(self._places):
                mm = distance(places[naming.IO_CPU], inside[naming.M_CPU])
                wire = plain_wire(EdgeKind.COMMAND, mm, self._speed)
                self._join(cpu, naming.in_cube(sip, cube, naming.M_CPU), wire)

    def join_sips(self, pair: Pair) -> None:
        """The link between two SIPs, from the IO chiplet at the side of the other SIP if there is such a chiplet."""
        if not self._io:
            return
        system = self.config.system
        wire = link_wire(EdgeKind.SIP, system.link, pair.steps * system.pitch_mm, self.config.wires.board_mm_per_cycle)
        first = naming.in_io(pair.first, self._io_towards(pair.side), naming.IO_NOC)
        second = naming.in_io(pair.second, self._io_towards(OPPOSITE[pair.side]), naming.IO_NOC)
        self._join(first, second, wire)

    def add_switches(self) -> None:
        """A leaf switch for the SIPs of each row and, with several leaves, a core switch to which each leaf has an uplink.

        The uplink has the bandwidth of all parallel uplinks of a leaf, as if these carried equal shares.
        """
        system, board = self.config.system, self.config.wires.board_mm_per_cycle
        if not self._io or system.sips == 1:
            return
        wire = link_wire(EdgeKind.SIP, system.link, system.pitch_mm, board)
        cols, core = self.config.sip_cols, naming.switch(system.rows)
        leaves = [naming.switch(row) for row in range(system.rows)]
        switches = [*leaves, core] if len(leaves) > 1 else leaves
        self.nodes += [Node(name, naming.SWITCH, None, None, None, Fraction(0), Fraction(0)) for name in switches]
        for sip in range(system.sips):
            self._join_switch(self._port(sip), leaves[sip // cols], wire)
        if len(leaves) > 1:
            uplink = system.link.bytes_per_cycle * cols / system.switch.oversubscription
            for leaf in leaves:
                self._join_switch(leaf, core, replace(wire, bytes_per_cycle=uplink))

    def add_rails(self) -> None:
        """A switch for the SIPs of each row, then one for each rail, then the NICs, row by row. A NIC connects the SIPs of its
        columns with the switch of its rail.
        """
        system, board = self.config.system, self.config.wires.board_mm_per_cycle
        if not self._io or system.sips == 1:
            return
        cols, rails = self.config.sip_cols, rails_of(self.config)
        rows, broken = range(system.rows), broken_nics(self.config)
        inside = link_wire(EdgeKind.SIP, system.link, system.pitch_mm, board)
        outside = link_wire(EdgeKind.SIP, system.rails.link, system.pitch_mm, board)
        # Half of the latency between a SIP and its NIC: two SIPs with one NIC do not exchange data over it.
        near = replace(outside, cycles=outside.cycles // 2, mm=Fraction(0))
        outside = replace(outside, cycles=outside.cycles - near.cycles)
        nics = {(row, rail): naming.switch(system.rows + rails + row * rails + rail) for row in rows for rail in range(rails)}
        names = [naming.switch(number) for number in range(system.rows + rails)]
        self.nodes += [Node(one, naming.SWITCH, None, None, None, Fraction(0), Fraction(0)) for one in (*names, *nics.values())]
        for sip in range(system.sips):
            row, column = divmod(sip, cols)
            self._join_switch(self._port(sip), naming.switch(row), inside)
            self._join(self._port(sip), nics[row, rail_of(self.config, column)], near)
        for (row, rail), nic in nics.items():
            if (row, rail) not in broken:
                self._join(nic, naming.switch(system.rows + rail), outside)

    def add_dimensions(self) -> None:
        """The links of each dimension, and a switch for each line of a dimension with switches.

        All links of a SIP are at its first IO chiplet, because routes change dimensions there. An oversubscribed switch has a
        second node, and the edge between its two nodes is the bandwidth through the switch.
        """
        system = self.config.system
        if not self._io:
            return
        failed = {frozenset(map(int, name.split("-"))) for name in system.failed if "-" in name}
        for link in dimension_links(self.config):
            if frozenset((link.first, link.second)) not in failed:
                self._join(self._port(link.first), self._port(link.second), self._dimension_wire(link.number, link.steps))
        broken, count = broken_ports(self.config), 0
        for number, line in switched_lines(self.config):
            one = system.dimensions[number]
            of, wire = switches_of(self.config, one), self._dimension_wire(number, 1)
            names = [naming.switch(count), naming.switch(count + 1)] if of.oversubscription > 1 else [naming.switch(count)]
            count += len(names)
            self.nodes += [Node(name, naming.SWITCH, None, None, None, Fraction(0), Fraction(0)) for name in names]
            entering = replace(wire, cycles=wire.cycles + of.cycles)
            for sip in (sip for sip in line if (number, sip) not in broken):
                self.edges += [entering.edge(self._port(sip), names[0]), wire.edge(names[-1], self._port(sip))]
            if len(names) > 1:
                whole = link_of(self.config, one).bytes_per_cycle * one.size / of.oversubscription
                self.edges.append(replace(wire, cycles=0, mm=Fraction(0), bytes_per_cycle=whole).edge(*names))

    def _dimension_wire(self, number: int, steps: int) -> Wire:
        system = self.config.system
        link, mm = link_of(self.config, system.dimensions[number]), steps * system.pitch_mm
        return link_wire(EdgeKind.SIP, link, mm, self.config.wires.board_mm_per_cycle)

    def _port(self, sip: int) -> str:
        """The network of the first IO chiplet of a SIP."""
        return naming.in_io(sip, next(iter(self._io)), naming.IO_NOC)

    def _join_switch(self, below: str, switch: str, wire: Wire) -> None:
        """A connection with a switch at a higher level, whose latency counts when a transfer enters the switch."""
        entering = replace(wire, cycles=wire.cycles + self.config.system.switch.cycles)
        up_again = entering if naming.parse_node(below).kind == naming.SWITCH else wire
        self.edges += [entering.edge(below, switch), up_again.edge(switch, below)]

    def _io_towards(self, side: str) -> int:
        """The IO chiplet at a side of the SIP, else the first one."""
        return next((index for index, own in self._io.items() if own == side), next(iter(self._io)))

    def _join(self, a: str, b: str, wire: Wire) -> None:
        self.edges += [wire.edge(a, b), wire.edge(b, a)]


def _check_reach(topology: Topology) -> None:
    """Refuse a system with a PE that the host cannot reach. InputError names the first one."""
    onward: dict[str, list[str]] = {}
    for edge in topology.edges:
        if edge.kind not in WITHOUT_COMMAND:
            onward.setdefault(edge.source, []).append(edge.target)
    reached, waiting = {naming.HOST}, deque([naming.HOST])
    while waiting:
        for target in onward.get(waiting.popleft(), ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    lost = next((node.id for node in topology.nodes if node.kind == naming.PE_DMA and node.id not in reached), None)
    if lost is not None:
        raise InputError(_unreachable(topology.config, lost))


def _unreachable(config: SystemConfig, node: str) -> Problem:
    rule = f"there is no route from the host to {node}"
    if not config.sip.io:
        return Problem(config.where("sip.io"), rule, "sip.io", [], "give the SIP an IO chiplet: [{name: io0, side: w}]")
    field = "cube.ucie.ports_per_side"
    return Problem(config.where(field), rule, field, config.cube.ucie.ports_per_side, "give the cubes ports")
