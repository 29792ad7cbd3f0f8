"""Two runs side by side, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.render_trace_parts import safe
from kernbench.cli.text import WIDE, duration, short, status_text, table
from kernbench.common.words import counted
from kernbench.trace.diff_forms import share
from kernbench.trace.diff_tables import all_tables, matching, verdict

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

    from kernbench.trace.diff import Diff
    from kernbench.trace.diff_tables import Table
    from kernbench.trace.ran import Ran

STYLES = {"slower": "bold red", "faster": "bold green", "same": "bold"}
NAME, WIDE_NAME, ROOMY = 24, 40, 120  # [character] of a text in a table, and in its last column


def trace_diff(diff: Diff, width: int) -> Iterator[RenderableType]:
    """What `kbsim trace diff` prints, for a terminal of `width` columns."""
    which = verdict(diff)
    text = Text.assemble((which, STYLES[which]), "  ", (_change(diff.cycles.by) + " cycles", "bold"))
    if diff.growth is not None and which != "same":
        text.append(f" ({share(diff.growth, sign=True)}{'' if diff.same_clock else ' in time'})")
    yield text
    yield _run("A", diff.a)
    yield _run("B", diff.b)
    yield Text(safe(matching(diff), 400), "dim")
    for one in all_tables(diff):
        yield ""
        yield _table(one, width)


def _run(name: str, run: Ran) -> Text:
    took = f"{counted(run.cycles, 'cycle')}, {duration(float(run.ns))} at {float(run.freq_ghz):g} GHz"
    text = Text.assemble((name, "bold"), f"  {took}, ")
    text.append_text(status_text(safe(run.status, NAME)))
    return text.append(f": {safe(run.program, WIDE_NAME) or 'a program'}, {safe(run.path, 200)}")


def _table(one: Table, width: int) -> RichTable:
    wide = width >= WIDE
    made = table(one.title, [(head, "left" if kind == "text" else "right") for head, kind in one.columns], one.note)
    roomy = one.columns[-1][1] == "text"  # there is room below the last column
    for column, (_, kind) in zip(made.columns, one.columns, strict=True):
        if kind == "text":  # where it is narrow, names break and numbers do not
            column.no_wrap, column.overflow = False, "fold"
    for row in one.rows:
        cells = [_cell(value, kind, wide) for value, (_, kind) in zip(row, one.columns, strict=True)]
        if roomy:
            cells[-1] = safe(str(row[-1]), ROOMY)
        made.add_row(*cells)
    return made


def _cell(value: Any, kind: str, wide: bool) -> str | Text:
    if value is None:
        return ""
    if kind == "count":
        return f"{value:,}" if wide else short(value)
    if kind == "change":
        return Text(_change(value, wide), "" if value else "dim")
    if kind == "share":
        return share(value, sign=True, even=True)
    return f"{float(value):.2f}" if kind == "ratio" else safe(str(value), WIDE_NAME if wide else NAME)


def _change(value: int, wide: bool = True) -> str:
    if not value:
        return "0"
    return f"{value:+,}" if wide else ("+" if value > 0 else "-") + short(abs(value))
