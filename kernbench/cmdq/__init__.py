"""Command queue programs: read, build, check and inspect them."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernbench.cmdq.parse import load_program
from kernbench.cmdq.plan import check_program
from kernbench.cmdq.program import Entry, Program

if TYPE_CHECKING:
    from kernbench.cmdq.json_schema import program_json_schema

__all__ = ["Entry", "Program", "check_program", "load_program", "program_json_schema"]
_MOVED = ("Bounds", "ProgramSummary", "lower_bounds", "summarise")


def __getattr__(name: str) -> Any:
    """`program_json_schema`, which most runs do not need, and names from before version 0.2."""
    if name == "program_json_schema":
        return import_module("kernbench.cmdq.json_schema").program_json_schema
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"kernbench.cmdq.{name} is now kernbench.bounds.{name}", DeprecationWarning, stacklevel=2)
    return getattr(import_module("kernbench.bounds"), name)
