"""User-defined components of a machine: how they are named, found and given their jobs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.components.registry import load_component
    from kernbench.components.replacements import impl_of, replaced_engines

__all__ = ["impl_of", "load_component", "replaced_engines"]

_HOMES = {"impl_of": "replacements", "load_component": "registry", "replaced_engines": "replacements"}


def __getattr__(name: str) -> Any:
    """Names are imported on first use: a program on one NPU needs none of these components."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kernbench.components' has no attribute {name!r}")
    return getattr(import_module(f"kernbench.components.{_HOMES[name]}"), name)
