"""Hashes of Python sources, so that a bench that was changed is another point: its file and what it imports from beside it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from kernbench.common.errors import InputError, Problem


def source_digest(path: Path) -> str:
    """SHA-256 over a module's text and those of the modules in its folder that it imports, and they in turn."""
    folder = path.resolve().parent
    found: dict[str, bytes] = {}
    waiting = [path.resolve()]
    while waiting:
        one = waiting.pop()
        name = one.relative_to(folder).as_posix()
        if name in found:
            continue
        found[name] = _text(one)
        waiting += _beside(found[name], folder)
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name} {len(found[name])}\n".encode() + found[name])
    return digest.hexdigest()


def package_digest(*modules: str) -> str:
    """SHA-256 over all Python files of some packages or modules; none of them is imported anew."""
    digest = hashlib.sha256()
    for module in modules:
        for path in _files(module):
            digest.update(f"{module} {path.name}\n".encode() + _text(path))
    return digest.hexdigest()


@lru_cache(maxsize=64)
def component_digest(impl: str) -> str:
    """Of the module that a machine's `impl` names (`package.module:Class`); empty where there is none: the run refuses it."""
    module = impl.partition(":")[0]
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return ""
    return "" if spec is None or spec.origin is None or not spec.origin.endswith(".py") else source_digest(Path(spec.origin))


def _files(module: str) -> list[Path]:
    spec = find_spec(module)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [] if spec.origin is None else [Path(spec.origin)]
    return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py"))


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(Problem(str(path), f"it cannot be read: {error.strerror}")) from None


def _beside(text: bytes, folder: Path) -> Iterator[Path]:
    """Files of a folder that a module may import: every part of an imported name is looked for."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # importing it says what is wrong
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        for part in dict.fromkeys(part for name in names for part in name.split(".")):
            for path in (folder / f"{part}.py", folder / part / "__init__.py"):
                if part and path.is_file():
                    yield path
