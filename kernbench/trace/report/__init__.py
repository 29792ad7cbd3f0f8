"""The report: one HTML file that shows a trace and loads nothing from elsewhere.

The page is built from the files in `report/` and the tables of the trace. The same trace and the same version of kernbench give
the same bytes.
"""

from __future__ import annotations

import base64
import html
from importlib import resources
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html, page_json
from kernbench.common.look.palette import resource_of
from kernbench.trace.columns import Column, Pack, Table
from kernbench.trace.report.answer import answer_of
from kernbench.trace.report.views import COLOURS, COMMAND_AXES, COMPONENTS, Heat, axis, exact, heatmaps, roofline
from kernbench.trace.schema import BY_NAME, COMMON_FIELDS, EVENTS, STALL_REASONS
from kernbench.trace.timeline import KINDS, POINTS, Timeline, Unit
from kernbench.trace.why import Why

STYLES = ("layout.css", "parts.css")
#: The order matters: later files use earlier ones.
SCRIPTS = (
    "text.js", "columns.js", "model.js", "filter.js", "totals.js", "colour.js", "lanes.js", "raster.js", "draw.js", "marks.js",
    "view.js", "filters.js", "answer.js", "select.js", "pointer.js", "keys.js", "tables.js", "roofline.js", "main.js",
)  # fmt: skip
_OWN = ("row", "start", "command", "kind", "unit", "job", "issue", "open")  # columns of spans that the page's data contain
_RUN = (
    "version", "sim_version", "model_version", "sim_id", "level", "freq_ghz", "program", "program_hash", "config_hash",
    "sim_config", "commands", "filter",
)  # fmt: skip
_LONGEST_TITLE = 100
DEBUGGER = "kbsim debug TARGET"  #: TARGET is a placeholder, because a trace does not name its target and machine
PAGE_COLOURS = (*COLOURS, "component")  #: axes by which the page can be coloured


def report_html(
    timeline: Timeline, why: Why | InputError | None = None, *, embedded: bool = False, debugger: str = DEBUGGER
) -> bytes:
    """The whole page in UTF-8. `why`: the result of `explain`, or the error that says why there is none. `debugger`: the
    command line that debugs the run; the page appends the cycle of a span.
    """
    pack = Pack()
    head = _head(timeline, pack) | {"answer": answer_of(timeline, why, pack), "debugger": debugger}
    script = page_script()
    values = {"HEAD": page_json(head), "DATA": base64.b64encode(pack.finish()).decode(), "SCRIPT": script}
    return page_html(
        part("page.html"),
        values,
        title=html.escape(_title(timeline)),
        style=page_css() + "".join(part(name) for name in STYLES) + "\n",
        scripts=[script],
        attributes=" data-embedded" if embedded else "",
    )


def page_script() -> str:
    """The script of the page: the same for every trace."""
    return '"use strict";\n(() => {\n' + look_js() + "".join(part(name) for name in SCRIPTS) + "})();\n"


def part(name: str) -> str:
    return (resources.files("kernbench.trace") / "report" / name).read_text(encoding="utf-8")


def _title(timeline: Timeline) -> str:
    name = "".join(c if c.isprintable() else "?" for c in str(timeline.meta["program"])[:_LONGEST_TITLE])
    return f"{name} - kernbench trace"


def _head(timeline: Timeline, pack: Pack) -> dict[str, Any]:
    """The data of the page except the packed columns, with the positions of these columns."""
    roof = roofline(timeline)
    return {
        "run": _run(timeline),
        "first": timeline.first,
        "last": timeline.last,
        "kinds": KINDS,
        "components": COMPONENTS,
        "reasons": (*STALL_REASONS, "other"),
        "axes": COMMAND_AXES,
        "colours": PAGE_COLOURS,
        "hues": _hues(timeline),
        "colour": _first_colour(timeline),
        "fields": _fields(),
        "units": [_unit(unit) for unit in timeline.units],
        "spans": pack.table(_spans(timeline)),
        "commands": pack.table(timeline.commands),
        "details": [pack.table(_without(table, "job_id", "cmd_id")) for table in _in_order(timeline)],
        "waits": pack.table(_with_cycles(timeline.waits)),
        "points": {name: pack.table(table) for name, table in timeline.points.items()},
        "point_components": {name: BY_NAME[name].component for name in POINTS},
        "heat": [_heat(heat, pack) for heat in heatmaps(timeline)],
        "roof": {"macs": roof.macs_per_cycle, "peak": roof.peak, "bandwidth": roof.bytes_per_cycle},
    }


def _run(timeline: Timeline) -> dict[str, Any]:
    meta, end = timeline.meta, timeline.end or {}
    known = {name: meta[name] for name in _RUN if name in meta}
    freq = exact(meta["freq_ghz"])
    known |= {"freq": 1.0 if not freq else float(freq), "window": timeline.window, "broken": timeline.broken}
    return known | {name: end[name] for name in ("status", "counters", "energy_pj") if name in end}


def _first_colour(timeline: Timeline) -> str:
    """The first axis on which the spans have different values; a colour that all spans share would say nothing."""
    for name in COLOURS:
        found = axis(timeline, name)
        if len(set(found.codes.tolist()) - {len(found.labels) - 1}) > 1:
            return name
    return "opcode"


def _hues(timeline: Timeline) -> dict[str, str]:
    """The resource of each component and opcode."""
    opcodes = timeline.commands.columns.get("cmd_type")
    return {name: resource_of(name) for name in (*COMPONENTS, *((opcodes.texts or ()) if opcodes is not None else ()))}


def _fields() -> dict[str, dict[str, str]]:
    """Units of the fields, for tooltips."""
    units = {field.name: field.unit for event in EVENTS for field in (*event.fields, *COMMON_FIELDS) if field.unit}
    return {name: {"unit": units[name]} for name in sorted(units)}


def _unit(unit: Unit) -> dict[str, Any]:
    return {"name": unit.name, "component": unit.component}


def _spans(timeline: Timeline) -> Table:
    spans = timeline.spans
    columns = {name: spans.columns[name] for name in _OWN}
    return Table({**columns, "cycles": Column(spans["end"] - spans["start"])}, len(spans))


def _in_order(timeline: Timeline) -> tuple[Table, ...]:
    """The details by kind, in the order of the spans."""
    spans = timeline.spans
    return tuple(timeline.details[kind].take(spans["detail"][spans["kind"] == i]) for i, kind in enumerate(KINDS))


def _without(table: Table, *names: str) -> Table:
    return Table({name: column for name, column in table.columns.items() if name not in names}, len(table))


def _with_cycles(waits: Table) -> Table:
    return Table({**_without(waits, "end").columns, "cycles": Column(waits["end"] - waits["start"])}, len(waits))


def _heat(heat: Heat, pack: Pack) -> dict[str, Any]:
    whole: Any = heat.whole.tolist() if heat.whole.ndim == 1 else pack.ints(heat.whole.astype("int64").ravel())
    told: dict[str, Any] = {"name": heat.name, "title": heat.title, "what": heat.what, "unit": heat.unit, "rows": heat.rows}
    told |= {"first": heat.first, "last": heat.last, "bin": heat.bin_cycles}
    return {**told, "part": pack.ints(heat.part.ravel()), "whole": whole}
