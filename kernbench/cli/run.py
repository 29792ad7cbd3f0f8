"""`kbsim run`: a bench or a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from kernbench.cli import output
from kernbench.cli.asked import Asked
from kernbench.cli.machines import load_machine
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, AnyConfig, AnyOverrides, AnyTarget, Json, Quiet, StrictWait, Walk
from kernbench.cli.tracing import Report, TraceCycles, Traced, TraceLevel, TraceOnly, TraceTo, TraceWindow
from kernbench.common.errors import InputError, Problem

OutFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Also write the result there, as JSON.", show_default=False),
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="WHAT",
        help="Run a Python file, and look for mistakes in the Triton kernels that it launches: memory, races.",
        show_default=False,
    ),
]
Checks = Annotated[
    Literal["on", "off"],
    typer.Option("--checks", help="Hold the run against physical laws when it ends: bytes, capacities, time."),
]
DEFAULT_BENCH_MACHINE = "single_cube"  #: where kernels run if no machine is named


def run(
    target: AnyTarget,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    out: OutFile = None,
    as_json: Json = False,
    no_skip: Annotated[bool, typer.Option("--no-skip", help="Step every cycle: slower, the same result.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Of a bench: compare its outputs with its reference.")] = False,
    strict_wait: StrictWait = False,
    walk: Walk = None,
    check: Check = None,
    checks: Checks = "on",
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    quiet: Quiet = False,
) -> int:
    """Run a bench or a program to its end and say what it took, and why."""
    from kernbench.cli.bench_run import run_bench
    from kernbench.cli.target import find_bench, refuse_bench_options
    from kernbench.cli.triton_check import check_script

    _check_places(out, (trace, report), (target, config))
    options = Traced(trace_level, trace_window, trace_cycles, trace_only).options("kbsim run", trace, report)
    told = Asked(out=out, as_json=as_json, quiet=quiet, skip=not no_skip, trace=trace, page=report, options=options)
    asked = replace(told, checks=checks == "on")
    if check is not None:
        _only_check(out=out, no_skip=no_skip, verify=verify, strict_wait=strict_wait, trace=trace, report=report)
        machine = load_machine(config or DEFAULT_BENCH_MACHINE, overrides, quiet=quiet, allow_code=allow_code or ())
        return check_script(target, machine, check, as_json=as_json, quiet=quiet)
    bench = find_bench(target)
    if bench is not None:
        return run_bench(bench, config, overrides, asked, verify=verify, strict_wait=strict_wait, allow_code=allow_code)
    refuse_bench_options(target, verify=verify, strict_wait=strict_wait)
    return _run_program(target, config or DEFAULT_MACHINE, overrides, allow_code, asked)


def _only_check(**given: object) -> None:
    """InputError where an option is beside --check that only one run has, as a script may launch many."""
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if wrong:
        rule = f"--check runs a script with all its launches, and does nothing with {', '.join(wrong)}"
        raise InputError(Problem("kbsim run", rule, remedy="leave it out"))


def _check_places(out: Path | None, others: Iterable[Path | None], read: Iterable[str | None]) -> None:
    """Refuse, before the run, to write what cannot be written, or over what is read."""
    from kernbench.common.files import check_apart, check_writable

    check_apart((out, *others), read)
    if out is not None:
        check_writable(out)


def _run_program(
    target: str, config: str, overrides: list[str] | None, allow_code: list[str] | None, asked: Asked
) -> int:
    from kernbench.cli.render import run_summary
    from kernbench.cli.target import load_target
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.summary import summarise_run

    spec = load_machine(config, overrides, quiet=asked.quiet, allow_code=allow_code or ())
    machine = Machine(spec, load_target(target, spec))
    asked.run(machine)
    result = machine.result()
    asked.tell(result.to_json(), lambda width: run_summary(summarise_run(result, machine.program, machine.plan), width))
    return output.ENDINGS[result.status]
