"""`kbsim sweep report`: the results of a sweep as text, tables and a page."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import AllowCode, Json
from kernbench.cli.sweep.run import broken_constraints, left_out, number_texts, short_names
from kernbench.cli.text import BAD, BUSY, WAIT, WIDE, WORK, Bar, Justify, broken, percent, short, table
from kernbench.cli.trace.tables import safe
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sweep.report.table import Entry, SweepTable
    from kernbench.sweep.spec import Goal


StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="The store that `kbsim sweep run` has "
    "written.", show_default=False)]
SweepName = Annotated[
    str | None, typer.Option("--sweep", metavar="NAME", help="The sweep to show, if the store has several "
        "sweeps.", show_default=False)
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Write the whole table as CSV to FILE. The name - prints the CSV on stdout, and no other text.",
        show_default=False,
    ),
]
Parquet = Annotated[
    Path | None,
    typer.Option(
        "--parquet", metavar="FILE", help="Write the table as Parquet (needs the extra `analysis`).", show_default=False
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--report", "--html", metavar="FILE", help="Write an HTML page that needs no network.", show_default=False),
]
GoalOption = Annotated[
    str | None,
    typer.Option(
        "--goal", metavar="COLUMN", help="The metric to minimise (NAME) or to maximise (max:NAME).", show_default="the spec's"
    ),
]

Why = Annotated[
    int, typer.Option("--why", metavar="N", min=0, help="Run the N worst points again with a trace, and explain "
        "why they are slow.")
]


def report(
    store: StoreArgument,
    sweep: SweepName = None,
    csv: Csv = None,
    parquet: Parquet = None,
    html: Html = None,
    goal: GoalOption = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Show N rows of each table.")] = 10,
    why: Why = 0,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Show a sweep: the best points, the Pareto front, the influence of each axis, and what limits the worst points."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.sweep.report.page import page_bytes
    from kernbench.sweep.report.table import csv_bytes, dicts, parquet_bytes, read_table
    from kernbench.sweep.store import Store

    to_stdout = csv == Path("-")
    if to_stdout and as_json:
        raise InputError(Problem("kbsim sweep report", "--csv - and --json both write to stdout", remedy="leave one out"))
    files = [None if to_stdout else csv, parquet, html]
    for place in files:
        if place is not None:
            check_writable(place)
    check_apart(files, (store,))
    with Store.read(store) as opened:
        table = read_table(opened, sweep)
    goals = list(dict.fromkeys([_goal(goal), *table.goals] if goal is not None else table.goals))
    reasons = _reasons(store, table, goals[0], why, allow_code or ())
    if to_stdout:
        output.write(csv_bytes(table).decode())
    elif as_json:
        directions = [{"goal": name, "way": way} for name, way in table.goals]
        output.show_json({"sweep": table.name, "goals": directions, "points": dicts(table), "why": reasons})
    else:
        output.show(report_text(table, goals, reasons, top, output.console(sys.stdout).width))
    with answering(as_json):
        for to, made in ((files[0], csv_bytes), (parquet, parquet_bytes)):
            if to is not None:
                write_whole(to, made(table))
        if html is not None:
            write_whole(html, page_bytes(table, goals, reasons))
    return output.OK


def _goal(text: str) -> Goal:
    """`energy_pj` or `max:te_busy`; InputError if the text is not the number of a row."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.sweep.goals import GOALS, is_goal

    way, _, name = text.rpartition(":")
    if is_goal(name) and way in ("", "min", "max"):
        return name, way or "min"
    raise InputError(Problem("kbsim sweep report", f"it must be one of {', '.join(GOALS)}, or max: and one", "--goal", text))


def _reasons(store: Path, table: SweepTable, goal: Goal, count: int, allow_code: Sequence[str]) -> dict[str, str]:
    """Sentences for the worst points, by key. They are kept in the store if possible."""
    from kernbench.common.errors import InputError
    from kernbench.sweep.report.analysis import ranked
    from kernbench.sweep.report.table import reasons_of
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


LIMIT, NUMBER, VALUE = 13, 8, 24  # characters of columns
HEAD, GOAL_HEAD = 11, 16  # characters of a line of a header: of an axis, of a goal
ROOMY = 60  # characters of a text


def report_text(
    found: SweepTable, goals: Sequence[Goal], reasons: dict[str, str], top: int, width: int
) -> Iterator[RenderableType]:
    """All of it."""
    statuses = Counter(entry.status for entry in found.entries)
    text = widgets.Text.assemble((safe(found.name, ROOMY), "bold"), f"  {counted(len(found.entries), 'point')}: ")
    yield text.append(", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items())))
    if found.about.excluded or found.about.invalid:
        yield widgets.Text(left_out(found.about.excluded, found.about.invalid), "dim")
    broken = sum(entry.row is not None and entry.row.ended and not found.allowed(entry) for entry in found.entries)
    if broken:
        yield widgets.Text(broken_constraints(broken, len(found.entries), found.about.constraints), WAIT)
    if not found.entries:
        yield widgets.Text("no point has a result yet: run the sweep with kbsim sweep run", WAIT)
    for part in by_target(found):
        yield from _best(part, goals, top, width)
    yield from _influences(found, goals[0], width)
    yield from _reason_lines(found, reasons, goals[0])
    yield from _failures(found, top)


def by_target(found: SweepTable) -> Iterator[SweepTable]:
    """The points of each target separately, because numbers of different targets are not comparable."""
    for target in dict.fromkeys(entry.target for entry in found.entries):
        yield replace(found, entries=[entry for entry in found.entries if entry.target == target])


def _best(found: SweepTable, goals: Sequence[Goal], top: int, width: int) -> Iterator[RenderableType]:
    """The best points of one target, and its front."""
    from kernbench.sweep.report.analysis import pareto, ranked

    order = ranked(found, goals[0])
    if not order:
        return
    of = f"{safe(found.entries[0].target, 40)}: "
    yield ""
    yield _table(found, f"Best by {goals[0][0]}", order[:top], goals, width, f"{of}{min(top, len(order))} of {len(order):,}")
    if len(goals) > 1:
        front = pareto(found, goals)
        names = " and ".join(name for name, _ in goals)
        yield ""
        yield _table(found, "Pareto front", front[:top], goals, width, f"{names}: {min(top, len(front))} of {len(front):,}")


def _table(found: SweepTable, title: str, entries: Sequence[Entry], goals: Sequence[Goal], width: int, note: str) -> Table:
    """A table of points with their values, goals and bottleneck; axes that do not fit are left out."""
    from kernbench.sweep.report.table import plain_text

    numbers = list(dict.fromkeys(name for name, _ in goals))
    heads = {name: broken(head, HEAD) for name, head in short_names(found.names).items()}
    goal_heads = [broken(name, GOAL_HEAD) for name in numbers]
    room = width - LIMIT - len("point  ") - sum(max(*map(len, head.split("\n")), NUMBER) + 2 for head in goal_heads)
    names: list[str] = []
    for name in found.names:
        texts = [*heads[name].split("\n"), *(safe(plain_text(found.place(entry)[name]), VALUE) for entry in entries)]
        wide = max(map(len, texts)) + 2
        if wide > room:
            break
        room -= wide
        names.append(name)
    columns: list[tuple[str, Justify]] = [("point", "right"), *((heads[name], "right") for name in names)]
    columns += [(head, "right") for head in goal_heads]
    left = found.names[len(names) :]
    if left:
        note += f"; not shown: {left[0]}{' ...' if left[1:] else ''}"
    made = table(title, [*columns, ("limit", "left")], note)
    rows = [entry.row for entry in entries if entry.row is not None]  # the number of `entries` that are done
    columns_of_numbers = [number_texts(rows, name) for name in numbers]
    for entry, row, *cells in zip(entries, rows, *columns_of_numbers, strict=True):
        place = found.place(entry)
        shown = [str(entry.number), *(safe(plain_text(place[name]), VALUE) for name in names), *cells]
        made.add_row(*shown, safe(str(row.metrics.get("bound_by", "")), max(LIMIT + room, 40 if width >= WIDE else 0)))
    return made


def _influences(found: SweepTable, goal: Goal, width: int) -> Iterator[RenderableType]:
    """How much each axis matters."""
    from kernbench.sweep.report.analysis import influences, interactions
    from kernbench.sweep.report.table import plain_text

    known = influences(found, goal)
    if not known:
        return
    columns: list[tuple[str, Justify]] = [("axis", "left"), ("", "left"), ("explains", "right"), ("best", "right")]
    note = "of the variance"
    made = table(f"What {goal[0]} depends on", [*columns, ("best/worst" if goal[1] == "max" else "worst/best", "right")], note)
    names = max(len(safe(one.name, 40)) for one in known)
    best = max(len("best"), *(len(safe(plain_text(one.best), 24)) for one in known))
    room = width - names - len("explains") - best - len("worst/best") - 4 * 2
    bars = max(6, min(30 if width >= WIDE else 16, room))
    for one in known:
        bar = Bar([(one.share, BUSY, WORK)], bars)
        made.add_row(safe(one.name, 40), bar, percent(one.share), safe(plain_text(one.best), 24), _times(one.gain))
    rest = interactions(known, sum(count for _, count, _ in known[0].levels))
    if rest is not None:
        made.add_row("interactions of axes", Bar([(rest, BUSY, WORK)], bars), percent(rest), "", "")
    yield ""
    yield made
    if rest is None:
        yield widgets.Text("the points are no full grid: shares of axes overlap, and need not add up to 100%", "dim")


def _times(gain: float) -> str:
    """The ratio of two numbers; a small ratio has at least two decimals."""
    return f"{gain:.2f} x" if gain < 9.995 else f"{short(gain)} x"


def _reason_lines(found: SweepTable, reasons: dict[str, str], goal: Goal) -> Iterator[RenderableType]:
    from kernbench.sweep.report.analysis import ranked

    worst = [entry for entry in reversed(ranked(found, goal)) if entry.task.key in reasons]
    if worst:
        yield ""
        yield widgets.Text("Why the worst are as they are", "bold")
    for entry in worst:
        yield widgets.Text.assemble(
            (f"{entry.number}  {safe(found.label(entry), 200)}: ", "dim"), safe(reasons[entry.task.key], 1000)
        )


def _failures(found: SweepTable, top: int) -> Iterator[RenderableType]:
    failed = [entry for entry in found.entries if entry.row is not None and not entry.row.ended]
    if failed:
        yield ""
        yield widgets.Text("Failures", "bold")
    for entry in failed[:top]:
        assert entry.row is not None
        line = f"{entry.number}  {safe(found.label(entry), 200)}: "
        yield widgets.Text.assemble((line, "dim"), (entry.status, f"bold {BAD}"), f": {safe(entry.row.error, 300)}")
    if len(failed) > top:
        yield widgets.Text(f"{len(failed) - top:,} more", "dim")
