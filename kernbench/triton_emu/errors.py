"""The errors of kernels. Each of them ends the run as failed."""

from __future__ import annotations

import inspect
import os
import sysconfig
from types import CodeType, FrameType, TracebackType

from kernbench.common.errors import KernbenchError


class KernelError(KernbenchError):
    """A kernel requests something impossible; the message begins with the source line."""

    exit_code = 5


def check_ran(made: object, what: str) -> None:
    """KernelError if a function returned a generator or coroutine, whose code has not run."""
    if inspect.isgenerator(made) or inspect.iscoroutine(made):
        remedy = "make it a plain function (no yield, no async)"
        raise KernelError(f"{what} is a {type(made).__name__}, so nothing of it has run; {remedy}")


class StrictWaitError(KernelError):
    """Under strict waits: a kernel uses data that have not arrived, without a `tl.wait`."""


class ScratchpadFullError(KernelError):
    """There is no space for a tile, and no command in flight will free space."""


class PoisonError(KernelError):
    """A kernel reads scratchpad bytes that were never written."""


#: Source lines by instruction. The key, which is different for any two instructions, is the `id()` of the code object plus the
#: offset in the code.
LINES: dict[int, str] = {}
_CODES: dict[int, CodeType] = {}  # the code objects of these lines: held, so that their ids stay theirs
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib", "stdlib", "platstdlib"))
_SIMULATOR = ("kernbench", "kernbench_core")


def line_of(frame: FrameType) -> str:
    """The current source line of a frame. The same instruction of a frame is always at the same line."""
    code = frame.f_code
    key = id(code) + frame.f_lasti
    found = LINES.get(key)
    if found is None:
        _CODES[id(code)] = code
        found = LINES[key] = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return found


def kernel_line(frame: FrameType | None) -> str:
    """The line of the innermost frame that is not of this package; empty if there is none."""
    while frame is not None:
        if not os.path.abspath(frame.f_code.co_filename).startswith(_OWN):
            return line_of(frame)
        frame = frame.f_back
    return ""


def users_frame(frame: FrameType | None) -> FrameType | None:
    """From a frame outwards the first of a user's code: neither of the simulator nor, if there is another, of a library."""
    library = None
    while frame is not None:
        if not _is_simulator(frame):
            if not _is_library(frame):
                return frame
            library = library or frame
        frame = frame.f_back
    return library


HANDLER = "kernbench.cli.signals"  #: the module that raises interrupts, wherever they come


def raised_line(frames: TracebackType | None) -> str:
    """The line of a user's code, as `users_frame` finds it, that an exception passed last; of none the simulator's own."""
    users = library = last = None
    while frames is not None:
        if frames.tb_frame.f_globals.get("__name__") != HANDLER:
            last = frames
        if not _is_simulator(frames.tb_frame):
            library = frames
            if not _is_library(frames.tb_frame):
                users = frames
        frames = frames.tb_next
    found = users or library or last
    return "" if found is None else f"{os.path.basename(found.tb_frame.f_code.co_filename)}:{found.tb_lineno}"


def _is_simulator(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _SIMULATOR


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(("<frozen", *_LIBRARIES))
