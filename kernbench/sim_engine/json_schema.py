"""The JSON Schema of a result (`Result.to_dict`), of `kbsim run --json` and of `kbsim step --json`."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.opcodes import OPCODES
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.sim_engine.state import CHANNELS, DMA_STATES, STALLS

COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
ID = COUNT
CYCLE: dict[str, Any] = {"type": ["integer", "null"], "minimum": 0}
TEXT: dict[str, Any] = {"type": "string"}
LINE: dict[str, Any] = {"type": ["string", "null"], "description": "of a kernel"}
RATE: dict[str, Any] = {
    "type": "string",
    "pattern": "^[0-9]+(/[0-9]+)?$",
    "description": "[byte/cycle] p or p/q",
}


def _object(properties: dict[str, Any], optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """An object that has these keys, and no others but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **more}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _counters() -> dict[str, Any]:
    use = {"jobs": COUNT, "busy": COUNT, "idle": COUNT}
    compute = {**use, "stalled": _object({"bank_conflict": COUNT})}
    stalled = _object({"backpressure": COUNT, "bank_conflict": COUNT})
    dma = _object({**use, "stalled": stalled, "queue_full": COUNT, "priority_deferred": COUNT, "bytes": COUNT})
    resource = _object({"bytes": COUNT, "busy": COUNT, "member_cycles": COUNT})
    banks = _list(COUNT)
    return {
        "type": "object",
        "description": "MODEL section 10: cycles, and job-cycles of queue_full and priority_deferred",
        "properties": {"spm": _object({"requests": banks, "grants": banks, "denials": banks})},
        "required": ["spm"],
        "patternProperties": {
            "^dma[0-9]+$": dma,
            "^te[0-9]+$": _object({**compute, "macs": COUNT}),
            "^ve[0-9]+$": _object({**compute, "ops": COUNT}),
            "^dram\\.ch[0-9]+$": resource,
            "^noc\\.r[0-9]+c[0-9]+-r[0-9]+c[0-9]+$": resource,
        },
        "additionalProperties": False,
    }


def _metrics() -> dict[str, Any]:
    bounds = {
        "type": "object",
        "description": "[cycle] lower bounds: the largest, its name, and each by the name of what it is of",
        "properties": {"cycles": COUNT, "limit": TEXT, "critical_path": COUNT},
        "required": ["cycles", "limit", "critical_path"],
        "additionalProperties": COUNT,
    }
    parts = ("dram", "mac", "noc", "spm", "static", "total", "ve")
    energy = _object({name: {"type": "number", "minimum": 0} for name in parts}, description="[pJ]")
    return {
        "type": "object",
        "properties": {"bounds": bounds, "energy_pj": energy},
        "required": ["bounds", "energy_pj"],
    }


def _job() -> dict[str, Any]:
    """A transfer (`JobState`) and its flows."""
    flow = _object(
        {
            "channel": TEXT,
            "bytes_left": COUNT,
            "rate": RATE,
            "held_since": CYCLE,
            "waits": {"enum": ["bank", "backpressure", "line", None]},
        }
    )
    return _object(
        {
            "id": ID,
            "opcode": {"enum": list(OPCODES)},
            "state": {"enum": list(DMA_STATES)},
            "channel": {"enum": list(CHANNELS)},
            "bytes": COUNT,
            "bytes_left": COUNT,
            "rate": RATE,
            "stall": {"enum": list(STALLS)},
            "stalled_since": CYCLE,
            "joins_at": CYCLE,
            "flows": _list(flow),
            "line": LINE,
        }
    )


def _engine() -> dict[str, Any]:
    """One engine of `kbsim step --json` (`EngineState`)."""
    return _object(
        {
            "name": TEXT,
            "activity": {"enum": ["idle", "busy", "bank_conflict", "backpressure"]},
            "jobs": _list(_job()),
            "queue": _list(ID),
            "queue_stalls": _list({"enum": list(STALLS)}),
            "queue_since": _list(CYCLE),
            "entry": CYCLE,
            "opcode": {"enum": [*OPCODES, None]},
            "started": CYCLE,
            "body_left": CYCLE,
            "held_since": CYCLE,
            "next_event": CYCLE,
            "line": LINE,
        }
    )


def result_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a result.

    `engines` stands in what `kbsim step` prints, `deadlock` and `failure` after such an end.
    """
    opcode = {"enum": list(OPCODES)}
    broken = {"code": {"const": "COMPONENT"}, "cycle": COUNT, "component": TEXT, "message": TEXT, "traceback": TEXT}
    plugged = {"jobs": COUNT, "bytes": COUNT, "held": COUNT}
    overlap = {"code": {"const": "OVERLAP"}, "cycle": COUNT, "entry": ID, "with": ID, "message": TEXT}
    wait = {"id": ID, "opcode": opcode, "waits_for": _list(ID), "since": COUNT, "reason": TEXT}
    properties = {
        "status": {"enum": ["done", "aborted", "deadlock", "failed", "running"]},
        "cycles": COUNT,
        "t_ns": {"type": "number", "minimum": 0},
        "model_version": {"const": MODEL_VERSION},
        "program": TEXT,
        "machine": TEXT,
        "entries": _list(_object({"id": ID, "opcode": opcode, "issue": CYCLE, "start": CYCLE, "end": CYCLE})),
        "counters": _counters(),
        "metrics": _metrics(),
        "warnings": _list(_object(overlap)),
        "deadlock": _list(_object(wait)),
        "components": {"type": "object", "additionalProperties": _object(plugged)},
        "failure": {"oneOf": [_object(overlap), _object(broken, ("traceback",))]},
        "engines": _list(_engine()),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernbench result",
        **_object(properties, ("deadlock", "components", "failure", "engines")),
        "allOf": [
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": {"required": [key]},
                "else": {"properties": {key: False}},
            }
            for status, key in (("deadlock", "deadlock"), ("failed", "failure"))
        ],
    }
