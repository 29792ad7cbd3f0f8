"""`kbsim trace align`: hardware counters compared with simulated ones."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json
from kernbench.cli.text import BAD, WAIT, short, table
from kernbench.cli.trace.tables import safe
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.trace.compare.align import Aligned, Line


def align(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trace: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)],
    counters: Annotated[
        str, typer.Argument(metavar="COUNTERS", help="The measured counters: .csv, .json, .yaml.", show_default=False)
    ],
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="A map from their names to the names of simulated counters: .yaml, .json.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="OUT", help="Also write the trace with the measured counters added.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare hardware counters with the simulated ones, as a table and as events of the trace."""
    from kernbench.common.files import check_writable
    from kernbench.trace.compare.align import align as put_beside
    from kernbench.trace.compare.align import merge, read_meanings, read_readings, to_dict
    from kernbench.trace.exporters.write import whole_file
    from kernbench.trace.reader import open_trace

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
        output.show(trace_align(found))
    return output.OK


MOST = 40  #: readings that are shown; --json has all
NAME = 24  #: [character] of a name


def trace_align(aligned: Aligned) -> Iterator[RenderableType]:
    """The output of `kbsim trace align`."""
    lines = aligned.lines
    note = f"the first {MOST} of {len(lines):,}" if len(lines) > MOST else "ratio: simulated over measured"
    heads = [("counter", "left"), ("unit", "left"), ("cycle", "right"), ("measured", "right"), ("simulated", "right")]
    made = table("Counters", [*heads, ("ratio", "right"), ("as of", "right"), ("here called", "left")], note)  # type: ignore[list-item]
    made.columns[-1].no_wrap = False
    if not any(line.reading.unit is not None for line in lines):
        made.columns[1].width = 0
    for line in lines[:MOST]:
        made.add_row(*_cells(line))
    yield made
    unknown = sum(not line.counters for line in lines)
    if unknown:
        yield widgets.Text(
            f"{counted(unknown, 'reading')} of counters that the simulation does not have: --map can map them", WAIT
        )
    unsampled = sum(bool(line.counters) and line.simulated is None for line in lines)
    if unsampled:
        yield widgets.Text(f"{counted(unsampled, 'reading')} of counters that this trace has only at its end", WAIT)
    if aligned.late:
        yield widgets.Text(
            f"{counted(aligned.late, 'reading')} from after the run's end, cycle {aligned.end:,}, stand there", WAIT
        )


def _cells(line: Line) -> list[str | widgets.Text]:
    ratio = line.ratio
    style = "" if ratio is None or abs(ratio - 1) <= Fraction(1, 20) else f"bold {BAD}"
    simulated = "" if line.simulated is None else short(float(line.simulated))
    return [
        safe(line.reading.counter, NAME),
        safe(line.reading.unit or "", NAME),
        "end" if line.cycle is None else f"{line.cycle:,}",
        short(float(line.measured)),
        simulated,
        widgets.Text("" if ratio is None else f"{float(ratio):.3f}", style),
        "" if line.as_of is None else f"{line.as_of:,}",
        _names(line.counters),
    ]


def _names(names: tuple[str, ...]) -> str:
    """The first counter, and how many are added to it."""
    return safe(names[0] if names else "", 40) + (f" +{len(names) - 1:,}" if len(names) > 1 else "")
