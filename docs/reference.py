"""Makes the reference tables of programs, machines, commands and the Python API from the code that defines them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import kernbench
from kernbench.cmdq.opcodes import ENTRY_FIELDS, MAX_INT, META_FIELDS, OPCODES, FieldSpec, OpcodeSpec
from kernbench.common.errors import ABSENT
from kernbench.config import NpuConfig, SystemConfig, machine_json_schema, system_json_schema
from kernbench.config.machine import Section
from kernbench.trace import schema

KINDS = {
    "int": "integer",
    "choice": "choice",
    "text": "text",
    "ids": "list of ids",
    "label": "integer or text",
    "any": "anything",
}
API = ("load_config", "load_program", "check_program", "simulate", "Machine", "Result", "Program", "NpuConfig", "InputError")


def all_tables() -> dict[str, str]:
    """File name: MyST text."""
    made = {"program": program_tables, "machine": machine_tables, "system": system_tables, "trace": trace_tables}
    made |= {"cli": cli_tables, "python": python_tables}
    return {f"{name}.md": table() for name, table in made.items()}


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# Programs ---------------------------------------------------------------------------------------------------------


def program_tables() -> str:
    """Every opcode and field, from `kernbench/cmdq/opcodes.py`."""
    parts = ["## Fields of every entry\n", _fields(ENTRY_FIELDS)]
    parts += ["These say what an entry is for. They decide no cycle.\n", _fields(META_FIELDS)]
    for engine, title in (("dma", "Transfers"), ("te", "Tensor engine"), ("ve", "Vector engine"), ("control", "Control")):
        parts.append(f"## {title}\n")
        for specs in _alike([spec for spec in OPCODES.values() if spec.engine == engine and not spec.system]):
            parts.append(_opcodes(specs))
    parts.append("## Systems\n\nOnly a machine of `kernbench/system/1` runs these.\n")
    parts += [_opcodes(specs) for specs in _alike([spec for spec in OPCODES.values() if spec.system])]
    return "\n".join(parts)


def _alike(specs: Sequence[OpcodeSpec]) -> Iterator[list[OpcodeSpec]]:
    """Opcodes with the same fields, together, in the order of the table."""
    groups: dict[Any, list[OpcodeSpec]] = {}
    for spec in specs:
        groups.setdefault(spec.fields, []).append(spec)
    yield from groups.values()


def _opcodes(specs: Sequence[OpcodeSpec]) -> str:
    lines = [f"- `{spec.name}`: {spec.doc}" for spec in specs]
    text = "\n".join(lines) + "\n\n"
    first = specs[0]
    if first.alternatives:
        groups = " or ".join(", ".join(f"`{name}`" for name in group) for group in first.alternatives)
        text += f"The size is exactly one of these groups: {groups}.\n\n"
    grouped = {name for group in first.alternatives for name in group}
    return text + (_fields(first.fields, grouped) if first.fields else "No fields of its own.\n")


def _fields(fields: Iterable[FieldSpec], grouped: Iterable[str] = ()) -> str:
    return _table(("field", "type", "default", "allowed", "meaning"), _field_rows("", fields, set(grouped)))


def _field_rows(prefix: str, fields: Iterable[FieldSpec], grouped: set[str]) -> Iterator[list[str]]:
    for field in fields:
        name = prefix + field.name
        if field.kind == "range":
            yield [f"`{name}`", "mapping", "required", "", field.doc]
            yield from _field_rows(f"{name}.", field.fields, grouped)
            continue
        default = "one of the groups" if field.name in grouped else "required"
        if field.default is not ABSENT:
            default = "absent" if field.default is None else f"`{_plain(field.default)}`"
        yield [f"`{name}`", KINDS[field.kind], default, _allowed(field), field.doc]


def _allowed(field: FieldSpec) -> str:
    if field.kind == "int":
        return f"{field.low} to 2^{MAX_INT.bit_length()} - 1"
    return ", ".join(f"`{choice}`" for choice in field.choices)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# Machines ---------------------------------------------------------------------------------------------------------


def machine_tables() -> str:
    """Every key of one NPU, from the models of `kernbench/config/schema.py` and the JSON Schema that they make."""
    return _config_tables(NpuConfig, machine_json_schema())


def system_tables() -> str:
    """Every key of a system, from the models of `kernbench/config/system/parts.py` in the same way."""
    return _config_tables(SystemConfig, system_json_schema())


def _config_tables(kind: type[Section], schema: dict[str, Any]) -> str:
    top, parts = [], []
    for name, key in _keys(kind):
        if _section(key.annotation) is None:
            top.append(_key_row(name, key, schema["properties"][name]))
        else:
            parts += _section_part(name, key, schema)
    return "\n".join(["## Top level\n", _key_table(top), *parts])


def _section_part(name: str, key: Any, schema: dict[str, Any]) -> list[str]:
    section = _section(key.annotation)
    assert section is not None
    rows = list(_section_rows("", section, schema))
    listed = " (a list)" if "tuple" in str(key.annotation) else ""
    return [f"## {name}{listed}\n", f"{key.description[0].upper()}{key.description[1:]}.\n", _key_table(rows)]


def _section_rows(prefix: str, section: type[Section], schema: dict[str, Any]) -> Iterator[list[str]]:
    properties = schema["$defs"][section.__name__]["properties"]
    for name, key in _keys(section):
        inner = _section(key.annotation)
        if inner is None:
            yield _key_row(prefix + name, key, properties[name])
        else:
            yield from _section_rows(f"{prefix}{name}.", inner, schema)


def _keys(section: type[Section]) -> list[tuple[str, Any]]:
    return [(key.alias or name, key) for name, key in section.model_fields.items()]


def _section(annotation: Any) -> type[Section] | None:
    """The section inside an annotation like `Noc | None` or `tuple[KvLayout, ...]`; a table has none."""
    for part in (annotation, *(() if "dict[" in str(annotation) else getattr(annotation, "__args__", ()))):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def _key_table(rows: Iterable[Sequence[str]]) -> str:
    return _table(("key", "type", "default", "unit", "range", "meaning"), rows)


def _key_row(name: str, key: Any, schema: dict[str, Any]) -> list[str]:
    match = re.fullmatch(r"(?:\[([^\]]+)\] )?(.*)", key.description, re.DOTALL)
    assert match is not None
    kind, allowed = _type_and_range(schema)
    unit, meaning = match[1] or "", match[2]
    if "," in unit:  # [row, col] is a form, not a unit
        unit, meaning = "", key.description
    return [f"`{name}`", kind, _default(key.get_default(call_default_factory=True)), unit, allowed, meaning]


def _default(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, dict):
        inside = ", ".join(f"{k}: {float(v):g}" for k, v in value.items())
        return f"`{{{inside}}}`"
    if isinstance(value, tuple):
        return "`" + str([list(item) for item in value]) + "`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= 1024 and value % 1024 == 0:
        size, power = value, 0
        while size % 1024 == 0 and power < 3:
            size, power = size // 1024, power + 1
        return f"`{value}` ({size} {('B', 'Ki', 'Mi', 'Gi')[power]})"
    return f"`{value}`"


def _type_and_range(schema: dict[str, Any]) -> tuple[str, str]:
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    first = options[0]
    if "enum" in first or "const" in first:
        return "choice", ", ".join(f"`{value}`" for value in first.get("enum", [first.get("const")]))
    if first["type"] == "string":
        return "text", f"`{first['pattern'].strip('^$')}`"
    if first["type"] == "object":
        (pattern, values), *_ = first["patternProperties"].items()
        if values.get("type") == "object":
            return "table of mappings", "keys are kinds of nodes"
        kind, allowed = _type_and_range(values)
        return f"table of {kind}s", f"{'keys are qbits' if '64' in pattern else 'keys are ops'}; values {allowed}"
    if first["type"] == "array":
        return "list of [row, col]", "one for each"
    if first["type"] == "boolean":
        return "boolean", ""
    kind = {"integer": "integer", "number": "rational"}[first["type"]]
    if len(options) == 2 and kind == "integer":
        kind = "size"
    return kind, _range(first)


def _range(schema: dict[str, Any]) -> str:
    if "exclusiveMinimum" in schema:
        return f"> {schema['exclusiveMinimum']}"
    low, limit = schema["minimum"], schema.get("exclusiveMaximum")
    at_least = f"above -2^{(1 - low).bit_length() - 1}" if low < 0 else f"at least {low}"
    if limit is None:
        return at_least
    power = limit.bit_length() - 1
    return f"{at_least}, below 2^{power}" if limit == 1 << power and power >= 31 else f"{low} to {limit - 1}"


# Traces -----------------------------------------------------------------------------------------------------------


def trace_tables() -> str:
    """Every event, field, warning and error, from `kernbench/trace/schema.py`."""
    overview = _table(
        ("number", "event", "level", "phase", "component", "what"),
        ([str(e.number), f"`{e.name}`", e.level, _phase(e), e.component, e.doc] for e in schema.EVENTS),
    )
    parts = ["## Events\n", overview, "## Fields of every event\n", _trace_fields(schema.COMMON_FIELDS)]
    for event in schema.EVENTS:
        parts.append(f"### {event.name}\n")
        facts = f"Number {event.number}, level `{event.level}`, phase {_phase(event)}, since version {event.since}."
        parts += [f"{event.doc} {facts}\n", _trace_fields(event.fields)]
    for title, codes in (("Warnings", schema.WARN_CODES), ("Errors", schema.ERROR_CODES)):
        parts += [f"## {title}\n", _table(("code", "rule and threshold"), ([f"`{c}`", text] for c, text in codes.items()))]
    return "\n".join([*parts, "## Changes by version\n", _table(("version", "what"), schema.CHANGES)])


def _phase(event: schema.Event) -> str:
    return f"{event.phase} ({schema.PHASES[event.phase]})"


def _trace_fields(fields: Iterable[schema.Field]) -> str:
    rows = (
        [
            f"`{field.name}`",
            schema_kind(field),
            field.unit,
            "always" if field.required else "where there is one",
            field.since,
            field.doc,
        ]
        for field in fields
    )
    return _table(("field", "type", "unit", "written", "since", "meaning"), rows)


def schema_kind(field: schema.Field) -> str:
    """The type of a trace's field in words, with its values where only some are allowed."""
    words = {"flag": "true or false", "ints": "list of integers", "texts": "list of texts", "objects": "list of objects"}
    kind = words.get(field.kind, KINDS.get(field.kind, field.kind))
    return ", ".join(f"`{choice}`" for choice in field.choices) or kind


# Commands ---------------------------------------------------------------------------------------------------------


def cli_tables() -> str:
    """Every command and option, from the command line's own description of itself."""
    from kernbench.cli.app import every_command

    return "\n".join(_commands("kbsim", every_command()))


def _commands(path: str, command: Any) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None or path == "kbsim":
        yield f"## {path}\n"
        yield f"{_sentence(command.help)}\n"
        rows = [_option_row(option) for option in command.params]
        if rows:
            yield _table(("argument or option", "default", "meaning"), rows)
    for name, child in (children or {}).items():
        yield from _commands(f"{path} {name}", child)


def _sentence(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def _option_row(option: Any) -> list[str]:
    argument, names = option.param_type_name == "argument", [*option.opts, *option.secondary_opts]
    name = f"`{(option.metavar or option.name.upper()) if argument else ', '.join(names)}`"
    value = option.metavar or "|".join(map(str, option.type_descriptor.choices or ()))
    if not argument and not option.is_flag and value:
        name += f" `{value}`"
    default, shown = option.default, getattr(option, "show_default", None)
    if option.secondary_opts:
        default = (option.opts if default else option.secondary_opts)[0]
    known = not (default is None or default is False or default == () or callable(default))
    text = "required" if option.required else shown if isinstance(shown, str) else f"`{default}`" if known else ""
    return [name, text, _sentence(getattr(option, "help", ""))]


# Python -----------------------------------------------------------------------------------------------------------


def python_tables() -> str:
    """Signatures and docstrings of the public names."""
    return "\n".join(part for name in API for part in _api(name, getattr(kernbench, name)))


def _api(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"### {name}\n"
        yield f"`{name}{_signature(thing)}`\n\n{inspect.getdoc(thing)}\n"
        return
    yield f"### class {name}\n"
    yield f"{inspect.getdoc(thing)}\n"
    for member, value in inspect.getmembers_static(thing):
        if member.startswith(("_", "model_")) or getattr(thing, "__module__", "") != _home(thing, member):
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            yield f"- `{member}`: {_first(value)}"
        elif inspect.isfunction(value):
            yield f"- `{member}{_signature(value)}`: {_first(value)}"
    yield ""


def _home(thing: type, member: str) -> str:
    """The module of the class that defines a member; the methods of a base count as those of the class itself."""
    owner = next(base for base in thing.__mro__ if member in vars(base))
    return thing.__module__ if owner.__name__ in ("ProgramBuilder", "MachineConfig") else owner.__module__


def _signature(function: Any) -> str:
    text = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as text
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", text)


def _first(value: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.getdoc(value) or ""
    return re.split(r"(?<=[.])\s", re.sub(r"\s+", " ", text), maxsplit=1)[0]
