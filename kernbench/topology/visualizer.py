"""Pictures of the four views as SVG: a light page, colours by kind, lines as wide as their bandwidth, a legend."""

from __future__ import annotations

from kernbench.topology.draw.cube import draw_cube, draw_pe
from kernbench.topology.draw.grid import draw_sip, draw_system
from kernbench.topology.draw.svg import Picture, add_legend
from kernbench.topology.graph import EdgeKind, Topology
from kernbench.topology.views import Level, view

_DRAWN = {Level.SYSTEM: draw_system, Level.SIP: draw_sip, Level.CUBE: draw_cube, Level.PE: draw_pe}


def draw(topology: Topology, level: Level, of: str = "") -> Picture:
    """The picture of a view, with its legend. Raises InputError for an unknown SIP, cube or PE."""
    found = view(topology, level, of)
    picture = _DRAWN[level](topology, found)
    edges = [edge for edge in found.edges if level is Level.PE or edge.kind is not EdgeKind.COMMAND]
    # The boxes of a PE have labels; around a cube there are texts without boxes.
    shown = [node for node in found.nodes if level is not Level.PE and (node.inside or level is Level.SIP)]
    add_legend(picture, shown, edges)
    return picture
