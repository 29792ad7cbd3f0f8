"""The work of `kbsim run`: a bench or a program on a machine, with a trace, a page and a summary if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kernbench.cli import output
from kernbench.cli.endings import answering
from kernbench.cli.target import load_machine
from kernbench.cli.tracing import Traced, check_page, reported
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.recording import TraceOptions
    from kernbench.sim_engine.result import Result

DEFAULT_BENCH_MACHINE = "single_cube"  #: where kernels run if no machine is named


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `kbsim run`: its argument and its options, with their defaults."""

    target: str
    config: str | None = None
    overrides: list[str] | None = None
    allow_code: list[str] | None = None
    out: Path | None = None
    as_json: bool = False
    no_skip: bool = False
    verify: bool = False
    strict_wait: bool = False
    check: str | None = None
    checks: str = "on"
    trace: Path | None = None
    report: Path | None = None
    trace_level: str | None = None
    trace_window: int | None = None
    trace_cycles: str | None = None
    trace_only: str | None = None
    whole: bool = False
    quiet: bool = False


def run_target(given: RunOptions) -> int:
    """Run a bench or a program, and return the exit code."""
    from kernbench.api.targets import DEFAULT_MACHINE
    from kernbench.cli.target import find_bench, refuse_bench_options

    places = given.trace, given.report
    _check_places(given.out, places, (given.target, given.config))
    options = Traced(given.trace_level, given.trace_window, given.trace_cycles, given.trace_only).options("kbsim run", *places)
    settings = RunSettings(
        out=given.out,
        as_json=given.as_json,
        quiet=given.quiet,
        skip=not given.no_skip,
        trace=given.trace,
        page=given.report,
        options=options,
        checks=given.checks == "on",
        whole=given.whole,
        debugger=None if given.report is None else _debugger(given),  # a page shows it
    )
    if given.check is not None:
        _only_check(
            out=given.out,
            no_skip=given.no_skip,
            verify=given.verify,
            strict_wait=given.strict_wait,
            trace=given.trace,
            report=given.report,
        )
        from kernbench.cli.triton import check_script

        config, allowed = given.config or DEFAULT_BENCH_MACHINE, given.allow_code or ()
        machine = load_machine(config, given.overrides, quiet=given.quiet, allow_code=allowed)
        return check_script(given.target, machine, given.check, as_json=given.as_json, quiet=given.quiet)
    bench = find_bench(given.target)
    if bench is not None:
        from kernbench.cli.bench import run_bench

        return run_bench(
            bench,
            given.config,
            given.overrides,
            settings,
            verify=given.verify,
            strict_wait=given.strict_wait,
            allow_code=given.allow_code,
        )
    refuse_bench_options(given.target, verify=given.verify, strict_wait=given.strict_wait)
    return _run_program(given.target, given.config or DEFAULT_MACHINE, given.overrides, given.allow_code, settings)


def _debugger(given: RunOptions) -> str:
    """The command line that debugs the same run."""
    import shlex

    words = ["kbsim", "debug", given.target, *(["--config", given.config] if given.config else [])]
    words += [word for one in given.overrides or () for word in ("--set", one)]
    words += [word for one in given.allow_code or () for word in ("--allow-code", one)]
    return shlex.join([*words, *(["--strict-wait"] if given.strict_wait else [])])


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


def _run_program(
    target: str, config: str, overrides: list[str] | None, allow_code: list[str] | None, settings: RunSettings
) -> int:
    from kernbench.cli.target import load_target
    from kernbench.sim_engine.machine import Machine

    spec = load_machine(config, overrides, quiet=settings.quiet, allow_code=allow_code or ())
    machine = Machine(spec, load_target(target, spec))
    pages = settings.run(machine)
    result = machine.result()
    settings.answer(result.to_json(), lambda width: _summary(result, machine, settings, width), pages)
    return output.ENDINGS[result.status]


def _summary(result: Result, machine: Machine, settings: RunSettings, width: int) -> Iterable[RenderableType]:
    from kernbench.cli.summary import run_summary
    from kernbench.sim_engine.summary import summarise_run

    return run_summary(summarise_run(result, machine.program, machine.plan, machine.arrivals()), width, whole=settings.whole)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
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
    debugger: str | None = None  #: the command line that debugs the run

    def run(self, machine: Machine) -> list[bytes]:
        """Run to the end, with the trace and progress that the options ask for. Returns the page of the trace, if one is asked
        for."""
        from kernbench.cli.progress import progress_bar

        if self.page is not None:
            check_page("kbsim run", self.page)
        machine.checks = self.checks
        around = reported(machine, self.trace, self.page is not None, self.options, self.debugger)
        with around as pages, progress_bar(not self.quiet) as progress:
            machine.run(skip=self.skip, progress=progress)
        return pages

    def answer(self, result: str, show: Callable[[int], Iterable[RenderableType]], pages: list[bytes]) -> None:
        """Print the result, as JSON or for a terminal of the given width. Then write the files."""
        from kernbench.common.files import write_whole

        if self.as_json:
            output.write(result + "\n")
        elif not self.quiet:
            output.show_summary(show(output.width()))
        with answering(self.as_json):
            if self.out is not None:
                write_whole(self.out, (result + "\n").encode())
            for page in pages:
                assert self.page is not None
                write_whole(self.page, page)
