"""How a failed command is reported: the status, message and exit code of the exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from kernbench.cli import output
from kernbench.common.errors import InputError, InternalError, KernbenchError, Problem, error_text
from kernbench.common.files import is_full, not_written

STATUSES = ("interrupted", "refused", "aborted", "failed", "internal error")


class Ending(msgspec.Struct, frozen=True):
    """Why a command ended."""

    status: str  #: `done`, or one of STATUSES
    message: str = ""
    code: int = output.OK


class Answered(Exception):
    """`__cause__` ended a command after its JSON object was printed, so no second object is printed."""


def known(error: BaseException) -> BaseException:
    """The error itself, or the error that a user should see instead."""
    if isinstance(error, MemoryError):
        return InputError(Problem("kbsim", f"there is not enough memory for this run: {error}"))
    if isinstance(error, OSError) and is_full(error):
        return not_written(error.filename or "a temporary file", error)
    return error


def ending_of(error: BaseException) -> Ending:
    """The status and exit code of an error, as JSON and the process report them."""
    error = known(error)
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted", "", output.INTERRUPTED)
    if isinstance(error, InputError):
        return Ending("refused", str(error), output.REFUSED)
    if isinstance(error, KernbenchError) and not isinstance(error, InternalError):
        return Ending("aborted" if error.exit_code == output.STOPPED else "failed", str(error), error.exit_code)
    return Ending("internal error", error_text(error).split("\n")[0], InternalError.exit_code)


@contextmanager
def answering(as_json: bool) -> Iterator[None]:
    """Context for a command that prints its JSON object first: a later exception is reported only on stderr."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if not as_json:
            raise
        raise Answered from error
