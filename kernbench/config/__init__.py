"""Machines: YAML or JSON to a checked, frozen `NpuConfig`."""

from kernbench.config.json_schema import machine_json_schema
from kernbench.config.load import load_config, preset_names
from kernbench.config.schema import NpuConfig

__all__ = ["NpuConfig", "load_config", "machine_json_schema", "preset_names"]
