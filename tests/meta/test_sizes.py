"""Size budgets: about 60 lines for a .pxd, 400 for a .pyx, 350 for a .py, 40 for a function; what is over them says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.source import cython_functions, files, name, needs_source, python_functions

pytestmark = needs_source
FILE_LINES = {".pxd": 60, ".pyx": 400, ".py": 350}
FUNCTION_LINES = 40

INLINE = "small hot functions stand in the .pxd: Cython inlines across files only from there"
STRUCTS = "one struct a table, a comment a field: splitting it would part what is read together"
#: file: (most lines, why)
LARGE_FILES = {
    "kernbench_core/bank.pxd": (130, INLINE),
    "kernbench_core/tally.pxd": (75, INLINE),
    "kernbench_core/record_walk.pxd": (85, INLINE),
    "kernbench_core/walk.pxd": (85, INLINE),
    "kernbench_core/compute.pxd": (135, INLINE),
    "kernbench_core/events.pxd": (140, STRUCTS),
    "kernbench_core/heap.pxd": (80, INLINE),
    "kernbench_core/dma.pxd": (100, STRUCTS),
    "kernbench_core/share.pxd": (125, STRUCTS),
    "kernbench_core/plug.pxd": (140, STRUCTS),
    "kernbench_core/sim.pxd": (130, STRUCTS),
}
#: (file, function): (most lines, why)
LARGE_FUNCTIONS: dict[tuple[str, str], tuple[int, str]] = {
    ("kernbench_core/layout.pyx", "lay_out"): (60, "the order of the tables is the form of a snapshot"),
    ("kernbench_core/layout.pyx", "lay_out_dma"): (50, "fills two tables, a line a field"),
    ("kernbench_core/narrow_traced.pyx", "walk_flow"): (50, "one loop from asking to moving, and what is told of it"),
    ("kernbench_core/scratchpad.pyx", "wide_ask"): (50, "one request from asking to moving, and what is told of it"),
}


def budgeted(path: Path) -> int:
    return LARGE_FILES.get(name(path), (FILE_LINES[path.suffix], ""))[0]


SOURCES = files("kernbench", "kernbench_core", "tests", "docs", suffixes=(".py", ".pyx", ".pxd"))


def test_files_keep_their_budget() -> None:
    over = [
        f"{name(path)}: {lines} lines, of {budgeted(path)}"
        for path in SOURCES
        if (lines := path.read_text(encoding="utf-8").count("\n")) > budgeted(path)
    ]
    assert not over, "split them, or say why in LARGE_FILES:\n" + "\n".join(over)


def functions(path: Path) -> list[tuple[str, int]]:
    return list(python_functions(path) if path.suffix == ".py" else cython_functions(path))


def test_functions_keep_their_budget() -> None:
    over = [
        f"{name(path)}: {function} has {lines} lines"
        for path in files("kernbench", "kernbench_core", "docs", suffixes=(".py", ".pyx", ".pxd"))
        for function, lines in functions(path)
        if lines > LARGE_FUNCTIONS.get((name(path), function), (FUNCTION_LINES, ""))[0]
    ]
    assert not over, "split them, or say why in LARGE_FUNCTIONS:\n" + "\n".join(over)


def test_exceptions_are_still_needed() -> None:
    by_name = {name(path): path for path in SOURCES}
    for file, (_, why) in LARGE_FILES.items():
        assert why and by_name[file].read_text(encoding="utf-8").count("\n") > FILE_LINES[by_name[file].suffix], file
    for (file, function), (_, why) in LARGE_FUNCTIONS.items():
        assert why and dict(functions(by_name[file]))[function] > FUNCTION_LINES, (file, function)


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".pyx", "cdef int f(int a,\n           int b) noexcept nogil:\n    a += b\n\n    return a\n\n\nx = 1\n", [("f", 5)]),
        (".pyx", "cdef class C:\n    def g(self):\n        x\n    cdef int h(self):\n        y\n", [("g", 2), ("h", 2)]),
        (".pxd", "cdef void f(int a) noexcept nogil\ncdef inline int g() noexcept nogil:\n    return 1\n", [("g", 2)]),
        (".py", "def f():\n    return 1\n", [("f", 2)]),
    ],
)
def test_functions_are_measured(tmp_path: Path, suffix: str, text: str, found: list[tuple[str, int]]) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_text(text, encoding="utf-8")
    assert functions(path) == found
