"""The options of a traced run, and the file around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.tracing import TraceOptions

TraceTo = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="Write the trace there: .jsonl, .jsonl.gz or .jsonl.zst.", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Make an HTML page of the run's trace, at --trace-level.", show_default=False
    ),
]
TraceLevel = Annotated[
    str,
    typer.Option("--trace-level", metavar="LEVEL", help="summary, full (ranges and waits) or access (every request)."),
]
TraceWindow = Annotated[
    int, typer.Option("--trace-window", min=1, metavar="N", help="Cycles of a window of bandwidth and queue samples.")
]
TraceCycles = Annotated[
    str | None,
    typer.Option("--trace-cycles", metavar="A:B", help="Only events of cycles A to B - 1.", show_default=False),
]
TraceOnly = Annotated[
    str | None,
    typer.Option("--trace-only", metavar="UNITS", help="Only these units: dma0,te* and so on.", show_default=False),
]


def trace_options(level: str, window: int, cycles: str | None, only: str | None) -> TraceOptions:
    """The options as the trace wants them; InputError where one is not valid."""
    from kernbench.sim_engine.tracing import TraceOptions

    patterns = tuple(pattern.strip() for pattern in only.split(",")) if only is not None else ()
    return TraceOptions(level=level, window=window, only=patterns, cycles=None if cycles is None else _span(cycles))


def _span(value: str) -> tuple[int, int]:
    first, _, last = value.partition(":")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()) or max(len(first), len(last)) > 18:
        raise InputError(Problem("--trace-cycles", "it must be A:B, two numbers of cycles", "cycles", value))
    return int(first), int(last)


@contextmanager
def traced(machine: Machine, path: Path | None, options: TraceOptions, save: Path | None = None) -> Iterator[None]:
    """Around a run: its trace goes to `path`. However the run ends, the file is a valid trace up to there.

    A machine that was loaded from a checkpoint goes on with the file where the checkpoint left it, with the options of then.
    `save`: make a checkpoint at the end; a trace of a run that still goes on has no last line then.
    """
    if path is None:
        yield
        if save is not None:
            machine.save(save)
        return
    from kernbench.trace.writer import TraceFile

    goes_on = machine.cycle > 0
    with TraceFile(path, go_on_at=machine.trace_state()["file_bytes"]) if goes_on else TraceFile(path) as file:
        tracing = machine.go_on_tracing(file) if goes_on else machine.trace(file, options)
        try:
            yield
        except KeyboardInterrupt:
            tracing.close()
            raise
        if save is not None:
            machine.save(save, trace_bytes=file.flush())
        if save is None or machine.status != "running":
            tracing.close()


@contextmanager
def reported(machine: Machine, trace: Path | None, page: Path | None, options: TraceOptions) -> Iterator[None]:
    """`traced`, and a page of the trace when the run is over, also where the trace itself is not kept."""
    if page is None:
        with traced(machine, trace, options):
            yield
        return
    from tempfile import TemporaryDirectory

    from kernbench.common.files import check_writable, write_whole
    from kernbench.trace.reader import open_trace
    from kernbench.trace.report import report_html
    from kernbench.trace.timeline import read_timeline

    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(Problem("kbsim run", "its name must end in .html or .htm", "--report", str(page)))
    check_writable(page)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl" if trace is None else trace
        with traced(machine, path, options):
            yield
        write_whole(page, report_html(read_timeline(open_trace(str(path)))))
