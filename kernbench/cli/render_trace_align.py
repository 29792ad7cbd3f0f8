"""Hardware counters beside simulated ones, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from kernbench.cli.render_trace_parts import safe
from kernbench.cli.text import short, table
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.trace.align import Aligned, Line

MOST = 40  #: readings that are shown; --json has all
NAME = 24  #: [character] of a name


def trace_align(aligned: Aligned) -> Iterator[RenderableType]:
    """What `kbsim trace align` prints."""
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
        yield Text(f"{counted(unknown, 'reading')} of counters that the simulation has not: --map says what they are", "yellow")
    unsampled = sum(bool(line.counters) and line.simulated is None for line in lines)
    if unsampled:
        yield Text(f"{counted(unsampled, 'reading')} of counters that this trace has only at its end", "yellow")
    if aligned.late:
        yield Text(f"{counted(aligned.late, 'reading')} from after the run's end, cycle {aligned.end:,}, stand there", "yellow")


def _cells(line: Line) -> list[str | Text]:
    ratio = line.ratio
    style = "" if ratio is None or abs(ratio - 1) <= Fraction(1, 20) else "bold red"
    simulated = "" if line.simulated is None else short(float(line.simulated))
    return [
        safe(line.reading.counter, NAME),
        safe(line.reading.unit or "", NAME),
        "end" if line.cycle is None else f"{line.cycle:,}",
        short(float(line.measured)),
        simulated,
        Text("" if ratio is None else f"{float(ratio):.3f}", style),
        "" if line.as_of is None else f"{line.as_of:,}",
        _names(line.counters),
    ]


def _names(names: tuple[str, ...]) -> str:
    """The first counter, and how many are added to it."""
    return safe(names[0] if names else "", 40) + (f" +{len(names) - 1:,}" if len(names) > 1 else "")
