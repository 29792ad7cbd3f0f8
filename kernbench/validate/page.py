"""The report: one HTML file without a script and with nothing loaded from elsewhere. The same rows give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from importlib import resources

from kernbench.common.json_shapes import counted
from kernbench.common.look.css import theme_css
from kernbench.trace.report import filled
from kernbench.trace.report.plots import CATEGORIES
from kernbench.validate.run import SuiteRun
from kernbench.validate.suite import Figure, Number, Row, Series
from kernbench.version import VERSION

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 620, 48, 290
TICKS = 6  #: at most about so many on an axis
ROOM = 0.05  #: of a linear axis that is left free at its ends
LEGEND = 560  #: how far the names of series go


@dataclass(frozen=True, slots=True)
class Axis:
    """Values of one axis, and their positions in the picture."""

    low: float
    high: float
    begin: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        """Where a value is."""
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
    """1, 2 or 5 times a power of ten, at least so large."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


def _axis(values: Sequence[float], begin: float, end: float, log: bool) -> Axis:
    low, high = min(values), max(values)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Axis(low, high if high > low else 10 * low, begin, end, True)
    room = (high - low) * ROOM or abs(high) or 1.0
    return Axis(low - room if low else low, high + room, begin, end, False)


def figure_svg(figure: Figure) -> str:
    """The whole picture; every series must have a point, and those of logarithmic axes are above 0."""
    points = [point for series in figure.series for point in series.points]
    x = _axis([point[0] for point in points], LEFT, RIGHT, figure.log_x)
    y = _axis([point[1] for point in points], BOTTOM, TOP, figure.log_y)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif" '
    style = f'font-size="12" fill="currentColor" style="width:100%;max-width:{WIDTH}px;height:auto">'
    parts = [f"<title>{escape(figure.title)}</title>", *_frame(figure, x, y)]
    for i, series in enumerate(figure.series):
        parts += _drawn(series, x, y, CATEGORIES[i % len(CATEGORIES)])
    return "\n".join([head + style, *parts, *_legend(figure.series), "</svg>", ""])


def _frame(figure: Figure, x: Axis, y: Axis) -> Iterator[str]:
    faint = 'stroke="currentColor" stroke-opacity="0.18"'
    for tick in x.ticks():
        yield f'<line x1="{x.at(tick):.1f}" y1="{TOP}" x2="{x.at(tick):.1f}" y2="{BOTTOM}" {faint}/>'
        yield f'<text x="{x.at(tick):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{_number(tick)}</text>'
    for tick in y.ticks():
        yield f'<line x1="{LEFT}" y1="{y.at(tick):.1f}" x2="{RIGHT}" y2="{y.at(tick):.1f}" {faint}/>'
        yield f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
    box = f'x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"'
    yield f'<rect {box} fill="none" stroke="currentColor" stroke-opacity="0.5"/>'
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(figure.x_label)}</text>'
    middle = (TOP + BOTTOM) / 2
    yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(figure.y_label)}</text>'
    yield f'<text x="{LEFT}" y="16" font-weight="bold">{escape(figure.title)}</text>'


def _drawn(series: Series, x: Axis, y: Axis, colour: str) -> Iterator[str]:
    places = [(x.at(across), y.at(up)) for across, up in series.points]
    if series.kind == "line":
        line = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        return
    for across, up in places:
        yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5" fill="{colour}" fill-opacity="0.75"/>'


def _legend(all_series: Sequence[Series]) -> Iterator[str]:
    """A mark and a name each, in a line; about 6.5 pixels a character."""
    across = LEFT
    for i, series in enumerate(all_series):
        colour = CATEGORIES[i % len(CATEGORIES)]
        if series.kind == "line":
            yield f'<line x1="{across}" y1="32" x2="{across + 14}" y2="32" stroke="{colour}" stroke-width="2"/>'
        else:
            yield f'<circle cx="{across + 7}" cy="32" r="3.5" fill="{colour}"/>'
        yield f'<text x="{across + 19}" y="36">{escape(series.name)}</text>'
        across += 34 + round(6.5 * len(series.name))
        if across > LEGEND:
            return


def _number(value: float) -> str:
    """A tick in few characters."""
    size = abs(value)
    for power, prefix in ((9, "G"), (6, "M"), (3, "k")):
        if size >= 10**power:
            return f"{value / 10**power:g}{prefix}"
    return f"{value:g}" if size >= 0.001 or not size else f"{value:.0e}"


COLUMNS = ("case", "source", "expected", "ours", "unit", "error", "allowed", "verdict")


def number_text(value: Number) -> str:
    """A whole number with its digits, any other with four that count, or all before the point."""
    exact = Fraction(value)
    return f"{float(exact):.4g}" if exact.denominator > 1 and abs(exact) < 1000 else f"{round(exact):,}"


def size_text(nbytes: int) -> str:
    """Bytes in the largest binary unit that divides them: `16 GiB`, `8 B`."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes % (1 << power) == 0:
            return f"{nbytes >> power:,} {name}"
    return f"{nbytes:,} B"


def expected_text(row: Row) -> str:
    """The figure, or the range `0.4..0.5`."""
    ends = row.expected
    return "..".join(map(number_text, ends)) if isinstance(ends, tuple) else number_text(ends)


def share_text(value: Number, *, sign: bool = False) -> str:
    """A share in percent: `0`, `-1.4%`, `+12%`; the sign of what is asked for."""
    if value == 0:
        return "0"
    percent = float(value) * 100
    digits = 2 if abs(percent) < 1 else 1 if abs(percent) < 10 else 0
    return f"{percent:{'+' if sign else ''},.{digits}f}%"


def cells(row: Row) -> tuple[str, ...]:
    """A row in the order of COLUMNS."""
    allowed = "any" if row.allowed is None else share_text(row.allowed)
    error = share_text(row.error, sign=True)
    return row.case, row.source, expected_text(row), number_text(row.ours), row.unit, error, allowed, row.verdict


def reasons(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Each tolerance with its sentence, once: `0`, `a formula of integers: nothing may differ`."""
    seen = dict.fromkeys((cells(row)[6], row.why) for row in rows)
    yield from seen


def largest(run: SuiteRun) -> str:
    """The largest error of a suite's rows."""
    return share_text(max((row.error for row in run.rows), key=abs, default=0), sign=True)


def headline(runs: Sequence[SuiteRun]) -> str:
    """What all suites together say, in a sentence."""
    rows = sum(len(run.rows) for run in runs)
    outside = sum(len(run.outside) for run in runs)
    told = sum(row.verdict == "told" for run in runs for row in run.rows)
    skipped = [run.data.suite for run in runs if run.skipped]
    parts = [f"{counted(rows, 'row')}: {rows - outside - told:,} inside, {outside:,} outside"]
    parts += [f"{told:,} told"] if told else []
    parts += [f"skipped: {', '.join(skipped)}"] if skipped else []
    return ", ".join(parts)


def figures_of(run: SuiteRun) -> list[Figure]:
    """The figures of a suite; by default, our values over the expected ones."""
    if run.figures or not run.rows:
        return list(run.figures)
    by_source: dict[str, list[tuple[float, float]]] = {}
    for row in run.rows:
        if not isinstance(row.expected, tuple) and row.expected > 0 and row.ours > 0:
            by_source.setdefault(row.source, []).append((float(row.expected), float(row.ours)))
    ends = [value for points in by_source.values() for point in points for value in point]
    if not ends:
        return []
    same = Series("equal", [(min(ends), min(ends)), (max(ends), max(ends))], "line")
    unit = run.rows[0].unit
    series = [same, *(Series(name, points) for name, points in by_source.items())]
    return [Figure(run.data.title, f"expected [{unit}]", f"ours [{unit}]", series, log_x=True, log_y=True)]


NUMBERS = ("expected", "ours", "error", "allowed")  #: columns that stand at the right

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="kernbench">
<title>kernbench validation</title>
<link rel="icon" href="data:,">
<style>
@STYLE@</style>
</head>
<body>
<header><h1>Validation of kernbench @VERSION@</h1><p class="@COLOUR@">@HEADLINE@</p></header>
<main>
<section><table><thead><tr><th>suite</th><th>what</th><th class="number">rows</th><th class="number">outside</th>\
<th class="number">largest error</th></tr></thead><tbody>
@SUMMARY@
</tbody></table></section>
@SUITES@
</main>
</body>
</html>
"""


def page_bytes(runs: Sequence[SuiteRun]) -> bytes:
    """The whole page, UTF-8."""
    own = (resources.files("kernbench.validate") / "report.css").read_text(encoding="utf-8")
    values = {
        "STYLE": theme_css() + own,
        "VERSION": VERSION,
        "COLOUR": "outside" if any(run.outside for run in runs) else "inside",
        "HEADLINE": escape(headline(runs)),
        "SUMMARY": "\n".join(_summary(run) for run in runs),
        "SUITES": "\n".join(line for run in runs for line in _suite(run)),
    }
    return filled(_PAGE, values).encode()


def _summary(run: SuiteRun) -> str:
    """A line of the first table."""
    name, title = escape(run.data.suite), escape(run.data.title)
    texts = ("skipped", "", "") if run.skipped else (f"{len(run.rows):,}", f"{len(run.outside):,}", largest(run))
    verdict = "outside" if run.outside else "told" if run.skipped else "inside"
    numbers = "".join(f'<td class="number">{text}</td>' for text in texts)
    return f'<tr class="{verdict}"><td><a href="#{name}">{name}</a></td><td>{title}</td>{numbers}</tr>'


def _suite(run: SuiteRun) -> Iterator[str]:
    yield f'<section id="{escape(run.data.suite)}"><h2>{escape(run.data.title)} <small>{escape(run.data.suite)}</small></h2>'
    yield f"<p>{escape(run.data.about)}</p>"
    if run.skipped:
        yield f'<p class="told">Skipped: {escape(run.skipped)}</p>'
    else:
        yield from (f"<figure>{figure_svg(figure)}</figure>" for figure in figures_of(run))
        yield from _table(run)
        yield from (f"<p>Allowed {escape(allowed)}: {escape(why)}.</p>" for allowed, why in reasons(run.rows))
    yield "<ul>"
    for name, source in run.data.sources.items():
        title = escape(source.title)
        link = f'<a href="{escape(source.url)}">{title}</a>' if source.url else title
        yield f"<li><b>{escape(name)}</b>: {link}; {escape(source.licence)}. {escape(source.redo)}</li>"
    yield "</ul></section>"


def _table(run: SuiteRun) -> Iterator[str]:
    yield "<table><thead><tr>"
    yield "".join(f"<th{_side(name)}>{name}</th>" for name in COLUMNS)
    yield "</tr></thead><tbody>"
    for row in run.rows:
        texts = zip(COLUMNS, cells(row), strict=True)
        yield f'<tr class="{row.verdict}">' + "".join(f"<td{_side(name)}>{escape(text)}</td>" for name, text in texts) + "</tr>"
    yield "</tbody></table>"


def _side(column: str) -> str:
    return ' class="number"' if column in NUMBERS else ""
