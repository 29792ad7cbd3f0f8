"""`kbsim trace diff`: two runs side by side, and a gate for CI."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.rows import fits, joined, joined_name
from kernbench.cli.text import BAD, GOOD, WIDE, common_place, duration, short, status_text, table, without_place
from kernbench.cli.trace.tables import safe
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

    from kernbench.trace.compare.diff import Diff
    from kernbench.trace.compare.matching import Ran
    from kernbench.trace.compare.reports import Table


GREW = 1  #: exit code: the run's time grew above the limit


Before = Annotated[str, typer.Argument(metavar="A", help="The trace of the run before the change.", show_default=False)]
After = Annotated[str, typer.Argument(metavar="B", help="The trace of the run after the change.", show_default=False)]

FailAbove = Annotated[
    str | None,
    typer.Option(
        "--fail-above", metavar="PERCENT", help="Exit with code 1 if B is slower than A by more than this percentage, such "
        "as 2%.", show_default=False
    ),
]


def diff(
    a: Before,
    b: After,
    fail_above: FailAbove = None,
    markdown_to: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write the comparison as Markdown.", show_default=False),
    ] = None,
    junit_to: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the comparison as a JUnit report.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare two runs: what became slower, by how much, and on which resource."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.compare.diff import compare
    from kernbench.trace.compare.matching import read_run
    from kernbench.trace.compare.reports import junit, markdown, to_dict
    from kernbench.trace.reader import open_trace

    limit = None if fail_above is None else _limit(fail_above)
    for place in (markdown_to, junit_to):
        if place is not None:
            check_writable(place)
    check_apart((markdown_to, junit_to), (a, b))
    found = compare(read_run(open_trace(a)), read_run(open_trace(b)))
    if markdown_to is not None:
        write_whole(markdown_to, markdown(found, limit).encode("utf-8", "replace"))
    if junit_to is not None:
        write_whole(junit_to, junit(found, limit).encode("utf-8", "replace"))
    if as_json:
        output.show_json(to_dict(found, limit))
    else:
        output.show(trace_diff(found, output.console(sys.stdout).width))
    if _say_broken(found):
        return output.REFUSED
    return GREW if limit is not None and found.grew_above(limit) else output.OK


def _say_broken(found: Diff) -> bool:
    """Report where a trace is truncated, and return whether one is."""
    broken = [run for run in (found.a, found.b) if run.broken is not None]
    for run in broken:
        output.note(f"error: {run.path}: {run.broken}")
    return bool(broken)


def _limit(text: str) -> Fraction:
    from kernbench.common.errors import InputError, Problem
    from kernbench.trace.compare.diff import parse_limit

    try:
        return parse_limit(text)
    except ValueError as error:
        raise InputError(Problem("kbsim trace diff", str(error), "--fail-above", text)) from None


STYLES = {"slower": f"bold {BAD}", "faster": f"bold {GOOD}", "same": "bold"}
NAME, WIDE_NAME, ROOMY = 24, 40, 120  # [character] of a text in a table, and in its last column


def trace_diff(diff: Diff, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim trace diff`, for a terminal of `width` columns."""
    from kernbench.trace.compare.reports import all_tables, matching, share, verdict

    which = verdict(diff)
    text = widgets.Text.assemble((which, STYLES[which]), "  ", (_change(diff.cycles.by) + " cycles", "bold"))
    if diff.growth is not None and which != "same":
        text.append(f" ({share(diff.growth, sign=True)}{'' if diff.same_clock else ' in time'})")
    yield text
    yield _run("A", diff.a)
    yield _run("B", diff.b)
    yield widgets.Text(safe(matching(diff), 400), "dim")
    for one in all_tables(diff):
        yield ""
        yield _table(one, width)


def _run(name: str, run: Ran) -> widgets.Text:
    took = f"{counted(run.cycles, 'cycle')}, {duration(float(run.ns))} at {float(run.freq_ghz):g} GHz"
    text = widgets.Text.assemble((name, "bold"), f"  {took}, ")
    text.append_text(status_text(safe(run.status, NAME)))
    return text.append(f": {safe(run.program, WIDE_NAME) or 'a program'}, {safe(run.path, 200)}")


def _table(one: Table, width: int) -> RichTable:
    wide, (one, joins) = width >= WIDE, _without_places(one)
    heads = [head.rpartition("\n")[2] for head, _ in one.columns]
    full = wide or fits(heads, [[_text(cell) for cell in _cells(one, row, True, wide)] for row in one.rows], width)
    made = table(one.title, [(head, "left" if kind == "text" else "right") for head, kind in one.columns], joins)
    for column, (_, kind) in zip(made.columns, one.columns, strict=True):
        if kind == "text":  # in narrow columns names are wrapped, and numbers are not
            column.no_wrap, column.overflow = False, "fold"
    for row in one.rows:
        made.add_row(*_cells(one, row, full, wide))
    return made


def _without_places(one: Table) -> tuple[Table, str]:
    """The table with units by their names inside their common SIP and cube, and with equal rows joined. The note says so."""
    texts = [k for k, (_, kind) in enumerate(one.columns) if kind == "text"]
    units = {k: [unit for row in one.rows for unit in str(row[k]).split(", ")] for k in texts}
    places = {k: common_place(names) for k, names in units.items() if names}

    def inside(value: Any, k: int) -> Any:
        return ", ".join(without_place(unit, places[k]) for unit in str(value).split(", ")) if places.get(k) else value

    rows = [[inside(value, k) for k, value in enumerate(row)] for row in one.rows]
    notes = [one.note, *(f"names are relative to {place[:-1]}" for place in dict.fromkeys(filter(None, places.values())))]
    if places.get(0):
        groups = joined(rows, lambda row: tuple(row[1:]))
        if len(groups) < len(rows):
            notes.append("equal rows joined")
        rows = [[joined_name([str(row[0]) for row in group]), *group[0][1:]] for group in groups]
    return replace(one, rows=rows), "; ".join(filter(None, notes))


def _cells(one: Table, row: Sequence[Any], full: bool, wide: bool) -> list[str | widgets.Text]:
    """A row; a text in the last column has room below it."""
    cells = [_cell(value, kind, full, wide) for value, (_, kind) in zip(row, one.columns, strict=True)]
    if one.columns[-1][1] == "text":
        cells[-1] = safe(str(row[-1]), ROOMY)
    return cells


def _text(cell: str | widgets.Text) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _cell(value: Any, kind: str, full: bool, wide: bool) -> str | widgets.Text:
    """`full`: counts have all their digits."""
    from kernbench.trace.compare.reports import share

    if value is None:
        return ""
    if kind == "count":
        return f"{value:,}" if full else short(value)
    if kind == "change":
        return widgets.Text(_change(value, full), "" if value else "dim")
    if kind == "share":
        return share(value, sign=True, even=True)
    return f"{float(value):.2f}" if kind == "ratio" else safe(str(value), WIDE_NAME if wide else NAME)


def _change(value: int, full: bool = True) -> str:
    if not value:
        return "0"
    return f"{value:+,}" if full else ("+" if value > 0 else "-") + short(abs(value))
