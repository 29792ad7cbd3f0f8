"""`kbsim trace align`: hardware counters beside simulated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json


def align(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    counters: Annotated[
        str, typer.Argument(metavar="COUNTERS", help="What was measured: .csv, .json, .yaml.", show_default=False)
    ],
    mapping: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="What the counters are called here: .yaml, .json.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT", help="Also write the trace with the counters in it.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Put hardware counters beside the simulated ones: as a table, and as events of the trace."""
    from kernbench.common.files import check_writable
    from kernbench.trace.align import align as put_beside
    from kernbench.trace.align import merge, to_dict
    from kernbench.trace.exporters.sink import whole_file
    from kernbench.trace.reader import open_trace
    from kernbench.trace.readings import read_meanings, read_readings

    if out is not None:
        check_writable(out)
    readings = read_readings(counters)
    meanings = None if mapping is None else read_meanings(mapping)
    found = put_beside(open_trace(file), counters, readings, meanings)
    if out is not None:
        with whole_file(out) as place:
            merge(found, place)
    if as_json:
        output.show_json(to_dict(found))
    else:
        from kernbench.cli.render_trace_align import trace_align

        output.show(trace_align(found))
    return output.OK
