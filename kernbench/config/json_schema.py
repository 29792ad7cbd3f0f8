"""JSON Schemas of machines, made from their models."""

from __future__ import annotations

from typing import Any

from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig


def machine_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `kernbench/npu/1`. Rules between keys are not in it; `load_config` checks them.

    >>> from kernbench.config import machine_json_schema
    >>> machine_json_schema()["properties"]["schema"]["const"]
    'kernbench/npu/1'
    """
    return _schema(NpuConfig, "kernbench machine, one NPU")


def system_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `kernbench/system/1`, without the rules between keys.

    >>> from kernbench.config import system_json_schema
    >>> system_json_schema()["properties"]["schema"]["const"]
    'kernbench/system/1'
    """
    return _schema(SystemConfig, "kernbench system of SIPs, cubes and PEs")


def _schema(kind: type[MachineConfig], title: str) -> dict[str, Any]:
    schema = kind.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
