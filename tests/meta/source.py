"""What the rules of the house are checked on: the project's files, and code without its comments and texts."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("kernbench", "kernbench_core", "configs", "benches", "tests", "docs")
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".yaml", ".md", ".sh", ".toml")
GENERATED = {"_build", "_generated", "__pycache__"}

#: Installed builds are tested with the tests alone beside them.
needs_source = pytest.mark.skipif(not (ROOT / "kernbench" / "version.py").exists(), reason="the source tree is not here")

_STRING = re.compile(r'"""(?:.|\n)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*')


def files(*folders: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """The project's own files, in order."""
    found = [path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    if not folders:
        found += [path for path in ROOT.iterdir() if path.suffix in suffixes or path.name == "Makefile"]
    return sorted(path for path in found if not GENERATED & set(path.parts))


def name(path: Path) -> str:
    """A file as messages name it."""
    return path.relative_to(ROOT).as_posix()


def matches(paths: list[Path], pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """(file:line, match) of every match."""
    for path in paths:
        for i, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            yield from ((f"{name(path)}:{i}", match) for match in pattern.finditer(line))


def cython_code(path: Path) -> str:
    """A Cython file without texts and comments; lines stay where they are."""
    return _STRING.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))


@functools.cache  # several rules ask for those of all files
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, module) of every import of a Python file, wherever it stands; of `from a import b` both `a` and `a.b`."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
