"""Source lines of kernels, as records and errors name them: `kernel.py:12`."""

from __future__ import annotations

import os
from types import CodeType, FrameType

_LINES: dict[tuple[int, int], tuple[str, CodeType]] = {}  # by a code's id(): it is held, so that is no other's
_OWN = os.path.dirname(os.path.abspath(__file__))


def caller_of(file: str) -> int:
    """How many frames above that of a function of this module its caller's is: compiled functions have none of their own."""
    return 1 if file.endswith(".py") else 0


def line_of(frame: FrameType) -> str:
    """The line that a frame stands at. A frame stands at the same line whenever it is at the same instruction."""
    code = frame.f_code
    key = (id(code), frame.f_lasti)
    found = _LINES.get(key)
    if found is None:
        found = _LINES[key] = (f"{os.path.basename(code.co_filename)}:{frame.f_lineno}", code)
    return found[0]


def kernel_line(frame: FrameType | None) -> str:
    """The line of the innermost frame that is not of this package; empty where there is none."""
    while frame is not None:
        if os.path.dirname(os.path.abspath(frame.f_code.co_filename)) != _OWN:
            return line_of(frame)
        frame = frame.f_back
    return ""
