"""`kbsim trace summary`: the metrics of a trace."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json

if TYPE_CHECKING:
    from kernbench.trace.figures import Metrics

TraceFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)
]


class Format(StrEnum):
    """Forms of the metrics."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def summary(
    file: TraceFile,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="As what: a table, or as the name of --out ends.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to: .json, .csv or .parquet.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Sum a trace up: utilisation, bandwidth, conflicts, phases, layers, stalls, tokens, energy, roofline."""
    from kernbench.common.files import check_apart, check_writable, write_whole
    from kernbench.trace.measure import metrics
    from kernbench.trace.reader import open_trace

    wanted = _format(form, out, as_json)
    if out is not None:
        check_writable(out)
    check_apart((out,), (file,))
    trace = open_trace(file)
    found = metrics(trace)
    if wanted is Format.TABLE:
        from kernbench.cli.render_trace import trace_summary

        output.show(trace_summary(found, output.console(sys.stdout).width))
    elif out is None:
        output.write(_data(wanted, found).decode())
    else:
        write_whole(out, _data(wanted, found))
    if trace.broken is None:
        return output.OK
    output.note(f"error: {file}: {trace.broken}")
    return output.REFUSED


def _format(form: Format | None, out: Path | None, as_json: bool) -> Format:
    """What is asked for; InputError where that cannot be."""
    from kernbench.common.errors import InputError, Problem

    where = "kbsim trace summary"
    if as_json:
        if form not in (None, Format.JSON):
            raise InputError(Problem(where, f"--json and --format {form} exclude each other"))
        form = Format.JSON
    if form is None:
        endings = {f".{kind}": kind for kind in Format if kind is not Format.TABLE}
        form = Format.TABLE if out is None else endings.get(out.suffix.lower(), Format.TABLE)
    if out is not None and form is Format.TABLE:
        remedy = "give --out a name that ends in .json, .csv or .parquet"
        raise InputError(Problem(where, "a table goes to stdout", remedy=remedy))
    if out is None and form is Format.PARQUET:
        raise InputError(Problem(where, "Parquet is no text", remedy="give --out FILE"))
    return form


def _data(form: Format, found: Metrics) -> bytes:
    import json

    from kernbench.trace.tables import csv_text, parquet_bytes, to_dict

    if form is Format.PARQUET:
        return parquet_bytes(found)
    text = csv_text(found) if form is Format.CSV else json.dumps(to_dict(found)) + "\n"
    return text.encode()
