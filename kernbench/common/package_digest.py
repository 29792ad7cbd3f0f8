"""The hash of the Python sources of packages: cached data depends on the code that made it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kernbench.common.files import SOURCE_BYTES, read_bounded


@cache
def package_digest(*modules: str) -> str:
    """SHA-256 of all Python files of some packages or modules; none of them is imported."""
    digest = hashlib.sha256()
    for module in modules:
        for path in _files(module):
            digest.update(f"{module} {path.name}\n".encode() + read_bounded(path, SOURCE_BYTES))
    return digest.hexdigest()


def _files(module: str) -> list[Path]:
    spec = find_spec(module)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [] if spec.origin is None else [Path(spec.origin)]
    return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py"))
