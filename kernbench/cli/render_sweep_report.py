"""A sweep's report as a terminal shows it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render_sweep import left_out, number_texts, short_names
from kernbench.cli.render_trace_parts import safe
from kernbench.cli.text import BUSY, WIDE, Bar, Justify, percent, short, table
from kernbench.common.words import counted
from kernbench.sweep.analysis import influences, pareto, ranked
from kernbench.sweep.table import plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sweep.spec import Goal
    from kernbench.sweep.table import Entry, SweepTable

LIMIT, NUMBER, VALUE = 13, 8, 24  # characters of columns
HEAD = 11  # characters of a line of a header
ROOMY = 60  # characters of a text


def report_text(
    found: SweepTable, goals: Sequence[Goal], reasons: dict[str, str], top: int, width: int
) -> Iterator[RenderableType]:
    """All of it."""
    statuses = Counter(entry.status for entry in found.entries)
    text = Text.assemble((safe(found.name, ROOMY), "bold"), f"  {counted(len(found.entries), 'point')}: ")
    yield text.append(", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items())))
    if found.about.excluded or found.about.invalid:
        yield Text(left_out(found.about.excluded, found.about.invalid), "dim")
    for part in by_target(found):
        yield from _best(part, goals, top, width)
    yield from _influences(found, goals[0], width >= WIDE)
    yield from _reasons(found, reasons, goals[0])
    yield from _failures(found, top)


def by_target(found: SweepTable) -> Iterator[SweepTable]:
    """The points of each target by themselves: their numbers are not to be compared."""
    for target in dict.fromkeys(entry.target for entry in found.entries):
        yield replace(found, entries=[entry for entry in found.entries if entry.target == target])


def _best(found: SweepTable, goals: Sequence[Goal], top: int, width: int) -> Iterator[RenderableType]:
    """The best points of one target, and its front."""
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


def _table(
    found: SweepTable, title: str, entries: Sequence[Entry], goals: Sequence[Goal], width: int, note: str
) -> Table:
    """Points with what they are, their goals, and what limits them; axes that do not fit are left out."""
    numbers = list(dict.fromkeys(name for name, _ in goals))
    room = width - LIMIT - len("point  ") - sum(max(len(name), NUMBER) + 2 for name in numbers)
    heads = {name: broken(head) for name, head in short_names(found.names).items()}
    names: list[str] = []
    for name in found.names:
        texts = [*heads[name].split("\n"), *(safe(plain_text(found.place(entry)[name]), VALUE) for entry in entries)]
        room -= max(map(len, texts)) + 2
        if room < 0:
            break
        names.append(name)
    columns: list[tuple[str, Justify]] = [("point", "right"), *((heads[name], "right") for name in names)]
    columns += [(name, "right") for name in numbers]
    left = found.names[len(names) :]
    if left:
        note += f"; not shown: {left[0]}{' ...' if left[1:] else ''}"
    made = table(title, [*columns, ("limit", "left")], note)
    rows = [entry.row for entry in entries if entry.row is not None]  # those of `entries`, which are done
    columns_of_numbers = [number_texts(rows, name) for name in numbers]
    for entry, row, *cells in zip(entries, rows, *columns_of_numbers, strict=True):
        place = found.place(entry)
        shown = [str(entry.number), *(safe(plain_text(place[name]), VALUE) for name in names), *cells]
        made.add_row(*shown, safe(str(row.metrics.get("bound_by", "")), LIMIT if width < WIDE else 40))
    return made


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
    note = "share of the variance between its values"
    made = table(f"What {goal[0]} depends on", [*columns, ("worst/best", "right")], note)
    for one in known:
        bar = Bar([(one.share, BUSY, "green")], 30 if wide else 16)
        made.add_row(safe(one.name, 40), bar, percent(one.share), safe(plain_text(one.best), 24), _times(one.gain))
    yield ""
    yield made


def _times(gain: float) -> str:
    """How many times one is another, with two digits at least behind the point of a small one."""
    return f"{gain:.2f} x" if gain < 9.995 else f"{short(gain)} x"


def _reasons(found: SweepTable, reasons: dict[str, str], goal: Goal) -> Iterator[RenderableType]:
    worst = [entry for entry in reversed(ranked(found, goal)) if entry.task.key in reasons]
    if worst:
        yield ""
        yield Text("Why the worst are as they are", "bold")
    for entry in worst:
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
