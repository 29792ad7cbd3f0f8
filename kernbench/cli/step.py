"""`kbsim step`: a bench or a program on a machine, stopped where one wants to look."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, AnyConfig, AnyOverrides, AnyTarget, Json, StrictWait, Walk
from kernbench.cli.tracing import TraceCycles, Traced, TraceLevel, TraceOnly, TraceTo, TraceWindow
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from kernbench.cli.bench_step import BenchStepper
    from kernbench.cli.program_step import ProgramStepper
    from kernbench.sim_engine.machine import Machine

    Stepper = BenchStepper | ProgramStepper

FRAME_SECONDS = 0.1  # a frame of --watch stands so long on a terminal, to be seen

Cycles = Annotated[
    int | None,
    typer.Option(
        "--cycles", "-n", min=0, metavar="N", help="Run N cycles, fewer where the run ends.", show_default=False
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="COND", help="Stop after the cycle of end:ID, start:ID, stall, conflict or cycle:N.", show_default=False
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="CKPT", help="Go on from a checkpoint of this program and machine.", show_default=False
    ),
]
Save = Annotated[Path | None, typer.Option(metavar="CKPT", help="Save a checkpoint at the end.", show_default=False)]
Watch = Annotated[
    bool, typer.Option("--watch", help="Show the state every N cycles, up to COND or the end of the run.")
]


def step(
    target: AnyTarget,
    cycles: Cycles = None,
    until: Until = None,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    start: From = None,
    save: Save = None,
    as_json: Json = False,
    watch: Watch = False,
    strict_wait: StrictWait = False,
    walk: Walk = None,
    trace: TraceTo = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
) -> int:
    """Run some cycles and print what every engine is doing then.

    With --cycles and --until, whichever comes first stops it. With --watch, --cycles is the distance of two looks.
    With --save, --trace leaves the file open-ended: --from with the same --trace goes on with it, byte for byte.
    """
    from kernbench.common.files import check_apart

    _check(cycles, until, save, as_json=as_json, watch=watch)
    check_apart((save, trace), (target, config))
    options = Traced(trace_level, trace_window, trace_cycles, trace_only).options("kbsim step", trace)
    stepper = _stepper(target, config, overrides, allow_code, strict_wait)
    machine = stepper.machine
    with stepper.around(start, save, trace, options):
        came = _watch(stepper, cycles or 1, until) if watch else _run(machine, cycles, until, as_json)
    if as_json:
        output.show_json(stepper.answer())
    elif not watch:
        output.show(stepper.show(_note(machine, until, came)))
    return stepper.finish()


def _stepper(
    target: str, config: str | None, overrides: list[str] | None, allow_code: list[str] | None, strict_wait: bool
) -> Stepper:
    from kernbench.cli.target import find_bench, refuse_bench_options

    bench = find_bench(target)
    if bench is not None:
        from kernbench.cli.bench_step import BenchStepper

        return BenchStepper(bench, config, overrides, strict_wait=strict_wait, allow_code=allow_code)
    from kernbench.cli.program_step import ProgramStepper

    refuse_bench_options(target, strict_wait=strict_wait)
    return ProgramStepper(target, config or DEFAULT_MACHINE, overrides, allow_code)


def _check(cycles: int | None, until: str | None, save: Path | None, *, as_json: bool, watch: bool) -> None:
    if cycles is None and until is None:
        raise InputError(Problem("kbsim step", "give at least one of --cycles and --until"))
    if watch and as_json:
        raise InputError(Problem("kbsim step", "--watch shows many states and --json one: give one of the two"))
    if watch and not cycles:
        raise InputError(Problem("kbsim step", "--watch needs --cycles of at least 1: the distance of two looks"))
    if save is not None:
        from kernbench.common.files import check_writable

        check_writable(save)


def _run(machine: Machine, cycles: int | None, until: str | None, quiet: bool) -> bool:
    from kernbench.cli.progress import progress_bar

    with progress_bar(not quiet) as progress:
        return machine.run(until, cycles=cycles, progress=progress)


def _note(machine: Machine, until: str | None, came: bool) -> str:
    if until is None:
        return ""
    if came:
        return f"{until} has come"
    return f"{until} has not come" + ("" if machine.status == "running" else ", and the run is over")


def _watch(stepper: Stepper, cycles: int, until: str | None) -> bool:
    """Show a frame every `cycles` cycles."""
    came = False
    with _frames() as frame:
        while not came and stepper.machine.status == "running":
            came = stepper.machine.run(until, cycles=cycles)
            frame(list(stepper.show(_note(stepper.machine, until, came) if came else "")))
    return came


@contextmanager
def _frames() -> Iterator[Callable[[list[RenderableType]], object]]:
    """Where frames go: in place on a terminal, one after the other elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield lambda parts: output.show([*parts, ""])
        return
    from rich.console import Group
    from rich.live import Live

    with Live(console=output.console(sys.stdout), auto_refresh=False) as live:

        def update(parts: list[RenderableType]) -> None:
            live.update(Group(*parts), refresh=True)
            time.sleep(FRAME_SECONDS)

        yield update
