"""A machine as a file to edit: every key with its value, and its meaning in a comment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kernbench.common.package_files import package_folder
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.config.keys import Key, binary_size, fields_of, is_list, keys_of, section_in
from kernbench.config.machine import MachineConfig, plain_value
from kernbench.config.section import Section

COLUMN = 40  #: column in which comments begin
LONGEST = 120  #: largest width; a longer comment is put above its key
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_/.]*")
#: Texts that YAML does not read as strings.
_QUOTED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ORIGIN = re.compile(r".*:([0-9]+):[0-9]+")
_COMMENT = re.compile(r"\s#\s*(.*)$")


def commented_yaml(config: MachineConfig, *, schema: str = "") -> str:
    """The machine as YAML; `load_config` reads it back as an equal machine.

    Each line ends with the meaning of its key, and with the comment of the key in the machine's file; in presets this comment
    is the source of the value. Keys without a value are written as comments. `schema`: path or URL of the JSON Schema, for
    editors that check YAML as it is typed.
    """
    lines = [f"# yaml-language-server: $schema={schema}"] if schema else []
    made_from = f"the defaults of {plain_value(config)['schema']}" if config.source == "machine" else config.source
    lines += [f"# Made from {made_from}. Each key has its meaning beside it; `kbsim config keys` lists types and ranges.", ""]
    return "\n".join([*lines, *_Writer(config).section(config, "", "")]) + "\n"


class _Writer:
    """The lines of one machine."""

    def __init__(self, config: MachineConfig) -> None:
        self.keys = {key.path: key for key in keys_of(type(config))}
        self.comments = _comments(config)
        self.config = config
        machine: Any = config
        #: Comes before keys that a device or policy fills in: if the keys were written out, they would override those of
        #: another device.
        self.filled = f"{machine.memory_path}controller." if machine.memory.device or machine.memory.policy else ""

    def section(self, section: Section, path: str, indent: str) -> Iterator[str]:
        """The keys of a section, and then its subsections; at the top level, an empty line precedes each section."""
        for name, field in fields_of(type(section)):
            attribute = next(one for one, spec in type(section).model_fields.items() if spec is field)
            value, at = getattr(section, attribute), f"{path}.{name}" if path else name
            inner = section_in(field.annotation)
            if inner is None:
                yield from self._value(at, name, value, indent)
                continue
            if not path:
                yield ""
            yield from self._inner(at, name, value, field, indent)

    def _inner(self, at: str, name: str, value: Any, field: Any, indent: str) -> Iterator[str]:
        own = self.comments.pop(at, "")
        if value is None:
            yield from _line(f"{indent}# {name}:", field.description, own)
        elif is_list(field.annotation):
            yield from _line(f"{indent}{name}:" if value else f"{indent}{name}: []", field.description, own)
            for i, item in enumerate(value):
                lines = list(self.section(item, f"{at}[{i}]", indent + "    "))
                first = next(k for k, line in enumerate(lines) if not line.lstrip().startswith("#"))
                lines[first] = f"{indent}  - {lines[first].lstrip()}"
                yield from lines
        else:
            yield from _line(f"{indent}{name}:", field.description, own)
            yield from self.section(value, at, indent + "  ")

    def _value(self, at: str, name: str, value: Any, indent: str) -> Iterator[str]:
        key = self.keys[re.sub(r"\[[0-9]+\]", "", at)]
        text = f"{name}:" if value is None else f"{name}: {_text(key, plain_value(value, whole=True))}"
        follows = self.filled and at.startswith(self.filled) and self.config.follows(at)
        text = f"{indent}# {text}" if value is None or follows else f"{indent}{text}"
        yield from _line(text, _meaning(key), self.comments.get(at, ""))


def _line(text: str, meaning: str, comment: str) -> Iterator[str]:
    """A line followed by its comments; comments that do not fit are put above it, the meaning first."""
    indent = text[: len(text) - len(text.lstrip())]
    behind = f"{meaning}; {comment}" if comment else meaning
    above: list[str] = []
    while len(f"{text:<{COLUMN - 1}} # {behind}") > LONGEST and behind:
        above.insert(0, comment if behind != meaning else meaning)
        behind = meaning if behind != meaning else ""
    yield from (f"{indent}# {one}" for one in above)
    yield f"{text:<{COLUMN - 1}} # {behind}" if behind else text


MAX_CHOICES = 6  #: limit of the choices that the comment of a key lists; `kbsim config keys` lists all


def _meaning(key: Key) -> str:
    unit = f"[{key.unit}] " if key.unit else ""
    choices = key.choices if len(key.choices) <= MAX_CHOICES else (*key.choices[:MAX_CHOICES], "...")
    return f"{unit}{key.meaning}" + (f": {', '.join(choices)}" if len(choices) > 1 else "")


def _text(key: Key, value: Any) -> str:
    """A plain value as YAML."""
    if key.kind == "size" and isinstance(value, int):
        size, unit = binary_size(value)
        return f"{size} {unit}B" if unit != "B" else str(size)
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _QUOTED else json.dumps(value)
    if isinstance(value, dict):
        inside = (f"{name}: {item if not isinstance(item, (dict, str)) else json.dumps(item)}" for name, item in value.items())
        return "{" + ", ".join(inside) + "}"
    return json.dumps(value)


def _comments(config: MachineConfig) -> dict[str, str]:
    """The comments of the machine's own file, by path; a comment of a line with several keys belongs to their section."""
    text = _file_text(config)
    lines = text.split("\n") if text is not None else []
    found: dict[str, str] = {}
    by_line: dict[int, list[str]] = {}
    for path, _, origin in config.effective():
        place = _ORIGIN.fullmatch(origin)
        if place is not None and int(place[1]) <= len(lines):
            by_line.setdefault(int(place[1]), []).append(path)
    for number, paths in by_line.items():
        comment = _COMMENT.search(lines[number - 1])
        if comment is not None:
            found[paths[0] if len(paths) == 1 else _shared(paths)] = comment[1].strip()
    return found


def _shared(paths: list[str]) -> str:
    """The section or table that contains all paths; if no section contains all of them, the first path."""
    steps = [path.split(".") for path in paths]
    count = 0
    while all(len(one) > count + 1 and one[count] == steps[0][count] for one in steps):
        count += 1
    return ".".join(steps[0][:count]) or paths[0]


def _file_text(config: MachineConfig) -> str | None:
    """The text of the file of the machine, or None without a file."""
    if config.path is not None:
        return read_document(config.path, MACHINE_BYTES).text
    folder = package_folder("kernbench.configs")
    file = next(iter(folder.rglob(config.source)), None) if config.source.endswith(".yaml") else None
    return None if file is None else file.read_text(encoding="utf-8")
