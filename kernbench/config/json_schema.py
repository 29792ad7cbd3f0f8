"""The JSON Schema of a machine, made from the models of `schema.py`."""

from __future__ import annotations

from typing import Any

from kernbench.config.schema import NpuConfig


def machine_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `kernbench/npu/1`.

    Rules between fields are not in it; `load_config` checks them too.
    """
    schema = NpuConfig.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "kernbench machine, one NPU"}
