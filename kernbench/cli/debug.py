"""`kbsim debug`: time travel through a run, in a terminal program or by a script of commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import AllowCode, AnyConfig, AnyOverrides, StrictWait
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.debug import Session

DebugTarget = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="A bench (its name or a .py file), a program (.json, .yaml), the name of a workload, or a collective "
        "(all_reduce, all_reduce:ring). Not needed with --session.",
        show_default=False,
    ),
]
Do = Annotated[
    list[str] | None,
    typer.Option(
        "--do",
        "--command",
        metavar="COMMAND",
        help="Run one debugger command and print the output of the command. With --do, the interactive screen does not open. "
        "May be repeated.",
        show_default=False,
    ),
]
Script = Annotated[
    Path | None,
    typer.Option(
        "--script", metavar="FILE", help="Run the debugger commands in a file, one per line, after the commands of "
        "--do.", show_default=False
    ),
]
At = Annotated[int | None, typer.Option("--at", min=0, metavar="CYCLE", help="Begin at this cycle.", show_default="0")]
SessionFile = Annotated[
    Path | None,
    typer.Option("--session", metavar="FILE", help="Open a session file, which the debugger command `save` "
        "writes.", show_default=False),
]
SCRIPT_BYTES = 1 << 20


def debug(
    target: DebugTarget = None,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    at: At = None,
    do: Do = None,
    script: Script = None,
    session_file: SessionFile = None,
    strict_wait: StrictWait = False,
    allow_code: AllowCode = None,
) -> int:
    """Go forward and back through a run, and look at its state at any cycle.

    Without --do and --script, an interactive screen opens in the terminal. The interactive screen needs the extra
    `debug` of the package.
    Set the parameters of a collective with --set, such as ranks=8, size=4k or dtype=f16.
    """
    session = _session(target, config, overrides, session_file, strict_wait=strict_wait, allow_code=allow_code or [])
    if at is not None:
        session.goto(at)
    lines = [*(do or []), *(_script(script) if script is not None else [])]
    if do is not None or script is not None:
        _do(session, lines)
        return output.OK
    return _program(session)


def _session(
    target: str | None,
    config: str | None,
    overrides: list[str] | None,
    file: Path | None,
    *,
    strict_wait: bool,
    allow_code: list[str],
) -> Session:
    from kernbench.debug import Session

    if file is not None:
        if config is not None or overrides:
            raise InputError(Problem("kbsim debug", "--session has its own machine; leave out --config and --set"))
        return Session.load(file, target, allow_code=allow_code)
    if target is None:
        raise InputError(Problem("kbsim debug", "give a TARGET, or a session with --session"))
    return Session(target, config, overrides or [], strict_wait=strict_wait, allow_code=allow_code)


def _script(path: Path) -> list[str]:
    """The commands of a file; lines that are empty or begin with # are left out."""
    from kernbench.common.files import read_bounded

    try:
        text = read_bounded(path, SCRIPT_BYTES, what="the script", unread="check the path").decode()
    except UnicodeDecodeError:
        raise InputError(Problem(str(path), "the script is not UTF-8 text")) from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def _do(session: Session, lines: list[str]) -> None:
    """Run commands one after another; each is printed before its output. An error ends the script."""
    from kernbench.debug.commands import QuitError, execute

    for k, line in enumerate(lines):
        try:
            shown = execute(session, line)
        except QuitError:
            return
        output.show([*([""] if k else []), widgets.Text(f"> {line}", "dim"), *shown])


def _program(session: Session) -> int:
    """The program in the terminal."""
    if sys.stdout is None or not sys.stdout.isatty() or not sys.stdin.isatty():
        raise InputError(Problem("kbsim debug", "the program needs a terminal", remedy="give commands with --do or --script"))
    try:
        from kernbench.debug.app import DebugApp
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("textual"):
            raise
        remedy = "pip install 'kernbench[debug]', or give commands with --do or --script"
        raise InputError(Problem("kbsim debug", "the program needs Textual, which is not installed", remedy=remedy)) from None
    DebugApp(session).run()
    return output.OK
