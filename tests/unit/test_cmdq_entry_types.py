"""Types of entries, by which the binary form is decoded, and the table of opcodes, by which text is read."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec

from kernbench.cmdq import entries as entries_module
from kernbench.cmdq.entries import entry_type
from kernbench.cmdq.opcodes import ENTRY_FIELDS, META_FIELDS, OPCODES, FieldSpec


def test_types_of_entries_are_those_of_the_table_of_opcodes() -> None:
    """Decoding refuses what reading refuses: values just outside and inside the range of each field of each opcode."""
    fields = {field.name: field for field in ENTRY_FIELDS}
    for opcode, spec in OPCODES.items():
        kind = entry_type(opcode)
        own = {part.name: part for field in spec.fields for part in (field.fields or (field,))}
        hints = get_type_hints(kind, include_extras=True)
        assert set(own) <= set(hints), opcode
        for name, field in {**fields, **own}.items():
            for value, fits in _edges(field):
                try:
                    msgspec.convert(value, hints[name])
                except msgspec.ValidationError:
                    assert not fits, (opcode, name, value)
                else:
                    assert fits, (opcode, name, value)
    for field in META_FIELDS:
        for value, fits in _edges(field):
            if value is None:  # what is absent is not there
                continue
            try:
                msgspec.convert({field.name: value}, entries_module.Metadata)
            except msgspec.ValidationError:
                assert not fits, (field.name, value)
            else:
                assert fits, (field.name, value)


def _edges(field: FieldSpec) -> list[tuple[Any, bool]]:
    """Values, and whether the field takes them."""
    if field.kind == "int":
        ends = [(field.low - 1, False), (field.low, True), (2**63 - 1, True), (2**63, False)]
        optional = [(None, True)] if field.default is None and field.name != "id" else []
        return [*ends, ("1", False), (1.5, False), (True, False), *optional]
    if field.kind == "choice":
        return [*((choice, True) for choice in field.choices), (7, False), ("x", False)]
    if field.kind == "ids":
        return [([], True), ([0, 2**63 - 1], True), ([-1], False), ([2**63], False), (["x"], False), (7, False)]
    if field.kind == "label":
        return [("x", True), (0, True), (-1, False), (2**63, False), (1.5, False)]
    return [("x", True), (1, False)] if field.kind == "text" else [({"x": [1]}, True)]
