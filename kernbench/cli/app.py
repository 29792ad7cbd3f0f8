"""The commands of `kbsim`, put together."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.main import get_command

from kernbench.cli import output
from kernbench.cli.commands import Commands

app = typer.Typer(
    name="kbsim",
    cls=Commands,
    help="How many cycles a kernel or a command queue program takes on a machine described in YAML, and why.",
    epilog="Exit codes: 0 done, 1 a tensor is wrong, a validation is outside, or a trace breaks a law or a limit, "
    "2 bad input or usage, 3 stopped at max_cycles, "
    "4 deadlock, 5 a check, a component or a kernel failed, 70 our bug, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if not asked:
        return
    from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
    from kernbench.config.load import KINDS
    from kernbench.sim_engine.result import MODEL_VERSION
    from kernbench.version import VERSION

    output.write(f"kernbench {VERSION}\ntiming model {MODEL_VERSION}\nschemas {', '.join(KINDS)}, program {PROGRAM_VERSION}\n")
    raise typer.Exit(output.OK)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of package, timing model and schemas.",
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, as KBSIM_DEBUG=1 does.")
    ] = False,
) -> None:
    """The options of all commands; `main` looks at --debug itself, wherever it stands."""


def every_command() -> Commands:
    """`kbsim` with all its commands imported: for the reference, which describes each."""
    whole = get_command(app)
    assert isinstance(whole, Commands)
    return whole.loaded()
