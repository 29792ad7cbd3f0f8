"""`kbsim run`: a bench or a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kernbench.cli.options import (
    AllowCode,
    AnyConfig,
    AnyOverrides,
    AnyTarget,
    Json,
    Quiet,
    Report,
    StrictWait,
    Threads,
    TraceCycles,
    TraceLevel,
    TraceOnly,
    TraceTo,
    TraceWindow,
    Walk,
)
from kernbench.cli.run_target import RunOptions, run_target

OutFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Also write the result to FILE, as JSON.", show_default=False),
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="WHAT",
        help="Run a Python file that launches Triton kernels, and check the kernels for memory errors and races.",
        show_default=False,
    ),
]
Checks = Annotated[
    Literal["on", "off"],
    typer.Option("--checks", help="Check conservation laws after the run: bytes, capacities, time."),
]
Whole = Annotated[
    bool,
    typer.Option(
        "--all", help="Print every engine, channel, link and wait. Without --all, one row shows the mean of all units that "
            "are equally busy."
    ),
]

def run(
    target: AnyTarget,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    out: OutFile = None,
    as_json: Json = False,
    no_skip: Annotated[bool, typer.Option("--no-skip", help="Step through every cycle. Slower, same result.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the outputs of a bench with the outputs of its "
        "reference implementation.")] = False,
    strict_wait: StrictWait = False,
    walk: Walk = None,
    threads: Threads = None,
    check: Check = None,
    checks: Checks = "on",
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    whole: Whole = False,
    quiet: Quiet = False,
) -> int:
    """Run a bench or a program to the end, and report how many cycles the run took and what limited the run."""
    return run_target(
        RunOptions(
            target=target,
            config=config,
            overrides=overrides,
            allow_code=allow_code,
            out=out,
            as_json=as_json,
            no_skip=no_skip,
            verify=verify,
            strict_wait=strict_wait,
            check=check,
            checks=checks,
            trace=trace,
            report=report,
            trace_level=trace_level,
            trace_window=trace_window,
            trace_cycles=trace_cycles,
            trace_only=trace_only,
            whole=whole,
            quiet=quiet,
        )
    )
