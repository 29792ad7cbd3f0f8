"""The JSON Schema of a line of a trace, made from the table of events."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.opcodes import MAX_INT
from kernbench.trace.schema import BY_NAME, COMMON_FIELDS, EVENTS, VERSION, Event, Field

_INT = {"type": "integer", "minimum": 0, "maximum": MAX_INT}
_TEXT = {"type": "string"}
_KINDS: dict[str, dict[str, Any]] = {
    "int": _INT,
    "text": _TEXT,
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "label": {"anyOf": [_TEXT, _INT]},
    "ints": {"type": "array", "items": _INT},
    "texts": {"type": "array", "items": _TEXT},
    "object": {"type": "object"},
    "objects": {"type": "array", "items": {"type": "object"}},
}


def trace_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one line of a file of this very version. Rules for several lines together are not in the
    schema."""
    branches = [
        {"if": {"properties": {"event_type": {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}} for name in BY_NAME
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernbench trace {VERSION}, one line",
        "type": "object",
        "required": ["event_type", "t_cycle"],
        "properties": {"event_type": {"enum": list(BY_NAME)}},
        "allOf": branches,
        "$defs": {
            **{event.name: _event_schema(event) for event in EVENTS},
            **{field.name: _field_schema(field) for field in COMMON_FIELDS},
        },
    }


def _event_schema(event: Event) -> dict[str, Any]:
    own = {field.name: _field_schema(field) for field in event.fields}
    first, *common = (field.name for field in COMMON_FIELDS)  # t_cycle alone is always there
    shared = {name: {"$ref": f"#/$defs/{name}"} for name in common if name not in own}
    return {
        "type": "object",
        "description": f"{event.doc} Level {event.level}.",
        "properties": {"event_type": {"const": event.name}, first: {"$ref": f"#/$defs/{first}"}, **own, **shared},
        "required": ["event_type", first, *(field.name for field in event.fields if field.required)],
        "additionalProperties": False,
    }


def _field_schema(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = dict(_KINDS[field.kind])
    if field.choices:
        schema = {"enum": list(field.choices)}
    schema["description"] = f"[{field.unit}] {field.doc}" if field.unit else field.doc
    return schema
