"""All entries of a file at once, where none of them has a problem; `read_entry` reads the others and finds what is wrong.

Mappings of one opcode with the same keys become columns, which defaults complete. msgspec then makes their entries in one call,
and checks the values against the types of `entries.py`, which the binary form of a program uses too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import msgspec

from kernbench.cmdq.entries import Entry, entry_type
from kernbench.cmdq.opcodes import ENTRY_FIELDS, META_FIELDS, OPCODES, FieldSpec, OpcodeSpec
from kernbench.cmdq.read_entry import stride_problem
from kernbench.common.errors import ABSENT

_CHECKED = frozenset({"debug"})  #: metadata of any depth, which only `read_entry` checks
_META = frozenset(field.name for field in META_FIELDS) - _CHECKED


class _Alike:
    """The mappings of an opcode that have the same keys."""

    def __init__(self, opcode: str, keys: tuple[str, ...]) -> None:
        spec = OPCODES[opcode]
        named = {field.name for field in (*ENTRY_FIELDS, *spec.fields)} | {"opcode"}
        self.opcode, self.spec = opcode, spec
        self.meta = frozenset(keys) & _META - named
        self.given = tuple(name for name in keys if name not in self.meta)
        self.sound = _fits(spec, named, frozenset(self.given))
        self.places: list[int] = []  #: in the queue
        self.mappings: list[dict[str, Any]] = []

    def entries(self) -> list[Entry] | None:
        """In order; None if `read_entry` has to look at them."""
        kind = entry_type(self.opcode)
        rows = map(itemgetter(*self.given, "opcode"), self.mappings)  # a tuple even of a single field
        columns: dict[str, Sequence[Any]] = dict(zip((*self.given, "opcode"), zip(*rows, strict=True), strict=True))
        fixed: dict[str, Any] = {field.name: field.default for field in self.spec.fields if field.default is not ABSENT}
        if self.meta:
            columns["meta"] = [{name: value for name, value in raw.items() if name in self.meta} for raw in self.mappings]
        for field in self.spec.fields:
            if field.kind == "range" and not _open_range(columns, field):
                return None
        columns = {"id": self.places, **columns, "index": self.places}
        fields = msgspec.structs.fields(kind)
        fixed = {**{field.name: _default(field) for field in fields}, **fixed}
        values = list(zip(*(columns.get(field.name) or repeat(fixed[field.name]) for field in fields)))  # noqa: B905  # some repeat
        try:
            made: list[Entry] = msgspec.convert(values, list[kind])  # type: ignore[valid-type]
        except msgspec.ValidationError:
            return None
        return None if "stride_bytes" in columns and any(map(stride_problem, made)) else made


def _open_range(columns: dict[str, Sequence[Any]], field: FieldSpec) -> bool:
    """Make fields of the mappings of a range; False if one has other keys than it may have."""
    mappings = columns.pop(field.name)
    known = {part.name: part.default for part in field.fields}
    if not all(type(inner) is dict and inner.keys() <= known.keys() for inner in mappings):
        return False
    for name, default in known.items():
        columns[name] = [inner.get(name, default) for inner in mappings]
    return True


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return {} if field.name == "meta" else field.default


def _fits(spec: OpcodeSpec, named: set[str], keys: frozenset[str]) -> bool:
    """Whether the keys of an entry, without metadata, are all that it needs and no others."""
    grouped = {name for group in spec.alternatives for name in group}
    needed = {field.name for field in spec.fields if field.default is ABSENT} - grouped
    forms = [needed.union(group) for group in spec.alternatives] or [needed]
    return any(form <= keys <= named - (grouped - form) for form in forms)


def read_entries(queue: Sequence[Any]) -> list[Entry] | None:
    """The entries of a queue of data that a text without null gives; None if one of them is wrong or unusual."""
    found: dict[tuple[str, ...], _Alike] = {}
    for index, raw in enumerate(queue):
        if type(raw) is not dict:
            return None
        opcode: Any = raw.get("opcode")
        try:
            alike = found[(opcode, *raw)]
        except (KeyError, TypeError):
            if type(opcode) is not str or opcode not in OPCODES:
                return None
            alike = found[(opcode, *raw)] = _Alike(opcode, tuple(raw))
            if not alike.sound:
                return None
        alike.places.append(index)
        alike.mappings.append(raw)
    entries: list[Any] = [None] * len(queue)
    for alike in found.values():
        made = alike.entries()
        if made is None:
            return None
        for index, entry in zip(alike.places, made, strict=True):
            entries[index] = entry
    return entries
