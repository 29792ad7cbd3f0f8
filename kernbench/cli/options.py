"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output

if TYPE_CHECKING:
    from kernbench.common.look.palette import Theme
    from kernbench.config import NpuConfig, SystemConfig

DEFAULT_MACHINE = "npu_server"

Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A program (.json, .yaml), or the name of a workload.", show_default=False),
]
AnyTarget = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A bench (its name or a .py file), a program (.json, .yaml) or the name of a workload.",
        show_default=False,
    ),
]
AnyConfig = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The machine: a name that kbsim config list prints, or a .yaml or .json file.",
        show_default=f"{DEFAULT_MACHINE}, or what a bench names",
    ),
]
AnyOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set one value of the machine (dram.channels=4) or one parameter of a bench (n=512). May be repeated.",
        show_default=False,
    ),
]


def _set_variable(context: typer.Context, name: str, value: str) -> None:
    """Set an environment variable until the command ends: its runs and its workers read it."""
    before = os.environ.get(name)
    os.environ[name] = value
    context.call_on_close(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))


def _walk(context: typer.Context, value: str | None) -> str | None:
    """Select the walk for every run of this command and of its workers."""
    if value is not None:
        from kernbench.sim_engine.run.stops import VARIABLE, walk_of

        _set_variable(context, VARIABLE, walk_of(value, "--walk"))
    return value


Walk = Annotated[
    str | None,
    typer.Option(
        "--walk",
        metavar="plain|fast",
        callback=_walk,
        help="Simulation method: fast skips cycles whose result is already known, and plain computes every cycle. The "
        "results are the same.",
    ),
]


def _threads(context: typer.Context, value: int | None) -> int | None:
    """Select the threads for every run of this command and of its workers."""
    if value is not None:
        from kernbench.common.threads import VARIABLE, threads_of

        _set_variable(context, VARIABLE, str(threads_of(value, "--threads")))
    return value


Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        callback=_threads,
        help="Number of threads on this computer. PEs without a common memory or link can run on different threads. "
        "With --verify, the threads also verify the outputs of a bench. The results are the same.",
        show_default=False,
    ),
]
StrictWait = Annotated[
    bool, typer.Option("--strict-wait", help="Report an error if a kernel of a bench uses a tensor before the "
        "kernel has waited for the tensor.")
]
Config = Annotated[
    str,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The machine: a name that kbsim config list prints, or a .yaml or .json file.",
    ),
]
DEFAULT_SYSTEM = "single_cube"  #: of commands that need several PEs, which DEFAULT_MACHINE has not
SystemConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="The system (a machine of several PEs): a name that kbsim config list prints, or a .yaml or .json file.",
        show_default=DEFAULT_SYSTEM,
    ),
]
#: The positional machine argument that these commands had before version 0.2.
SystemArgument = Annotated[str | None, typer.Argument(metavar="SYSTEM", help="Deprecated: use --config SYSTEM.", hidden=True)]


def system_asked(command: str, option: str | None, argument: str | None) -> str:
    """The system of a command: `--config`, the deprecated argument (with a note on stderr), or DEFAULT_SYSTEM."""
    if argument is None:
        return option or DEFAULT_SYSTEM
    if option is not None:
        from kernbench.common.errors import InputError, Problem

        rule = f"the machine is given twice, as --config {option} and as {argument}"
        raise InputError(Problem(f"kbsim {command}", rule, remedy="leave out the second one"))
    output.note(f"deprecated: use --config {argument}; the next version will not accept the positional argument")
    return argument


Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set one value of the machine: dram.channels=4. May be repeated.",
        show_default=False,
    ),
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-code",
        metavar="PATH",
        help="Allow kbsim to import Python code from this directory or file. Machines (key impl), algorithm files "
        "(key module) and sweeps (key bench) can name code to import. May be repeated.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
#: The colours of a plot.
Dark = Annotated[bool, typer.Option("--dark", help="With --plot: use dark colours.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no summary and no progress; only the exit code shows the outcome.")
]

#: The trace options (`tracing`).
TraceTo = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="Write the trace to FILE: .jsonl, .jsonl.gz or .jsonl.zst.", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Write an HTML page that shows the trace of the run. The option --trace-level sets "
        "the detail of the page.", show_default=False
    ),
]
TraceLevel = Annotated[
    str | None,
    typer.Option(
        "--trace-level",
        metavar="LEVEL",
        help="Detail of the trace: summary, full (with ranges and waits) or access (with every request).",
        show_default="summary",
    ),
]
TraceWindow = Annotated[
    int | None,
    typer.Option(
        "--trace-window",
        min=1,
        metavar="N",
        help="Length of a sampling window for bandwidth and queues, in cycles.",
        show_default="1024",
    ),
]
TraceCycles = Annotated[
    str | None,
    typer.Option("--trace-cycles", metavar="A:B", help="Trace only the cycles from A to B - 1.", show_default=False),
]
TraceOnly = Annotated[
    str | None,
    typer.Option(
        "--trace-only", metavar="UNITS", help="Trace only these units, separated by commas, such as "
        "dma0,te*.", show_default=False
    ),
]


def max_cycles_of(overrides: Sequence[str], config: NpuConfig | SystemConfig) -> int | None:
    """The limit of a run of a whole model: `max_cycles` if --set gives it. The limit in a file is meant for one program."""
    return config.max_cycles if any(text.partition("=")[0].strip() == "max_cycles" for text in overrides) else None


def theme_of(command: str, *, dark: bool, plot: object) -> Theme:
    """The colours of a plot. InputError for `--dark` without a plot."""
    if dark and plot is None:
        from kernbench.common.errors import InputError, Problem

        raise InputError(Problem(command, "it is for plots", "--dark", remedy="add --plot FILE"))
    return "dark" if dark else "light"
