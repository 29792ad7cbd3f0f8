"""`kbsim`: its commands, and the boundary at which errors become messages and exit codes.

    0 done   2 bad input or usage   3 stopped at max_cycles   4 deadlock   5 a check failed   70 our bug   130 interrupted
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from kernbench.cli import output
from kernbench.cli.config import app as config_app
from kernbench.cli.program import app as program_app
from kernbench.cli.run import run
from kernbench.cli.schema import schema
from kernbench.cli.step import step
from kernbench.common.errors import InputError, InternalError, Problem

# The class of every usage error: its module's name depends on the version of typer.
UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="kbsim",
    help="How many cycles a command queue program takes on a machine described in YAML, and why.",
    epilog="Exit codes: 0 done, 2 bad input or usage, 3 stopped at max_cycles, 4 deadlock, 5 a check failed, 70 our bug, "
    "130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(step)
app.add_typer(program_app, name="program")
app.add_typer(config_app, name="config")
app.command()(schema)


def _version(asked: bool) -> None:
    if not asked:
        return
    from kernbench.cmdq.program import VERSION as PROGRAM_VERSION
    from kernbench.config.schema import NpuConfig
    from kernbench.sim_engine.result import MODEL_VERSION
    from kernbench.version import VERSION

    machine = NpuConfig.model_fields["schema_name"].default
    output.write(f"kernbench {VERSION}\ntiming model {MODEL_VERSION}\nschemas {machine}, program {PROGRAM_VERSION}\n")
    raise typer.Exit(output.OK)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the versions of package, timing model and schemas."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, as KBSIM_DEBUG=1 does.")
    ] = False,
) -> None:
    """The options of all commands; `main` looks at --debug itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run one command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(guarded(given))


def guarded(arguments: Sequence[str]) -> int:
    """Run one command; every error becomes a message and an exit code."""
    as_json = "--json" in arguments
    debug = "--debug" in arguments or os.environ.get("KBSIM_DEBUG", "") not in ("", "0")
    try:
        code = _invoke([argument for argument in arguments if argument != "--debug"])
        return _interrupted(as_json) if code == output.INTERRUPTED else code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(as_json)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _failed(error, as_json)


def _invoke(arguments: Sequence[str]) -> int:
    """The exit code that a command returns or leaves with; usage errors are said here."""
    command = get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="kbsim", standalone_mode=False)
    except UsageError as error:
        return _usage(error, "--json" in arguments)
    return code if isinstance(code, int) else output.OK


def _usage(error: Any, as_json: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # asked for nothing: the help is the answer
        output.write(str(error.ctx.get_help() if error.ctx else error.format_message()) + "\n")
        return output.REFUSED
    path = error.ctx.command_path if error.ctx is not None else "kbsim"
    if error.ctx is not None and not as_json:
        output.note(error.ctx.get_usage())
    return output.refuse(InputError(Problem(path, error.format_message(), remedy=f"see {path} --help")), as_json=as_json)


def _interrupted(as_json: bool) -> int:
    if as_json:
        output.show_json({"status": "interrupted"})
    output.note("interrupted")
    return output.INTERRUPTED


def _failed(error: Exception, as_json: bool) -> int:
    if isinstance(error, MemoryError):
        error = InputError(Problem("kbsim", f"there is not enough memory for this run: {error}"))
    if isinstance(error, InputError):
        return output.refuse(error, as_json=as_json)
    text = f"{type(error).__name__}: {error}".split("\n")[0]
    if as_json:
        output.show_json({"status": "internal error", "message": text})
    output.note(f"kbsim has a bug: {text} (run it again with --debug, or KBSIM_DEBUG=1, to see the traceback)")
    return InternalError.exit_code
