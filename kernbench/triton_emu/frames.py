"""The line of a kernel that calls a function of `tl`, for the functions that are compiled."""

from __future__ import annotations

import sys
from types import FrameType

from kernbench.triton_emu.errors import LINES, line_of

_COMPILED = not __file__.endswith(".py")
_LINES = LINES


def caller() -> FrameType:
    """The frame of the kernel's code that called the calling function."""
    if _COMPILED:
        return kb_frame()  # type: ignore[name-defined, no-any-return]  # noqa: F821  # of frames.h
    return sys._getframe(2)


def line_at(frame: FrameType) -> str:
    """The current source line of a frame: a faster form of `line_of`."""
    if _COMPILED:
        at = kb_instruction(frame)  # type: ignore[name-defined]  # noqa: F821
        found = kb_line(at)  # type: ignore[name-defined]  # noqa: F821
        if found is None:
            found = line_of(frame)
            kb_keep_line(at, found)  # type: ignore[name-defined]  # noqa: F821
        return found  # type: ignore[no-any-return]
    found = _LINES.get(id(frame.f_code) + frame.f_lasti)
    return line_of(frame) if found is None else found
