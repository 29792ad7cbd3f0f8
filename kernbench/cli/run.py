"""`kbsim run`: a bench or a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kernbench.cli import output
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, AnyConfig, AnyOverrides, AnyTarget, Json, Quiet, StrictWait, Walk
from kernbench.cli.target import load_machine
from kernbench.cli.tracing import Report, TraceCycles, Traced, TraceLevel, TraceOnly, TraceTo, TraceWindow, reported
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.recording import TraceOptions
    from kernbench.sim_engine.result import Result


OutFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Also write the result to FILE, as JSON.", show_default=False),
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="WHAT",
        help="Run a Python file and check the Triton kernels that it launches for memory errors and races.",
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
        "--all", help="Print every engine, channel, link and wait. Without it rows of equal use are one, with the mean of each."
    ),
]
DEFAULT_BENCH_MACHINE = "single_cube"  #: where kernels run if no machine is named


def run(
    target: AnyTarget,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    out: OutFile = None,
    as_json: Json = False,
    no_skip: Annotated[bool, typer.Option("--no-skip", help="Step through every cycle. Slower, same result.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="With a bench: compare its outputs with its reference.")] = False,
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
    whole: Whole = False,
    quiet: Quiet = False,
) -> int:
    """Run a bench or a program to its end and report how long it took, and why."""
    from kernbench.cli.target import find_bench, refuse_bench_options

    _check_places(out, (trace, report), (target, config))
    options = Traced(trace_level, trace_window, trace_cycles, trace_only).options("kbsim run", trace, report)
    told = Asked(out=out, as_json=as_json, quiet=quiet, skip=not no_skip, trace=trace, page=report, options=options)
    asked = replace(told, checks=checks == "on", whole=whole)
    if check is not None:
        _only_check(out=out, no_skip=no_skip, verify=verify, strict_wait=strict_wait, trace=trace, report=report)
        from kernbench.cli.triton import check_script

        machine = load_machine(config or DEFAULT_BENCH_MACHINE, overrides, quiet=quiet, allow_code=allow_code or ())
        return check_script(target, machine, check, as_json=as_json, quiet=quiet)
    bench = find_bench(target)
    if bench is not None:
        from kernbench.cli.bench import run_bench

        return run_bench(bench, config, overrides, asked, verify=verify, strict_wait=strict_wait, allow_code=allow_code)
    refuse_bench_options(target, verify=verify, strict_wait=strict_wait)
    return _run_program(target, config or DEFAULT_MACHINE, overrides, allow_code, asked)


def _only_check(**given: object) -> None:
    """InputError if --check is combined with an option for a single run; a script may launch many."""
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if wrong:
        rule = f"--check runs a script with all its launches, and does nothing with {', '.join(wrong)}"
        raise InputError(Problem("kbsim run", rule, remedy="leave it out"))


def _check_places(out: Path | None, others: Iterable[Path | None], read: Iterable[str | None]) -> None:
    """Refuse, before the run, output files that cannot be written or that are also inputs."""
    from kernbench.common.files import check_apart, check_writable

    check_apart((out, *others), read)
    if out is not None:
        check_writable(out)


def _run_program(target: str, config: str, overrides: list[str] | None, allow_code: list[str] | None, asked: Asked) -> int:
    from kernbench.cli.target import load_target
    from kernbench.sim_engine.machine import Machine

    spec = load_machine(config, overrides, quiet=asked.quiet, allow_code=allow_code or ())
    machine = Machine(spec, load_target(target, spec))
    asked.run(machine)
    result = machine.result()
    asked.tell(result.to_json(), lambda width: _told(result, machine, asked, width))
    return output.ENDINGS[result.status]


def _told(result: Result, machine: Machine, asked: Asked, width: int) -> Iterable[RenderableType]:
    from kernbench.cli.summary import run_summary
    from kernbench.sim_engine.summary import summarise_run

    return run_summary(summarise_run(result, machine.program, machine.plan), width, whole=asked.whole)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of one `kbsim run`."""

    out: Path | None  #: the JSON result is written there too
    as_json: bool
    quiet: bool
    skip: bool
    trace: Path | None
    page: Path | None
    options: TraceOptions | None  #: options of the trace, if any are given
    checks: bool = True  #: check conservation laws after the run
    whole: bool = False  #: print every engine, channel, link and wait

    def run(self, machine: Machine) -> None:
        """Run to the end, with the trace and progress that the options ask for."""
        from kernbench.cli.progress import progress_bar

        machine.checks = self.checks
        with reported(machine, self.trace, self.page, self.options), progress_bar(not self.quiet) as progress:
            machine.run(skip=self.skip, progress=progress)

    def tell(self, result: str, show: Callable[[int], Iterable[RenderableType]]) -> None:
        """Write the result as JSON, or print it for a terminal of the given width."""
        from kernbench.common.files import write_whole

        if self.out is not None:
            write_whole(self.out, (result + "\n").encode())
        if self.as_json:
            output.write(result + "\n")
        elif not self.quiet:
            output.show(show(output.console(sys.stdout).width))
