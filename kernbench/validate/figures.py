"""The plots of a validation as SVG: the figures of a suite, and the errors of its rows with the allowed range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from kernbench.common.look.palette import SLOTS
from kernbench.validate.suite import Figure, Row, Series

WIDTH, HEIGHT = 640, 340
LEAST = 600  #: [px] the least width of a plot, so that its text stays legible; a wide plot scrolls
LEFT, RIGHT, TOP, BOTTOM = 74, 620, 48, 290
TICKS = 6  #: the approximate largest number of ticks on an axis
ROOM = 0.05  #: share of a linear axis that is left free at each end
LEGEND = 560  #: [px] once the legend is longer than this, further names are left out


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of values in one direction, and the range of pixels in which they are drawn."""

    low: float
    high: float
    begin: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        """The position of a value."""
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.begin + (self.end - self.begin) * (value - low) / (high - low)

    def ticks(self) -> list[float]:
        """Powers of ten, or round steps."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, -(-(last - first) // TICKS))
            return [10.0**power for power in range(first, last + 1, every)]
        step = _step((self.high - self.low) / TICKS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * i for i in range(first, last + 1)]


def _step(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is at least this large."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


def _axis(values: Sequence[float], begin: float, end: float, log: bool) -> Axis:
    low, high = min(values), max(values)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Axis(low, high if high > low else 10 * low, begin, end, True)
    room = (high - low) * ROOM or abs(high) or 1.0
    return Axis(low - room if low else low, high + room, begin, end, False)


def figure_svg(figure: Figure, prefix: str = "") -> str:
    """The whole picture; every series must have a point, and values on logarithmic axes must be above 0.

    Colours are the page's properties `--slot-1`, ...; `prefix` is put before these names (`kb-` in the documentation).
    """
    points = [point for series in figure.series for point in series.points]
    x = _axis([point[0] for point in points], LEFT, RIGHT, figure.log_x)
    y = _axis([point[1] for point in points], BOTTOM, TOP, figure.log_y)
    parts = [f"<title>{escape(figure.title)}</title>", *_frame(figure, x, y, prefix)]
    for i, series in enumerate(figure.series):
        parts += _drawn(series, x, y, _colour(i, prefix))
    return "\n".join([_head(HEIGHT, prefix), *parts, *_legend(figure.series, prefix), "</svg>", ""])


def _head(height: int, prefix: str) -> str:
    shown = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" class="plot" '
    style = f"width:100%;max-width:{WIDTH}px;min-width:{LEAST}px;height:auto;font-family:var(--{prefix}sans)"
    return f'{shown}font-size="12" fill="var(--{prefix}soft)" style="{style}">'


def _colour(place: int, prefix: str) -> str:
    return f"var(--{prefix}slot-{place % SLOTS + 1})"


def _frame(figure: Figure, x: Axis, y: Axis, prefix: str) -> Iterator[str]:
    faint = f'stroke="var(--{prefix}line)"'
    for tick in x.ticks():
        yield f'<line x1="{x.at(tick):.1f}" y1="{TOP}" x2="{x.at(tick):.1f}" y2="{BOTTOM}" {faint}/>'
        yield f'<text x="{x.at(tick):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{_number(tick)}</text>'
    for tick in y.ticks():
        yield f'<line x1="{LEFT}" y1="{y.at(tick):.1f}" x2="{RIGHT}" y2="{y.at(tick):.1f}" {faint}/>'
        yield f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
    box = f'x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"'
    yield f'<rect {box} fill="none" stroke="var(--{prefix}edge)"/>'
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(figure.x_label)}</text>'
    middle = (TOP + BOTTOM) / 2
    yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(figure.y_label)}</text>'
    yield f'<text x="{LEFT}" y="16" font-weight="600" fill="var(--{prefix}ink)">{escape(figure.title)}</text>'


def _drawn(series: Series, x: Axis, y: Axis, colour: str) -> Iterator[str]:
    places = [(x.at(across), y.at(up)) for across, up in series.points]
    if series.kind == "line":
        line = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        return
    for across, up in places:
        yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5" fill="{colour}"/>'


def _legend(all_series: Sequence[Series], prefix: str) -> Iterator[str]:
    """One line with a mark and a name for each series; a character takes about 6.5 pixels."""
    across = LEFT
    for i, series in enumerate(all_series):
        colour = _colour(i, prefix)
        if series.kind == "line":
            yield f'<line x1="{across}" y1="32" x2="{across + 14}" y2="32" stroke="{colour}" stroke-width="2"/>'
        else:
            yield f'<circle cx="{across + 7}" cy="32" r="3.5" fill="{colour}"/>'
        yield f'<text x="{across + 19}" y="36">{escape(series.name)}</text>'
        across += 34 + round(6.5 * len(series.name))
        if across > LEGEND:
            return


def _number(value: float) -> str:
    """The label of a tick in few characters."""
    size = abs(value)
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if size >= 10**power:
            return f"{value / 10**power:g}{prefix}"
    return f"{value:g}" if size >= 0.001 or not size else f"{value:.0e}"


BAND = 230  #: [px] height of a plot of errors
FOOT, ROOF = 190, 20  #: [px] the bottom and the top of the frame
CROSS = 4  #: [px] half the size of the cross that marks an error outside its band


def error_svg(rows: Sequence[Row], prefix: str = "") -> str:
    """The error of each row, in the order of the table, and the band of allowed errors.

    A disc is an error inside its band, a cross is an error outside its band, and a ring is an error without a band.
    """
    ends = [abs(float(end)) for row in rows for end in (row.error, row.allowed or 0)]
    most = max(ends) * 1.1 or 0.01
    x = Axis(-0.7, len(rows) - 0.3, LEFT, RIGHT, False)
    y = Axis(-most, most, FOOT, ROOF, False)
    parts = ["<title>Error of each row, and the band in which it is allowed</title>"]
    for tick in y.ticks():
        up = f"{y.at(tick):.1f}"
        parts.append(f'<line x1="{LEFT}" y1="{up}" x2="{RIGHT}" y2="{up}" stroke="var(--{prefix}line)"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{_signed(tick)}</text>')
    wide = (RIGHT - LEFT) / (len(rows) + 0.4)
    for place, row in enumerate(rows):
        if row.allowed:
            top, tall = y.at(float(row.allowed)), y.at(-float(row.allowed)) - y.at(float(row.allowed))
            box = f'x="{x.at(place) - wide / 2:.1f}" y="{top:.1f}" width="{wide:.2f}" height="{tall:.1f}"'
            parts.append(f'<rect {box} fill="var(--{prefix}strong)" fill-opacity="0.5"/>')
    zero = f"{y.at(0):.1f}"
    parts.append(f'<line x1="{LEFT}" y1="{zero}" x2="{RIGHT}" y2="{zero}" stroke="var(--{prefix}edge)"/>')
    parts += [_mark(row, x.at(place), y.at(float(row.error)), prefix) for place, row in enumerate(rows)]
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{FOOT + 18}" text-anchor="middle">rows, in the order of the table</text>')
    middle = (ROOF + FOOT) / 2
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">error</text>')
    key = "grey band: allowed; disc: pass, cross: fail, ring: info"
    parts.append(f'<text x="{LEFT}" y="{BAND - 6}">{key}</text>')
    return "\n".join([_head(BAND, prefix), *parts, "</svg>", ""])


def _signed(share: float) -> str:
    """The label of a tick of errors: `+50%`, `0`."""
    return f"{100 * share:+g}%" if abs(share) > 1e-12 else "0"


def _mark(row: Row, across: float, up: float, prefix: str) -> str:
    """A disc, a cross or a ring, with the row as its tooltip."""
    title = f"<title>{escape(row.case)}: {100 * float(row.error):+.3g}%</title>"
    if row.verdict == "fail":
        low, high, left, right = up - CROSS, up + CROSS, across - CROSS, across + CROSS
        path = f"M{left:.1f} {low:.1f}L{right:.1f} {high:.1f}M{left:.1f} {high:.1f}L{right:.1f} {low:.1f}"
        return f'<path d="{path}" stroke="var(--{prefix}fail)" stroke-width="2.5">{title}</path>'
    fill = f"var(--{prefix}{'card' if row.verdict == 'info' else 'soft'})"
    disc = f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5" fill="{fill}" stroke="var(--{prefix}soft)" stroke-width="1.5">'
    return f"{disc}{title}</circle>"
