"""Events as rows with all common fields, and the columns of a table for all event types."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec

from kernbench.common.units import cycles_to_ns
from kernbench.trace.events import Record
from kernbench.trace.reader import Trace
from kernbench.trace.schema import COMMON_FIELDS, EVENTS, Kind


def columns() -> dict[str, Kind]:
    """Name and kind of every column: `event_type`, the common fields, then those of the events in the schema's order.

    The schema is append-only, and so are these but for their order.
    """
    made: dict[str, Kind] = {"event_type": "text"}
    for field in (*COMMON_FIELDS, *(field for event in EVENTS for field in event.fields)):
        if made.setdefault(field.name, field.kind) != field.kind:
            made[field.name] = "text"  # of two kinds: both as text
    return made


def filled(trace: Trace) -> Iterator[Record]:
    """All records, first and last line too, with `sim_id`, `t_ns` and the defaults of TRACE_META written into them."""
    meta = trace.meta
    freq = trace.freq_ghz
    known: dict[str, Any] = {field.name: meta.defaults.get(field.name) for field in COMMON_FIELDS}
    known["sim_id"] = meta.sim_id
    yield _filled(meta, known, freq)
    for record in trace:
        yield _filled(record, known, freq)
    if trace.end is not None:
        yield _filled(trace.end, known, freq)


def _filled(record: Record, known: dict[str, Any], freq: Fraction) -> Record:
    missing = {name: value for name, value in known.items() if value is not None and getattr(record, name) is None}
    if record.t_ns is None:
        missing["t_ns"] = float(cycles_to_ns(record.t_cycle, freq))
    return msgspec.structs.replace(record, **missing) if missing else record
