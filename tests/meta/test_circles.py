"""No module needs one that needs it: in the package by what is imported as modules load, in the core by what is cimported."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.meta.source import ROOT, cython_code, files, needs_source

pytestmark = needs_source
CIMPORT = re.compile(r"^[ \t]*(?:from\s+([\w.]+)\s+cimport\s+(\([^)]*\)|[^\n]*)|cimport\s+([^\n]*))", re.MULTILINE)


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def loaded(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is loaded: not those of functions, nor those for type checkers."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from loaded(node.body)
            yield from loaded(node.orelse)
        elif isinstance(node, ast.Try):
            yield from loaded(node.body + node.orelse + [one for handler in node.handlers for one in handler.body])


def python_graph() -> dict[str, set[str]]:
    """By module of the package those that it loads."""
    paths = {module_of(path): path for path in files("kernbench", suffixes=(".py",))}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        needs = graph.setdefault(module, set())
        for node in loaded(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.Import):
                needs |= {alias.name for alias in node.names}
                continue
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # of `from a import b` where b is a module, Python loads a first; only a package's own file may be half loaded
            needs |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in paths else base for alias in node.names}
        needs &= set(paths) - {module}
    return graph


def cython_graph() -> dict[str, set[str]]:
    """By module, `.pyx` and `.pxd` together, those that it cimports."""
    paths = files("kernbench_core", "kernbench", suffixes=(".pyx", ".pxd"))
    graph: dict[str, set[str]] = {module_of(path): set() for path in paths}
    for path in paths:
        graph[module_of(path)] |= (set(cimported(cython_code(path), module_of(path))) & set(graph)) - {module_of(path)}
    return graph


def cimported(text: str, module: str) -> Iterator[str]:
    """The modules that a Cython text names: of `from a cimport b` both `a` and `a.b`; dots are of the package of `module`."""
    for match in CIMPORT.finditer(text):
        names = [one.split(" as ")[0].strip() for one in (match[2] or match[3]).strip("()").split(",")]
        if match[1] is None:
            yield from names
            continue
        base = match[1].lstrip(".")
        above = module.split(".")[: -(len(match[1]) - len(base))] if base != match[1] else []
        whole = ".".join([*above, *([base] if base else [])])
        yield whole
        yield from (f"{whole}.{name}" for name in names)


@pytest.mark.parametrize("graph", [python_graph, cython_graph])
def test_no_circle(graph: Callable[[], dict[str, set[str]]]) -> None:
    found = graph()
    assert sum(map(len, found.values())) > 100
    try:
        list(TopologicalSorter(found).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_form_of_a_cimport_is_seen() -> None:
    absolute = "from a.b cimport c, d as e\ncimport f, g.h as i\n"
    relative = "from .j cimport (\n    k,\n    l\n)\nfrom . cimport m\nfrom ..n cimport o\n"
    seen = set(cimported(absolute + relative, "p.q.r"))
    assert {"a.b", "a.b.c", "a.b.d", "f", "g.h", "p.q.j", "p.q.j.k", "p.q.j.l", "p.q.m", "p.n", "p.n.o"} <= seen


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
