"""What leaves the process: text and JSON on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from kernbench.common.errors import ABSENT, InputError, Problem, shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

OK, REFUSED, INTERRUPTED = 0, 2, 130
ENDINGS = {"running": 0, "done": 0, "aborted": 3, "deadlock": 4, "failed": 5}  #: status of a run: exit code


def console(stream: TextIO) -> Console:
    """A console as wide as the terminal (80 where there is none), colourful only on one, and without colours by NO_COLOR."""
    from rich.console import Console

    return Console(file=stream, highlight=False, emoji=False, markup=False)


def show(renderables: Iterable[RenderableType]) -> None:
    """Print for a person, on stdout."""
    target = console(sys.stdout)
    with target.capture() as capture:
        for renderable in renderables:
            target.print(renderable)
    text = capture.get()
    if not target.is_terminal:  # tables are padded to their width: of no use in a file
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    write(text)


def show_json(value: Any) -> None:
    """Print one JSON object on stdout: on one line, for machines."""
    write(json.dumps(value) + "\n")


def write(text: str) -> None:
    """Write to stdout; a reader that has gone away is no error, a full disk is one (InputError)."""
    if sys.stdout is None:
        return
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:  # a terminal that cannot show it gets question marks
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        silence_stdout()
        if not isinstance(error, BrokenPipeError):
            raise InputError(Problem("stdout", f"it cannot be written: {error.strerror}")) from None


def silence_stdout() -> None:
    """Let stdout lead nowhere: Python flushes it once more at its end, and would complain of what failed before."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """A message on stderr."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # nowhere is left to say it
        return


def refuse(error: InputError, *, as_json: bool) -> int:
    """Say why the input is refused; the exit code."""
    if as_json:
        try:
            show_json({"status": "refused", "problems": [_plain(problem) for problem in error.problems]})
        except InputError as unwritable:
            error = unwritable
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
