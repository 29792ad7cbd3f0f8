"""The page of a sweep: one HTML file that loads no other file. The same table and the same version of kernbench give the same
bytes.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import Any

from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html, page_json
from kernbench.common.units import parse_rational
from kernbench.sweep.goals import GOALS, broken_by
from kernbench.sweep.report.analysis import Cuts, Influence, influences, interactions, score_float
from kernbench.sweep.report.columns import packed
from kernbench.sweep.report.table import Entry, SweepTable, plain_text
from kernbench.sweep.spec import Goal
from kernbench.sweep.store.tables import METRICS
from kernbench.version import VERSION

SCRIPTS = ("state.js", "scale.js", "parallel.js", "scatter.js", "heat.js", "bars.js", "rows.js", "main.js")
UNITS = {"ns": "ns", "cycles": "cycles", "bound": "cycles", "energy_pj": "pJ", "dram_bytes": "B"}
LONGEST = 400  # characters of an error or a reason


def page_bytes(table: SweepTable, goals: Sequence[Goal], reasons: dict[str, str]) -> bytes:
    """The whole page, UTF-8. `reasons`: sentences of `why`, by key."""
    shared = (resources.files("kernbench.trace") / "report" / "text.js").read_text(encoding="utf-8")
    script = '"use strict";\n(() => {\n' + look_js() + shared + "".join(_part(name) for name in SCRIPTS) + "})();\n"
    return page_html(
        _part("page.html"),
        {"DATA": page_json(_data(table, goals, reasons)), "SCRIPT": script},
        title=html.escape("".join(c if c.isprintable() else "?" for c in table.name[:100]) + " - kernbench sweep"),
        style=page_css() + _part("sweep.css") + "\n",
        scripts=[script],
    )


def _part(name: str) -> str:
    return (resources.files("kernbench.sweep") / "report" / name).read_text(encoding="utf-8")


def _data(table: SweepTable, goals: Sequence[Goal], reasons: dict[str, str]) -> dict[str, Any]:
    """The data of the page: columns with one value for each point. Points that a sentence mentions have a label."""
    there = (*GOALS, *table.expressions)
    columns = {name: [_number(entry, name) for entry in table.entries] for name in there}
    numbers = [name for name in there if any(value is not None for value in columns[name])]
    cuts: Cuts = {}
    found = {name: influences(table, (name, _way(goals, name)), cuts) for name in numbers}
    named = [entry.task.key in reasons or (entry.row is not None and bool(entry.row.error)) for entry in table.entries]
    axes = [name for name in table.names if name != "target"]
    return {
        "name": table.name,
        "version": VERSION,
        "goals": [list(goal) for goal in goals],
        "axes": axes,
        "numbers": numbers,
        "about": {name: text for name, text in METRICS.items() if name in numbers},
        "units": {name: UNITS[name] for name in numbers if name in UNITS},
        "statuses": dict(sorted(Counter(entry.status for entry in table.entries).items())),
        "constraints": list(table.about.constraints),
        "breaks": _breaks(table),
        "excluded": table.about.excluded,
        "invalid": table.about.invalid,
        "number": packed([entry.number for entry in table.entries]),
        "target": packed([entry.target for entry in table.entries]),
        "label": packed([table.label(entry) if shown else "" for entry, shown in zip(table.entries, named, strict=True)]),
        "status": packed([entry.status for entry in table.entries]),
        "limit": packed(["" if entry.row is None else str(entry.row.metrics.get("bound_by", "")) for entry in table.entries]),
        "error": packed(["" if entry.row is None else entry.row.error[:LONGEST] for entry in table.entries]),
        "hash": packed(["" if entry.row is None else entry.row.jobs_hash[:12] for entry in table.entries]),
        "values": {name: packed([_shown(table.value(entry, name)) for entry in table.entries]) for name in axes},
        "results": {name: packed(columns[name]) for name in numbers},
        "influences": {name: _influences(found[name]) for name in numbers},
        "rest": {name: interactions(found[name], sum(value is not None for value in columns[name])) for name in numbers},
        "why": [[entry.number, reasons[entry.task.key][:LONGEST]] for entry in table.entries if entry.task.key in reasons],
    }


def _breaks(table: SweepTable) -> dict[int, list[int]]:
    """The points whose results break constraints, by position, with the positions of these constraints."""
    found = {}
    for i, entry in enumerate(table.entries):
        if entry.row is None or entry.status != "done":
            continue
        place = dict(zip(table.about.names, entry.values, strict=True))
        broken = [k for k, text in enumerate(table.about.constraints) if broken_by(entry.row, place, text)]
        if broken:
            found[i] = broken
    return found


def _shown(value: Any) -> Any:
    """Numbers as numbers, including `p/q`; everything else as text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    try:
        return float(parse_rational(value)) if isinstance(value, str) and "/" in value else plain_text(value)
    except ValueError:
        return plain_text(value)


def _number(entry: Entry, name: str) -> float | None:
    """A result that is a number, of a point that is done; as near as a float is."""
    return None if entry.row is None else score_float(entry.row, (name, "min"))


def _way(goals: Sequence[Goal], name: str) -> str:
    return dict(goals).get(name, "min")


def _influences(found: Sequence[Influence]) -> list[dict[str, Any]]:
    return [
        {
            "axis": one.name,
            "share": one.share,
            "relative": one.relative,
            "gain": one.gain if math.isfinite(one.gain) else None,
            "levels": [[plain_text(level), count, mean] for level, count, mean in one.levels],
        }
        for one in found
    ]
