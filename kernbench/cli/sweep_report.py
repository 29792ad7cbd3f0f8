"""`kbsim sweep report`: what a sweep says, as text, tables and a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import AllowCode, Json

if TYPE_CHECKING:
    from kernbench.sweep.spec import Goal
    from kernbench.sweep.table import SweepTable

StoreArgument = Annotated[
    Path, typer.Argument(metavar="STORE", help="The store of `kbsim sweep run`.", show_default=False)
]
SweepName = Annotated[
    str | None, typer.Option("--sweep", metavar="NAME", help="Which sweep, where the store has several.", show_default=False)
]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the whole table as CSV.", show_default=False)]
Parquet = Annotated[
    Path | None,
    typer.Option("--parquet", metavar="FILE", help="Write it as Parquet (needs the extra analysis).", show_default=False),
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page that needs no network.", show_default=False)
]
GoalOption = Annotated[
    str | None,
    typer.Option("--goal", metavar="COLUMN", help="What is best: a number's name, or max:NAME.", show_default="the spec's"),
]

Why = Annotated[int, typer.Option("--why", metavar="N", min=0, help="Run the N worst points again, traced, and say why.")]


def report(
    store: StoreArgument,
    sweep: SweepName = None,
    csv: Csv = None,
    parquet: Parquet = None,
    html: Html = None,
    goal: GoalOption = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show so many rows of a table.")] = 10,
    why: Why = 0,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Show a sweep: the best points, the Pareto front, how much each axis matters, and why the worst are as they are."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.sweep.page import page_bytes
    from kernbench.sweep.store import Store
    from kernbench.sweep.table import csv_bytes, dicts, parquet_bytes, read_table

    for place in (csv, parquet, html):
        if place is not None:
            check_writable(place)
    check_apart((csv, parquet, html), (store,))
    with Store.read(store) as opened:
        table = read_table(opened, sweep)
    goals = list(dict.fromkeys([_goal(goal), *table.goals] if goal is not None else table.goals))
    reasons = _reasons(store, table, goals[0], why, allow_code or ())
    for to, made in ((csv, csv_bytes), (parquet, parquet_bytes)):
        if to is not None:
            write_whole(to, made(table))
    if html is not None:
        write_whole(html, page_bytes(table, goals, reasons))
    if as_json:
        told = [{"goal": name, "way": way} for name, way in table.goals]
        output.show_json({"sweep": table.name, "goals": told, "points": dicts(table), "why": reasons})
    else:
        from kernbench.cli.render_sweep_report import report_text

        output.show(report_text(table, goals, reasons, top, output.console(sys.stdout).width))
    return output.OK


def _goal(text: str) -> Goal:
    """`energy_pj` or `max:te_busy`; InputError for what is no number of a row."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.sweep.load import GOALS

    way, _, name = text.rpartition(":")
    if name in GOALS and way in ("", "min", "max"):
        return name, way or "min"
    raise InputError(Problem("kbsim sweep report", f"it must be one of {', '.join(GOALS)}, or max: and one", "--goal", text))


def _reasons(
    store: Path, table: SweepTable, goal: Goal, count: int, allow_code: Sequence[str]
) -> dict[str, str]:
    """Sentences for the worst points, by key; what is found is kept in the store where it can be."""
    from kernbench.common.errors import InputError
    from kernbench.sweep.analysis import ranked
    from kernbench.sweep.reasons import reasons_of
    from kernbench.sweep.store import Store

    worst = ranked(table, goal)[::-1][:count]
    if not worst:
        return {}
    with Store.read(store) as opened:
        known = opened.reasons([entry.task.key for entry in worst])
    fresh = reasons_of(table, [entry for entry in worst if entry.task.key not in known], allow_code=allow_code)
    if fresh:
        with suppress(InputError), Store.write(store) as opened:  # another run may be writing to it: then they are not kept
            opened.add_reasons(fresh)
    both = known | fresh
    return {entry.task.key: both[entry.task.key] for entry in worst}
