"""Machines: YAML or JSON to a checked, frozen `NpuConfig` or `SystemConfig`."""

from kernbench.config.json_schema import machine_json_schema, system_json_schema
from kernbench.config.load import board_names, chip_names, load_config, preset_names
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig

__all__ = [
    "MachineConfig",
    "NpuConfig",
    "SystemConfig",
    "board_names",
    "chip_names",
    "load_config",
    "machine_json_schema",
    "preset_names",
    "system_json_schema",
]
