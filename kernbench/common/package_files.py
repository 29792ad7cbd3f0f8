"""The files of the package. `importlib.resources` can find them too, but imports many modules."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def package_folder(package: str) -> Path:
    """The directory of a package: `kernbench.configs`. ModuleNotFoundError if the package does not exist."""
    return Path(next(iter(import_module(package).__path__)))
