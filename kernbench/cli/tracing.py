"""A traced run: its options, and the file around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.interrupts import interrupts_held

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.recording import TraceOptions


class Traced(msgspec.Struct, frozen=True):
    """The trace options: `--trace-level` and the others; None for an option that is not given."""

    level: str | None
    window: int | None
    cycles: str | None
    only: str | None = None

    def options(self, command: str, *places: Path | None) -> TraceOptions | None:
        """The trace options, or None if none is given.

        `places`: where the trace goes. InputError if an option is not valid, or if there is no file for the trace.
        """
        from kernbench.sim_engine.recording import TraceOptions

        said = {f"--trace-{name}": value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        if not said:
            return None
        if not any(places):
            option, value = next(iter(said.items()))
            rule = "it sets the content of a trace, and this run writes no trace"
            raise InputError(Problem(command, rule, option, value, "name the trace's file with --trace"))
        usual = TraceOptions()
        return TraceOptions(
            level=usual.level if self.level is None else self.level,
            window=usual.window if self.window is None else self.window,
            only=usual.only if self.only is None else tuple(pattern.strip() for pattern in self.only.split(",")),
            cycles=usual.cycles if self.cycles is None else _span(self.cycles),
        )


def _span(value: str) -> tuple[int, int]:
    first, _, last = value.partition(":")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()) or max(len(first), len(last)) > 18:
        raise InputError(Problem("--trace-cycles", "it must be A:B, two numbers of cycles", "cycles", value))
    return int(first), int(last)


@contextmanager
def traced(machine: Machine, path: Path | None, options: TraceOptions | None, save: Path | None = None) -> Iterator[None]:
    """The context of a run whose trace is written to `path`. However the run ends, the file is a valid trace up to there.

    A machine from a checkpoint continues the file of the checkpoint with the same options; InputError if `options` differ.
    `save`: make a checkpoint at the end; the trace of a run that still continues then has no last line.
    """
    if path is None:
        yield
        if save is not None:
            machine.save(save)
        return
    from kernbench.trace.writer import TraceFile

    goes_on = machine.cycle > 0
    if goes_on and options not in (None, machine.options_of_trace()):
        rule = "the checkpoint's trace goes on with the --trace- options that it began with, and these are others"
        raise InputError(
            Problem("kbsim step", rule, "--trace", str(path), "leave the components out, or trace from cycle 0 on")
        )
    with TraceFile(path, go_on_at=machine.trace_state().file_bytes) if goes_on else TraceFile(path) as file:
        tracing = machine.go_on_tracing(file) if goes_on else machine.trace(file, options)
        try:
            yield
        except KeyboardInterrupt:
            with interrupts_held():
                if tracing.writing:
                    file.leave_off()
                elif not tracing.inside:
                    tracing.close()
            raise
        if save is not None:
            machine.save(save, trace_bytes=file.flush())
        if save is None or machine.status != "running":
            with interrupts_held():
                tracing.close()


def check_page(command: str, page: Path) -> None:
    """InputError if no page of a trace can be written there."""
    from kernbench.common.files import check_writable

    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(Problem(command, "the file name must end in .html or .htm", "--report", str(page)))
    check_writable(page)


@contextmanager
def reported(
    machine: Machine, trace: Path | None, page: bool, options: TraceOptions | None, debugger: str | None = None
) -> Iterator[list[bytes]]:
    """The context of `traced`. With `page`, the yielded list has the HTML page of the trace after the run, even if the trace
    itself is not kept. `debugger`: the command line that debugs the run, for the page.
    """
    pages: list[bytes] = []
    if not page:
        with traced(machine, trace, options):
            yield pages
        return
    from kernbench.common.files import temporary_folder
    from kernbench.trace.reader import open_trace
    from kernbench.trace.report import DEBUGGER, report_html
    from kernbench.trace.timeline import read_timeline
    from kernbench.trace.why import explain_or_error

    with nullcontext() if trace is not None else temporary_folder("the trace that the page needs") as folder:
        path = trace if folder is None else folder / "run.jsonl"
        assert path is not None
        with traced(machine, path, options):
            yield pages
        whole = open_trace(str(path))
        pages.append(report_html(read_timeline(whole), explain_or_error(whole), debugger=debugger or DEBUGGER))
