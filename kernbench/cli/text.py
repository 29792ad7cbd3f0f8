"""Numbers, bars and tables as a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import takewhile
from math import log10
from typing import Any, Literal, cast

from kernbench.cli import widgets
from kernbench.common.look import palette

#: The styles of a terminal, by meaning. All commands use these styles.
WORK, WAIT, LIMIT = palette.style("work"), palette.style("wait"), palette.style("limit")
GOOD, DIM = palette.style("expected"), palette.style("soft")  #: as expected, or of little importance
BAD = palette.style("fail").removeprefix("bold ")  #: failed; bold in a headline
STATUS_STYLES = {status: palette.style(status) for status in ("done", "running", "aborted")}  # others are red
WIDE = 110  # [column] from here on tables say more
SPACE = "\ue000"  #: replaces a space at which a line must not be broken
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[num]?s|[num]?[JW]|[kMGTP]?i?B(?:/(?:s|cycle|token))?|[kMG]?Hz)(?![\w/]))")
_PREFIXES = ("", " k", " M", " G", " T", " P", " E")
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))

Justify = Literal["left", "right"]


def short(number: int | float, digits: int = 3) -> str:
    """A count in few characters: `9,999`, `6.41 M`. `digits`: significant digits from 10,000 on."""
    if abs(number) < 10_000:
        return f"{number:,.0f}" if number == int(number) else _three(number, digits)
    power = 0
    value = float(number)
    while abs(value) >= 999.5 and power < len(_PREFIXES) - 1:
        value /= 1000
        power += 1
    return _three(value, digits) + _PREFIXES[power]


def unit(number: int | float, name: str) -> str:
    """A count with its unit, the prefix at the unit: `1.53 kB`, `64 B`."""
    text = short(number)
    return text + name if text[-1].isalpha() else f"{text} {name}"


def _three(value: float, digits: int = 3) -> str:
    """Three significant digits, or `digits`."""
    size = abs(value)
    return f"{value:,.{max(0, digits - (1 if size < 9.995 else 2 if size < 99.95 else 3))}f}"


def digits_apart(values: Sequence[float], least: int) -> int:
    """The number of significant digits for values of one column: enough to show their differences, at most 12."""
    low, high = min(values, default=0), max(values, default=0)
    near = int(log10(max(abs(low), abs(high)) / (high - low))) if high > low else 0
    return min(least + near, 12)


def percent(part: float) -> str:
    """A share of 1: `97%`, with one more digit near 0 and near 1: `0.3%`, `99.7%`, `>99.9%`."""
    if 0 < part < 0.0005:
        return "<0.1%"
    if 0.9995 <= part < 1:
        return ">99.9%"
    return f"{part:.1%}" if 0 < part < 0.00995 or 0.99 <= part < 1 else f"{part:.0%}"


def duration(ns: float, digits: int | None = None) -> str:
    """A time in its unit: `354 ns`, `6.63 ms`. Times of one column, each with the same number of digits: `354.0 ns`, `6.630
    ms`.
    """
    most = digits or 4
    size, name = next((unit for unit in _TIMES if float(f"{ns / unit[0]:.{most}g}") >= 1), _TIMES[-1])
    whole = len(str(int(float(f"{ns / size:.{most}g}"))))
    text = f"{ns / size:,.{max(0, most - whole)}f}"
    return f"{text.rstrip('0').rstrip('.') if digits is None and '.' in text else text} {name}"


def scaled(value: float, units: Sequence[str], digits: int = 3) -> str:
    """A quantity in the largest of `units` (each a thousand of the one before) of which it is at least one, with `digits`."""
    power = 0
    while value >= 999.5 and power < len(units) - 1:
        value /= 1000
        power += 1
    return f"{_three(value, digits)} {units[power]}"


def share_text(value: float) -> str:
    """A bandwidth with three significant digits; a whole number has no decimals."""
    return short(value) if value >= 1000 or value == int(value) else _three(value)


def headed(head: str) -> widgets.Text:
    """The bold beginning of a line that is its own section."""
    return widgets.Text.assemble((head, "bold"), "  ")


def status_text(status: str) -> widgets.Text:
    """A status as coloured text."""
    return widgets.Text.assemble((status, status_style(status)))


def status_style(status: str) -> str:
    """The style of a status."""
    return STATUS_STYLES.get(status, f"bold {BAD}")


def rational(value: Fraction) -> str:
    """A rate in few characters: `16`, `102.4`, `5.33`."""
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):.4g}"


def size_text(nbytes: int) -> str:
    """Bytes in the largest binary unit that divides them: `4 KiB`, `1 MiB`, `100 B`."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes and nbytes % (1 << power) == 0:
            return f"{nbytes >> power:,} {name}"
    return f"{nbytes:,} B"


def common_place(names: Sequence[str]) -> str:
    """The common prefix of all node ids in the names, with its dot: `sip0.cube0.`; empty if there is none.

    The name of an edge has two ids, joined by `-`.
    """
    places = [node.split(".")[:-1] for name in names for node in name.split("-")]
    shared = [part[0] for part in takewhile(lambda part: len(set(part)) == 1, zip(*places, strict=False))]
    return "".join(f"{part}." for part in shared if part.startswith(("sip", "cube")))


def without_place(name: str, place: str) -> str:
    """A name without the common prefix."""
    return "-".join(node.removeprefix(place) for node in name.split("-")) if place else name


def glued(text: str) -> str:
    """A text of the same length in which lines are never broken between a number and its unit: `SPACE` stands there."""
    return _BEFORE_UNIT.sub(SPACE, text)


def broken(name: str, room: int) -> str:
    """A name in lines of at most `room` characters, broken only after `_` and `.`."""
    lines = [""]
    for part in re.findall(r"[^_.]*[_.]?", name):
        if len(lines[-1]) + len(part) > room and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def ids(numbers: Sequence[int], most: int = 8) -> str:
    """Ids in a row. If there are many, the first ones and the number of the others."""
    text = ", ".join(str(number) for number in numbers[:most])
    return text if len(numbers) <= most else f"{text}, ... ({len(numbers) - most} more)"


class Bar:
    """A bar of parts, each a share of 1 with its character and style. It fills its column.

    A solid part ends on an eighth of a cell, so that 1% is seen and 99% is not full.
    """

    def __init__(self, parts: Sequence[tuple[float, str, str]], width: int) -> None:
        self.parts = parts
        self.width = width

    def __rich_console__(self, console: widgets.Console, options: widgets.ConsoleOptions) -> widgets.RenderResult:
        for cells, style in self.pieces(min(self.width, options.max_width)):
            yield widgets.Segment(cells, widgets.Style.parse(style))

    def pieces(self, width: int) -> Iterator[tuple[str, str]]:
        """The characters of each part at this width, with their style; then those of the rest."""
        drawn = 0
        reached = 0.0
        for share, character, style in self.parts:
            reached += share
            if character == BUSY:
                cells = solid(max(0.0, reached * width - drawn), share > 0, width - drawn)
            else:
                cells = character * max(0, min(round(reached * width) - drawn, width - drawn))
            yield cells, style
            drawn += len(cells)
        yield IDLE * (width - drawn), DIM

    def __rich_measure__(self, console: widgets.Console, options: widgets.ConsoleOptions) -> object:
        from rich.measure import Measurement

        return Measurement(min(4, self.width), min(self.width, options.max_width))


BUSY, STALLED, IDLE = "█▒·"  # `output.ASCII` has their replacements for terminals that cannot show them
EIGHTHS = " ▏▎▍▌▋▊▉"


def solid(cells: float, some: bool, room: int) -> str:
    """The filled cells of a bar, in eighths; at least one eighth if `some`."""
    eighths = min(max(int(cells * 8 + 1e-9), int(some)), room * 8)
    return BUSY * (eighths // 8) + EIGHTHS[eighths % 8].strip()


class Title:
    """The title of a table. Rich wraps a title at the width of its table; this title may be as wide as the terminal."""

    def __init__(self, text: widgets.Text) -> None:
        self.text = text

    def __rich_console__(self, console: widgets.Console, options: widgets.ConsoleOptions) -> Iterator[widgets.Segment]:
        yield from console.render(self.text, options.update(width=console.width))


def table(title: str, columns: Sequence[tuple[str, Justify]], note: str = "") -> widgets.Table:
    """A table without ruled lines, below its title. `columns`: header and side of each.

    If the columns do not fit the terminal, each row is drawn as a record of names and values, so that no cell is cut. In a row
    with a cell of several lines, all cells begin on the first line. Headers of several lines end on the same line.
    """
    vertical: Literal["top", "bottom"] = "bottom" if any("\n" in header for header, _ in columns) else "top"
    made = widgets.RecordTable(
        title_justify="left",
        title_style="none",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style=DIM,
        collapse_padding=True,
    )
    if title:
        made.title = cast(Any, Title(widgets.Text.assemble((title, "bold"), (f"  {note}" if note else "", DIM))))
    for header, side in columns:
        made.add_column(header, justify=side, no_wrap=True, vertical=vertical)
    return made
