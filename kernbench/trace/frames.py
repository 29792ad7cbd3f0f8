"""Traces and metrics as polars data frames."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from operator import attrgetter
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import cycles_to_ns, parse_rational
from kernbench.trace.events import Record, some_types
from kernbench.trace.metric.figures import Metrics
from kernbench.trace.metric.tables import COLUMNS, analysis, rows
from kernbench.trace.reader import Trace
from kernbench.trace.schema import BY_NAME, COMMON_FIELDS, Event, Field

TYPES = tuple(name for name in BY_NAME if name not in ("TRACE_META", "TRACE_END"))
_AT_ONCE = 1 << 15  # records that become columns together


def frame(trace: Trace, event_types: str | Iterable[str] | None = None) -> Any:
    """The events of one type, of several or of all as a polars DataFrame, in the file's order.

    Columns: `line`, `event_type`, `t_cycle`, the types' own fields, then the common ones, which `TRACE_META.defaults` fills in;
    `t_ns` is `t_cycle / freq_ghz`.
    A field that a type does not have or a line leaves out is null; a MARKER's label is text, a number past 64 bits null.
    Of a truncated file the complete part is used; `trace.broken` says where it ends. InputError if polars (the extra
    `analysis`) is not installed.
    """
    polars = analysis("polars")
    names = [event_types] if isinstance(event_types, str) else list(TYPES if event_types is None else event_types)
    for name in names or [""]:
        if name not in TYPES:
            remedy = "trace.meta and trace.end are the first and the last line" if name in BY_NAME else ""
            raise InputError(Problem("frame", "it must name event types", "event_types", name, remedy))
    columns = _columns(names)
    known, freq = trace.meta.defaults, parse_rational(trace.meta.freq_ghz)
    held: dict[str, tuple[list[int], list[Record]]] = {name: ([], []) for name in names}
    parts: list[Any] = []
    for lines, records in trace.numbered(some_types(dict.fromkeys((*names, "TRACE_END"), columns))):
        for line, record in zip(lines, records, strict=True):
            place = held.get(record.event.name)
            if place is not None:
                place[0].append(line)
                place[1].append(record)
                if len(place[0]) == _AT_ONCE:
                    parts.append(_part(polars, record.event, *place, known, freq))
                    held[record.event.name] = ([], [])
    parts += [_part(polars, BY_NAME[name], *place, known, freq) for name, place in held.items()]
    return polars.concat(parts, how="diagonal").select(columns).sort("line")


def metrics_frame(metrics: Metrics) -> Any:
    """Metrics as a polars DataFrame of one long table: table, name, metric, unit, value, exact."""
    polars = analysis("polars")
    kinds = [polars.String] * 4 + [polars.Float64, polars.String]
    return polars.DataFrame(list(rows(metrics)), schema=dict(zip(COLUMNS, kinds, strict=True)), orient="row")


def _columns(names: list[str]) -> list[str]:
    """All columns of these types, each once."""
    first, *common = (field.name for field in COMMON_FIELDS)
    own = [field.name for name in names for field in BY_NAME[name].fields]
    return list(dict.fromkeys(("line", "event_type", first, *own, *common)))


def _part(polars: Any, event: Event, lines: list[int], records: list[Record], known: dict[str, Any], freq: Fraction) -> Any:
    """Some events of one type, with only its own columns."""
    own = {field.name for field in event.fields}
    chosen = [COMMON_FIELDS[0], *event.fields, *(field for field in COMMON_FIELDS[1:] if field.name not in own)]
    made = {"line": polars.Series(lines, dtype=polars.Int64)}
    made["event_type"] = polars.Series([event.name], dtype=polars.String).new_from_index(0, len(lines))
    for field in chosen:
        values = list(map(attrgetter(field.name), records))
        default = known.get(field.name) if field in COMMON_FIELDS else None
        if field.name == "t_ns":
            cycles = map(attrgetter("t_cycle"), records)
            values = [
                float(cycles_to_ns(at, freq)) if value is None else value for at, value in zip(cycles, values, strict=True)
            ]
        if isinstance(default, int | str):
            values = [default if value is None else value for value in values]
        if field.kind == "label":
            values = [None if value is None else str(value) for value in values]
        made[field.name] = polars.Series(values, dtype=_kind(polars, field), strict=False)
    return polars.DataFrame(made)


def _kind(polars: Any, field: Field) -> Any:
    """The type of a column."""
    kinds = {"int": polars.Int64, "number": polars.Float64, "flag": polars.Boolean}
    lists = {"ints": polars.Int64, "texts": polars.String}
    return polars.List(lists[field.kind]) if field.kind in lists else kinds.get(field.kind, polars.String)
