"""The four views of a topology: all SIPs, one SIP, one cube, one PE, each with its surroundings.

A view is a projection: its boxes represent nodes or groups of nodes, and its lines represent the edges between two boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.naming import parse_node, place, short
from kernbench.common.spelling import meant
from kernbench.topology.graph import Edge, EdgeKind, Node, Topology


class Level(StrEnum):
    """All SIPs, one SIP, one cube, one PE."""

    SYSTEM = "system"
    SIP = "sip"
    CUBE = "cube"
    PE = "pe"


IO = "io"  #: the kind of a group of an IO chiplet's parts


class ViewNode(msgspec.Struct, frozen=True):
    """A box: a node, or a group of nodes under its own name (`sip0`, `sip0.io0`, `sip0.cube3`, `sip0.cube3.pe1`)."""

    id: str
    label: str  #: its name inside the enclosing component
    kind: str  #: the node's kind; for a group `sip`, `io`, `cube` or `pe`
    inside: bool  #: False: it belongs to the surroundings of the subject
    nodes: tuple[Node, ...]  #: the nodes that it represents
    #: centre and extent of these nodes, in the plane of their SIP; in the view of the system, in the plane of all SIPs
    x_mm: Fraction
    y_mm: Fraction
    width_mm: Fraction
    height_mm: Fraction


class ViewEdge(msgspec.Struct, frozen=True):
    """One direction between two boxes, of one kind."""

    source: str
    target: str
    kind: EdgeKind
    edges: tuple[Edge, ...]  #: the edges that it represents

    @property
    def bytes_per_cycle(self) -> Fraction | None:
        """Their total bandwidth, or None without a limit."""
        rates = [edge.bytes_per_cycle for edge in self.edges if edge.bytes_per_cycle is not None]
        return sum(rates, Fraction(0)) if rates else None

    @property
    def mm(self) -> Fraction:
        """The largest length."""
        return max(edge.mm for edge in self.edges)

    @property
    def cycles(self) -> int:
        """The largest latency."""
        return max(edge.cycles for edge in self.edges)


class View(msgspec.Struct, frozen=True):
    """Boxes and the lines between them, in the topology's order."""

    level: Level
    of: str  #: the SIP, cube or PE; empty for the system
    nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]


def view(topology: Topology, level: Level, of: str = "") -> View:
    """A view of the system, or of one SIP, cube or PE: by its name, else of the first. InputError if there is no such view."""
    name = _chosen(topology, level, of)
    inner, outer, whole = _LEVELS[level]
    inside = {node.id: whole(node).id == name for node in topology.nodes}
    boxes = {node.id: inner(node) if inside[node.id] else outer(node) for node in topology.nodes}
    lines: dict[tuple[str, str, EdgeKind], list[Edge]] = {}
    for edge in topology.edges:
        source, target = boxes[edge.source].id, boxes[edge.target].id
        if source != target and (inside[edge.source] or inside[edge.target]):
            lines.setdefault((source, target, edge.kind), []).append(edge)
    touched = {end for source, target, _ in lines for end in (source, target)}
    members: dict[_Box, list[Node]] = {}
    for node in topology.nodes:
        if inside[node.id] or boxes[node.id].id in touched:
            members.setdefault(boxes[node.id], []).append(node)
    corners = _sip_corners(topology) if level is Level.SYSTEM else {}
    nodes = tuple(_view_node(box, tuple(found), inside[found[0].id], corners) for box, found in members.items())
    return View(level, name, nodes, tuple(ViewEdge(*key, tuple(found)) for key, found in lines.items()))


def names(topology: Topology, level: Level) -> list[str]:
    """The possible subjects of a view of a level, in the order of the topology."""
    found = dict.fromkeys(_LEVELS[level][2](node) for node in topology.nodes)
    return [box.id for box in found if box.kind == level]


class _Box(NamedTuple):
    """The shape of a node."""

    kind: str
    id: str


def _as_system(node: Node) -> _Box:
    return _Box(Level.SYSTEM, "")


def _as_sip(node: Node) -> _Box:
    return _Box(node.kind, node.id) if node.sip is None else _Box(Level.SIP, place(node.sip))


def _as_die(node: Node) -> _Box:
    if node.sip is None:
        return _Box(node.kind, node.id)
    if node.cube is None:
        return _Box(IO, place(node.sip, io=parse_node(node.id).io))
    return _Box(Level.CUBE, place(node.sip, cube=node.cube))


def _as_part(node: Node) -> _Box:
    """A PE is one box; every other node is a box of its own."""
    if node.sip is None or node.pe is None:
        return _as_node(node)
    return _Box(Level.PE, place(node.sip, cube=node.cube, pe=node.pe))


def _as_node(node: Node) -> _Box:
    return _Box(node.kind, node.id)


#: How a node is drawn inside and outside the subject of a view, and the possible subjects.
_LEVELS: dict[Level, tuple[Callable[[Node], _Box], ...]] = {
    Level.SYSTEM: (_as_sip, _as_sip, _as_system),
    Level.SIP: (_as_die, _as_sip, _as_sip),
    Level.CUBE: (_as_part, _as_die, _as_die),
    Level.PE: (_as_node, _as_part, _as_part),
}


def _chosen(topology: Topology, level: Level, of: str) -> str:
    known = names(topology, level)
    if of in known or not of:
        return of or known[0]
    rule = f"there is no {level} {of}" if level is not Level.SYSTEM else f"the view system shows all SIPs, not {of}"
    if level is Level.SYSTEM:
        remedy = ""
    elif near := meant(of, known):
        remedy = near
    else:
        remedy = f"there are {known[0]} to {known[-1]}" if len(known) > 1 else f"there is {known[0]}"
    raise InputError(Problem(topology.config.source, rule, remedy=remedy))


def _sip_corners(topology: Topology) -> dict[int | None, tuple[Fraction, Fraction]]:
    """The offset of each SIP in a picture of all SIPs."""
    config = topology.config
    places = {sip: divmod(sip, config.sip_cols) for sip in range(config.system.sips)}
    return {sip: (col * config.system.pitch_mm, row * config.system.pitch_mm) for sip, (row, col) in places.items()}


def _view_node(
    box: _Box, nodes: tuple[Node, ...], inside: bool, corners: dict[int | None, tuple[Fraction, Fraction]]
) -> ViewNode:
    x, y = corners.get(nodes[0].sip, (Fraction(0), Fraction(0)))
    left, right = min(node.x_mm for node in nodes), max(node.x_mm for node in nodes)
    top, bottom = min(node.y_mm for node in nodes), max(node.y_mm for node in nodes)
    middle = (x + (left + right) / 2, y + (top + bottom) / 2)
    return ViewNode(box.id, short(box.id), box.kind, inside, nodes, *middle, right - left, bottom - top)
