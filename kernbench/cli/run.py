"""`kbsim run`: a bench or a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import DEFAULT_MACHINE, AnyConfig, AnyTarget, Json, Overrides, Quiet, StrictWait
from kernbench.cli.tracing import Report, TraceCycles, TraceLevel, TraceOnly, TraceTo, TraceWindow, reported, trace_options

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.result import Result


def run(
    target: AnyTarget,
    config: AnyConfig = None,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write the result there, as JSON.", show_default=False),
    ] = None,
    as_json: Json = False,
    no_skip: Annotated[bool, typer.Option("--no-skip", help="Step every cycle: slower, the same result.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Of a bench: compare its outputs with its reference.")] = False,
    strict_wait: StrictWait = False,
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = "summary",
    trace_window: TraceWindow = 1024,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    quiet: Quiet = False,
) -> int:
    """Run a bench or a program to its end and say what it took, and why."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import find_bench, load_target, refuse_bench_options
    from kernbench.common.files import check_writable, write_whole
    from kernbench.config import load_config
    from kernbench.sim_engine.machine import Machine

    if out is not None:
        check_writable(out)
    options = trace_options(trace_level, trace_window, trace_cycles, trace_only)
    bench = find_bench(target)
    if bench is not None:
        from kernbench.cli.bench_run import run_bench

        given = {"verify": verify, "strict_wait": strict_wait, "skip": not no_skip, "as_json": as_json, "quiet": quiet}
        return run_bench(bench, config, overrides, trace=trace, page=report, options=options, out=out, **given)
    refuse_bench_options(target, verify=verify, strict_wait=strict_wait)
    spec = load_config(config or DEFAULT_MACHINE, overrides or [])
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
