"""Hashes of Python sources, so that a changed bench gives new points. A hash covers the bench's file and the modules in its
folder that it imports."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import SOURCE_BYTES, read_bounded
from kernbench.config import MachineConfig
from kernbench.config.system.parts import BUILTIN


def source_digest(path: Path) -> str:
    """SHA-256 over the text of a module and of the modules in its folder that it imports, directly or indirectly."""
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


def component_digests(config: MachineConfig) -> list[str]:
    """Digests of the Python code that a machine names as components, by kind. InputError if the code is not allowed or does not
    exist.
    """
    return [f"{kind} {_digest(file)}" for kind, file in _code_of(config)]


def check_code(config: MachineConfig) -> None:
    """InputError if a machine names Python code that is not allowed or does not exist; nothing is imported."""
    for _ in _code_of(config):
        pass


def _code_of(config: MachineConfig) -> Iterator[tuple[str, str | None]]:
    """The kinds for which a machine has code, and the files of this code."""
    for kind, spec in sorted(config.components.items()):  # type: ignore[attr-defined]  # both kinds have it
        if spec.impl == BUILTIN:
            continue

        def refused(rule: str, remedy: str, field: str = f"components.{kind}.impl", impl: str = spec.impl) -> InputError:
            return InputError(Problem(config.where(field), rule, field, impl, remedy))

        yield kind, config.allowed_code.origin(spec.impl.partition(":")[0], refused)


@lru_cache(maxsize=64)
def _digest(file: str | None) -> str:
    return "" if file is None or not file.endswith(".py") else source_digest(Path(file))


def _text(path: Path) -> bytes:
    return read_bounded(path, SOURCE_BYTES)


def _beside(text: bytes, folder: Path) -> Iterator[Path]:
    """Files of a folder that a module may import; every part of an imported name is looked up."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # the import reports the error
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        for part in dict.fromkeys(part for name in names for part in name.split(".")):
            for path in (folder / f"{part}.py", folder / part / "__init__.py"):
                if part and os.path.isfile(path):
                    yield path
