"""Texts and tables of a run's summary. For a file or a pipe they are formatted here; for a terminal rich formats them, with
colours.

Importing rich takes as long as a short run. The format is the same as that of rich; texts and tables that do not fit are left
to rich.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kernbench.cli import text

if TYPE_CHECKING:
    from rich.console import RenderableType

APART = "  "  # between the columns of a table
#: Characters of one column that do not break lines.
_PLAIN = re.compile(rf"[ -~{text.BUSY}{text.STALLED}{text.IDLE}{text.EIGHTHS}]*")
_WORD = re.compile(r"\s*\S+\s*")


class Line:
    """A line of styled pieces, which is wrapped between words."""

    def __init__(self, *pieces: str | tuple[str, str]) -> None:
        self.pieces = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]

    def append(self, piece: str, style: str = "") -> Line:
        """Add a piece at the end; returns the line."""
        self.pieces.append((piece, style))
        return self

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(piece for piece, _ in self.pieces)

    def __rich__(self) -> RenderableType:
        from kernbench.cli import widgets

        return widgets.Text.assemble(*self.pieces)


Cell: TypeAlias = "str | Line | text.Bar"


class Table:
    """A table without ruled lines, below its title: `text.table`. `wrap_last`: its last column may be wrapped."""

    def __init__(
        self, title: str, columns: Sequence[tuple[str, text.Justify]], note: str = "", *, wrap_last: bool = False
    ) -> None:
        self.title, self.columns, self.note, self.wrap_last = title, columns, note, wrap_last
        self.rows: list[tuple[Cell, ...]] = []

    def add_row(self, *cells: Cell) -> None:
        """A row; cells that are left out are empty."""
        self.rows.append(cells)

    def fit_first(self, width: int) -> None:
        """If the table is too wide, break names in the first column, between the ends of a link or before a count.

        Otherwise a table that is too wide loses the ends of all its cells, and numbers must never be cut to make room for a
        name.
        """
        sizes = _sizes(self, _texts(self))
        room = width - sum(sizes[1:]) - len(APART) * (len(sizes) - 1)
        for cells in self.rows:
            if isinstance(cells[0], Line):
                cells[0].pieces = [(_broken(piece, room), style) for piece, style in cells[0].pieces]

    def __rich__(self) -> RenderableType:
        made = text.table(self.title, self.columns, self.note)
        if self.wrap_last:
            made.columns[-1].no_wrap = False
        for cells in self.rows:
            made.add_row(*cells)
        return made


Drawable: TypeAlias = "str | Line | Table"


def lines_of(drawables: Iterable[Any], width: int) -> list[str] | None:
    """Everything as lines of at most `width` columns, without colours; None if only rich can draw it."""
    lines: list[str] = []
    for one in drawables:
        drawn = _table(one, width) if isinstance(one, Table) else _wrapped(one, width)
        if drawn is None:
            return None
        lines += drawn
    return lines


def _wrapped(one: Any, width: int) -> list[str] | None:
    if not isinstance(one, (str, Line)):
        return None
    whole = one if isinstance(one, str) else one.plain
    if _PLAIN.fullmatch(whole) is None:
        return None
    lines = [""]
    for word in _WORD.findall(text.glued(whole)):
        size = len(word.rstrip())
        if size > width:
            return None
        if lines[-1] and len(lines[-1]) + size > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip().replace(text.SPACE, " ") for line in lines]


def _table(table: Table, width: int) -> list[str] | None:
    rows, heads = _texts(table), [head for head, _ in table.columns]
    title = f"{table.title}{APART if table.note else ''}{table.note}"
    sizes = _sizes(table, rows)
    room = sum(sizes) + len(APART) * (len(sizes) - 1)
    texts = [title, *heads, *(cell for cells in rows for cell in cells)]
    if room > width or len(title) > room or any(_PLAIN.fullmatch(one) is None for one in texts):
        return None
    bars = [{k for k, cell in enumerate(cells) if isinstance(cell, text.Bar)} for cells in ([], *table.rows)]  # on the left
    placed = [
        APART.join(
            cell.rstrip().rjust(size) if side == "right" and k not in left else cell.ljust(size)
            for k, (cell, size, (_, side)) in enumerate(zip(cells, sizes, table.columns, strict=True))
        )
        for cells, left in zip((heads, *rows), bars, strict=True)
    ]
    return [line.rstrip() for line in (title, *placed)]


def _texts(table: Table) -> list[list[str]]:
    rows = [[_cell(cell) for cell in cells] for cells in table.rows]
    return [[*cells, *[""] * (len(table.columns) - len(cells))] for cells in rows]


def _sizes(table: Table, rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip([head for head, _ in table.columns], *rows, strict=True)]


def _broken(name: str, room: int) -> str:
    """A name in lines of at most `room` columns where its parts allow that: `a-b +3` becomes `a-`, `b +3`."""
    for mark in ("-", " +"):
        name = "\n".join(
            line if len(line) <= room else line.replace(mark, "-\n" if mark == "-" else "\n+", 1) for line in name.split("\n")
        )
    return name


def _cell(cell: Cell) -> str:
    if isinstance(cell, text.Bar):
        return "".join(piece for piece, _ in cell.pieces(cell.width))
    return cell.plain if isinstance(cell, Line) else cell


def headed(head: str) -> Line:
    """The bold beginning of a line that forms its own section."""
    return Line((head, "bold"), "  ")


def status_line(status: str) -> Line:
    """A status as coloured text."""
    return Line((status, text.status_style(status)))
