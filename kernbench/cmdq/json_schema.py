"""The JSON Schema of a CMDQ program, made from the table of `opcodes.py`."""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.opcodes import ENTRY_FIELDS, MAX_INT, META_FIELDS, OPCODES, RESERVED_PREFIX, FieldSpec, OpcodeSpec
from kernbench.cmdq.program import VERSION
from kernbench.common.errors import ABSENT

_ID = {"type": "integer", "minimum": 0, "maximum": MAX_INT}


def program_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a program. Rules that need other entries or a machine are not in it.

    >>> from kernbench.cmdq import program_json_schema
    >>> sorted(program_json_schema()["required"])
    ['cmdq', 'metadata']
    """
    metadata = {
        "type": "object",
        "properties": {"version": {"const": VERSION}, "name": {"type": "string"}},
        "required": ["version"],
        "additionalProperties": False,
    }
    branches = [
        {"if": {"properties": {"opcode": {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}} for name in OPCODES
    ]
    entry = {
        "type": "object",
        "required": ["opcode"],
        "properties": {"opcode": {"enum": list(OPCODES)}},
        "allOf": branches,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernbench CMDQ program",
        "type": "object",
        "properties": {"metadata": metadata, "cmdq": {"type": "array", "items": {"$ref": "#/$defs/entry"}}},
        "required": ["metadata", "cmdq"],
        "additionalProperties": False,
        "$defs": {"entry": entry, **{name: _opcode_schema(spec) for name, spec in OPCODES.items()}},
    }


def _opcode_schema(spec: OpcodeSpec) -> dict[str, Any]:
    grouped = {name for group in spec.alternatives for name in group}
    own = {field.name: field for field in (*META_FIELDS, *ENTRY_FIELDS, *spec.fields)}
    schema = _mapping(own.values(), grouped)
    schema["description"] = spec.doc
    schema["properties"]["opcode"] = {"const": spec.name}
    schema["patternProperties"] = {f"^{RESERVED_PREFIX}": True}
    if spec.alternatives:
        schema["oneOf"] = [_only(group, spec.alternatives) for group in spec.alternatives]
    return schema


def _only(group: tuple[str, ...], groups: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """All fields of this group, and no field of another group."""
    others = [name for other in groups if other != group for name in other]
    return {"required": list(group), "properties": dict.fromkeys(others, False)}


def _mapping(fields: Any, grouped: set[str]) -> dict[str, Any]:
    fields = list(fields)
    return {
        "type": "object",
        "properties": {field.name: _field_schema(field) for field in fields},
        "required": [field.name for field in fields if field.default is ABSENT and field.name not in grouped],
        "additionalProperties": False,
    }


def _field_schema(field: FieldSpec) -> dict[str, Any]:
    schema: dict[str, Any]
    if field.kind == "int":
        schema = {"type": "integer", "minimum": field.low, "maximum": MAX_INT}
    elif field.kind == "choice":
        schema = {"enum": list(field.choices)}
    elif field.kind == "text":
        schema = {"type": "string"}
    elif field.kind == "label":
        schema = {"anyOf": [{"type": "string"}, _ID]}
    elif field.kind == "ids":
        schema = {"type": "array", "items": _ID}
    elif field.kind == "range":
        schema = _mapping(field.fields, set())
    else:
        schema = {}
    schema["description"] = field.doc
    if field.default not in (ABSENT, None):
        schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    return schema
