"""A table that is never cut: where its columns do not fit the terminal, each row becomes a record of names and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kernbench.cli.text import DIM, glued

APART = "  "  # between the columns of a table, and between the fields of a record
NARROWEST = 16  # [column] A column of text has at least these, or its longest word; otherwise it is too narrow to be read
WHOLE = 10_000  # columns that hold every cell


class RecordTable(Table):
    """A table of rich without ruled lines. In a terminal that is too narrow for its columns, each row is a paragraph: the first
    cell, then `header value` of the other cells that are not empty.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._least_width(console, options) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield from console.render(self.title, options)
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            for line in self._record(cells, console, options):
                yield from console.render(line, options)

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        """[column] The least width at which no cell is cut and texts can be read."""
        wide = options.update_width(WHOLE)
        least = len(APART) * (len(self.columns) - 1)
        for column in self.columns:
            sizes = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
            size = max(s.maximum for s in sizes) if column.no_wrap else min(max(s.minimum for s in sizes), NARROWEST)
            least += max(size, column.min_width or 0)
        return least

    def _record(self, cells: Sequence[RenderableType], console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """A row as lines: fields are kept whole if they fit a line."""
        room = options.max_width - len(APART)
        lines = [Text()]
        for number, (column, cell) in enumerate(zip(self.columns, cells, strict=True)):
            is_name = number == 0 and column.justify != "right"
            for part in _field("" if is_name else column.header, cell, console, options).wrap(console, room):
                part.rstrip()
                if lines[-1] and lines[-1].cell_len + len(APART) + part.cell_len > room:
                    lines.append(Text())
                elif lines[-1] and part:
                    lines[-1].append(APART)
                lines[-1].append_text(part)
        yield lines[0]
        yield from (Text.assemble(APART, line) for line in lines[1:])


def _field(header: RenderableType, cell: RenderableType, console: Console, options: ConsoleOptions) -> Text:
    """`header value` of a cell; the value alone without a header."""
    value = _plain(cell, console, options)
    head = _plain(header, console, options).plain
    return Text.assemble((f"{head} ", DIM), value) if head and value else value


def _plain(cell: RenderableType, console: Console, options: ConsoleOptions) -> Text:
    """A cell as one line of styled text."""
    pieces = [(piece.text, piece.style or "") for piece in console.render(cell, options.update_width(WHOLE))]
    text = Text.assemble(*pieces)
    text.rstrip()
    lines = text.split("\n")
    made = Text()
    for line in lines:
        line.rstrip()
        if made and not made.plain.endswith(("-", "_", ".")):  # there, a name was broken
            made.append(" ")
        made.append_text(line)
    made.plain = glued(made.plain)
    return made
