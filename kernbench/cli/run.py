"""`kbsim run`: a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import DEFAULT_MACHINE, Config, Json, Overrides, Quiet, Target
from kernbench.cli.tracing import Report, TraceCycles, TraceLevel, TraceOnly, TraceTo, TraceWindow, reported, trace_options

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.result import Result


def run(
    target: Target,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write the result there, as JSON.", show_default=False),
    ] = None,
    as_json: Json = False,
    no_skip: Annotated[bool, typer.Option("--no-skip", help="Step every cycle: slower, the same result.")] = False,
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = "summary",
    trace_window: TraceWindow = 1024,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    quiet: Quiet = False,
) -> int:
    """Run a program to its end and say what it took, and why."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import load_target
    from kernbench.common.files import check_writable, write_whole
    from kernbench.config import load_config
    from kernbench.sim_engine.machine import Machine

    if out is not None:
        check_writable(out)
    options = trace_options(trace_level, trace_window, trace_cycles, trace_only)
    spec = load_config(config, overrides or [])
    machine = Machine(spec, load_target(target, spec))
    with reported(machine, trace, report, options), progress_bar(not quiet) as progress:
        machine.run(skip=not no_skip, progress=progress)
    result = machine.result()
    if out is not None:
        write_whole(out, (result.to_json() + "\n").encode())
    if as_json:
        output.write(result.to_json() + "\n")
    elif not quiet:
        _show(machine, result)
    return output.ENDINGS[result.status]


def _show(machine: Machine, result: Result) -> None:
    from kernbench.cli.render import run_summary
    from kernbench.sim_engine.summary import summarise_run

    summary = summarise_run(result, machine.program, machine.plan)
    output.show(run_summary(summary, output.console(sys.stdout).width))
