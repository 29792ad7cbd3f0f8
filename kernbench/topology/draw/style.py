"""What a picture of a topology looks like: colours by kind, widths by bandwidth, texts, and the legend below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from kernbench.topology.draw.svg import LINE, SOFT, Box, Link, Picture, Text
from kernbench.topology.edges import EdgeKind
from kernbench.topology.graph import Edge
from kernbench.topology.views import ViewEdge, ViewNode

WIDEST, THINNEST = 8.0, 1.4  # [px] of links
_BLUE, _GREEN, _TEAL = ("#dce8f8", "#3a68b0"), ("#d9f0e4", "#2f7d5c"), ("#d5eff3", "#22808f")
_ORANGE, _PURPLE, _BROWN = ("#fce6d5", "#b85c1c"), ("#e9e3f8", "#6a4fb8"), ("#f1e7e0", "#855c45")
_GREY, _PINK, _YELLOW = ("#eceff3", "#6b7686"), ("#f8e0ef", "#a53f80"), ("#f7edcd", "#8d6f0c")
_PLAIN = ("#f5f7fa", "#5d7c9c")
#: Fill and stroke of a box.
NODE_COLOURS: dict[str, tuple[str, str]] = {
    "sip": _PLAIN, "cube": _PLAIN, "io": _BROWN, "host": _GREY, "pe": _BLUE, "router": _GREY, "ucie": _PURPLE,
    "hbm_ctrl": _GREEN, "sram": _TEAL, "m_cpu": _ORANGE, "io_cpu": _ORANGE, "pcie_ep": _BROWN, "io_noc": _BROWN,
    "pe_cpu": _ORANGE, "pe_scheduler": _ORANGE, "pe_dma": _BLUE, "pe_fetch_store": _YELLOW, "pe_gemm": _PINK,
    "pe_math": _PINK, "pe_tcm": _TEAL, "pe_ipcq": _PURPLE,
}  # fmt: skip
EDGE_COLOURS = {
    EdgeKind.COMMAND: "#98a1ad", EdgeKind.PE_INTERNAL: "#4a78c0", EdgeKind.PE_ROUTER: "#4a78c0", EdgeKind.MESH: "#6b7686",
    EdgeKind.HBM: "#3d9970", EdgeKind.SRAM: "#2f9fb3", EdgeKind.M_CPU: "#dd7a36", EdgeKind.UCIE_PORT: "#b3a3e0",
    EdgeKind.UCIE: "#8469cc", EdgeKind.UCIE_IO: "#b573c9", EdgeKind.IO_INTERNAL: "#93684f", EdgeKind.SIP: "#cf5650",
    EdgeKind.PCIE: "#c2981f",
}  # fmt: skip
TITLES = {"hbm_ctrl": "HBM", "sram": "SRAM", "m_cpu": "M_CPU", "pe": "PE", "sip": "SIP", "io": "IO chiplet", "ucie": "port"}


def size_text(nbytes: int) -> str:
    """A size in the largest unit in which it is a short number: `16 GiB`, `1.5 MiB`."""
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.4g} {name}"
    return f"{nbytes} B"


def number_text(value: Fraction | int) -> str:
    """A quantity in few digits."""
    return f"{int(value):,}" if value == int(value) else f"{float(value):.4g}"


def span_text(values: Iterable[Fraction | int]) -> str:
    """A quantity that differs: from the least to the largest."""
    low, high = min(found := list(values)), max(found)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


def box(node: ViewNode, x: float, y: float, width: float, height: float) -> Box:
    """A node's box at a place of the picture."""
    fill, stroke = NODE_COLOURS.get(node.kind, _PLAIN)
    return Box(x, y, width, height, fill, stroke, dashed=not node.inside, about=node.id)


class Pen:
    """Draws the lines between boxes: one for both directions, its width by the bandwidth of one."""

    def __init__(self, edges: Sequence[ViewEdge]) -> None:
        order = {(edge.source, edge.target, edge.kind): i for i, edge in enumerate(edges)}
        self._back = {(target, source, kind) for source, target, kind in order}
        #: each edge, of the two directions of a connection the first
        self.lines = [edge for i, edge in enumerate(edges) if order.get((edge.target, edge.source, edge.kind), i) >= i]
        self._most = max((edge.bytes_per_cycle or Fraction(0) for edge in edges), default=Fraction(0))

    def link(self, edge: ViewEdge, points: Sequence[tuple[float, float]]) -> Link:
        """The line of an edge through points."""
        rate = edge.bytes_per_cycle
        width = THINNEST if rate is None or not self._most else max(THINNEST, WIDEST * float(rate / self._most) ** 0.5)
        each = " each way" if (edge.source, edge.target, edge.kind) in self._back else ""
        about = f"{edge.source} to {edge.target}: {edge_text(edge.edges, len(edge.edges))}{each}"
        command = edge.kind is EdgeKind.COMMAND
        return Link(tuple(points), EDGE_COLOURS[edge.kind], width, dashed=command, arrow=command, about=about)


def edge_text(edges: Sequence[Edge], links: int) -> str:
    """What edges of one kind are, and how many links they make."""
    rates = [edge.bytes_per_cycle for edge in edges if edge.bytes_per_cycle is not None]
    parts = [f"{span_text(rates)} B/cycle"] if rates else []
    parts += [f"{span_text(edge.cycles for edge in edges)} cycles", f"{span_text(edge.mm for edge in edges)} mm"]
    return f"{links:,} x {edges[0].kind.replace('_', ' ')}, " + ", ".join(parts)


def add_legend(picture: Picture, nodes: Sequence[ViewNode], edges: Sequence[ViewEdge]) -> None:
    """Below everything: each kind of box and how many there are, each kind of line and what they are."""
    left, _, right, bottom = picture.bounds()
    right = max(right, left + 640)
    y = bottom + 34
    picture.links.append(Link(((left, y - 16), (right, y - 16)), LINE, 1))
    if nodes:
        y = _node_kinds(picture, nodes, left, right, y)
    pen = Pen(edges)
    links = Counter(dict.fromkeys((edge.kind for edge in edges), 0))
    for line in pen.lines:
        links[line.kind] += len(line.edges)
    for kind, count in links.items():
        found = [edge for edge in edges if edge.kind is kind]
        widest = max(found, key=lambda edge: edge.bytes_per_cycle or Fraction(0))
        picture.links.append(pen.link(widest, [(left, y), (left + 34, y)]))
        text = edge_text([one for edge in found for one in edge.edges], count)
        picture.texts.append(Text(left + 44, y + 4, text, anchor="start"))
        y += 20
    note = "a line is both directions; the wider, the more bytes per cycle; numbers are of one direction of one link"
    picture.texts.append(Text(left, y + 4, note, 11, SOFT, "start"))


def _node_kinds(picture: Picture, nodes: Sequence[ViewNode], left: float, right: float, y: float) -> float:
    """The kinds of boxes, side by side; where the next line is."""
    x = left
    for kind, count in Counter(node.kind for node in nodes).items():
        title = TITLES.get(kind, kind)
        text = Text(x + 20, y + 4, f"{title} ({count})" if count > 1 else title, anchor="start")
        if x > left and text.bounds()[2] > right:
            x, y = left, y + 20
            text = replace(text, x=x + 20, y=y + 4)
        fill, stroke = NODE_COLOURS.get(kind, _PLAIN)
        picture.boxes.append(Box(x + 7, y, 14, 12, fill, stroke, radius=3))
        picture.texts.append(text)
        x = text.bounds()[2] + 18
    return y + 20
