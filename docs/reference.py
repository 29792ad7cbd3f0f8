"""Makes the reference tables of programs, machines, commands and the Python API from the code that defines them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import kernbench
from kernbench.cli.examples import EXAMPLES
from kernbench.cmdq.opcodes import ENTRY_FIELDS, MAX_INT, META_FIELDS, OPCODES, FieldSpec, OpcodeSpec
from kernbench.common.errors import ABSENT
from kernbench.config import MachineConfig, NpuConfig, SystemConfig
from kernbench.config.keys import Key, SectionKeys, binary_size, sections_of
from kernbench.trace import schema

KINDS = {
    "int": "integer",
    "choice": "choice",
    "text": "text",
    "ids": "list of ids",
    "label": "integer or text",
    "any": "anything",
}
API = (
    "run", "Run", "compare", "Comparison", "llm", "LlmRun", "whatif", "WhatIfs", "fuzz", "FuzzResult", "why", "Explanation",
    "probe", "ProbeResult", "sweep", "read_sweep", "SweepResult", "validate", "Validation",
    "load_config", "load_program", "check_program", "simulate", "Machine", "Result", "Program", "NpuConfig", "SystemConfig",
    "bench", "Bench", "Context", "DPPolicy", "GraphEngine", "DataExecutor", "machine",
    "Component", "ComponentBase", "Arbiter", "PassivePart", "MemoryPart", "Passage", "TrafficPart", "Transfer",
    "KernbenchError", "InputError", "InternalError",
)  # fmt: skip


def all_tables() -> dict[str, str]:
    """File name: MyST text."""
    made = {"program": program_tables, "machine": machine_tables, "system": system_tables, "trace": trace_tables}
    made |= {"cli": cli_tables, "python": python_tables}
    return {f"{name}.md": table() for name, table in made.items()}


def _blocks(kind: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that a phone shows as one block a row: the style sheet knows the columns of each `kind`."""
    return f"```{{rst-class}} {kind}\n```\n\n" + _table(columns, rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# Programs ---------------------------------------------------------------------------------------------------------


def program_tables() -> str:
    """Every opcode and field, from `kernbench/cmdq/opcodes.py`."""
    parts = ["## Fields of every entry\n", _fields(ENTRY_FIELDS)]
    parts += ["The following fields describe the purpose of an entry. They do not affect its time.\n", _fields(META_FIELDS)]
    for engine, title in (("dma", "Transfers"), ("te", "Tensor engine"), ("ve", "Vector engine"), ("control", "Control")):
        parts.append(f"## {title}\n")
        for specs in _alike([spec for spec in OPCODES.values() if spec.engine == engine and not spec.system]):
            parts.append(_opcodes(specs))
    parts.append("## Systems\n\nOnly machines with the schema `kernbench/system/1` run the following opcodes.\n")
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
    return _blocks("fields", ("field", "type", "default", "allowed", "meaning"), _field_rows("", fields, set(grouped)))


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
    """Every key of one NPU, as `kernbench/config/keys.py` lists them."""
    return _config_tables(NpuConfig)


def system_tables() -> str:
    """Every key of a system, in the same way."""
    return _config_tables(SystemConfig)


def _config_tables(kind: type[MachineConfig]) -> str:
    top, *sections = sections_of(kind)
    return "\n".join(["## Top level\n", _key_table(top.keys), *(part for one in sections for part in _section_part(one))])


def _section_part(section: SectionKeys) -> list[str]:
    listed = " (a list)" if section.listed else ""
    meaning = f"{section.meaning[0].upper()}{section.meaning[1:]}.\n"
    return [f"## {section.name}{listed}\n", meaning, _key_table(section.keys)]


def _key_table(keys: Iterable[Key]) -> str:
    return _blocks("keys", ("key", "type", "default", "unit", "range", "meaning"), map(_key_row, keys))


def _key_row(key: Key) -> list[str]:
    allowed = ", ".join(f"`{choice}`" for choice in key.choices) or (f"`{key.allowed}`" if key.kind == "text" else key.allowed)
    return [f"`{key.name}`", key.kind, _default(key), key.unit, allowed, key.meaning]


def _default(key: Key) -> str:
    if key.default == "absent":
        return key.default
    size, unit = binary_size(int(key.default)) if key.default.isdigit() and key.kind != "rational" else (0, "B")
    return f"`{key.default}`" + (f" ({size} {unit})" if unit != "B" else "")


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
            "always" if field.required else "if there is a value",
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
        lines = [f"kbsim {line}  # {does}" for does, line in EXAMPLES.get(path.removeprefix("kbsim "), ())]
        if lines:
            yield "```sh\n" + "\n".join(lines) + "\n```\n"
        rows = [_option_row(option) for option in command.params]
        if rows:
            yield _table(("argument or option", "default", "meaning"), rows)
    for name, child in (children or {}).items():
        yield from _commands(f"{path} {name}", child)


def _sentence(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def _option_row(option: Any) -> list[str]:
    from kernbench.cli.command_tree import default_text

    argument, names = option.param_type_name == "argument", [*option.opts, *option.secondary_opts]
    name = f"`{(option.metavar or option.name.upper()) if argument else ', '.join(names)}`"
    value = option.metavar or "|".join(map(str, option.type_descriptor.choices or ()))
    if not argument and not option.is_flag and value:
        name += f" `{value}`"
    default = default_text(option)
    shown = isinstance(getattr(option, "show_default", None), str)
    text = "required" if option.required else default if shown or not default else f"`{default}`"
    return [name, text, _sentence(getattr(option, "help", ""))]


# Python -----------------------------------------------------------------------------------------------------------


def python_tables() -> str:
    """Signatures and docstrings of the public names."""
    return "\n".join(part for name in API for part in _api(name, getattr(kernbench, name)))


def _api(name: str, thing: Any) -> Iterator[str]:
    thing = getattr(thing, "__wrapped__", thing)  # of a package that can be called, the function
    if not inspect.isclass(thing):
        yield f"### {name}\n"
        yield f"`{name}{_signature(thing)}`\n\n{_doc(thing)}\n"
        return
    yield f"### class {name}\n"
    yield f"{_doc(thing)}\n"
    for member, value in inspect.getmembers_static(thing):
        if member.startswith(("_", "model_")) or getattr(thing, "__module__", "") != _home(thing, member):
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            yield f"- `{member}`: {_first(value)}"
        elif inspect.isfunction(value):
            yield f"- `{member}{_signature(value)}`: {_first(value)}"
    yield ""


def _doc(thing: Any) -> str:
    """A docstring, its examples in blocks of code."""
    parts = re.split(r"(?m)^((?:>>> .*\n?)(?:(?!\n).+\n?)*)", inspect.getdoc(thing) or "")
    return "".join(f"```pycon\n{part.rstrip()}\n```\n" if i % 2 else part for i, part in enumerate(parts))


def _home(thing: type, member: str) -> str:
    """The module of the class that defines a member; the methods of a base count as those of the class itself."""
    owner = next(base for base in thing.__mro__ if member in vars(base))
    return thing.__module__ if owner.__name__ in ("ProgramBuilder", "MachineConfig", "Answer") else owner.__module__


def _signature(function: Any) -> str:
    text = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as text
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", text)


def _first(value: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.getdoc(value) or ""
    return re.split(r"(?<=[.])\s", re.sub(r"\s+", " ", text), maxsplit=1)[0]
