"""A sweep's report as a terminal shows it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render_sweep import number_text
from kernbench.cli.render_trace_parts import safe
from kernbench.cli.text import BUSY, WIDE, Bar, Justify, counted, percent, short, table
from kernbench.sweep.analysis import influences, pareto, ranked
from kernbench.sweep.table import plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sweep.spec import Goal
    from kernbench.sweep.table import Entry, SweepTable

MOST_AXES = {True: 8, False: 4}  #: columns of a table, by whether it is wide
HEAD = 11  # characters of a line of a header
ROOMY = 60  # characters of a text


def report_text(
    found: SweepTable, goals: Sequence[Goal], reasons: dict[str, str], top: int, width: int
) -> Iterator[RenderableType]:
    """All of it."""
    wide = width >= WIDE
    statuses = Counter(entry.status for entry in found.entries)
    text = Text.assemble((safe(found.name, ROOMY), "bold"), f"  {counted(len(found.entries), 'point')}: ")
    yield text.append(", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items())))
    order = ranked(found, goals[0])
    if order:
        yield ""
        yield _table(found, f"Best by {goals[0][0]}", order[:top], goals, wide, f"{min(top, len(order))} of {len(order):,}")
    if len(goals) > 1 and order:
        front = pareto(found, goals)
        yield ""
        names = " and ".join(name for name, _ in goals)
        yield _table(found, "Pareto front", front[:top], goals, wide, f"{names}: {min(top, len(front))} of {len(front):,}")
    for goal in goals[:1]:
        yield from _influences(found, goal, wide)
    yield from _reasons(found, order, reasons)
    yield from _failures(found, top)


def _table(
    found: SweepTable, title: str, entries: Sequence[Entry], goals: Sequence[Goal], wide: bool, note: str
) -> Table:
    """Points with what they are, their goals, and what limits them."""
    names = found.names[: MOST_AXES[wide]]
    numbers = list(dict.fromkeys(name for name, _ in goals))
    heads = short_names(found.names)
    columns: list[tuple[str, Justify]] = [("point", "right"), *((broken(heads[name]), "right") for name in names)]
    columns += [(name, "right") for name in numbers]
    left = len(found.names) - len(names)
    note += f"; not shown: {', '.join(found.names[len(names) :])}" if left else ""
    made = table(title, [*columns, ("limit", "left")], note)
    for i in range(1, len(names) + 1):
        made.columns[i].no_wrap, made.columns[i].overflow = False, "fold"
    for entry in entries:
        assert entry.row is not None
        place = found.place(entry)
        cells = [str(entry.number), *(safe(plain_text(place[name]), 24) for name in names)]
        cells += [number_text(entry.row, name) for name in numbers]
        made.add_row(*cells, str(entry.row.metrics.get("bound_by", "")))
    return made


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last parts of paths, where no two are alike; else the paths."""
    last = {name: name.rpartition(".")[2] for name in names}
    return last if len(set(last.values())) == len(last) else {name: name for name in names}


def broken(name: str) -> str:
    """A name in lines of few characters, cut behind `_` and `.` alone."""
    lines = [""]
    for part in re.findall(r"[^_.]*[_.]?", name):
        if len(lines[-1]) + len(part) > HEAD and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _influences(found: SweepTable, goal: Goal, wide: bool) -> Iterator[RenderableType]:
    """How much each axis matters."""
    known = influences(found, goal)
    if not known:
        return
    columns: list[tuple[str, Justify]] = [("axis", "left"), ("", "left"), ("explains", "right"), ("best", "right")]
    note = "share of the variance that is between an axis's values"
    made = table(f"What {goal[0]} depends on", [*columns, ("worst/best", "right")], note)
    for one in known:
        bar = Bar([(one.share, BUSY, "green")], 30 if wide else 16)
        made.add_row(safe(one.name, 40), bar, percent(one.share), safe(plain_text(one.best), 24), f"{short(one.gain)} x")
    yield ""
    yield made


def _reasons(found: SweepTable, order: Sequence[Entry], reasons: dict[str, str]) -> Iterator[RenderableType]:
    worst = [entry for entry in reversed(order) if entry.task.key in reasons]
    if worst:
        yield ""
        yield Text("Why the worst are as they are", "bold")
    for entry in worst[: len(reasons)]:
        yield Text.assemble((f"{entry.number}  {safe(found.label(entry), 200)}: ", "dim"), safe(reasons[entry.task.key], 1000))


def _failures(found: SweepTable, top: int) -> Iterator[RenderableType]:
    failed = [entry for entry in found.entries if entry.row is not None and not entry.row.ended]
    if failed:
        yield ""
        yield Text("Failures", "bold")
    for entry in failed[:top]:
        assert entry.row is not None
        line = f"{entry.number}  {safe(found.label(entry), 200)}: "
        yield Text.assemble((line, "dim"), (entry.status, "bold red"), f": {safe(entry.row.error, 300)}")
    if len(failed) > top:
        yield Text(f"{len(failed) - top:,} more", "dim")
