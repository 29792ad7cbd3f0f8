"""Lines, boxes and texts at places in pixels, and the SVG that they make: the same picture, the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Literal

Bounds = tuple[float, float, float, float]  #: left, top, right, bottom
Anchor = Literal["start", "middle", "end"]

INK, SOFT, PAGE, LINE = "#1a1e24", "#5b6472", "#ffffff", "#d4d9e1"
MARGIN = 24.0
CHARACTER = 0.58  # of the font's size: what a character of a sans-serif text takes on the average, and a little more
_FONT = "system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif"


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
        """About where it is: no font is asked."""
        width = len(self.text) * self.size * CHARACTER * (1.06 if self.bold else 1)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, self.y - 0.8 * self.size, left + width, self.y + 0.22 * self.size

    def svg(self) -> str:
        more = ' font-weight="600"' if self.bold else ""
        place = f'x="{_n(self.x)}" y="{_n(self.y)}" font-size="{_n(self.size)}"'
        return f'<text {place} fill="{self.fill}" text-anchor="{self.anchor}"{more}>{escape(self.text)}</text>'


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
    about: str = ""  #: shown where the pointer rests

    def bounds(self) -> Bounds:
        return self.x - self.width / 2, self.y - self.height / 2, self.x + self.width / 2, self.y + self.height / 2

    def svg(self) -> str:
        left, top, _, _ = self.bounds()
        place = f'x="{_n(left)}" y="{_n(top)}" width="{_n(self.width)}" height="{_n(self.height)}" rx="{_n(self.radius)}"'
        dash = ' stroke-dasharray="5 4"' if self.dashed else ""
        about = f"<title>{escape(self.about)}</title>" if self.about else ""
        return f'<rect {place} fill="{self.fill}" stroke="{self.stroke}"{dash}>{about}</rect>'


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

    def svg(self) -> str:
        path = "M" + " L".join(f"{_n(x)} {_n(y)}" for x, y in self.points)
        more = ' stroke-dasharray="4 3"' if self.dashed else ""
        more += ' marker-end="url(#arrow)"' if self.arrow else ""
        about = f"<title>{escape(self.about)}</title>" if self.about else ""
        style = f'stroke="{self.stroke}" stroke-width="{_n(self.width)}" stroke-linejoin="round"'
        return f'<path d="{path}" fill="none" {style}{more}>{about}</path>'


@dataclass
class Picture:
    """Shapes; links go under boxes. Its size is what they need."""

    title: str
    note: str = ""
    ground: list[Box] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def shapes(self) -> list[Link | Box | Text]:
        """All of them, the first at the back."""
        return [*self.ground, *self.links, *self.boxes, *self.texts]

    def bounds(self) -> Bounds:
        """Around everything."""
        found = [shape.bounds() for shape in self.shapes()] or [(0.0, 0.0, 0.0, 0.0)]
        return (min(b[0] for b in found), min(b[1] for b in found), max(b[2] for b in found), max(b[3] for b in found))

    def label(self, box: Box, lines: list[str], *, size: float = 12, fill: str = INK) -> None:
        """Lines in the middle of a box, the first of them bold."""
        step = size * 1.3
        first = box.y + 0.36 * size - step * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            soft = fill if i == 0 or fill != INK else SOFT
            self.texts.append(Text(box.x, first + i * step, line, size if i == 0 else size - 1, soft, bold=i == 0))

    def svg(self) -> str:
        """The picture as a file, on a light page with its title above."""
        left, top, right, bottom = self.bounds()
        head = [Text(left, top - 34, self.title, 17, anchor="start", bold=True)]
        head += [Text(left, top - 15, self.note, 12, SOFT, anchor="start")] if self.note else []
        right = max([right, *(text.bounds()[2] for text in head)])
        x, y = left - MARGIN, top - 34 - 17 - MARGIN / 2
        width, height = right - left + 2 * MARGIN, bottom - y + MARGIN
        return "\n".join(_document(x, y, width, height, self.title, [*self.shapes(), *head])) + "\n"


def _document(x: float, y: float, width: float, height: float, title: str, shapes: list[Link | Box | Text]) -> Iterator[str]:
    view = f'viewBox="{_n(x)} {_n(y)} {_n(width)} {_n(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {view} width="{_n(width)}" height="{_n(height)}" role="img"'
    yield f'font-family="{_FONT}" style="max-width:100%;height:auto">'
    yield f"<title>{escape(title)}</title>"
    yield '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    yield f'markerUnits="userSpaceOnUse"><path d="M0 0 L8 4 L0 8 z" fill="{SOFT}"/></marker></defs>'
    yield f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{PAGE}"/>'
    for shape in shapes:
        yield shape.svg()
    yield "</svg>"


def _n(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{round(value, 1):g}"
