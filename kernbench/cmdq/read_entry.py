"""Reads one entry from its raw mapping, checked against the table of `opcodes.py`; the module knows no machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import msgspec

from kernbench.cmdq.entries import DmaEntry, Entry, entry_type
from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.opcodes import ENTRY_FIELDS, MAX_INT, META_FIELDS, OPCODES, RESERVED_PREFIX, FieldSpec, OpcodeSpec
from kernbench.common.errors import ABSENT
from kernbench.common.spelling import meant
from kernbench.common.units import plain_number
from kernbench.config.remedies import as_written, number_meant

MAX_DEBUG_DEPTH = 32  # levels: saving and loading recurse
MAX_DEBUG_BITS = 200  # a JSON number of 60 digits, which is the longest that is read again


class FieldProblem(msgspec.Struct, frozen=True):
    """The problem with one field of an entry, before the location of the entry is known."""

    path: tuple[Any, ...]  #: inside the entry: `("kv_range", "t_len")`
    rule: str
    value: Any = ABSENT
    remedy: str = ""


_DEBUG = next(field for field in META_FIELDS if field.name == "debug")


class _Bad(Exception):
    """A value violates the rule of its field."""

    def __init__(self, rule: str, remedy: str = "") -> None:
        super().__init__(rule)
        self.rule, self.remedy = rule, remedy

    def problem(self, path: tuple[Any, ...], value: Any) -> FieldProblem:
        """The problem with the value at this path."""
        return FieldProblem(path, self.rule, as_written(value), self.remedy)


class _Shape(msgspec.Struct, frozen=True):
    """An opcode's row of the table, prepared for look-up by name."""

    spec: OpcodeSpec
    entry_type: type[Entry]
    fields: dict[str, FieldSpec]  #: id, deps and the opcode's own fields, by name
    meta: dict[str, FieldSpec]  #: common metadata whose name is not a field of the opcode
    required: tuple[str, ...]
    defaults: dict[str, Any]


@cache
def _shape(opcode: str) -> _Shape:
    spec = OPCODES[opcode]
    fields = {field.name: field for field in (*ENTRY_FIELDS, *spec.fields)}
    grouped = {name for group in spec.alternatives for name in group}
    own = [field for field in spec.fields if field.kind != "range"]
    return _Shape(
        spec=spec,
        entry_type=entry_type(opcode),
        fields=fields,
        meta={field.name: field for field in META_FIELDS if field.name not in fields},
        required=tuple(f.name for f in spec.fields if f.default is ABSENT and f.name not in grouped),
        defaults={field.name: field.default for field in own if field.default is not ABSENT},
    )


def read_entry(raw: Any, index: int) -> tuple[Entry | None, list[FieldProblem]]:
    """The entry for `raw` (at position `index` of the file), or all problems of it."""
    if not isinstance(raw, Mapping):
        return None, [FieldProblem((), "an entry must be a mapping", raw)]
    if "opcode" not in raw:
        return None, [FieldProblem(("opcode",), "this field is missing")]
    opcode = raw["opcode"]
    if not isinstance(opcode, str) or opcode not in OPCODES:
        remedy = meant(opcode, OPCODES) or f"opcodes are {', '.join(OPCODES)}"
        return None, [FieldProblem(("opcode",), "there is no such opcode", opcode, remedy)]
    shape = _shape(opcode)
    values: dict[str, Any] = {"index": index, "opcode": opcode, "id": index, **shape.defaults}
    meta: dict[str, Any] = {}
    problems = _read_fields(raw, shape, values, meta)
    problems += _missing(raw, shape)
    if problems:
        return None, problems
    if meta:
        values["meta"] = meta
    entry = shape.entry_type(**values)
    return entry, stride_problem(entry)


def read_id(raw: Any, index: int) -> int:
    """The id of an entry that may have other problems; its index if the id is missing or not valid."""
    value = raw.get("id", index) if isinstance(raw, Mapping) else index
    return value if type(value) is int and 0 <= value <= MAX_INT else index


def _read_fields(
    raw: Mapping[Any, Any], shape: _Shape, values: dict[str, Any], meta: dict[str, Any]
) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    for name, value in raw.items():
        if name == "opcode":
            continue
        field = shape.fields.get(name)
        if field is not None and field.kind == "int" and type(value) is int and field.low <= value <= MAX_INT:
            values[name] = value  # most values of most entries
            continue
        try:
            if field is not None:
                if field.kind == "range":
                    problems += _read_range(field, value, values)
                else:
                    values[name] = _READERS[field.kind](field, value)
            elif name in shape.meta:
                meta[name] = _READERS[shape.meta[name].kind](shape.meta[name], value)
            elif not (isinstance(name, str) and name.startswith(RESERVED_PREFIX)):
                problems.append(_unknown(name, list(shape.fields) + list(shape.meta), shape.spec.name))
        except _Bad as bad:
            problems.append(bad.problem((name,), value))
    return problems


def _read_range(field: FieldSpec, raw: Any, values: dict[str, Any]) -> list[FieldProblem]:
    """A nested mapping whose fields become fields of the entry."""
    if not isinstance(raw, Mapping):
        raise _Bad("it must be a mapping")
    known = {part.name: part for part in field.fields}
    problems = []
    values.update({part.name: part.default for part in field.fields if part.default is not ABSENT})
    for name, value in raw.items():
        part = known.get(name)
        if part is None:
            problem = _unknown(name, list(known), field.name)
            problems.append(FieldProblem((field.name, *problem.path), problem.rule, ABSENT, problem.remedy))
            continue
        try:
            values[name] = _READERS[part.kind](part, value)
        except _Bad as bad:
            problems.append(bad.problem((field.name, name), value))
    missing = (part.name for part in field.fields if part.default is ABSENT and part.name not in raw)
    return problems + [FieldProblem((field.name, name), "this field is missing") for name in missing]


def _unknown(name: Any, known: list[str], of: str) -> FieldProblem:
    remedy = meant(name, known) or f"its fields are {', '.join(known)}"
    return FieldProblem((name,), f"{of} has no such field", ABSENT, remedy)


def _missing(raw: Mapping[Any, Any], shape: _Shape) -> list[FieldProblem]:
    problems = [FieldProblem((name,), "this field is missing") for name in shape.required if name not in raw]
    groups = shape.spec.alternatives
    if not groups:
        return problems
    either = "; give either " + ", or ".join(_all_of(group) for group in groups)
    begun = [group for group in groups if any(name in raw for name in group)]
    if not begun:
        problems.append(FieldProblem((groups[0][0],), "this field is missing" + either))
    elif len(begun) > 1:
        name = next(name for name in begun[1] if name in raw)
        problems.append(FieldProblem((name,), f"it is not allowed together with {begun[0][0]}" + either, raw[name]))
    else:
        problems += [FieldProblem((name,), "this field is missing" + either) for name in begun[0] if name not in raw]
    return problems


def _all_of(names: Sequence[str]) -> str:
    """`num_elements`, `all of rows, row_elements and stride_bytes`."""
    return names[0] if len(names) == 1 else f"all of {', '.join(names[:-1])} and {names[-1]}"


def stride_problem(entry: Entry) -> list[FieldProblem]:
    """The problem of rows that are longer than the distance between them."""
    if not isinstance(entry, DmaEntry) or entry.row_elements is None or entry.stride_bytes is None:
        return []
    row_bytes = bytes_of(entry.row_elements, entry.qbits)
    if entry.stride_bytes >= row_bytes:
        return []
    rule = f"a row has {row_bytes} bytes, and the stride must not be below that"
    return [FieldProblem(("stride_bytes",), rule, entry.stride_bytes)]


def _integer(value: Any, low: int) -> int:
    if type(value) is not int:
        if isinstance(value, (float, Fraction)):
            raise _Bad("it must be an integer, without a decimal point", _written(value))
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise _Bad("it must be an integer", _written(value))
        value = value.__index__()
    if value < low:
        raise _Bad(f"it must be at least {low}")
    if value > MAX_INT:
        raise _Bad("it must be below 2^63")
    number: int = value
    return number


def _written(value: Any) -> str:
    """`write 4` for the text "4" or the number 4.0; `write 4096` for 4KiB; otherwise empty."""
    number = number_meant(value)
    return f"write {number}" if number else ""


def _read_int(field: FieldSpec, value: Any) -> int:
    return _integer(value, field.low)


def _read_choice(field: FieldSpec, value: Any) -> Any:
    if type(value) is not str and not isinstance(value, bool) and hasattr(value, "__index__"):
        value = value.__index__()
    if type(value) not in (int, str) or value not in field.choices:
        number = _written(value) if number_meant(value) in map(str, field.choices) else ""
        names = [one for one in field.choices if isinstance(one, str)]
        begun = [one for one in names if isinstance(value, str) and len(value) >= 3 and one.startswith(value.lower())]
        near = f"did you mean {begun[0]}?" if len(begun) == 1 else meant(value, names)
        raise _Bad(f"it must be one of {', '.join(map(str, field.choices))}", number or near)
    return value


def _read_text(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str):
        raise _Bad("it must be text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Bad("it holds half of a surrogate pair") from None
    return value if type(value) is str else str.__str__(value)  # of another type, such as numpy's, which files cannot have


def _read_label(field: FieldSpec, value: Any) -> int | str:
    if isinstance(value, str):
        return _read_text(field, value)
    try:
        return _integer(value, 0)
    except _Bad:
        raise _Bad("it must be text or an integer from 0 to 2^63 - 1") from None


def _read_ids(field: FieldSpec, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        one = type(value) is int
        raise _Bad("it must be a list of ids", f"write [{value}]" if one else "")
    for item in value:
        if type(item) is not int or not 0 <= item <= MAX_INT:
            return tuple(_read_id_item(item) for item in value)
    return tuple(value)


def _read_id_item(value: Any) -> int:
    try:
        return _integer(value, 0)
    except _Bad as bad:
        raise _Bad(f"of each id in it: {bad.rule}", bad.remedy) from None


def _read_any(field: FieldSpec, value: Any) -> Any:
    return _plain(field, value, MAX_DEBUG_DEPTH)


def plain_debug(value: Any) -> Any:
    """A copy of `debug` metadata in the form that reading produces; ValueError if reading would refuse it."""
    try:
        return _plain(_DEBUG, value, MAX_DEBUG_DEPTH)
    except _Bad as bad:
        raise ValueError(f"debug: {bad.rule}") from None


def _plain(field: FieldSpec, value: Any, depth: int) -> Any:
    """A copy of plain data with decimals in JSON form; other data cannot be saved."""
    if depth == 0:
        raise _Bad(f"it is nested deeper than {MAX_DEBUG_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _read_text(field, value)
    if isinstance(value, int):
        if value.bit_length() > MAX_DEBUG_BITS:
            raise _Bad(f"it holds an integer of more than {MAX_DEBUG_BITS} bits")
        return int(value)
    if isinstance(value, Fraction):
        return plain_number(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(field, item, depth - 1) for item in value]
    if isinstance(value, Mapping):
        return {_read_text(field, key): _plain(field, item, depth - 1) for key, item in value.items()}
    raise _Bad("it must be plain data: mappings, lists, text, numbers, true, false, null")


_READERS: dict[str, Callable[[FieldSpec, Any], Any]] = {
    "int": _read_int,
    "choice": _read_choice,
    "text": _read_text,
    "label": _read_label,
    "ids": _read_ids,
    "any": _read_any,
}
