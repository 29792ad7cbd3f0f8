"""The output of a command: text and JSON on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

from kernbench.cli.text import SPACE, glued
from kernbench.common.errors import ABSENT, InputError, Problem, shown
from kernbench.common.files import write_remedy

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

OK, WRONG, REFUSED, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130
ENDINGS = {"running": 0, "done": 0, "aborted": STOPPED, "deadlock": 4, "failed": 5}  #: status of a run: exit code

MOST_DIGITS = 5  #: of the number of columns or lines of a terminal
NARROWEST = 8  # [column] below, tables have no room for a character
#: replacements of characters in bars, frames and cuts if they cannot be shown
ASCII = str.maketrans("█▒·╭╮╰╯─│…▏▎▍▌▋▊▉", "#=.++++-|~----+++")


def is_size(given: str) -> bool:
    """Whether COLUMNS or LINES has a number: int() refuses some texts of digits, such as a superscript 2 and very long ones."""
    return given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS


def console(stream: TextIO, like: Console | None = None) -> Console:
    """A console as wide as the terminal, or 80 columns without one. It has colours only on a terminal without NO_COLOR.

    `like`: draw as if `stream` were that console's.
    """
    from rich.console import Console

    as_it: dict[str, Any] = {}
    if like is not None:
        as_it = {"force_terminal": like.is_terminal, "width": like.width, "no_color": like.no_color}
    environment = {name: given for name, given in os.environ.items() if name not in ("COLUMNS", "LINES") or is_size(given)}
    made = Console(file=stream, highlight=False, emoji=False, markup=False, _environ=environment, **as_it)
    made.width = max(NARROWEST, made.width)
    return made


def is_file(stream: TextIO) -> bool:
    """Whether a stream is certainly not a terminal and has no colours, by the rules of rich."""
    environment = os.environ
    if "FORCE_COLOR" in environment or environment.get("TTY_COMPATIBLE") == "1" or "IPython" in sys.modules:
        return False
    try:
        return stream is not None and not stream.isatty()
    except (AttributeError, ValueError):
        return False


def width() -> int:
    """[column] Of the terminal, or `COLUMNS`; 80 where there is neither. At least NARROWEST."""
    if not is_file(sys.stdout):
        return console(sys.stdout).width
    given = os.environ.get("COLUMNS", "")
    if is_size(given):
        return max(NARROWEST, int(given) or 80)
    for number in range(3):
        try:
            return max(NARROWEST, os.get_terminal_size(number).columns or 80)
        except (ValueError, OSError):
            continue
    return 80


def show_summary(drawables: Iterable[RenderableType]) -> bool:
    """Call `show` for the content of `drawn`, without rich if stdout is a file or a pipe. False if the reader has closed the
    pipe."""
    from kernbench.cli.drawn import lines_of

    found = list(drawables)
    lines = lines_of(found, width()) if is_file(sys.stdout) else None
    return show(found) if lines is None else write("".join(f"{line}\n" for line in lines))


def show(renderables: Iterable[RenderableType], *, whole: bool = False) -> bool:
    """Print readable output on stdout. `whole`: lines are not wrapped on a narrow terminal, because programs may read them.

    False if the reader has closed the pipe."""
    target = console(sys.stdout)
    page = StringIO()  # everything is computed before anything is written, so an error never follows half a table
    drawn = console(page, like=target)
    for renderable in renderables:
        drawn.print(renderable if whole else _glued(renderable), soft_wrap=whole)
    text = page.getvalue().replace(SPACE, " ")
    if not target.is_terminal:  # tables are padded to their width, which is useless in a file
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    return write(text)


def _glued(renderable: RenderableType) -> RenderableType:
    """A text in which numbers stay on the line of their units; other renderables are returned unchanged."""
    from rich.text import Text

    if hasattr(renderable, "__rich__"):
        renderable = renderable.__rich__()
    if isinstance(renderable, str):
        return glued(renderable)
    if not isinstance(renderable, Text):
        return renderable
    made = renderable.copy()
    made.plain = glued(made.plain)
    return made


def show_json(value: Any) -> None:
    """Print one JSON object on stdout: on one line, for machines."""
    write(json.dumps(value) + "\n")


def write(text: str) -> bool:
    """Write to stdout. False if the reader has closed the pipe; InputError if the disk is full."""
    if sys.stdout is None:
        return True
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # a terminal that lacks the character gets a similar one
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.translate(ASCII).encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        silence_stdout()
        if not isinstance(error, BrokenPipeError):
            rule = f"it cannot be written: {error.strerror}"
            raise InputError(Problem("stdout", rule, remedy=write_remedy(error, ""))) from None
        return False
    return True


def silence_stdout() -> None:
    """Redirect stdout to nowhere, because Python flushes it at exit and would report the earlier failure again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """A message on stderr."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # no output is left for the message
        return


def answer(value: Any) -> None:
    """Print the JSON object of a run that failed to start, and report it if that cannot be written either."""
    try:
        show_json(value)
    except InputError as error:
        note(f"error: {error}")


def refuse(error: InputError, *, as_json: bool) -> int:
    """Report why the input is refused, and return the exit code."""
    if as_json:
        answer({"status": "refused", "problems": [_plain(problem) for problem in error.problems]})
    for line in str(error).split("\n"):
        note(f"error: {line}")
    return REFUSED


def _plain(problem: Problem) -> dict[str, Any]:
    """A problem as JSON: the fields that it has, and the `message` that people read."""
    plain: dict[str, Any] = {"where": problem.where, "field": problem.field, "rule": problem.rule}
    value = problem.value
    if value is not ABSENT:
        short = (isinstance(value, int) and value.bit_length() < 64) or (isinstance(value, str) and len(value) < 1000)
        plain["value"] = value if short or value is None else shown(value)
    return {**plain, "remedy": problem.remedy, "message": str(problem)}
