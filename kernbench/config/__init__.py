"""Machines: YAML or JSON files, read as a checked, frozen `NpuConfig` or `SystemConfig`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernbench.config.load import board_names, chip_names, load_config, machine_names, preset_names
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig

if TYPE_CHECKING:
    from kernbench.config.json_schema import machine_json_schema, system_json_schema

__all__ = [
    "MachineConfig",
    "NpuConfig",
    "SystemConfig",
    "board_names",
    "chip_names",
    "load_config",
    "machine_json_schema",
    "machine_names",
    "preset_names",
    "system_json_schema",
]


def __getattr__(name: str) -> Any:
    """The functions of `json_schema`, which most runs do not need."""
    if name not in ("machine_json_schema", "system_json_schema"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kernbench.config.json_schema"), name)
