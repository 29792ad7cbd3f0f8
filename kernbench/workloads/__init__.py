"""Workloads: models lowered to CMDQ programs for a machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.workloads.layer.decoder import decoder_layer
    from kernbench.workloads.models import LLAMA_2_7B

__all__ = ["LLAMA_2_7B", "decoder_layer"]

_HOMES = {"decoder_layer": "kernbench.workloads.layer.decoder", "LLAMA_2_7B": "kernbench.workloads.models"}


def __getattr__(name: str) -> Any:
    """The planner is imported when a layer is made: the names of workloads are needed much more often."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kernbench.workloads' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
