"""Entries of a long JSON text, decoded into their classes in one pass; `parse.py` reads each text that has problems or special
parts.

For each opcode, msgspec decodes into a class with the fields of the entry's class and the keys, defaults and rules of the
opcode. The class of the entry is then replaced by its own class.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from itertools import repeat
from operator import attrgetter, length_hint
from typing import Any, Literal, Union

import msgspec

from kernbench.cmdq.entries import Entry, entry_type
from kernbench.cmdq.opcodes import ENTRY_FIELDS, OPCODES
from kernbench.cmdq.program import VERSION
from kernbench.cmdq.read_entry import stride_problem
from kernbench.common.errors import ABSENT

LONG = 1 << 16  # characters from which it pays to make the classes
_NO_KEY = "\x7f"  # the first character of the keys of fields that no text has; texts with this character are read by other code
_UNKNOWN = -1  #: the id of an entry whose text has none
_MANY = 2**62
_LOCK = threading.Lock()  # the defaults count for one text at a time


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a program."""

    version: Literal["1.0"]
    name: str | msgspec.UnsetType = msgspec.UNSET


assert VERSION == "1.0", "the type of _Head.version"


class _Form:
    """The entries of an opcode in a text."""

    def __init__(self, opcode: str) -> None:
        spec, self.kind = OPCODES[opcode], entry_type(opcode)
        own = {field.name: field.default for field in spec.fields}
        self.alternatives = spec.alternatives
        grouped = {name for group in self.alternatives for name in group}
        keys = own.keys() | {field.name for field in ENTRY_FIELDS}
        #: A default for each key that may be missing. Each use of a default is counted, because duplicate keys are detected by
        #: the number of keys.
        self.defaults: dict[str, Any] = {}
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for field in msgspec.structs.fields(self.kind):
            default = own.get(field.name, ABSENT)
            if field.name in keys and default is ABSENT and field.name in own and field.name not in grouped:
                fields.append((field.name, field.type))
                continue
            if default is ABSENT:
                default = {"opcode": opcode, "index": 0, "id": _UNKNOWN, "meta": {}}.get(field.name, field.default)
            if field.name in keys:
                self.defaults[field.name] = repeat(default, _MANY)
                default = msgspec.field(default_factory=self.defaults[field.name].__next__)
            fields.append((field.name, field.type, default))
        self.keys = len(keys) + 1  # the opcode is one key
        self.type: Any = msgspec.defstruct(
            opcode, fields, bases=(self.kind,), module=__name__, kw_only=True, frozen=False, gc=False, array_like=False,
            tag_field="opcode", tag=opcode, forbid_unknown_fields=True,
            rename={field[0]: _NO_KEY + field[0] for field in fields if field[0] not in keys},
        )  # fmt: skip

    @property
    def taken(self) -> int:
        """The number of defaults used since the form was made."""
        return sum(_MANY - length_hint(default) for default in self.defaults.values())

    def sound(self, entries: Sequence[Any]) -> bool:
        """Whether each entry has all keys of one alternative, no keys of the others, and a stride that is long enough."""
        names = [name for group in self.alternatives for name in group]
        if not names:
            return True
        given = set(zip(*([value is not None for value in map(attrgetter(name), entries)] for name in names), strict=True))
        allowed = {tuple(name in group for name in names): group for group in self.alternatives}
        if not given <= allowed.keys():
            return False
        strided = any("stride_bytes" in allowed[keys] for keys in given)
        return not (strided and any(stride_problem(entry) for entry in entries if entry.stride_bytes is not None))


class _Forms:
    """The forms of all opcodes whose fields are those of their class, and the decoder for programs with these opcodes."""

    def __init__(self) -> None:
        made = [_Form(opcode) for opcode in OPCODES if _has_fields(opcode)]
        self.by_type: dict[Any, _Form] = {form.type: form for form in made}
        queue: Any = list[Union[tuple(self.by_type)]]  # type: ignore[misc]  # noqa: UP007  # of a number of types
        program = msgspec.defstruct("program", [("metadata", _Head), ("cmdq", queue)], forbid_unknown_fields=True)
        self.decoder = msgspec.json.Decoder(program)


def _has_fields(opcode: str) -> bool:
    """Whether the class of an opcode has all its fields; fields of ranges have other names there."""
    there = {field.name for field in msgspec.structs.fields(entry_type(opcode))}
    return all(field.name in there for field in OPCODES[opcode].fields)


@cache
def _forms() -> _Forms:
    return _Forms()


def read_text(text: str) -> tuple[str, list[Entry]] | None:
    """The name and the entries of a program in JSON; None if the text is wrong, or has metadata, ranges, null or escapes."""
    if len(text) < LONG or any(part in text for part in ("\\", "null", _NO_KEY)):
        return None
    with _LOCK:
        forms = _forms()
        before = sum(form.taken for form in forms.by_type.values())
        try:
            program: Any = forms.decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        left_out = sum(form.taken for form in forms.by_type.values()) - before
    entries: list[Any] = program.cmdq
    alike: dict[Any, list[Any]] = {kind: [] for kind in set(map(type, entries))}
    for index, entry in enumerate(entries):
        entry.index = index
        if entry.id == _UNKNOWN:
            entry.id = index
        alike[type(entry)].append(entry)
    name, given = program.metadata.name, 4
    if name is msgspec.UNSET:
        name, given = "", 3
    given += sum(forms.by_type[kind].keys * len(some) for kind, some in alike.items()) - left_out
    if given + name.count(":") != text.count(":"):  # each colon belongs to a key, unless keys are duplicate
        return None
    for kind, some in alike.items():
        form = forms.by_type[kind]
        if not form.sound(some):
            return None
        for entry in some:
            entry.__class__ = form.kind
    return name, entries
