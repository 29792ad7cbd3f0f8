"""`kbsim run`: a bench or a program on a machine, from cycle 0 to its end."""

from __future__ import annotations

import os
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
from kernbench.common.errors import InputError, KernbenchError, Problem, error_text
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.config import MachineConfig
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


def check_script(target: str, config: MachineConfig, checks: str, *, as_json: bool, quiet: bool) -> int:
    """Run a script with its launches checked; 5 where a kernel is wrong. InputError for a target that is not a script."""
    from kernbench.common.files import near_file
    from kernbench.runtime_api.triton.run import CHECKS, machine

    wrong = [one for one in checks.split(",") if one not in CHECKS]
    if wrong:
        raise InputError(Problem("--check", f"it must be one or more of {', '.join(CHECKS)}", "check", checks))
    path = Path(target)
    if path.suffix == ".py" and not path.exists():
        raise InputError(Problem(target, "it cannot be read: No such file or directory", remedy=near_file(target)))
    if path.suffix != ".py" or not path.is_file():
        raise InputError(Problem("--check", "it takes a Python file that launches Triton kernels", "target", target))
    import runpy

    found: list[str] = []
    with machine(config, check=checks) as runs:
        try:
            runpy.run_path(str(path), run_name="__main__")
        except InputError:
            raise
        except KernbenchError as error:
            found.append("\n".join([str(error), *(f"  {note}" for note in getattr(error, "__notes__", ()))]))
        except SystemExit as error:
            found += [f"{path}: it ended with exit({error.code!r})"] if error.code not in (None, 0) else []
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the script is the user's: what it raises need be no Exception
            found.append(_raised(path, error))
    found += [f"{one.name}: {text}" for one in runs for text in (*one.problems, *map(str, one.races))]
    if as_json:
        launches = [{"kernel": one.name, "cycles": one.cycles} for one in runs]
        output.answer({"checks": checks.split(","), "launches": launches, "problems": found})
    elif not quiet:
        for one in runs:
            print(f"{one.name}: {counted(one.cycles, 'cycle')}")
        print("\n".join(_in_lines(one) for one in found) if found else _nothing(len(runs)))
    return KERNEL_WRONG if found else output.OK


def _raised(path: Path, error: BaseException) -> str:
    """The exception of a script, with its line. The traceback is written to stderr."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        raise InputError(Problem(f"{path}:{error.lineno}", f"it is not valid Python: {error.msg}")) from error
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == str(path)), 0)
    output.note("".join(traceback.format_list(frames[first:])).rstrip("\n"))
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1] if lines else 1}: {error_text(error)}"


def _nothing(launches: int) -> str:
    return "nothing is wrong" if launches else "no kernel was launched, so nothing was checked"


def _in_lines(text: str) -> str:
    """A text as it is for a file or a pipe, and in lines of the width of a terminal (or of `COLUMNS`)."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return text
    import shutil
    import textwrap

    width = max(40, shutil.get_terminal_size().columns)
    wrap = textwrap.TextWrapper(width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap.fill(line) for line in text.split("\n"))


KERNEL_WRONG = 5  #: the exit code
