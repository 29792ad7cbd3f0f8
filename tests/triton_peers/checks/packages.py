"""Packages of which only some modules are wanted: their `__init__` asks for a GPU or for compiled code."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def bare_package(name: str, folder: Path) -> None:
    """A package whose modules can be imported, and whose `__init__` has not run."""
    made = ModuleType(name)
    made.__path__ = [str(folder)]
    sys.modules[name] = made


def stand_in(name: str, **names: Any) -> None:
    """A module with these names instead of the one of the library."""
    made = ModuleType(name)
    made.__dict__.update(names)
    sys.modules[name] = made
