"""`kbsim sweep compare`: the same points before and after a change, and a gate for CI."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.sweep.report import SweepName
from kernbench.cli.text import BAD, table
from kernbench.cli.trace.diff import FailAbove
from kernbench.cli.trace.tables import safe

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sweep.compare import Comparison, Pair


GREW = 1  #: exit code: a point's time grew above the limit, or it is not done any more

Base = Annotated[Path, typer.Argument(metavar="BASE", help="The store of the sweep before your change.", show_default=False)]
New = Annotated[Path, typer.Argument(metavar="NEW", help="The store of the sweep after your change.", show_default=False)]


def compare(
    base: Base,
    new: New,
    sweep: SweepName = None,
    fail_above: FailAbove = None,
    markdown_to: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write the comparison as Markdown.", show_default=False),
    ] = None,
    junit_to: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write a JUnit report, with one test per point.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show N points.")] = 10,
    as_json: Json = False,
) -> int:
    """Compare a sweep with an earlier sweep, point by point. With --fail-above, a failed point is treated as too slow."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.sweep.compare import compare_sweeps, junit, markdown, to_dict
    from kernbench.sweep.report.table import read_table
    from kernbench.sweep.store import Store

    limit = None if fail_above is None else _limit(fail_above)
    for place in (markdown_to, junit_to):
        if place is not None:
            check_writable(place)
    check_apart((markdown_to, junit_to), (base, new))
    with Store.read(base) as before, Store.read(new) as after:
        found = compare_sweeps(read_table(before, sweep), read_table(after, sweep))
    if markdown_to is not None:
        write_whole(markdown_to, markdown(found, limit).encode("utf-8", "replace"))
    if junit_to is not None:
        write_whole(junit_to, junit(found, limit).encode("utf-8", "replace"))
    if as_json:
        output.show_json(to_dict(found, limit))
    else:
        output.show(comparison_text(found, limit, top, output.console(sys.stdout).width))
    return GREW if limit is not None and found.failing(limit) else output.OK


def _limit(text: str) -> Fraction:
    from kernbench.common.errors import InputError, Problem
    from kernbench.trace.compare.diff import parse_limit

    try:
        return parse_limit(text)
    except ValueError as error:
        raise InputError(Problem("kbsim sweep compare", str(error), "--fail-above", text)) from None


LABEL = 120  # characters of a point


def comparison_text(found: Comparison, limit: Fraction | None, top: int, width: int) -> Iterator[RenderableType]:
    """All of it."""
    from kernbench.sweep.compare import headline

    failed = limit is not None and bool(found.failing(limit))
    yield widgets.Text(headline(found, limit), f"bold {BAD}" if failed else "bold")
    for title, pairs in (("Broke", found.broken), ("Slower", found.slower), ("Faster", found.faster)):
        if pairs:
            yield ""
            yield _table(title, pairs, top)
    for side, labels in (("A", found.only_a), ("B", found.only_b)):
        if labels:
            yield ""
            yield widgets.Text(f"{len(labels):,} only in {side}, the first {safe(labels[0], LABEL)}", "dim")


def _table(title: str, pairs: Sequence[Pair], top: int) -> Table:
    from kernbench.sweep.compare import time_text
    from kernbench.trace.compare.reports import share

    note = f"{min(top, len(pairs))} of {len(pairs):,}"
    made = table(title, [("time", "right"), ("cycles A", "right"), ("B", "right"), ("point", "left")], note)
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for pair in pairs[:top]:
        grown = "" if pair.growth is None else share(pair.growth, sign=True, even=True)
        made.add_row(grown, time_text(pair.a), time_text(pair.b), safe(pair.label, LABEL))
    return made
