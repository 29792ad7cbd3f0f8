"""Every key of a machine file: type, default, unit, allowed values and meaning, from the models and their JSON Schema.

`kbsim config keys`, `kbsim config init` and the reference documentation are made from this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.json_schema import section_json_schema
from kernbench.config.load import KINDS
from kernbench.config.machine import MachineConfig
from kernbench.config.section import REQUIRED, Section


def short_name(schema: str) -> str:
    """The kind in a schema's name: `npu` of `kernbench/npu/1`."""
    return schema.split("/")[1]


def machine_kinds(kind: str | None = None) -> dict[str, type[MachineConfig]]:
    """The kinds by the `schema` of their files: all kinds, or the one with this short name; InputError for any other name."""
    names = [short_name(schema) for schema in KINDS]
    if kind is not None and kind not in names:
        raise InputError(Problem("kbsim config", f"it must be one of {', '.join(names)}", "--kind", kind))
    return {schema: model for schema, model in KINDS.items() if kind in (None, short_name(schema))}


_UNIT = re.compile(r"(?:\[([^\]]+)\] )?(.*)", re.DOTALL)
_POWERS = ("B", "Ki", "Mi", "Gi")


@dataclass(frozen=True, slots=True)
class Key:
    """One key."""

    path: str  #: path for `--set`: `dram.channels`
    section: str  #: the first step of the path; empty for a key at the top level
    kind: str  #: its type in words: `integer`, `size`, `rational`, `choice`
    default: str  #: as YAML, or `absent`
    unit: str  #: empty if there is none
    allowed: str  #: the range, or the required form of texts and keys; empty for a choice
    choices: tuple[str, ...]
    meaning: str

    @property
    def name(self) -> str:
        """The path without the section."""
        return self.path.removeprefix(f"{self.section}.") if self.section else self.path

    @property
    def values(self) -> str:
        """The allowed values as text."""
        return ", ".join(self.choices) or self.allowed

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {name: list(value) if isinstance(value := getattr(self, name), tuple) else value for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class SectionKeys:
    """A section of the file with its keys, also those of the sections inside."""

    name: str  #: empty for the top level
    meaning: str
    listed: bool  #: the file has a list of such sections
    keys: tuple[Key, ...]


def sections_of(model: type[MachineConfig]) -> list[SectionKeys]:
    """All keys of a kind of machine; those of the top level first, then each section in the file's order."""
    schema = section_json_schema(model)
    top: list[Key] = []
    found: list[SectionKeys] = []
    for name, field in fields_of(model):
        inner = section_in(field.annotation)
        if inner is None:
            top.append(_key(name, "", field, schema["properties"][name]))
        else:
            keys = tuple(_inside(name, f"{name}.", inner, schema))
            found.append(SectionKeys(name, field.description, is_list(field.annotation), keys))
    return [SectionKeys("", "", False, tuple(top)), *found]


def keys_of(model: type[MachineConfig]) -> list[Key]:
    """All keys of a kind of machine."""
    return [key for section in sections_of(model) for key in section.keys]


def fields_of(section: type[Section]) -> list[tuple[str, Any]]:
    """The fields of a section by their names in files."""
    return [(field.alias or name, field) for name, field in section.model_fields.items()]


def section_in(annotation: Any) -> type[Section] | None:
    """The section inside an annotation like `Noc | None` or `tuple[KvLayout, ...]`; a table has none."""
    for part in (annotation, *(() if "dict[" in str(annotation) else getattr(annotation, "__args__", ()))):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def is_list(annotation: Any) -> bool:
    """Whether a type is a list in files."""
    return "tuple" in str(annotation)


def split_unit(description: str) -> tuple[str, str]:
    """The unit and the meaning in a description like `[byte] size of one bank`; `[row, col]` is a form and not a unit."""
    match = _UNIT.fullmatch(description)
    assert match is not None
    unit, meaning = match[1] or "", match[2]
    return ("", description) if "," in unit else (unit, meaning)


def _inside(section: str, prefix: str, model: type[Section], schema: dict[str, Any]) -> Iterator[Key]:
    properties = schema["$defs"][model.__name__]["properties"]
    for name, field in fields_of(model):
        inner = section_in(field.annotation)
        if inner is None:
            yield _key(prefix + name, section, field, properties[name])
        else:
            yield from _inside(section, f"{prefix}{name}.", inner, schema)


def _key(path: str, section: str, field: Any, schema: dict[str, Any]) -> Key:
    kind, allowed, choices = _type_and_range(schema)
    unit, meaning = split_unit(field.description)
    default = "required" if field.is_required() else _default(field.get_default())
    return Key(path, section, kind, default, unit, allowed, choices, meaning)


def _default(value: Any) -> str:
    if value is REQUIRED:
        return "required"
    if value is None:
        return "absent"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {float(item):g}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return str([item if isinstance(item, str) else list(item) for item in value])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def binary_size(value: int) -> tuple[int, str]:
    """A number of bytes in the largest binary unit that divides it: (64, "Ki")."""
    power = 0
    while value and value % 1024 == 0 and power < len(_POWERS) - 1:
        value, power = value // 1024, power + 1
    return value, _POWERS[power]


def _type_and_range(schema: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    first = options[0]
    if "enum" in first or "const" in first:
        return "choice", "", tuple(map(str, first.get("enum", [first.get("const")])))
    if first["type"] == "string":
        return "text", first.get("pattern", "").strip("^$"), ()
    if first["type"] == "object":
        (pattern, values), *_ = first["patternProperties"].items()
        if values.get("type") == "object":
            return "table of mappings", "keys are kinds of nodes", ()
        kind, allowed, _ = _type_and_range(values)
        return f"table of {kind}s", f"{'keys are qbits' if '64' in pattern else 'keys are ops'}; values {allowed}", ()
    if first["type"] == "array" and first["items"]["type"] == "string":
        return "list of texts", "", ()
    if first["type"] == "array":
        if "items" not in first["items"]:
            return "list", "", ()
        pairs = first["items"]["items"].get("minimum") == 1
        return ("list of pairs", "each at least 1", ()) if pairs else ("list of [row, col]", "one for each", ())
    if first["type"] == "boolean":
        return "boolean", "", ()
    kind = {"integer": "integer", "number": "rational"}[first["type"]]
    if len(options) == 2 and kind == "integer":
        kind = "size"
    return kind, _range(first), ()


def _range(schema: dict[str, Any]) -> str:
    if "exclusiveMinimum" in schema:
        return f"> {schema['exclusiveMinimum']}" + (f", at most {schema['maximum']}" if "maximum" in schema else "")
    low, limit = schema["minimum"], schema.get("exclusiveMaximum")
    at_least = f"above -2^{(1 - low).bit_length() - 1}" if low < 0 else f"at least {low}"
    if limit is None:
        return at_least
    power = limit.bit_length() - 1
    return f"{at_least}, below 2^{power}" if limit == 1 << power and power >= 31 else f"{low} to {limit - 1}"


def matching(keys: Iterable[Key], pattern: str) -> list[Key]:
    """Keys whose paths match the pattern, with `*`, `?` and `[...]` as in a shell; if no path matches, keys whose meanings
    match."""
    wanted = f"*{pattern.lower()}*"
    some = list(keys)
    by_path = [key for key in some if fnmatchcase(key.path.lower(), wanted)]
    return by_path or [key for key in some if fnmatchcase(key.meaning.lower(), wanted)]
