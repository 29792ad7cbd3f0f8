"""Source lines of kernels: each file's own, also where two files have the same code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import kernbench as kb
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


def test_each_call_of_tl_has_its_own_line() -> None:
    """A kernel with more calls than compiled code remembers lines of, and several calls on one line."""
    calls = 700
    source = "def kernel(tl):\n" + "    tl.wait(tl.zeros((4,), 'f32')); tl.wait(tl.full((4,), 1, 'f32'))\n" * calls
    found: dict[str, Callable[[Any], None]] = {}
    exec(compile(source, "folder/long.py", "exec"), found)

    @kb.bench(name="long", description="a long kernel")
    def long(ctx: Any) -> None:
        for _ in range(2):
            ctx.launch("long", found["kernel"], grid=1)

    engine = kb.GraphEngine("single_cube")
    assert engine.run(long).status == "done"
    lines = [record.params["line"] for record in engine.op_log]
    assert lines == [f"long.py:{2 + number}" for _ in range(2) for number in range(calls) for _ in range(2)]
