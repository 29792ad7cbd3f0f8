"""Source lines of kernels: each file's own, also where two files have the same code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType

from kernbench.triton_emu.errors import line_of

SOURCE = "def kernel(ask):\n    return ask()\n"


def _kernel(file: str) -> Callable[[Callable[[], str]], str]:
    found: dict[str, Callable[[Callable[[], str]], str]] = {}
    exec(compile(SOURCE, file, "exec"), found)
    return found["kernel"]


def _ask() -> str:
    return line_of(sys._getframe(1))


def test_equal_code_of_two_files_is_told_apart() -> None:
    """Python calls code objects equal that differ in their file alone."""
    one, other = _kernel("folder/one.py"), _kernel("folder/other.py")
    code: list[CodeType] = [one.__code__, other.__code__]
    assert code[0] == code[1]
    assert [one(_ask), other(_ask), one(_ask)] == ["one.py:2", "other.py:2", "one.py:2"]
