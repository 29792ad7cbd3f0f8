"""Lines, boxes and texts at pixel positions, and their SVG: the same picture gives the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from html import escape
from typing import Literal

from kernbench.common.look.palette import Theme, tinted, tokens
from kernbench.topology.graph import Edge, EdgeKind
from kernbench.topology.views import ViewEdge, ViewNode

Bounds = tuple[float, float, float, float]  #: left, top, right, bottom
Anchor = Literal["start", "middle", "end"]

INK, SOFT, PAGE, LINE = "ink", "soft", "card", "strong"  #: names of the colours of shapes
MARGIN = 24.0
CHARACTER = 0.58  # width of a character relative to the font size: the average of a sans-serif font, and a margin


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `y` is its base line."""

    x: float
    y: float
    text: str
    size: float = 12
    fill: str = INK
    anchor: Anchor = "middle"
    bold: bool = False

    def bounds(self) -> Bounds:
        """An estimate of its width, without font metrics."""
        width = len(self.text) * self.size * CHARACTER * (1.06 if self.bold else 1)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, self.y - 0.8 * self.size, left + width, self.y + 0.22 * self.size

    def svg(self, theme: Theme) -> str:
        more = ' font-weight="600"' if self.bold else ""
        place = f'x="{_n(self.x)}" y="{_n(self.y)}" font-size="{_n(self.size)}"'
        return f'<text {place} fill="{tinted(self.fill, theme)}" text-anchor="{self.anchor}"{more}>{escape(self.text)}</text>'


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle around a centre."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    radius: float = 5
    dashed: bool = False
    about: str = ""  #: tooltip

    def bounds(self) -> Bounds:
        return self.x - self.width / 2, self.y - self.height / 2, self.x + self.width / 2, self.y + self.height / 2

    def svg(self, theme: Theme) -> str:
        left, top, _, _ = self.bounds()
        place = f'x="{_n(left)}" y="{_n(top)}" width="{_n(self.width)}" height="{_n(self.height)}" rx="{_n(self.radius)}"'
        dash = ' stroke-dasharray="5 4"' if self.dashed else ""
        about = f"<title>{escape(self.about)}</title>" if self.about else ""
        stroke = self.stroke if self.stroke == "none" else tinted(self.stroke, theme)
        return f'<rect {place} fill="{tinted(self.fill, theme)}" stroke="{stroke}"{dash}>{about}</rect>'


@dataclass(frozen=True, slots=True)
class Link:
    """A line through points, rounded where it bends; `arrow` at its end."""

    points: tuple[tuple[float, float], ...]
    stroke: str
    width: float
    dashed: bool = False
    arrow: bool = False
    about: str = ""

    def bounds(self) -> Bounds:
        xs, ys = [x for x, _ in self.points], [y for _, y in self.points]
        return min(xs), min(ys), max(xs), max(ys)

    def svg(self, theme: Theme) -> str:
        path = "M" + " L".join(f"{_n(x)} {_n(y)}" for x, y in self.points)
        more = ' stroke-dasharray="4 3"' if self.dashed else ""
        more += ' marker-end="url(#arrow)"' if self.arrow else ""
        about = f"<title>{escape(self.about)}</title>" if self.about else ""
        style = f'stroke="{tinted(self.stroke, theme)}" stroke-width="{_n(self.width)}" stroke-linejoin="round"'
        return f'<path d="{path}" fill="none" {style}{more}>{about}</path>'


@dataclass
class Picture:
    """Shapes; links go under boxes. Its size follows from its items."""

    title: str
    note: str = ""
    ground: list[Box] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def shapes(self) -> list[Link | Box | Text]:
        """All shapes, from back to front."""
        return [*self.ground, *self.links, *self.boxes, *self.texts]

    def bounds(self) -> Bounds:
        """The bounding box of all shapes."""
        found = [shape.bounds() for shape in self.shapes()] or [(0.0, 0.0, 0.0, 0.0)]
        return (min(b[0] for b in found), min(b[1] for b in found), max(b[2] for b in found), max(b[3] for b in found))

    def label(self, box: Box, lines: list[str], *, size: float = 12, fill: str = INK) -> None:
        """Lines in the middle of a box, the first of them bold."""
        step = size * 1.3
        first = box.y + 0.36 * size - step * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            soft = fill if i == 0 or fill != INK else SOFT
            self.texts.append(Text(box.x, first + i * step, line, size if i == 0 else size - 1, soft, bold=i == 0))

    def svg(self, theme: Theme = "light") -> str:
        """The picture as an SVG file, with its title at the top."""
        left, top, right, bottom = self.bounds()
        head = [Text(left, top - 34, self.title, 17, anchor="start", bold=True)]
        head += [Text(left, top - 15, self.note, 12, SOFT, anchor="start")] if self.note else []
        right = max([right, *(text.bounds()[2] for text in head)])
        x, y = left - MARGIN, top - 34 - 17 - MARGIN / 2
        width, height = right - left + 2 * MARGIN, bottom - y + MARGIN
        return "\n".join(_document((x, y, width, height), self.title, [*self.shapes(), *head], theme)) + "\n"


def _document(place: Bounds, title: str, shapes: list[Link | Box | Text], theme: Theme) -> Iterator[str]:
    x, y, width, height = place
    font = tokens()["font"]["sans"].replace('"', "'")
    view = f'viewBox="{_n(x)} {_n(y)} {_n(width)} {_n(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {view} width="{_n(width)}" height="{_n(height)}" role="img"'
    yield f'font-family="{font}" style="max-width:100%;height:auto">'
    yield f"<title>{escape(title)}</title>"
    yield '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    yield f'markerUnits="userSpaceOnUse"><path d="M0 0 L8 4 L0 8 z" fill="{tinted(SOFT, theme)}"/></marker></defs>'
    yield f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{tinted(PAGE, theme)}"/>'
    for shape in shapes:
        yield shape.svg(theme)
    yield "</svg>"


def _n(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{round(value, 1):g}"


WIDEST, THINNEST = 8.0, 1.4  # [px] of links
_PLAIN = ("head", "soft")
#: Fill and stroke of a box: the hue of the resource; components that only forward or command are neutral.
NODE_COLOURS: dict[str, tuple[str, str]] = {
    "sip": _PLAIN, "cube": _PLAIN, "io": ("link/10", "link"), "host": _PLAIN, "switch": _PLAIN,
    "pe": ("dma/16", "dma"), "router": _PLAIN,
    "ucie": ("link/18", "link"), "hbm_ctrl": ("dram/18", "dram"), "sram": ("sram/18", "sram"),
    "m_cpu": ("control/20", "control"), "io_cpu": ("control/20", "control"), "pcie_ep": ("link/18", "link"),
    "io_noc": ("link/18", "link"), "pe_cpu": ("control/20", "control"), "pe_scheduler": ("control/20", "control"),
    "pe_dma": ("dma/18", "dma"), "pe_fetch_store": ("dma/10", "dma"), "pe_gemm": ("te/18", "te"), "pe_math": ("ve/18", "ve"),
    "pe_tcm": ("sram/18", "sram"), "pe_ipcq": ("queue/18", "queue"),
}  # fmt: skip
#: Links within a cube are neutral, except links to memories; links that leave the cube have the colour of the network.
EDGE_COLOURS = {
    EdgeKind.COMMAND: "edge", EdgeKind.PE_INTERNAL: "dma", EdgeKind.PE_ROUTER: "dma", EdgeKind.MESH: "edge",
    EdgeKind.HBM: "dram", EdgeKind.SRAM: "sram", EdgeKind.M_CPU: "control", EdgeKind.UCIE_PORT: "link/60",
    EdgeKind.UCIE: "link", EdgeKind.UCIE_IO: "link", EdgeKind.IO_INTERNAL: "link/60", EdgeKind.SIP: "ink",
    EdgeKind.PCIE: "soft",
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
    """The range of a quantity: from the smallest to the largest value."""
    low, high = min(found := list(values)), max(found)
    return number_text(low) if low == high else f"{number_text(low)} to {number_text(high)}"


def box(node: ViewNode, x: float, y: float, width: float, height: float) -> Box:
    """A node's box at a place of the picture."""
    fill, stroke = NODE_COLOURS.get(node.kind, _PLAIN)
    return Box(x, y, width, height, fill, stroke, dashed=not node.inside, about=node.id)


class Pen:
    """Draws the lines between boxes: one line for both directions, whose width shows the bandwidth of one direction."""

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
    """The kind of edges, and the number of links."""
    rates = [edge.bytes_per_cycle for edge in edges if edge.bytes_per_cycle is not None]
    parts = [f"{span_text(rates)} B/cycle"] if rates else []
    parts += [f"{span_text(edge.cycles for edge in edges)} cycles", f"{span_text(edge.mm for edge in edges)} mm"]
    return f"{links:,} x {edges[0].kind.replace('_', ' ')}, " + ", ".join(parts)


def add_legend(picture: Picture, nodes: Sequence[ViewNode], edges: Sequence[ViewEdge]) -> None:
    """Below the picture: each kind of box with its number, and each kind of line with its meaning."""
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
