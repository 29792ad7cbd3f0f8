"""JSON Schemas of machines, made from their sections."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.section import JsonSchema, Rule, Section
from kernbench.config.system import SystemConfig


def machine_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `kernbench/npu/1`. The rules between keys are not in it; `load_config` checks them.

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


def _schema(kind: type[MachineConfig], title: str) -> JsonSchema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **section_json_schema(kind), "title": title}


def section_json_schema(kind: type[Section]) -> JsonSchema:
    """The JSON Schema of a section, with its subsections under `$defs`."""
    inside: dict[str, JsonSchema] = {}
    whole = _section(kind, inside)
    found: JsonSchema = _sorted({"$defs": dict(sorted(inside.items())), **whole})
    return found


def _sorted(schema: Any, named: bool = False) -> Any:
    """With sorted keys, but names of fields in the order of the section. `named`: whether the keys are such names."""
    if isinstance(schema, list):
        return [_sorted(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    items = schema.items() if named else sorted(schema.items())
    return {
        key: value if key == "default" and not named else _sorted(value, key == "properties" and not named)
        for key, value in items
    }


def _section(kind: type[Section], inside: dict[str, JsonSchema]) -> JsonSchema:
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    schema: JsonSchema = {
        "additionalProperties": kind.open_ended,
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": {key: _field(key, field, inside) for key, field in fields.items()},
    }
    required = [key for key, field in fields.items() if field.is_required()]
    if required:
        schema["required"] = required
    return {**schema, "title": kind.__name__, "type": "object"}


def _field(key: str, field: Any, inside: dict[str, JsonSchema]) -> JsonSchema:
    schema = dict(_type(field.hint, inside))
    if field.default_factory is None and not field.is_required():
        schema["default"] = _default(field.default)
    if field.description:
        schema["description"] = field.description
    if "$ref" not in schema and not _names_a_section(schema):
        schema["title"] = key.replace("_", " ").title()
    return schema


def _names_a_section(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is a section or null, with the title of the section."""
    return any("$ref" in one for one in schema.get("anyOf", ()))


def _type(hint: Any, inside: dict[str, JsonSchema]) -> JsonSchema:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        rule = next((one for one in parts[1:] if isinstance(one, Rule)), None)
        least = max((getattr(one, "min_length", 0) for one in parts[1:]), default=0)
        schema = rule.json() if rule is not None else _type(parts[0], inside)
        return {**schema, "minItems": least} if least else schema
    if origin in (Union, UnionType):
        return {"anyOf": [option for one in parts for option in _options(one, inside)]}
    if origin is Literal:
        return _choice(parts)
    if origin is tuple and parts[1:] == (...,):
        return {"items": _type(parts[0], inside), "type": "array"}
    if origin is tuple:
        each = [_type(one, inside) for one in parts]
        return {"maxItems": len(each), "minItems": len(each), "prefixItems": each, "type": "array"}
    if origin is dict:
        return {"additionalProperties": _type(parts[1], inside), "type": "object"}
    if isinstance(hint, type) and issubclass(hint, Section):
        if hint.__name__ not in inside:
            inside[hint.__name__] = {}  # reserves the place, so that a section inside itself ends the recursion
            inside[hint.__name__] = _section(hint, inside)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if hint is str:
        return {"type": "string"}
    raise TypeError(f"{hint} has no JSON Schema")


def _options(hint: Any, inside: dict[str, JsonSchema]) -> list[JsonSchema]:
    schema = {"type": "null"} if hint is NoneType else _type(hint, inside)
    return list(schema.get("anyOf", [schema]))


def _choice(names: tuple[Any, ...]) -> JsonSchema:
    kind = {"type": "integer" if isinstance(names[0], int) else "string"}
    return {"const": names[0], **kind} if len(names) == 1 else {"enum": list(names), **kind}


def _default(value: Any) -> Any:
    """The default as JSON; exact rationals become text."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Section):
        return {field.alias or name: _default(getattr(value, name)) for name, field in value.model_fields.items()}
    if isinstance(value, dict):
        return {str(key): _default(item) for key, item in value.items()}
    return [_default(item) for item in value] if isinstance(value, tuple) else value
