"""JSON Schemas of machines, made from their models."""

from __future__ import annotations

from typing import Any

from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig


def machine_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `kernbench/npu/1`.

    Rules between fields are not in it; `load_config` checks them too.
    """
    return _schema(NpuConfig, "kernbench machine, one NPU")


def system_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `kernbench/system/1`, without the rules between fields."""
    return _schema(SystemConfig, "kernbench system of SIPs, cubes and PEs")


def _schema(kind: type[MachineConfig], title: str) -> dict[str, Any]:
    schema = kind.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
