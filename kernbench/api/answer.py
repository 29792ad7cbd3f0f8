"""The base class of the results of the Python API: data frames, metrics by name, a plot, and a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any, ClassVar, TypeAlias

from kernbench.common.errors import InputError, Problem
from kernbench.common.extras import Library, frame_of, new_axes
from kernbench.common.look.palette import tokens
from kernbench.common.spelling import meant

Row: TypeAlias = dict[str, Any]
MAX_ROWS = 60  #: rows of a table in a notebook


class Answer:
    """Rows of plain values, in one table or more."""

    tables: ClassVar[tuple[str, ...]] = ("rows",)  #: names of the tables of `to_frame`; the first is the default

    def rows(self, table: str) -> list[Row]:
        """The rows of a table as dicts with the same keys."""
        raise NotImplementedError

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        raise NotImplementedError

    @property
    def metrics(self) -> Row:
        """The numbers of the result by name."""
        raise NotImplementedError

    def draw(self, ax: Any) -> None:
        """Draw on a matplotlib `Axes`."""
        raise NotImplementedError

    def to_frame(self, table: str = "", *, library: Library = "polars") -> Any:
        """Return a table as a DataFrame. None becomes null.

        `table`: one of `tables`, by default the first. `library`: `polars` (the extra `analysis`) or `pandas` (the extra
        `pandas`). The method raises InputError for another table or library, and if the library is not installed.
        """
        wanted = table or self.tables[0]
        if wanted not in self.tables:
            rule = f"it must be one of {', '.join(self.tables)}"
            raise InputError(Problem("to_frame", rule, "table", table, meant(table, self.tables)))
        return frame_of(self.rows(wanted), library)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the result with matplotlib (the extra `plot`) on `ax` or on a new figure, and return the `Axes`.

        InputError if matplotlib is not installed.
        """
        ax = new_axes() if ax is None else ax
        self.draw(ax)
        return ax

    def __repr__(self) -> str:
        return self.headline

    def _repr_html_(self) -> str:
        return html_block(f"<p><b>{escape(self.headline)}</b></p>", html_table(self.rows(self.tables[0])))


def html_block(*parts: str) -> str:
    """Wrap HTML fragments in one styled block."""
    look = tokens()
    font = f"font:{look['type']['body']}px/1.4 {look['font']['sans']}".replace('"', "'")
    return f'<div style="{font};max-width:100%;overflow-x:auto">{"".join(parts)}</div>'


def html_table(rows: Sequence[Mapping[str, Any]], most: int = MAX_ROWS) -> str:
    """An HTML table with right-aligned numbers; it has the first `most` rows and, if there are more, their number."""
    if not rows:
        return "<p>nothing</p>"
    names = list(rows[0])
    style = "padding:2px 8px;font-variant-numeric:tabular-nums;text-align:"
    head = "".join(f'<th style="{style}{_side(rows, name)}">{escape(name)}</th>' for name in names)
    lines = (
        "".join(f'<td style="{style}{_side(rows, name)}">{escape(text_of_value(row[name]))}</td>' for name in names)
        for row in rows[:most]
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>and {len(rows) - most:,} more: to_frame() has all</p>" if len(rows) > most else ""
    return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def _side(rows: Iterable[Mapping[str, Any]], name: str) -> str:
    return "left" if any(isinstance(row[name], str) for row in rows) else "right"


def text_of_value(value: Any) -> str:
    """The text of a value in a table."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.5g}"
