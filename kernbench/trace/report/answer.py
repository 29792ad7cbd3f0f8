"""The answer at the top of the page: why the run took its time or, if the trace cannot say, which resources were busiest."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.common.errors import InputError
from kernbench.common.look.palette import cause_look, resource_of
from kernbench.trace.columns import Column, Pack, Table
from kernbench.trace.report.views import heatmaps
from kernbench.trace.timeline import Timeline
from kernbench.trace.why import Why, merged
from kernbench.trace.why.causes import CauseShare

MAX_STORIES = 20_000  #: commands; in longer traces, only commands on the critical path have causes
MAX_BY = 6  #: the most commands that a cause names as blockers
HINT = "To see the causes, record the trace with --trace-level full."


def why_answer(why: Why, timeline: Timeline, pack: Pack) -> dict[str, Any]:
    """The sentence, the groups that it names, the critical path as spans, and the causes of each command."""
    rows = {int(number): row for row, number in enumerate(timeline.commands["cmd_id"].tolist())}
    return {
        "sentence": why.sentence,
        "cycles": why.history.cycles,
        "groups": [
            {
                "name": group.name, "hue": resource_of(group.name), "units": list(group.resources),
                "cycles": float(group.cycles), "waiting": float(group.waiting),
            }
            for group in why.groups
        ],
        "path": pack.table(_path(why, rows)),
        "causes": pack.table(_causes(why, rows)),
    }  # fmt: skip


def _path(why: Why, rows: dict[int, int]) -> Table:
    """The parts of each span side by side, the longest first, because a shared channel takes a part of every cycle."""
    starts, lengths, commands, parts = [], [], [], []
    for stretch in why.path:
        row = -1 if stretch.command is None else rows.get(stretch.command.id, -1)
        reached = Fraction(stretch.start)
        for part in sorted(merged(stretch.spans), key=lambda one: -one.cycles):
            low, reached = round(reached), reached + part.cycles
            if round(reached) > low:
                starts.append(low)
                lengths.append(round(reached) - low)
                commands.append(row)
                parts.append(part)
    columns = {"start": starts, "cycles": lengths, "command": commands}
    return Table({name: Column(np.array(values, np.int64)) for name, values in columns.items()} | _looks(parts), len(parts))


def _causes(why: Why, rows: dict[int, int]) -> Table:
    """One row for each command and cause, with the cycles and the commands that caused the wait."""
    chosen = why.history.commands
    if len(chosen) > MAX_STORIES:
        chosen = [stretch.command for stretch in why.path if stretch.command is not None]
    found: list[tuple[int, CauseShare]] = []
    for command in chosen:
        if command.id in rows:
            parts = _by_cause(merged(why.story(command.id).spans))
            found += [(rows[command.id], part) for part in parts if part.cycles >= 1]
    blockers = [part.by[:MAX_BY] for _, part in found]
    columns = {
        "command": Column(np.array([row for row, _ in found], np.int64)),
        "cycles": Column(np.array([round(part.cycles) for _, part in found], np.int64)),
        "by": Column(
            np.array([len(by) for by in blockers], np.int64), None, np.array([one for by in blockers for one in by], np.int64)
        ),
    }
    return Table(columns | _looks([part for _, part in found]), len(found))


def _by_cause(parts: Iterable[CauseShare]) -> list[CauseShare]:
    """The parts added up by cause and resource, the longest first; the blockers of the longest part come first."""
    found: dict[tuple[str, str], CauseShare] = {}
    for part in sorted(parts, key=lambda one: -one.cycles):
        key = (part.cause, part.resource)
        known = found.get(key)
        by = part.by if known is None else tuple(dict.fromkeys((*known.by, *part.by)))
        found[key] = CauseShare(*key, part.cycles + (known.cycles if known is not None else 0), by)
    return sorted(found.values(), key=lambda one: -one.cycles)


def _looks(parts: list[CauseShare]) -> dict[str, Column]:
    """Cause, resource, hue and fill of parts, as columns."""
    looks = [(part.cause, part.resource, *cause_look(part.cause, part.resource)) for part in parts]
    return {name: _texts([look[i] for look in looks]) for i, name in enumerate(("cause", "resource", "hue", "fill"))}


def _texts(values: list[str]) -> Column:
    codes = {text: code for code, text in enumerate(dict.fromkeys(values))}
    return Column(np.array([codes[value] for value in values], np.int64), list(codes))


def bound_answer(timeline: Timeline, why_not: str = "") -> dict[str, Any]:
    """The busiest resource of each kind by the samples of the trace."""
    used: list[dict[str, Any]] = []
    for heat in heatmaps(timeline):
        if heat.name.startswith(("denials", "grants")) or not len(heat.rows):
            continue
        lengths = max(1, timeline.last - timeline.first)
        whole = heat.whole * lengths if heat.whole.ndim == 1 else heat.whole.sum(axis=1)
        shares = np.divide(heat.part.sum(axis=1), whole, out=np.zeros(len(heat.rows)), where=whole > 0)
        best = int(np.argmax(shares))
        used.append({"name": heat.rows[best], "hue": resource_of(heat.rows[best]), "share": min(1.0, float(shares[best]))})
    used.sort(key=lambda one: (-float(one["share"]), str(one["name"])))
    hint = why_not or HINT
    if not used:
        return {"sentence": "The trace does not say what limits the run.", "hint": hint, "used": []}
    top = used[0]
    return {
        "sentence": f"The busiest resource is {top['name']}: {top['share']:.1%} of what it can do.",
        "hint": hint,
        "used": used,
    }


def answer_of(timeline: Timeline, why: Why | InputError | None, pack: Pack) -> dict[str, Any]:
    """The text at the top of the page. If `explain` raised an InputError, the error is shown as the reason why there are no
    causes."""
    if isinstance(why, Why):
        return why_answer(why, timeline, pack)
    level = timeline.meta.get("level")
    return bound_answer(
        timeline, "" if why is None or level != "full" else f"The causes are not known: {why.problems[0].rule}."
    )
