"""Spin loops: loops of a kernel that only repeat one atomic op until another program changes the value that the op reads."""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType, FrameType
from typing import NamedTuple

#: Instructions that change no variable: they read names, compute, or jump. All instructions that begin with LOAD_ are too.
_PURE = {
    "BINARY_OP", "CACHE", "CALL", "COMPARE_OP", "EXTENDED_ARG", "IS_OP", "KW_NAMES", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL",
    "TO_BOOL", "UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT",
}  # fmt: skip


class Attempt(NamedTuple):
    """The last atomic op of a program on one known element."""

    frame: int  #: id() of the frame of the kernel
    place: tuple[int | None, ...]  #: lines and columns of the call in the source
    old: int  #: the element that the op found
    tiles: int  #: the number of the program's last tile after the op
    scalar_ops: int  #: of the PE so far

    def comes_again(self, frame: FrameType) -> bool:
        """Whether the kernel has since evaluated only a condition, after which the same call runs again.

        The loop changes no variable, so an equal result leads to the call once more.
        """
        return self.frame == id(frame) and self.place == place_of(frame) and _only_repeats(frame.f_code, frame.f_lasti)


def place_of(frame: FrameType) -> tuple[int | None, ...]:
    """Return the lines and the columns of the call that a frame is in."""
    return _place(frame.f_code, frame.f_lasti)


@cache
def _place(code: CodeType, at: int) -> tuple[int | None, ...]:
    return tuple(code.co_positions())[at // 2]


@cache
def _only_repeats(code: CodeType, at: int) -> bool:
    """Return whether the innermost loop around an instruction only repeats one call, the one of this instruction."""
    if None in _place(code, at):
        return False
    steps = list(dis.get_instructions(code))
    jumps = (dis.hasjrel, dis.hasjabs)
    ends = [one for one in steps if one.offset > at and any(one.opcode in some for some in jumps) and one.argval <= at]
    if not ends:
        return False
    last = ends[0]
    inside = [one for one in steps if last.argval <= one.offset <= last.offset]
    calls = [one for one in inside if one.opname.startswith("CALL") and one.offset <= at]
    return (
        len([one for one in inside if one.opname.startswith("CALL")]) == len(calls) == 1
        and all(_is_pure(one) or (any(one.opcode in some for some in jumps) and one.argval >= last.argval) for one in inside)
    )


def _is_pure(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD_") or step.opname in _PURE
