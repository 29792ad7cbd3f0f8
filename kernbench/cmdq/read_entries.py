"""Fast reading of entries without problems; `read_entry` reads all others and finds their problems.

`read_entries` makes all entries of a file: mappings with the same opcode and keys become columns, which are completed with
defaults. `quick_entry` makes one entry of a program that Python builds. In both, msgspec checks the values against the types of
`entries.py`, which the binary form of a program uses too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
    """The mappings of an opcode with the same keys."""

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
        """The entries in order; None if `read_entry` must handle them."""
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
    """Turn the nested range of each mapping into fields; False if a range has unknown keys."""
    mappings = columns.pop(field.name)
    known = {part.name: part.default for part in field.fields}
    if not all(type(inner) is dict and inner.keys() <= known.keys() for inner in mappings):
        return False
    for name, default in known.items():
        columns[name] = [inner.get(name, default) for inner in mappings]
    return True


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return {} if field.name == "meta" else field.default


class _Form:
    """One mapping with these keys."""

    def __init__(self, alike: _Alike, keys: tuple[str, ...]) -> None:
        opcode = alike.opcode
        self.kind = entry_type(opcode)
        fields = msgspec.structs.fields(self.kind)
        own = {field.name: field.default for field in alike.spec.fields if field.default is not ABSENT}
        places = {field.name: place for place, field in enumerate(fields)}
        self.values = [own.get(field.name, _default(field)) for field in fields]
        self.values[places["opcode"]] = opcode
        self.index, self.meta = places["index"], places["meta"]
        self.ranges = [(field.name, _parts(field, places)) for field in alike.spec.fields if field.kind == "range"]
        self.given = [(name, places[name]) for name in alike.given if name in places]
        self.of_meta = [name for name in keys if name in alike.meta]
        kinds = {field.name: field.kind for field in (*META_FIELDS, *ENTRY_FIELDS, *alike.spec.fields)}
        self.texts = [name for name in keys if kinds.get(name) in ("text", "label")]
        self.strided = "stride_bytes" in keys


def _parts(field: FieldSpec, places: dict[str, int]) -> dict[str, tuple[int, Any]]:
    """The place and the default of each part of a range."""
    return {part.name: (places[part.name], part.default) for part in field.fields}


@lru_cache(1024)
def _form(opcode: str, *keys: str) -> _Form | None:
    alike = _Alike(opcode, keys)
    return _Form(alike, keys) if alike.sound else None


def quick_entry(raw: dict[str, Any], index: int) -> Entry | None:
    """The entry at `index` for a mapping with an opcode and an id; None if `read_entry` must handle it."""
    opcode = raw["opcode"]
    form = _form(opcode, *raw) if opcode in OPCODES else None
    if form is None or None in raw.values():
        return None
    for name in form.texts:
        text = raw[name]
        if isinstance(text, str) and not (type(text) is str and text.isascii()):  # it may contain half of a surrogate pair
            return None
    values = form.values.copy()
    for name, place in form.given:
        values[place] = raw[name]
    for name, parts in form.ranges:
        inner = raw[name]
        if type(inner) is not dict or not inner.keys() <= parts.keys() or None in inner.values():
            return None
        for part, (place, default) in parts.items():
            values[place] = inner.get(part, default)
    values[form.index] = index
    if form.of_meta:
        values[form.meta] = {name: raw[name] for name in form.of_meta}
    try:
        entry: Entry = msgspec.convert(values, form.kind)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
    return None if form.strided and stride_problem(entry) else entry


def _fits(spec: OpcodeSpec, named: set[str], keys: frozenset[str]) -> bool:
    """Whether an entry, without metadata, has exactly the keys that it needs."""
    grouped = {name for group in spec.alternatives for name in group}
    needed = {field.name for field in spec.fields if field.default is ABSENT} - grouped
    forms = [needed.union(group) for group in spec.alternatives] or [needed]
    return any(form <= keys <= named - (grouped - form) for form in forms)


def read_entries(queue: Sequence[Any]) -> list[Entry] | None:
    """The entries of a queue, from a text without null; None if an entry is wrong or unusual."""
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
