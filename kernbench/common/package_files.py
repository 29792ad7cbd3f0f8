"""Files of the package. `importlib.resources` would find them too, and imports much for it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def package_folder(package: str) -> Path:
    """The directory of a package: `kernbench.configs`. ModuleNotFoundError if there is none."""
    return Path(next(iter(import_module(package).__path__)))
