"""One table of all events as CSV (RFC 4180): one row for each event, one column for each field, and the same columns for every
trace."""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO

from kernbench.trace.exporters.event_rows import columns, filled
from kernbench.trace.exporters.timeline import json_text
from kernbench.trace.reader import Trace

#: A spreadsheet takes a text that begins with one of these for a formula; it gets an apostrophe before it, and so does one
#: with an apostrophe, so that the first text can be had back.
DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def export(trace: Trace, out: BinaryIO) -> dict[str, int]:
    """Write a trace as CSV in UTF-8, with lines ending in CR LF; return the number of rows."""
    names = tuple(columns())
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="", write_through=False)
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(names)
    rows = 0
    for record in filled(trace):
        writer.writerow([record.event.name, *(_cell(getattr(record, name, None)) for name in names[1:])])
        rows += 1
    text.flush()
    text.detach()
    return {"rows": rows, "columns": len(names)}


def _cell(value: Any) -> str | int | float:
    """A value as a cell: empty if there is no value, `true` and `false`, lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    text = value if isinstance(value, str) else json_text(value)
    return "'" + text if text.startswith(DANGEROUS) else text
