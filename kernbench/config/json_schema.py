"""The JSON Schema of a machine, made from the models of `schema.py`; `npu1.schema.json` is a copy for editors."""

from __future__ import annotations

import json
import sys
from typing import Any

from kernbench.config.schema import NpuConfig


def machine_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `kernbench/npu/1`.

    Rules between fields are not in it; `load_config` checks them too.
    """
    schema = NpuConfig.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "kernbench machine, one NPU"}


if __name__ == "__main__":  # python -m kernbench.config.json_schema > kernbench/config/npu1.schema.json
    json.dump(machine_json_schema(), sys.stdout, indent=1)
    sys.stdout.write("\n")
