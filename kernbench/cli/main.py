"""`kbsim`: the boundary at which errors become messages and exit codes.

0 done   1 a verification, validation or gate failed   2 bad input or usage   3 stopped at max_cycles
4 deadlock   5 a check failed   70 our bug   130 interrupted
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

REFUSED, INTERRUPTED = 2, 130  #: exit codes, as `output` has them


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run one command and leave with its exit code."""
    # A command keeps the modules and tables that it creates, so a garbage collection after every 700 objects finds nothing.
    gc.set_threshold(100_000, 20, 20)
    # The threads that numpy's OpenBLAS starts wait busily for work while it is imported: for 2^20 clock ticks each, instead of
    # 2^26.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in ([], ["--help"], ["-h"]) and _overview():  # imports nothing that a command needs
        sys.exit(0 if given else REFUSED)
    if not sys.warnoptions:  # if a user's module imports an old name, the user gets a warning with the new name
        import warnings

        warnings.filterwarnings("default", message=r"kernbench\.", category=DeprecationWarning)
    from kernbench.cli.signals import interrupt_between_imports

    waits = interrupt_between_imports()
    try:
        code = exit_code(given)
        if waits() and code == 0:  # the command was over before the signal could be sent again
            code = _interrupted(as_json=False)
        gc.freeze()  # the memory is freed when the process ends; Python would first search all of it for garbage
    except KeyboardInterrupt:  # after the end of the command
        code = _interrupted(as_json=False)
    sys.exit(code)


def _overview() -> bool:
    """Print the help of `kbsim` itself. False if the terminal cannot show the text."""
    from kernbench.cli.overview import coloured, help_text, terminal_width

    try:
        sys.stdout.write(help_text(terminal_width(), coloured()) + "\n")  # one more line feed, as after the help of commands
        sys.stdout.flush()
    except BrokenPipeError:  # the reader is gone
        from kernbench.cli import output

        output.silence_stdout()
    except (AttributeError, OSError, ValueError):  # ValueError: of an encoding without some character
        return False
    return True


def exit_code(arguments: Sequence[str]) -> int:
    """Run one command; every error becomes a message and an exit code."""
    # Plug-ins of pydantic change no model of ours, and looking for them among all installed packages takes time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in {"COLUMNS", "LINES"} & os.environ.keys():
        from kernbench.cli.output import is_size

        if not is_size(os.environ[name]):
            del os.environ[name]
    as_json = "--json" in arguments
    debug = "--debug" in arguments or os.environ.get("KBSIM_DEBUG", "") not in ("", "0")
    try:
        code = _invoke([argument for argument in arguments if argument != "--debug"], as_json)
        return _interrupted(as_json) if code == INTERRUPTED else code
    except BaseException as error:  # what users' code raises need be no Exception, as asyncio's CancelledError is none
        try:
            return _ended(error, arguments, as_json, debug)
        except KeyboardInterrupt as stopped:  # while the error is reported
            return _interrupted(as_json, stopped)


def _invoke(arguments: Sequence[str], as_json: bool) -> int:
    """Return the exit code of a command, and print usage errors."""
    from kernbench.cli.plain_arguments import plain_run

    plain = plain_run(arguments)
    if plain is not None:
        from kernbench.cli.run_target import run_target

        return run_target(plain)
    import typer  # imported here, like the commands: an interrupt during the import is handled like any other
    from typer.main import get_command

    from kernbench.cli.app import Interrupted, app

    # The base class of usage errors; the module that has it depends on the version of typer.
    usage_error: Any = typer.BadParameter.__mro__[2]
    try:
        code = get_command(app).main(args=list(arguments), prog_name="kbsim", standalone_mode=False)
    except usage_error as error:
        return _usage(error, arguments, as_json)
    except typer.Abort:
        return INTERRUPTED
    except Interrupted as error:
        raise error.interrupt from None
    except SystemExit:  # typer exits in this way when the reader of its help is gone
        return 0
    return code if isinstance(code, int) else 0


def _usage(error: Any, arguments: Sequence[str], as_json: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        return REFUSED
    from kernbench.cli import output
    from kernbench.cli.mistakes import usage_problem
    from kernbench.common.errors import InputError

    context = getattr(error, "ctx", None)
    if context is not None and not as_json:
        output.note(context.get_usage())
    return output.refuse(InputError(usage_problem(error, arguments)), as_json=as_json)


def _interrupted(as_json: bool, error: BaseException | None = None) -> int:
    """Report the interrupt, and the location of the interrupted code."""
    from kernbench.cli import output
    from kernbench.common.interrupts import place_of

    place = place_of(error)
    if as_json:
        output.answer({"status": "interrupted", **({"place": place} if place else {})})
    output.note(f"interrupted: {place}" if place else "interrupted")
    return INTERRUPTED


def _without_terminal(error: BaseException) -> BaseException:
    """The interrupt, if its report failed because the terminal is closed; otherwise the error itself."""
    chain = [error]
    while (before := chain[-1].__context__) is not None:
        chain.append(before)
    if any(isinstance(one, OSError) and one.errno == errno.EIO for one in chain):
        return next((one for one in chain if isinstance(one, KeyboardInterrupt)), error)
    return error


def _ended(error: BaseException, arguments: Sequence[str], as_json: bool, debug: bool) -> int:
    """Report the exception that ended a command, and return the exit code."""
    error = _without_terminal(error)
    if not isinstance(error, KeyboardInterrupt):
        from kernbench.cli.endings import Answered

        if isinstance(error, Answered):
            error, as_json = error.__cause__ or error, False
    if isinstance(error, KeyboardInterrupt):
        return _interrupted(as_json, error)
    from kernbench.cli import output
    from kernbench.cli.endings import ending_of, known
    from kernbench.common.errors import InputError, InternalError

    if debug:
        import traceback

        traceback.print_exception(error)
    error = known(error)
    if isinstance(error, InputError):
        from kernbench.cli.mistakes.spoken import spoken

        return output.refuse(spoken(error, arguments), as_json=as_json)
    ending = ending_of(error)
    if as_json:
        output.answer({"status": ending.status, "message": ending.message})
    if ending.code == InternalError.exit_code:
        again = "(run it again with --debug, or KBSIM_DEBUG=1, to see the traceback)"
        output.note(f"kbsim has a bug: {ending.message} {again}")
    else:
        output.note(f"error: {ending.message}")
    return ending.code
